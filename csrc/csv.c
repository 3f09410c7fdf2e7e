/* Reads CSV text into arrays in one pass, without locale, allocation or global state.

   Fields stand between separators, in quotes or not, with blanks around them or not. A separator or a line end within
   quotes belongs to the field, as does a quote that is doubled there.

   Every double is the one nearest to the decimal number, ties to even, as Python's float() gives it.
   The line end or 0 byte that closes the text stops every loop over digits and blanks without a look at `end`. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "csv.h"

__extension__ typedef unsigned __int128 uint128;

/* The loop over fields, which all of these are in, keeps what it knows in registers. */
#define INLINE static inline __attribute__((always_inline))

enum { MAX_DIGITS = 800 }; /* 768 significant digits decide every rounding; the rest counts as «more than that» */

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

INLINE int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

/* -- decimal to double ------------------------------------------------------------------------------------- */

static double double_of_bits(uint128 bits, int sticky, int exponent)
{
    /* (bits, and a little more if sticky) * 2^exponent, for results far from overflow and underflow. The sticky
       bit lies below the half that decides the rounding of 64 bits to 53, so that the conversion rounds right. */
    while (bits >> 64) {
        sticky |= (int)(bits & 1);
        bits >>= 1;
        exponent++;
    }
    return ldexp((double)((uint64_t)bits | (uint64_t)sticky), exponent);
}

static double exact_quotient(uint64_t digits, int power)
{
    /* digits / 10^power, 0 < digits, 0 < power <= 27: 5^27 has 63 bits, so that the quotient keeps at least 65 */
    uint64_t five = 1;
    for (int i = 0; i < power; i++)
        five *= 5;
    int shift = 64;
    while (!(digits >> 63)) {
        digits <<= 1;
        shift++;
    }
    const uint128 dividend = (uint128)digits << 64;
    const uint128 quotient = dividend / five;
    return double_of_bits(quotient, quotient * five != dividend, -shift - power);
}

static double any_decimal(const char *p, const char *stop, int64_t exponent)
{
    /* The number with the digits of [p, stop), one point among them perhaps, as an integer, * 10^exponent.
       strtod gets no decimal point, so that the locale cannot matter. */
    char text[MAX_DIGITS + 32];
    int n = 0;
    for (; p < stop; p++) {
        if (!is_digit(*p) || (n == 0 && *p == '0'))
            continue;
        if (n < MAX_DIGITS)
            text[n++] = *p;
        else {
            exponent++;
            if (*p != '0')
                text[MAX_DIGITS - 1] = '1'; /* far beyond what decides, but no longer a tie */
        }
    }
    if (n == 0)
        return 0;
    if (exponent > 100000)
        exponent = 100000;
    if (exponent < -100000)
        exponent = -100000;
    snprintf(text + n, 32, "e%d", (int)exponent);
    return strtod(text, NULL);
}

INLINE uint64_t eight_bytes(const char *p)
{
    uint64_t eight;
    memcpy(&eight, p, 8);
    return eight;
}

INLINE uint64_t no_digits(uint64_t eight)
{
    /* The top bit of each byte that is no digit, and of bytes behind it perhaps. */
    return ((eight + 0x4646464646464646) | (eight - 0x3030303030303030)) & 0x8080808080808080;
}

INLINE const char *parse_fraction(uint64_t *digits, const char *p, const char *end)
{
    /* digits = digits * 10^n + the n digits at p; returns what follows them. Fractions are long and of any length,
       so that a loop over digits costs a mispredicted branch or two: while there are eight bytes, all digits among
       them are taken at once. Bytes are joined to pairs, pairs to fours, fours to one number; fewer than eight
       digits are moved to the end, behind zeros. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    int n = 8;
    while (n == 8 && end - p >= 8) {
        uint64_t eight = eight_bytes(p);
        const uint64_t others = no_digits(eight);
        if (others) /* the lowest bit set belongs to the first byte that is no digit */
            n = __builtin_ctzll(others) / 8;
        if (n == 0)
            break;
        eight = (eight - 0x3030303030303030) << (64 - 8 * n);
        eight = eight * 10 + (eight >> 8);
        const uint64_t even = eight & 0x000000FF000000FF, odd = eight >> 16 & 0x000000FF000000FF;
        eight = (even * (100 + (1000000ULL << 32)) + odd * (1 + (10000ULL << 32))) >> 32;
        *digits = *digits * powers[n] + eight;
        p += n;
    }
