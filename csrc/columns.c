/* columns.c - columns of numbers into rows: some rows of all columns at a time, so that these stay in the processor's
   first cache until they are whole. */
#include <stdint.h>
#include "columns.h"

enum { TILE_ROWS = 32 };

#define WRITE(OUT, IN)                                                                                                 \
    for (int64_t i = first; i < stop; i++)                                                                             \
        ((OUT *)x)[i * width] = (OUT)*(const IN *)((const char *)column->values + i * column->stride);                 \
    break

/* A column's values to the rows first .. stop - 1 of x, each `width` values behind the one before. */
#define WRITE_COLUMN(NAME, OUT)                                                                                        \
    static void NAME(OUT *x, int64_t width, const struct column *column, int64_t first, int64_t stop)                  \
    {                                                                                                                  \
        switch (column->type) {                                                                                        \
        case COLUMN_INT8: WRITE(OUT, int8_t);                                                                          \
        case COLUMN_INT16: WRITE(OUT, int16_t);                                                                        \
        case COLUMN_INT32: WRITE(OUT, int32_t);                                                                        \
        case COLUMN_INT64: WRITE(OUT, int64_t);                                                                        \
        case COLUMN_UINT8: WRITE(OUT, uint8_t);                                                                        \
        case COLUMN_UINT16: WRITE(OUT, uint16_t);                                                                      \
        case COLUMN_UINT32: WRITE(OUT, uint32_t);                                                                      \
        case COLUMN_UINT64: WRITE(OUT, uint64_t);                                                                      \
        case COLUMN_FLOAT32: WRITE(OUT, float);                                                                        \
        case COLUMN_FLOAT64: WRITE(OUT, double);                                                                       \
        }                                                                                                              \
    }
WRITE_COLUMN(write_bytes, uint8_t)
WRITE_COLUMN(write_floats, float)
WRITE_COLUMN(write_doubles, double)

void columns_to_rows(void *x, enum column_type type, const struct column *columns, int64_t count, int64_t first,
                     int64_t stop)
{
    for (int64_t from = first; from < stop; from += TILE_ROWS) {
        const int64_t to = from + TILE_ROWS < stop ? from + TILE_ROWS : stop;
        for (int64_t i = 0; i < count; i++)
            if (type == COLUMN_FLOAT32)
                write_floats((float *)x + i, count, &columns[i], from, to);
            else if (type == COLUMN_FLOAT64)
                write_doubles((double *)x + i, count, &columns[i], from, to);
            else
                write_bytes((uint8_t *)x + i, count, &columns[i], from, to);
    }
}
