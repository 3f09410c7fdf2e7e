/* csv.h: the numbers of a CSV file, straight into arrays. Read by gcc (after <stdint.h>) and by cffi alike. */

enum csv_type { CSV_UINT8, CSV_FLOAT32, CSV_FLOAT64 };

enum csv_result {
    CSV_OK,             /* all text was read */
    CSV_FULL,           /* no room for another row; call again with the rest of the text */
    CSV_RAGGED,         /* `found` fields in a row instead of `columns` */
    CSV_EMPTY,          /* nothing between two commas */
    CSV_TEXT,           /* text where a number belongs */
    CSV_NOT_FINITE,     /* nan, inf, or a number beyond the largest double */
    CSV_TOO_LARGE,      /* a double that becomes infinite as float32 */
    CSV_NOT_A_BYTE,     /* not a whole number in 0..255, and x is uint8 */
    CSV_TOO_MANY_NAMES  /* no room for another class name */
};

/* A field that stands out: the line of its row, 0 if there is none, and its place in the text of the last call, without
   quotes and blanks. */
struct csv_place {
    int64_t line, start, stop;
    int64_t doubled; /* a doubled quote in it stands for one */
};

/* What the fields of a column are. Every field is counted once. */
struct csv_facts {
    int64_t gaps, numbers, truths, dates, texts;
    struct csv_place not_number, not_date, infinite; /* the first of each */
};

/* Words that stand for a gap. */
struct csv_gaps {
    const char *text; /* the words one after another */
    const int *ends;  /* (count) where each of them ends */
    int count;
    const uint64_t *lengths; /* (256) of the words that begin with a byte, a bit each; 63 and more share one */
    int empty;               /* an empty field is a gap too */
};

/* Where the fields go, and how far reading has come. The caller owns all memory and sets everything above `line`
   once; `rows`, `capacity`, `x` and `y` again whenever there is new room. */
struct csv {
    int columns;            /* fields in every row */
    const int *slots;       /* (columns) s >= 0: input s; s < 0: target -1-s; s >= columns: nowhere */
    int inputs, targets;
    enum csv_type type;     /* of x */
    double *low, *high;     /* (inputs) smallest and largest value so far */
    char *names;            /* class names one after another, or NULL: targets are numbers */
    int *name_ends;         /* (max_names) where each of them ends */
    int name_count, max_names, names_size;
    int64_t first_line;     /* where the rows begin, counted from 1; what is above is skipped */
    int64_t line;           /* lines read so far */
    int64_t row_line;       /* the line of the last row; blank lines hold none */
    int64_t used;           /* bytes read of the text of the last call */
    void *x;                /* (capacity, inputs) */
    double *y;              /* (capacity, targets) numbers, or indices of names */
    int64_t rows, capacity; /* rows written to x and y, and room in them */
    int found;              /* at a failure: fields in the row, ... */
    int column;             /* ... column of the field counted from 0, ... */
    int64_t start, stop;    /* ... and its place in the text, without quotes and blanks */
};

/* Read the lines of text (size), which ends with a line end, or with the file's end and a 0 byte behind it.
   After a failure `row_line` is the line that failed. */
enum csv_result csv_read(struct csv *csv, const char *text, int64_t size);

/* Count what the fields of up to `capacity` - `rows` rows are into facts (columns). Columns, lines and rows of csv are used
   as by csv_read, nothing else. After CSV_OK and CSV_FULL a place with a line is new if it had none before. */
enum csv_result csv_count(struct csv *csv, struct csv_facts *facts, const struct csv_gaps *gaps, const char *text,
                          int64_t size);

/* Seconds since 1970-01-01 of the ISO 8601 date or time in text (size, followed by a 0 byte); 1 if all of the text is
   one, else 0. */
int csv_date(double *seconds, const char *text, int64_t size);

/* The number in text (size, followed by a 0 byte), rounded correctly; 1 if all of the text is a number, else 0. */
int csv_number(double *value, const char *text, int64_t size);
