/* csv.h: the fields of a CSV file, straight into arrays. Read by gcc (after <stdint.h>) and by
 * cffi alike. */

/* How a column is read; this decides the array that its values go to. */
enum csv_role {
    CSV_IGNORED,
    CSV_NUMBER, /* into the matrix */
    CSV_EXACT,  /* a number, kept apart in double */
    CSV_DATE,   /* its seconds, kept apart too */
    CSV_WORD,
    CSV_RAW     /* a word, those for a gap too */
};

struct csv_column {
    int role; /* enum csv_role */
    /* place in the matrix, or behind it among the columns kept apart; or among the columns of
     * words */
    int slot;
};

enum csv_result {
    CSV_OK,      /* all text was read */
    CSV_FULL,    /* no room for another row; call again with the rest of the text */
    /* no room for a new word of `column`, of `length` bytes; call again with room and the rest */
    CSV_NO_ROOM,
    /* the text ends within quotes; call again with the rest of the text and more behind it */
    CSV_OPEN,
    CSV_RAGGED   /* `found` fields in a row instead of `columns` */
};

/* A field: its place in a text, without quotes and blanks around it. */
struct csv_place {
    int64_t start, stop;
    int doubled;   /* it stands in quotes, and a doubled quote in it stands for one */
    int is_number; /* finite, with a point before decimals */
};

/* A row: its line, and how many fields it has, 0 if the text ends within quotes. */
struct csv_row {
    int64_t line, fields;
};

/* Words that stand for a gap. */
struct csv_gaps {
    const char *text; /* the words one after another */
    const int *ends;  /* (count) where each of them ends */
    int count;
    /* (256) of the words that begin with a byte, a bit each; 63 and more share one */
    const uint64_t *lengths;
    /* (256) whether one that begins with a byte reads as a number */
    const unsigned char *may_be_number;
    int empty;               /* an empty field is a gap too */
    /* (number_count) words that are numbers, which are gaps however they are written */
    const double *numbers;
    int number_count;
};

/* The names of the columns, which a row may repeat where files were joined: such a row is left
 * out. */
struct csv_header {
    const char *text; /* names one after another, in each form that a file may have */
    const int *ends;  /* (columns, forms) where each of them ends */
    int forms;
    const unsigned char *starts; /* (256) whether such a row may begin with a byte */
};

/* The different words of a column, in the order of their first appearance; or its odd ones,
 * which are no number or date where these belong. The caller owns all memory, and sets
 * everything to 0 before the first one; room for it brings a limit. Rows are counted from 1. */
struct csv_words {
    char *text;      /* (size) one after another */
    int64_t *ends;   /* (most) where each of them ends */
    uint64_t *table; /* (mask + 1, a power of two above most) hash << 32 | index + 1; 0: free */
    /* (most + 1) how many have each; the last one: all odd words that come when `count` is
     * `limit` */
    int64_t *rows;
    int64_t *first;  /* (most + 1) the first row of each odd word; NULL of others */
    int64_t last;    /* row that was counted */
    int64_t size;
    uint64_t mask;
    int count, most, limit;
};

/* Where the fields go, and how far reading has come. The caller owns all memory and sets
 * everything above `line` once; `capacity` and the three arrays again whenever the arrays have
 * grown. */
struct csv {
    char separator, point;   /* between fields; within numbers */
    int columns;             /* fields in every row */
    const struct csv_column *roles; /* (columns) */
    struct csv_words *words; /* (columns) of a column of words, or the odd ones of another */
    int numbers, apart, texts;
    int is_double;           /* the matrix */
    double *low, *high;      /* (numbers + apart) smallest and largest value so far */
    double *row;             /* (numbers + apart) scratch */
    const struct csv_gaps *gaps;
    const struct csv_header *header; /* NULL: rows are never names */
    int64_t repeats;         /* rows that were left out as they repeat the names */
    int64_t first_line;      /* where the rows begin, counted from 1; what is above is skipped */
    int64_t line;            /* lines read so far */
    int64_t row_line;        /* the line where the last row begins; blank lines hold none */
    int64_t used;            /* bytes read of the text of the last call */
    void *matrix;            /* (capacity, numbers) float or double; a gap: nan */
    /* (apart, capacity) numbers, or seconds since 1970-01-01; a gap: nan */
    double *doubles;
    int32_t *codes;          /* (texts, capacity) indices of words; a gap: -1 */
    int64_t rows, capacity;  /* rows read so far, and room in the arrays */
    int breaks;              /* line ends within the quotes of the row */
    int found;               /* at CSV_RAGGED */
    int column;              /* at CSV_NO_ROOM, counted from 0, and ... */
    int64_t length;          /* ... the word's, in bytes */
};

/* Read the lines of text (size), which ends with a line end, or with the file's end and a 0 byte
 * behind it.
 * After a failure `row_line` is the line that failed. */
enum csv_result csv_read(struct csv *csv, const char *text, int64_t size);

/* Find the fields of the first rows of text (size, followed by a 0 byte): how many rows there
 * are, `most_rows` at most. The first `most` fields, of one row after the other, are put into
 * place. */
int64_t csv_split(struct csv *csv, struct csv_row *rows, int64_t most_rows, struct csv_place *place,
                  int64_t most, const char *text, int64_t size);

/* Fill the table, all 0 before, with the words of `words`. */
void csv_index(struct csv_words *words);

/* Seconds since 1970-01-01 of the ISO 8601 date or time in text (size, followed by a 0 byte); 1
 * if all of the text is one, else 0. */
int csv_date(double *seconds, const char *text, int64_t size);

/* The number in text (size, followed by a 0 byte), rounded correctly; 1 if all of the text is a
 * number, else 0. */
int csv_number(double *value, const char *text, int64_t size);
