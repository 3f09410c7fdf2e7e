/* csv.h: the fields of a CSV file, straight into arrays. Read by gcc (after <stdint.h>) and by cffi alike. */

enum csv_type { CSV_UINT8, CSV_FLOAT32, CSV_FLOAT64 };

/* How a column is read; this decides the array that its values go to. */
enum csv_role { CSV_IGNORED, CSV_INPUT, CSV_TARGET, CSV_WORD, CSV_DATE, CSV_ID };

struct csv_column {
    int role; /* enum csv_role */
    int slot;
};

enum csv_result {
    CSV_OK,         /* all text was read */
    CSV_FULL,       /* no room for another row; call again with the rest of the text */
    CSV_NO_ROOM,    /* no room for a new word of `column`, of stop - start bytes; call again with room and the rest */
    CSV_OPEN,       /* the text ends within quotes; call again with the rest of the text and more behind it */
    CSV_RAGGED,     /* `found` fields in a row instead of `columns` */
    CSV_EMPTY,      /* nothing between two separators */
    CSV_TEXT,       /* text where a number belongs */
    CSV_NOT_FINITE, /* nan, inf, or a number beyond the largest double */
    CSV_TOO_LARGE,  /* a double that becomes infinite as float32 */
    CSV_NOT_A_BYTE, /* not a whole number in 0..255, and x is uint8 */
    CSV_NOT_A_DATE  /* text where a date belongs */
};

/* A field: its place in the text of the last call, without quotes and blanks around it. */
struct csv_place {
    int64_t line, start, stop; /* line: that of its row; 0: there is no such field */
    int quoted;                /* it stands in quotes */
    int doubled;               /* and a doubled quote in it stands for one */
    int is_number;             /* told by csv_split alone */
};

/* A row: its line, and how many fields it has, 0 if the text ends within quotes. */
struct csv_row {
    int64_t line, fields;
};

/* How many fields of a column are gaps, numbers, ... Every field is counted once. */
struct csv_facts {
    int64_t gaps, numbers, truths, dates, texts;
    struct csv_place not_number, not_date, infinite, other_point; /* the first of each */
};

/* Words that stand for a gap. */
struct csv_gaps {
    const char *text; /* the words one after another */
    const int *ends;  /* (count) where each of them ends */
    int count;
    const uint64_t *lengths; /* (256) of the words that begin with a byte, a bit each; 63 and more share one */
    int empty;               /* an empty field is a gap too */
};

/* The different words of a column, in the order of their first appearance. The caller owns all memory, and sets
   everything to 0 before the first one. */
struct csv_words {
    char *text;         /* (size) one after another */
    int64_t *ends;      /* (most) where each of them ends */
    uint64_t *table;    /* (mask + 1, a power of two above most) hash << 32 | index + 1; 0: free */
    int64_t size;
    uint64_t mask;
    int count, most;
    int64_t added_in;   /* the row of the last new word, as csv.taken counts it, and ... */
    uint64_t added_at;  /* ... its place in the table */
};

/* Where the fields go, and how far reading has come. The caller owns all memory and sets everything above `line`
   once; `rows`, `capacity` and the five arrays again whenever the arrays have grown. */
struct csv {
    char separator, point;  /* between fields; within numbers */
    int columns;            /* fields in every row */
    const struct csv_column *roles; /* (columns) */
    int inputs, targets, texts, dates, ids;
    enum csv_type type;     /* of x */
    double *low, *high;     /* (inputs) smallest and largest value so far */
    double *row;            /* (inputs) scratch */
    struct csv_words *words; /* (texts) */
    struct csv_words *names; /* class names, or NULL: targets are numbers */
    const struct csv_gaps *gaps;
    int leave_out;          /* a row whose target is a gap is left out; its other fields may hold anything */
    int64_t first_line;     /* where the rows begin, counted from 1; what is above is skipped */
    int64_t line;           /* lines read so far */
    int64_t row_line;       /* the line where the last row begins; blank lines hold none */
    int64_t used;           /* bytes read of the text of the last call */
    int64_t taken;          /* rows read so far, those left out too, and ... */
    int64_t left_out;       /* ... how many of them were */
    void *x;                /* (capacity, inputs) */
    double *y;              /* (capacity, targets) numbers, or indices of names; a gap: nan, or -1 */
    int32_t *codes;         /* (capacity, texts) indices of words; a gap: -1 */
    double *seconds;        /* (capacity, dates) since 1970-01-01; a gap: nan */
    struct csv_place *id;   /* (capacity, ids) */
    int64_t rows, capacity; /* rows written to the arrays, and room in them */
    int breaks;             /* line ends within the quotes of the row */
    int found;              /* at a failure: fields in the row, ... */
    int column;             /* ... column of the field counted from 0, ... */
    int64_t start, stop;    /* ... and its place in the text, without quotes and blanks */
};

/* Read the lines of text (size), which ends with a line end, or with the file's end and a 0 byte behind it.
   After a failure `row_line` is the line that failed. */
enum csv_result csv_read(struct csv *csv, const char *text, int64_t size);

/* Count what the fields of up to `capacity` rows are into facts (columns). `place` (columns) is scratch. After CSV_OK,
   CSV_FULL and CSV_OPEN a place with a line is new if it had none before. */
enum csv_result csv_count(struct csv *csv, struct csv_facts *facts, struct csv_place *place, const char *text,
                          int64_t size);

/* Find the fields of the first rows of text (size, followed by a 0 byte): how many rows there are, `most_rows` at most.
   The first `most` fields, of one row after the other, are put into place. */
int64_t csv_split(struct csv *csv, struct csv_row *rows, int64_t most_rows, struct csv_place *place, int64_t most,
                  const char *text, int64_t size);

/* Fill the table, all 0 before, with the words of `words`. */
void csv_index(struct csv_words *words);

/* Seconds since 1970-01-01 of the ISO 8601 date or time in text (size, followed by a 0 byte); 1 if all of the text is
   one, else 0. */
int csv_date(double *seconds, const char *text, int64_t size);

/* The number in text (size, followed by a 0 byte), rounded correctly; 1 if all of the text is a number, else 0. */
int csv_number(double *value, const char *text, int64_t size);
