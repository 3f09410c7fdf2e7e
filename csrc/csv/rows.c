/* Rows into arrays: what becomes of each field. uses: all of the above */
#include "internal.h"

INLINE enum csv_result store_input(struct csv *csv, int input, double value)
{
    const int64_t i = csv->rows * csv->inputs + input;
    csv->row[input] = value;
    if (csv->type == CSV_FLOAT32) {
        ((float *)csv->x)[i] = (float)value;
        return isinf(((float *)csv->x)[i]) ? CSV_TOO_LARGE : CSV_OK;
    }
    if (csv->type == CSV_FLOAT64) {
        ((double *)csv->x)[i] = value;
        return CSV_OK;
    }
    if (!(value >= 0 && value <= 255 && value == (int)value))
        return CSV_NOT_A_BYTE;
    ((uint8_t *)csv->x)[i] = (uint8_t)value;
    return CSV_OK;
}

INLINE enum csv_result number_of(const struct csv *csv, double *value, const struct field *field)
{
    const char *start = field->start, *stop = field->stop;
    if (is_gap(csv->gaps, start, stop)) {
        *value = NAN;
        return CSV_OK;
    }
    if (start == stop)
        return CSV_EMPTY;
    if (is_not_finite(start, stop, csv->point))
        return CSV_NOT_FINITE;
    return parse_number(value, start, stop, csv->point) == stop ? CSV_OK : CSV_TEXT;
}

INLINE enum csv_result store_name(struct csv *csv, int target, const struct field *field, const char *end)
{
    const char *start = field->start, *stop = field->stop;
    int index = -1;
    if (!is_gap(csv->gaps, start, stop)) {
        if (start == stop)
            return CSV_EMPTY;
        if (is_not_finite(start, stop, csv->point))
            return CSV_NOT_FINITE;
        index = word_index(csv->names, field, csv->taken + 1, end);
        if (index < 0)
            return CSV_NO_ROOM;
    }
    csv->y[csv->rows * csv->targets + target] = index;
    return CSV_OK;
}

INLINE enum csv_result store_word(struct csv *csv, int slot, const struct field *field, const char *end)
{
    int index = -1;
    if (!is_gap(csv->gaps, field->start, field->stop)) {
        if (field->start == field->stop)
            return CSV_EMPTY;
        index = word_index(&csv->words[slot], field, csv->taken + 1, end);
        if (index < 0)
            return CSV_NO_ROOM;
    }
    csv->codes[csv->rows * csv->texts + slot] = index;
    return CSV_OK;
}

INLINE enum csv_result store_date(struct csv *csv, int slot, const struct field *field)
{
    double seconds = NAN;
    if (!is_gap(csv->gaps, field->start, field->stop)) {
        if (field->start == field->stop)
            return CSV_EMPTY;
        if (!parse_date(&seconds, field->start, field->stop))
            return CSV_NOT_A_DATE;
    }
    csv->seconds[csv->rows * csv->dates + slot] = seconds;
    return CSV_OK;
}

INLINE enum csv_result store_number(struct csv *csv, const struct csv_column *column, double value)
{
    if (column->role == CSV_INPUT)
        return store_input(csv, column->slot, value);
    csv->y[csv->rows * csv->targets + column->slot] = value;
    return CSV_OK;
}

INLINE enum csv_result store_field(struct csv *csv, const struct csv_column *column, const struct field *field,
                                   const char *text, const char *end)
{
    double value = 0;
    enum csv_result result;
    switch ((enum csv_role)column->role) {
    case CSV_IGNORED:
        break;
    case CSV_TARGET:
        if (csv->names)
            return store_name(csv, column->slot, field, end);
        /* fall through */
    case CSV_INPUT:
        result = number_of(csv, &value, field);
        return result == CSV_OK ? store_number(csv, column, value) : result;
    case CSV_WORD:
        return store_word(csv, column->slot, field, end);
    case CSV_DATE:
        return store_date(csv, column->slot, field);
    case CSV_ID:
        csv->id[csv->rows * csv->ids + column->slot] = place_of(csv, field, text);
        break;
    }
    return CSV_OK;
}

