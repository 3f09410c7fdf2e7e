/* Rows into arrays: what becomes of each field. uses: all of the above */
#include "internal.h"

INLINE int is_value(const struct csv *csv, int role, double *value, const char *start,
                    const char *stop)
{
    return role == CSV_DATE ? parse_date(value, start, stop)
                            : is_number(value, start, stop, csv->point);
}

INLINE enum csv_result store_field(struct csv *csv, int column, const struct field *field,
                                   const char *end)
{
    const struct csv_column *how = &csv->roles[column];
    const int is_missing = how->role != CSV_RAW && is_gap(csv->gaps, field->start, field->stop);
    struct csv_words *words = &csv->words[column];
    if (how->role == CSV_WORD || how->role == CSV_RAW) {
        const int index = is_missing ? -1 : word_index(words, field, end);
        csv->codes[how->slot * csv->capacity + csv->rows] = index;
        if (index >= 0)
            count_row(words, index, csv->rows + 1);
        return is_missing || index >= 0 ? CSV_OK : CSV_NO_ROOM;
    }
    double value = NAN;
    if (!is_missing && !is_value(csv, how->role, &value, field->start, field->stop)) {
        if (!count_odd(words, field, csv->rows + 1, end))
            return CSV_NO_ROOM;
        value = NAN;
    }
    csv->row[how->slot] = how->role == CSV_DATE ? value : unless_gap(csv->gaps, value);
    return CSV_OK;
}

INLINE enum csv_result read_field(struct csv *csv, struct marks *marks, int column, const char **p,
                                  const char *end)
{
    const struct csv_column *how = &csv->roles[column];
    if (how->role == CSV_NUMBER || how->role == CSV_EXACT) {
        double value;
        const char *next = number_field(csv, &value, *p, end);
        if (next && isfinite(value)) { /* nearly always */
            csv->row[how->slot] = unless_gap(csv->gaps, value);
            *p = next;
            return CSV_OK;
        }
    }
    const struct field field = any_field(csv, marks, *p, end);
    *p = field.next;
    if (field.open || how->role == CSV_IGNORED)
        return field.open ? CSV_OPEN : CSV_OK;
    csv->column = column;
    csv->length = field.stop - field.start;
    return store_field(csv, column, &field, end);
}

static enum csv_result misshapen(struct csv *csv, const char *row, const char *end)
{
    /* The failure of a row that has not the fields that it should have. */
    struct marks marks = {NULL, 0};
    const char *line_end;
    csv->found = split_row(csv, &marks, &line_end, NULL, 0, row, row, end);
    return csv->found ? CSV_RAGGED : CSV_OPEN;
}

INLINE void keep_row(struct csv *csv)
{
    const double *row = csv->row;
    for (int i = 0; i < csv->numbers + csv->apart; i++) { /* nan is neither */
        if (row[i] < csv->low[i])
            csv->low[i] = row[i];
        if (row[i] > csv->high[i])
            csv->high[i] = row[i];
    }
    const int64_t at = csv->rows * csv->numbers;
    if (csv->is_double)
        for (int i = 0; i < csv->numbers; i++)
            ((double *)csv->matrix)[at + i] = row[i];
    else
        for (int i = 0; i < csv->numbers; i++)
            ((float *)csv->matrix)[at + i] = (float)row[i];
    for (int i = 0; i < csv->apart; i++)
        csv->doubles[i * csv->capacity + csv->rows] = row[csv->numbers + i];
    csv->rows++;
}

INLINE enum csv_result read_row(struct csv *csv, struct marks *marks, const char **line_end,
                                const char *row, const char *end)
{
    const char *p = row;
    csv->breaks = 0;
    for (int column = 0; column < csv->columns; column++, p++) {
        const enum csv_result result = read_field(csv, marks, column, &p, end);
        if (result != CSV_OK)
            return result;
        if (column == csv->columns - 1 ? !at_line_end(p, end) : !separates(csv, *p))
            return misshapen(csv, row, end);
    }
    *line_end = p - 1;
    keep_row(csv);
    return CSV_OK;
}

static int is_name(const struct csv_header *header, int column, const char *start, const char *stop)
{
    const int first = column * header->forms;
    for (int form = first; form < first + header->forms; form++) {
        const int from = form ? header->ends[form - 1] : 0;
        if (header->ends[form] - from == stop - start &&
            memcmp(header->text + from, start, (size_t)(stop - start)) == 0)
            return 1;
    }
    return 0;
}

__attribute__((noinline)) static int repeats_names(struct csv *csv, const char **line_end,
                                                   const char *row, const char *end)
{
    struct marks marks = {NULL, 0};
    csv->breaks = 0;
    for (int column = 0; column < csv->columns; column++) {
        const struct field field = any_field(csv, &marks, row, end);
        if (field.open || !is_name(csv->header, column, field.start, field.stop))
            return 0;
        if (at_line_end(field.next, end) != (column == csv->columns - 1))
            return 0;
        *line_end = field.next;
        row = field.next + 1;
    }
    return 1;
}

INLINE int is_header(struct csv *csv, const char **line_end, const char *row, const char *end)
{
    /* Whether a row repeats the names of the columns; its first byte rules out nearly all. */
    if (!csv->header)
        return 0;
    const char *first = field_start(csv, row);
    return csv->header->starts[(unsigned char)*first] && repeats_names(csv, line_end, row, end);
}

INLINE const char *behind_mark(const char *row, const char *end)
{
    /* Where a row begins that has a byte order mark before it, as where files were joined. */
    return end - row >= 3 && memcmp(row, "\xEF\xBB\xBF", 3) == 0 ? row + 3 : row;
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
    return p < end ? behind_mark(p, end) : NULL;
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
        if (is_header(csv, &line_end, row, end)) {
            csv->repeats++;
            p = end_row(csv, line_end, end);
            continue;
        }
        const int has_room = csv->rows < csv->capacity;
        const enum csv_result result =
            has_room ? read_row(csv, &marks, &line_end, row, end) : CSV_FULL;
        csv->used = p - text;
        if (result != CSV_OK)
            return result;
        p = end_row(csv, line_end, end);
    }
    csv->used = size;
    return CSV_OK;
}

int64_t csv_split(struct csv *csv, struct csv_row *rows, int64_t most_rows, struct csv_place *place,
                  int64_t most, const char *text, int64_t size)
{
    const char *p = text, *end = text + size, *row, *line_end = text;
    struct marks marks = {NULL, 0};
    int64_t count = 0;
    int fields = 1;
    for (; count < most_rows && fields && (row = next_row(csv, p, end)); count++) {
        fields = split_row(csv, &marks, &line_end, place, most, row, text, end);
        rows[count] = (struct csv_row){csv->row_line, fields};
        place += fields < most ? fields : most;
        most -= fields < most ? fields : most;
        p = end_row(csv, line_end, end);
    }
    return count;
}
