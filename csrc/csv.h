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

/* The number in text (size, followed by a 0 byte), rounded correctly; 1 if all of the text is a number, else 0. */
int csv_number(double *value, const char *text, int64_t size);