INLINE enum csv_result read_field(struct csv *csv, struct marks *marks, const struct csv_column *column, const char **p,
                                  const char *text, const char *end)
{
    double value = 0;
    if (column->role == CSV_INPUT || (column->role == CSV_TARGET && !csv->names)) {
        const char *next = number_field(csv, &value, *p, end);
        if (next && isfinite(value) && store_number(csv, column, value) == CSV_OK) { /* nearly always */
            *p = next;
            return CSV_OK;
        }
    }
    const struct field field = any_field(csv, marks, *p, end);
    *p = field.next;
    const enum csv_result result = field.open ? CSV_OPEN : store_field(csv, column, &field, text, end);
    if (result != CSV_OK) {
        csv->start = field.start - text;
        csv->stop = field.stop - text;
    }
    return result;
}

static int lacks_target(struct csv *csv, const char *row, const char *end)
{
    struct marks marks = {NULL, 0};
    for (int column = 0; column < csv->columns; column++, row++) {
        const struct field field = any_field(csv, &marks, row, end);
        row = field.next;
        if (csv->roles[column].role == CSV_TARGET && is_gap(csv->gaps, field.start, field.stop))
            return 1;
        if (at_line_end(field.next, end))
            break;
    }
    return 0;
}

static enum csv_result row_failure(struct csv *csv, const char **line_end, enum csv_result result, const char *row,
                                   const char *end)
{
    /* Too many or too few fields explain most other failures. CSV_OK: the row is left out. */
    struct marks marks = {NULL, 0};
    csv->found = split_row(csv, &marks, line_end, NULL, 0, row, row, end);
    if (csv->found == 0)
        return CSV_OPEN;
    if (csv->found != csv->columns)
        return CSV_RAGGED;
    return csv->leave_out && lacks_target(csv, row, end) ? CSV_OK : result;
}

INLINE int has_target(const struct csv *csv)
{
    const double *y = csv->y + csv->rows * csv->targets;
    for (int target = 0; target < csv->targets; target++)
        if (!(csv->names ? y[target] >= 0 : y[target] == y[target]))
            return 0;
    return 1;
}

INLINE void keep_row(struct csv *csv)
{
    for (int i = 0; i < csv->inputs; i++) { /* nan is neither */
        if (csv->row[i] < csv->low[i])
            csv->low[i] = csv->row[i];
        if (csv->row[i] > csv->high[i])
            csv->high[i] = csv->row[i];
    }
    csv->rows++;
}

INLINE enum csv_result read_row(struct csv *csv, struct marks *marks, const char **line_end, const char *row,
                                const char *text, const char *end)
{
    const char *p = row;
    int is_kept = csv->rows < csv->capacity;
    enum csv_result result = is_kept ? CSV_OK : CSV_FULL;
    csv->breaks = 0;
    for (int column = 0; column < csv->columns && is_kept; column++, p++) {
        result = read_field(csv, marks, &csv->roles[column], &p, text, end);
        const int is_last = column == csv->columns - 1;
        if (result != CSV_OK || (is_last ? !at_line_end(p, end) : !separates(csv, *p))) {
            csv->column = column;
            is_kept = 0;
        }
    }
    *line_end = p - 1;
    if (!is_kept) {
        result = row_failure(csv, line_end, result, row, end);
        if (result != CSV_OK)
            return result;
    }
    if (is_kept && (!csv->leave_out || has_target(csv)))
        keep_row(csv);
    else {
        forget_words(csv);
        csv->left_out++;
    }
    csv->taken++;
    return CSV_OK;
}

INLINE const char *next_row(struct csv *csv, const char *p, const char *end)
{
    /* Where the next row begins, behind lines that hold none; NULL at the end of the text. */
    while (p < end) {
        const char *first = field_start(csv, p);
        const int is_above = csv->line + 1 < csv->first_line;
        if (!is_above && !at_line_end(first, end))
            break;
        while (!at_line_end(first, end))
            first++;
        csv->line++;
        p = first < end ? first + 1 : end;
    }
    csv->row_line = p < end ? csv->line + 1 : csv->row_line;
    return p < end ? p : NULL;
}

INLINE const char *end_row(struct csv *csv, const char *line_end, const char *end)
{
    /* Where the line behind the row begins. */
    csv->line += 1 + csv->breaks;
    return line_end < end ? line_end + 1 : end;
}

enum csv_result csv_read(struct csv *csv, const char *text, int64_t size)
{
    const char *p = text, *end = text + size, *row, *line_end = text;
    struct marks marks = {NULL, 0};
    while ((row = next_row(csv, p, end))) {
        p = row;
        const enum csv_result result = read_row(csv, &marks, &line_end, row, text, end);
        csv->used = p - text;
        if (result != CSV_OK)
            return result;
        p = end_row(csv, line_end, end);
    }
    csv->used = size;
    return CSV_OK;
}