#else
    (void)end;
#endif
    for (; is_digit(*p); p++)
        *digits = 10 * *digits + (uint64_t)(*p - '0');
    return p;
}

INLINE const char *parse_number(double *value, const char *p, const char *end, char point)
{
    /* Returns what follows the number at p, or NULL if there is none; the text ends at `end`. Signs are as good as
       random and cost no branch. */
    static const double signs[] = {1, -1};
    const int negative = *p == '-';
    p += negative | (*p == '+');
    const char *first = p;
    uint64_t digits = 0; /* wraps around beyond 19 digits, and is not used then */
    for (; is_digit(*p); p++)
        digits = 10 * digits + (uint64_t)(*p - '0');
    int64_t count = p - first, exponent = 0;
    if (*p == point) {
        const char *fraction = ++p;
        p = parse_fraction(&digits, p, end);
        exponent = fraction - p;
        count -= exponent;
    }
    if (count == 0)
        return NULL;
    const char *stop = p;
    if (*p == 'e' || *p == 'E') {
        p++;
        const int minus = *p == '-';
        if (*p == '-' || *p == '+')
            p++;
        if (!is_digit(*p))
            return NULL;
        int64_t e = 0;
        for (; is_digit(*p); p++)
            if (e < INT64_MAX / 100)
                e = 10 * e + (*p - '0');
        exponent += minus ? -e : e;
    }
    if (count > 19) /* leading zeros are no digits to keep */
        for (const char *zero = first; zero < stop && (*zero == '0' || !is_digit(*zero)); zero++)
            count -= *zero == '0';

    double v;
    if (count > 19)
        v = any_decimal(first, stop, exponent);
    else if (digits >> 53 == 0 && exponent >= -22 && exponent <= 22) /* both exact, hence one rounding */
        v = exponent < 0 ? (double)digits / powers_of_ten[-exponent] : (double)digits * powers_of_ten[exponent];
    else if (digits != 0 && exponent < 0 && exponent >= -27)
        v = exact_quotient(digits, (int)-exponent);
    else if (exponent == 0)
        v = (double)digits;
    else
        v = any_decimal(first, stop, exponent);
    *value = v * signs[negative];
    return p;
}

int csv_number(double *value, const char *text, int64_t size)
{
    return parse_number(value, text, text + size, '.') == text + size;
}

/* -- fields ------------------------------------------------------------------------------------------------ */

/* A field: [start, stop) is what it holds, without quotes and blanks; `next` the separator or line end behind it. */
struct field {
    const char *start, *stop, *next;
    int quoted, doubled; /* see csv_place */
    int open;            /* the text ends within its quotes */
};

INLINE int is_blank(const struct csv *csv, char c)
{
    return (c == ' ' || c == '\t' || c == '\r') && c != csv->separator;
}

INLINE const char *skip_blanks(const struct csv *csv, const char *p)
{
    while (is_blank(csv, *p))
        p++;
    return p;
}

INLINE int at_line_end(const char *p, const char *end) { return *p == '\n' || p == end; }

INLINE int at_field_end(const struct csv *csv, const char *p, const char *end)
{
    return *p == csv->separator || at_line_end(p, end);
}

/* The separators and line ends among 64 bytes, a bit each. Lengths of words are as good as random, and a loop over their
   bytes mispredicts its end; so 64 bytes are looked at once, whatever fields they hold. */
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
        const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, separators), _mm_cmpeq_epi8(bytes, ends));
        bits |= (uint64_t)_mm_movemask_epi8(found) << i;
    }
#else
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(block[i] == separator || block[i] == '\n') << i;
#endif
    return bits;
}

