/* The structure of a line: where fields begin and end. uses: numbers.c */
#include "internal.h"

/* A field: [start, stop) is what it holds, without quotes and blanks; `next` the separator or
 * line end behind it. */
struct field {
    const char *start, *stop, *next;
    int doubled; /* see csv_place */
    int open;    /* the text ends within its quotes */
};

/* Where blanks separate fields, tabs do too, and several of them are one separator: all but one
 * stand before a field, or before the line end. */
INLINE int separates(const struct csv *csv, char c)
{ return c == csv->separator || (c == '\t' && csv->separator == ' '); }

INLINE int is_blank(const struct csv *csv, char c)
{
    return (c == ' ' || c == '\t' || c == '\r') && !separates(csv, c);
}

INLINE const char *skip_blanks(const struct csv *csv, const char *p)
{
    while (is_blank(csv, *p))
        p++;
    return p;
}

INLINE const char *field_start(const struct csv *csv, const char *p)
{
    while (is_blank(csv, *p) || (csv->separator == ' ' && separates(csv, *p)))
        p++;
    return p;
}

INLINE int at_line_end(const char *p, const char *end) { return *p == '\n' || p == end; }

INLINE int at_field_end(const struct csv *csv, const char *p, const char *end)
{
    return separates(csv, *p) || at_line_end(p, end);
}

INLINE const char *behind_field(const struct csv *csv, const char *p, const char *end)
{
    /* The separator or line end behind a field that ends at p. */
    if (csv->separator != ' ')
        return p;
    const char *next = field_start(csv, p);
    return at_line_end(next, end) ? next : p;
}

/* The separators and line ends among 64 bytes, a bit each. Lengths of words are as good as
 * random, and a loop over their bytes mispredicts its end; so 64 bytes are looked at once,
 * whatever fields they hold. */
struct marks {
    const char *block;
    uint64_t bits;
};

INLINE uint64_t marks_of(const char *block, char separator)
{
    uint64_t bits = 0;
#if defined(__SSE2__)
    const __m128i separators = _mm_set1_epi8(separator), ends = _mm_set1_epi8('\n');
    for (int i = 0; i < 64; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(block + i));
        const __m128i found =
            _mm_or_si128(_mm_cmpeq_epi8(bytes, separators), _mm_cmpeq_epi8(bytes, ends));
        bits |= (uint64_t)_mm_movemask_epi8(found) << i;
    }
#else
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(block[i] == separator || block[i] == '\n') << i;
#endif
    return bits;
}

INLINE const char *find_field_end(const struct csv *csv, struct marks *marks, const char *p,
                                  const char *end)
{
    /* The first separator or line end at p or behind it; `end` closes the last line. */
    if (csv->separator == ' ') {
        while (!at_field_end(csv, p, end))
            p++;
        return p;
    }
    const int64_t before = marks->block ? p - marks->block : 64;
    uint64_t bits = before < 64 ? marks->bits & ~(uint64_t)0 << before : 0;
    if (before >= 64)
        marks->block = p - 64;
    while (!bits) {
        marks->block += 64;
        if (end - marks->block < 64) { /* not a whole block: the last fields, byte by byte */
            p = marks->block > p ? marks->block : p;
            marks->block = NULL;
            while (!at_field_end(csv, p, end))
                p++;
            return p;
        }
        bits = marks_of(marks->block, csv->separator);
    }
    marks->bits = bits;
    return marks->block + __builtin_ctzll(bits);
}

static int is_any_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

__attribute__((noinline)) static struct field quoted_field(struct csv *csv, const char *quote,
                                                           const char *end)
{
    struct field field = {quote, end, end, 0, 1};
    struct marks marks = {NULL, 0};
    const char *p = quote + 1;
    for (; (p = memchr(p, '"', (size_t)(end - p))) && p[1] == '"'; p += 2)
        field.doubled = 1;
    if (!p)
        return field;
    field.open = 0;
    for (const char *c = quote; (c = memchr(c, '\n', (size_t)(p - c))); c++)
        csv->breaks++;
    field.next = skip_blanks(csv, p + 1);
    if (at_field_end(csv, field.next, end)) {
        field.start = quote + 1;
        field.stop = p;
    } else { /* text behind the quotes: they belong to it */
        field.doubled = 0;
        field.stop = field.next = find_field_end(csv, &marks, field.next, end);
    }
    field.next = behind_field(csv, field.next, end);
    while (field.start < field.stop && is_any_blank(*field.start))
        field.start++;
    while (field.stop > field.start && is_any_blank(field.stop[-1]))
        field.stop--;
    return field;
}

INLINE struct field any_field(struct csv *csv, struct marks *marks, const char *p, const char *end)
{
    p = field_start(csv, p);
    if (*p == '"')
        return quoted_field(csv, p, end);
    const char *next = find_field_end(csv, marks, p, end), *stop = next;
    while (stop > p && is_blank(csv, stop[-1]))
        stop--;
    return (struct field){p, stop, behind_field(csv, next, end), 0, 0};
}

INLINE const char *number_field(const struct csv *csv, double *value, const char *p,
                                const char *end)
{
    /* A field that is a number and cannot be a gap: returns the separator or line end behind it;
     * or NULL. */
    p = field_start(csv, p);
    const int quoted = *p == '"';
    if (quoted)
        p = skip_blanks(csv, p + 1);
    if (csv->gaps->may_be_number[(unsigned char)*p])
        return NULL;
    p = parse_number(value, p, end, csv->point);
    if (!p)
        return NULL;
    p = skip_blanks(csv, p);
    if (quoted) {
        if (*p != '"')
            return NULL;
        p = skip_blanks(csv, p + 1);
    }
    return at_field_end(csv, p, end) ? behind_field(csv, p, end) : NULL;
}

INLINE int is_number(double *value, const char *start, const char *stop, char point)
{
    return parse_number(value, start, stop, point) == stop && isfinite(*value);
}

INLINE int split_row(struct csv *csv, struct marks *marks, const char **line_end,
                     struct csv_place *place, int64_t most, const char *row, const char *text,
                     const char *end)
{
    /* The number of fields, or 0 if the text ends within quotes. */
    csv->breaks = 0;
    for (int n = 0;; row++) {
        const struct field field = any_field(csv, marks, row, end);
        if (field.open)
            return 0;
        if (n < most) {
            double value;
            const int number = is_number(&value, field.start, field.stop, csv->point);
            place[n] =
                (struct csv_place){field.start - text, field.stop - text, field.doubled, number};
        }
        n++;
        row = field.next;
        if (at_line_end(row, end)) {
            *line_end = row;
            return n;
        }
    }
}
