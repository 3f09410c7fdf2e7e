/* Facts: what the fields of each column are. uses: rows.c, and what that uses */
#include "internal.h"

INLINE const char *skip_digits(const char *p, const char *stop)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; stop - p >= 8; p += 8) {
        const uint64_t others = no_digits(eight_bytes(p));
        if (others)
            return p + __builtin_ctzll(others) / 8;
    }
#endif
    while (p < stop && is_digit(*p))
        p++;
    return p;
}

#if defined(__SSE2__)
INLINE uint32_t no_digits_of_32(const char *p)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i += 16) {
        const __m128i from_0 = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(p + i)), _mm_set1_epi8('0'));
        const __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(from_0, _mm_set1_epi8(9)), from_0);
        bits |= (uint32_t)(~_mm_movemask_epi8(digits) & 0xFFFF) << i;
    }
    return bits;
}
#endif

INLINE int is_plain_number(const char *p, const char *stop, char point, const char *end)
{
    /* Digits, a point among them perhaps, too few to be infinite. */
    p += *p == '-' || *p == '+';
    int64_t digits = stop - p;
#if defined(__SSE2__)
    if (digits <= 32 && end - p >= 32) { /* nearly always: without a loop, whose end would be mispredicted */
        const uint32_t others = digits ? no_digits_of_32(p) << (32 - digits) : 0;
        if (!others)
            return digits > 0;
        return !(others & (others - 1)) && digits > 1 && p[__builtin_ctz(others) - (32 - digits)] == point;
    }
#endif
    (void)end;
    p = skip_digits(p, stop);
    if (p < stop && *p == point) {
        digits--;
        p = skip_digits(p + 1, stop);
    }
    return p == stop && digits > 0 && digits < 300;
}

INLINE int is_finite_number(int *is_infinite, const char *start, const char *stop, char point,
                                   const char *end)
{
    double value;
    *is_infinite = 0;
    if (*start > '9' && (*start | 32) != 'i')
        return 0;
    if (is_plain_number(start, stop, point, end))
        return 1;
    if (parse_number(&value, start, stop, point) == stop) {
        *is_infinite = !isfinite(value);
        return !*is_infinite;
    }
    *is_infinite = (start[*start == '-' || *start == '+'] | 32) == 'i' && is_not_finite(start, stop, point);
    return 0;
}

INLINE void note(struct csv_place *place, const struct csv_place *found)
{
    if (!place->line)
        *place = *found;
}

INLINE void count_field(const struct csv *csv, struct csv_facts *facts, const struct csv_place *place,
                               const char *text, const char *end)
{
    const char *start = text + place->start, *stop = text + place->stop;
    double seconds;
    int is_infinite;
    if (is_gap(csv->gaps, start, stop)) {
        facts->gaps++;
        return;
    }
    if (start == stop) {
        note(&facts->not_number, place);
        note(&facts->not_date, place);
        facts->texts++;
        return;
    }
    if (is_finite_number(&is_infinite, start, stop, csv->point, end)) {
        facts->numbers++;
        note(&facts->not_date, place);
        return;
    }
    note(&facts->not_number, place);
    if (is_digit(*start) && parse_date(&seconds, start, stop)) {
        facts->dates++;
        return;
    }
    note(&facts->not_date, place);
    if (is_infinite)
        note(&facts->infinite, place);
    if (csv->separator == ';' && is_plain_number(start, stop, csv->point == '.' ? ',' : '.', end))
        note(&facts->other_point, place);
    if (is_truth(start, stop))
        facts->truths++;
    else
        facts->texts++;
}

enum csv_result csv_count(struct csv *csv, struct csv_facts *facts, struct csv_place *place, const char *text,
                          int64_t size)
{
    const char *p = text, *end = text + size, *row, *line_end = text;
    struct marks marks = {NULL, 0};
    while (csv->rows < csv->capacity && (row = next_row(csv, p, end))) {
        csv->used = row - text;
        csv->found = split_row(csv, &marks, &line_end, place, csv->columns, row, text, end);
        if (csv->found != csv->columns)
            return csv->found ? CSV_RAGGED : CSV_OPEN;
        for (int column = 0; column < csv->columns; column++)
            count_field(csv, &facts[column], &place[column], text, end);
        p = end_row(csv, line_end, end);
        csv->rows++;
    }
    return csv->rows < csv->capacity ? CSV_OK : CSV_FULL;
}

INLINE int is_number_at(const struct csv *csv, const struct csv_place *place, const char *text, const char *end)
{
    int is_infinite;
    return place->start < place->stop &&
           is_finite_number(&is_infinite, text + place->start, text + place->stop, csv->point, end);
}

int64_t csv_split(struct csv *csv, struct csv_row *rows, int64_t most_rows, struct csv_place *place, int64_t most,
                  const char *text, int64_t size)
{
    const char *p = text, *end = text + size, *row, *line_end = text;
    struct marks marks = {NULL, 0};
    int64_t count = 0;
    int fields = 1;
    for (; count < most_rows && fields && (row = next_row(csv, p, end)); count++) {
        fields = split_row(csv, &marks, &line_end, place, most, row, text, end);
        rows[count] = (struct csv_row){csv->row_line, fields};
        for (const struct csv_place *last = place + (fields < most ? fields : most); place < last; place++, most--)
            place->is_number = is_number_at(csv, place, text, end);
        p = end_row(csv, line_end, end);
    }
    return count;
}
