/* columns.h: columns of numbers into rows. Read by gcc (after <stdint.h>) and by cffi alike. */

enum column_type { COLUMN_INT8, COLUMN_INT16, COLUMN_INT32, COLUMN_INT64, COLUMN_UINT8, COLUMN_UINT16, COLUMN_UINT32,
                   COLUMN_UINT64, COLUMN_FLOAT32, COLUMN_FLOAT64 };

struct column {
    enum column_type type;
    const void *values; /* one for each row */
    int64_t stride;     /* bytes from one to the next */
};

/* The rows first .. stop - 1 of x (rows, count), of the type uint8, float32 or float64: in each a value of each column,
   which this type can hold, rounded. */
void columns_to_rows(void *x, enum column_type type, const struct column *columns, int64_t count, int64_t first,
                     int64_t stop);