INLINE const char *find_field_end(const struct csv *csv, struct marks *marks, const char *p, const char *end)
{
    /* The first separator or line end at p or behind it; `end` closes the last line. */
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

__attribute__((noinline)) static struct field quoted_field(struct csv *csv, const char *quote, const char *end)
{
    struct field field = {quote, end, end, 0, 0, 1};
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
    field.quoted = at_field_end(csv, field.next, end);
    if (field.quoted) {
        field.start = quote + 1;
        field.stop = p;
    } else { /* text behind the quotes: they belong to it */
        field.doubled = 0;
        field.stop = field.next = find_field_end(csv, &marks, field.next, end);
    }
    while (field.start < field.stop && is_any_blank(*field.start))
        field.start++;
    while (field.stop > field.start && is_any_blank(field.stop[-1]))
        field.stop--;
    return field;
}

INLINE struct field any_field(struct csv *csv, struct marks *marks, const char *p, const char *end)
{
    p = skip_blanks(csv, p);
    if (*p == '"')
        return quoted_field(csv, p, end);
    const char *next = find_field_end(csv, marks, p, end), *stop = next;
    while (stop > p && is_blank(csv, stop[-1]))
        stop--;
    return (struct field){p, stop, next, 0, 0, 0};
}

INLINE const char *number_field(const struct csv *csv, double *value, const char *p, const char *end)
{
    /* A field that is a number and cannot be a gap: returns the separator or line end behind it; or NULL. */
    p = skip_blanks(csv, p);
    const int quoted = *p == '"';
    if (quoted)
        p = skip_blanks(csv, p + 1);
    if (csv->gaps->lengths[(unsigned char)*p])
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
    return at_field_end(csv, p, end) ? p : NULL;
}

INLINE struct csv_place place_of(const struct csv *csv, const struct field *field, const char *text)
{
    return (struct csv_place){csv->row_line, field->start - text, field->stop - text, field->quoted, field->doubled};
}

INLINE int split_row(struct csv *csv, struct marks *marks, const char **line_end, struct csv_place *place, int most,
                     const char *row, const char *text, const char *end)
{
    /* The number of fields, or 0 if the text ends within quotes. */
    csv->breaks = 0;
    for (int n = 0;; row++) {
        const struct field field = any_field(csv, marks, row, end);
        if (field.open)
            return 0;
        if (n < most)
            place[n] = place_of(csv, &field, text);
        n++;
        row = field.next;
        if (at_line_end(row, end)) {
            *line_end = row;
            return n;
        }
    }
}

/* -- what a field is --------------------------------------------------------------------------------------- */

INLINE int is_gap(const struct csv_gaps *gaps, const char *start, const char *stop)
{
    const int64_t length = stop - start;
    if (length == 0)
        return gaps->empty;
    if (!(gaps->lengths[(unsigned char)*start] >> (length < 63 ? length : 63) & 1))
        return 0;
    for (int i = 0, from = 0; i < gaps->count; from = gaps->ends[i++])
        if (gaps->ends[i] - from == length && memcmp(gaps->text + from, start, (size_t)length) == 0)
            return 1;
    return 0;
}

static int is_word(const char *start, const char *stop, const char *word)
{
    /* in any case */
    while (start < stop && *word && (*start | 32) == *word)
        start++, word++;
    return start == stop && !*word;
}

INLINE int is_truth(const char *start, const char *stop)
{
    /* yes/no words: those of TRUTHS in nn/data/table_files.py */
    const int64_t length = stop - start;
    if (length > 5)
        return 0;
    switch (*start | 32) {
    case 't':
        return length == 1 || is_word(start, stop, "true");
    case 'f':
        return length == 1 || is_word(start, stop, "false");
    case 'y':
        return length == 1 || is_word(start, stop, "yes");
    case 'n':
        return length == 1 || is_word(start, stop, "no");
    default:
        return 0;
    }
}

static int is_not_finite(const char *start, const char *stop, char point)
{
    double value;
    if (parse_number(&value, start, stop, point) == stop)
        return !isfinite(value);
    start += start < stop && (*start == '-' || *start == '+');
    return is_word(start, stop, "nan") || is_word(start, stop, "inf") || is_word(start, stop, "infinity");
}

static int two_digits(const char *p) { return is_digit(p[0]) && is_digit(p[1]) ? 10 * (p[0] - '0') + p[1] - '0' : -1; }

static int64_t days_since_1970(int year, int month, int day)
{
    /* In the calendar of today, whose years are counted from March: the day of leap years comes last. */
    const int64_t y = year - (month <= 2), m = (month + 9) % 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static const char *calendar_day(int64_t *days, const char *p, const char *stop)
{
    /* YYYY-MM-DD or YYYY/MM/DD: returns what follows it, or NULL */
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (stop - p < 10 || (p[4] != '-' && p[4] != '/') || p[7] != p[4])
        return NULL;
    const int century = two_digits(p), rest = two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    if (century < 0 || rest < 0 || month < 1 || month > 12 || day < 1)
        return NULL;
    const int year = 100 * century + rest;
    const int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + (month == 2 && is_leap))
        return NULL;
    *days = days_since_1970(year, month, day);
    return p + 10;
}

static const char *time_of_day(double *seconds, const char *p, const char *stop)
{
    /* HH:MM, HH:MM:SS or HH:MM:SS.fff: returns what follows it, or NULL */
    if (stop - p < 5 || p[2] != ':')
        return NULL;
    const int hour = two_digits(p), minute = two_digits(p + 3);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return NULL;
    *seconds = 3600 * hour + 60 * minute;
    p += 5;
    if (p == stop || *p != ':')
        return p;
    if (stop - p < 3 || two_digits(p + 1) < 0 || two_digits(p + 1) > 59)
        return NULL;
    const char *first = p + 1;
    p += 3;
    if (p < stop && (*p == '.' || *p == ',')) {
        const char *point = p++;
        while (p < stop && is_digit(*p))
            p++;
        if (p == point + 1)
            return NULL;
    }
    uint64_t digits = 0;
    int places = 0;
    for (const char *c = first; c < p && places < 15; c++)
        if (is_digit(*c)) {
            digits = 10 * digits + (uint64_t)(*c - '0');
            places += c > first + 1;
        }
    *seconds += (double)digits / powers_of_ten[places];
    return p;
}

static const char *time_zone(double *seconds, const char *p, const char *stop)
{
    /* Z, +HH, +HHMM or +HH:MM, or nothing: takes it from the seconds; returns what follows it, or NULL */
    if (p == stop)
        return p;
    if (*p == 'Z' || *p == 'z')
        return p + 1;
    if ((*p != '+' && *p != '-') || stop - p < 3)
        return NULL;
    const int sign = *p == '+' ? 1 : -1, hours = two_digits(p + 1);
    int minutes = 0;
    p += 3;
    if (p < stop) {
        p += *p == ':';
        if (stop - p < 2)
            return NULL;
        minutes = two_digits(p);
        p += 2;
    }
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
        return NULL;
    *seconds -= sign * (3600.0 * hours + 60.0 * minutes);
    return p;
}

static int parse_date(double *seconds, const char *p, const char *stop)
{
    int64_t days = 0;
    double time = 0;
    p = calendar_day(&days, p, stop);
    if (p && p < stop) {
        if (*p != 'T' && *p != 't' && *p != ' ')
            return 0;
        p = time_of_day(&time, p + 1, stop);
        if (p)
            p = time_zone(&time, p < stop && *p == ' ' ? p + 1 : p, stop);
    }
    if (p != stop)
        return 0;
    *seconds = 86400.0 * (double)days + time;
    return 1;
}

int csv_date(double *seconds, const char *text, int64_t size) { return parse_date(seconds, text, text + size); }

/* -- words ------------------------------------------------------------------------------------------------- */

INLINE uint64_t few_bytes(const char *p, int64_t length, const char *limit)
{
    /* Up to 8 bytes as a number; memory may be read up to `limit`. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (limit - p >= 8) /* nearly always */
        return length ? eight_bytes(p) & ~(uint64_t)0 >> (64 - 8 * length) : 0;
#endif
    uint64_t bytes = 0;
    (void)limit;
    for (int64_t i = 0; i < length; i++)
        bytes |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return bytes;
}

INLINE uint64_t hash_of(const char *p, int64_t length, const char *limit)
{
    /* The last up to 16 bytes, which most words do not exceed, are taken at once. */
    const uint64_t factor = 0x9E3779B97F4A7C15, other_factor = 0xC2B2AE3D27D4EB4F;
    uint64_t hash = (uint64_t)length * other_factor;
    for (; length > 16; p += 8, length -= 8) {
        hash = (hash ^ eight_bytes(p)) * factor;
        hash ^= hash >> 32;
    }
    const int64_t first = length < 8 ? length : 8;
    hash = (hash ^ few_bytes(p, first, limit)) * factor + few_bytes(p + first, length - first, limit) * other_factor;
    return hash ^ hash >> 32;
}

INLINE int are_same(const char *a, const char *b, int64_t length, const char *limit_of_a, const char *limit_of_b)
{
    for (; length > 8; a += 8, b += 8, length -= 8)
        if (eight_bytes(a) != eight_bytes(b))
            return 0;
    return few_bytes(a, length, limit_of_a) == few_bytes(b, length, limit_of_b);
}

INLINE uint64_t find_place(const struct csv_words *words, uint64_t hash, const char *start, int64_t length,
                           const char *limit)
{
    /* The place in the table of a word, or the free one that it would take. */
    uint64_t at = hash & words->mask;
    for (uint64_t entry; (entry = words->table[at]); at = (at + 1) & words->mask) {
        const int64_t index = (int64_t)(entry & 0xFFFFFFFF) - 1;
        if (entry >> 32 != hash >> 32)
            continue;
        const int64_t from = index ? words->ends[index - 1] : 0;
        if (words->ends[index] - from == length &&
            are_same(words->text + from, start, length, words->text + words->size, limit))
            break;
    }
    return at;
}

static uint64_t entry_of(uint64_t hash, int index) { return (hash >> 32 << 32) | (uint64_t)(index + 1); }

void csv_index(struct csv_words *words)
{
    for (int i = 0; i < words->count; i++) {
        const int64_t from = i ? words->ends[i - 1] : 0, length = words->ends[i] - from;
        const char *start = words->text + from, *limit = words->text + words->size;
        const uint64_t hash = hash_of(start, length, limit);
        words->table[find_place(words, hash, start, length, limit)] = entry_of(hash, i);
    }
}

static int64_t undouble(char *to, const char *start, const char *stop)
{
    char *p = to;
    for (; start < stop; start++) {
        *p++ = *start;
        start += *start == '"' && start + 1 < stop && start[1] == '"';
    }
    return p - to;
}

INLINE int word_index(struct csv_words *words, const struct field *field, int64_t row, const char *limit)
{
    /* The index of a word, which is put there if it is new; -1 if there may be no room for it. */
    const char *start = field->start;
    int64_t length = field->stop - start;
    const int64_t used = words->count ? words->ends[words->count - 1] : 0;
    const int has_room = words->count < words->most && words->size - used >= length;
    if (!words->table || (field->doubled && !has_room))
        return -1;
    if (field->doubled) {
        length = undouble(words->text + used, start, field->stop);
        start = words->text + used;
        limit = words->text + words->size;
    }
    const uint64_t hash = hash_of(start, length, limit), at = find_place(words, hash, start, length, limit);
    if (words->table[at])
        return (int)(words->table[at] & 0xFFFFFFFF) - 1;
    if (!has_room)
        return -1;
    if (!field->doubled)
        memcpy(words->text + used, start, (size_t)length);
    words->ends[words->count] = used + length;
    words->table[at] = entry_of(hash, words->count);
    words->added_in = row;
    words->added_at = at;
    return words->count++;
}

static void forget_words(struct csv *csv)
{
    /* Those that the row has brought: its one word of each column was the last to come, so that no other word lies
       behind it in the table. */
    for (int i = 0; i < csv->texts; i++) {
        struct csv_words *words = &csv->words[i];
        if (words->count && words->added_in == csv->taken + 1) {
            words->count--;
            words->table[words->added_at] = 0;
            words->added_in = 0;
        }
    }
}

/* -- rows -------------------------------------------------------------------------------------------------- */

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
        if (result != CSV_OK || (is_last ? !at_line_end(p, end) : *p != csv->separator)) {
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
        const char *first = skip_blanks(csv, p);
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

/* -- facts ------------------------------------------------------------------------------------------------- */

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

int csv_split(struct csv *csv, struct csv_place *place, int most, const char *text, int64_t size)
{
    const char *line_end = text;
    struct marks marks = {NULL, 0};
    const int count = split_row(csv, &marks, &line_end, place, most, text, text, text + size);
    csv->used = line_end - text + (line_end < text + size);
    return count;
}
