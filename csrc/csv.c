/* Reads CSV text into arrays in one pass, without locale, allocation or global state.

   Every double is the one nearest to the decimal number, ties to even, as Python's float() gives it.
   The line end or 0 byte that closes the text stops every loop over digits and blanks without a look at `end`. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv.h"

__extension__ typedef unsigned __int128 uint128;

enum { MAX_DIGITS = 800 }; /* 768 significant digits decide every rounding; the rest counts as «more than that» */

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

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
        if (*p == '.' || (n == 0 && *p == '0'))
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

static const char *parse_fraction(uint64_t *digits, const char *p, const char *end)
{
    /* digits = digits * 10^n + the n digits at p; returns what follows them. Fractions are long and of any length,
       so that a loop over digits costs a mispredicted branch or two: while there are eight bytes, all digits among
       them are taken at once. Bytes are joined to pairs, pairs to fours, fours to one number; fewer than eight
       digits are moved to the end, behind zeros. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    int n = 8;
    while (n == 8 && end - p >= 8) {
        uint64_t eight;
        memcpy(&eight, p, 8);
        const uint64_t others = ((eight + 0x4646464646464646) | (eight - 0x3030303030303030)) & 0x8080808080808080;
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

static const char *parse_number(double *value, const char *p, const char *end)
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
    if (*p == '.') {
        const char *point = p++;
        p = parse_fraction(&digits, p, end);
        exponent = point + 1 - p;
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
        for (const char *zero = first; zero < stop && (*zero == '0' || *zero == '.'); zero++)
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
    return parse_number(value, text, text + size) == text + size;
}

/* -- fields ------------------------------------------------------------------------------------------------ */

static const char *skip_blanks(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

static int at_line_end(const char *p, const char *end) { return *p == '\n' || p == end; }

static const char *number_field(double *value, const char *p, const char *end)
{
    /* A field that is a number, quotes and blanks around it or not: returns the comma or line end behind it; or NULL. */
    p = skip_blanks(p);
    const int quoted = *p == '"';
    if (quoted)
        p = skip_blanks(p + 1);
    p = parse_number(value, p, end);
    if (!p)
        return NULL;
    p = skip_blanks(p);
    if (quoted) {
        if (*p != '"')
            return NULL;
        p = skip_blanks(p + 1);
    }
    return *p == ',' || at_line_end(p, end) ? p : NULL;
}

static const char *text_field(const char **start, const char **stop, const char *p, const char *end)
{
    /* Any field: [start, stop) is what it holds, without quotes and blanks; returns the comma or line end behind it. */
    p = skip_blanks(p);
    if (*p == '"') {
        *start = skip_blanks(++p);
        while (!at_line_end(p, end) && !(*p == '"' && p[1] != '"'))
            p += *p == '"' ? 2 : 1; /* a doubled quote stands for one */
        *stop = p;
        while (*p != ',' && !at_line_end(p, end))
            p++;
    } else {
        *start = p;
        while (*p != ',' && !at_line_end(p, end))
            p++;
        *stop = p;
    }
    while (*stop > *start && is_blank((*stop)[-1]))
        (*stop)--;
    return p;
}

static int count_fields(const char *p, const char *end)
{
    const char *start, *stop;
    for (int n = 1;; n++) {
        p = text_field(&start, &stop, p, end);
        if (at_line_end(p, end))
            return n;
        p++;
    }
}

static int is_not_finite(const char *start, const char *stop)
{
    static const char *const words[] = {"nan", "inf", "infinity"};
    double value;
    if (parse_number(&value, start, stop) == stop)
        return !isfinite(value);
    if (start < stop && (*start == '-' || *start == '+'))
        start++;
    for (int w = 0; w < 3; w++) {
        int64_t i = 0;
        while (start + i < stop && words[w][i] && (start[i] | 32) == words[w][i])
            i++;
        if (start + i == stop && !words[w][i])
            return 1;
    }
    return 0;
}

static int name_index(struct csv *csv, const char *start, const char *stop)
{
    /* The place of a class name among those seen, put there if it is new; -1 if there is no room for it.
       A data set has few classes, so that a plain search is enough. */
    const int length = (int)(stop - start);
    int from = 0;
    for (int i = 0; i < csv->name_count; from = csv->name_ends[i], i++)
        if (csv->name_ends[i] - from == length && memcmp(csv->names + from, start, (size_t)length) == 0)
            return i;
    if (csv->name_count == csv->max_names || length > csv->names_size - from)
        return -1;
    memcpy(csv->names + from, start, (size_t)length);
    csv->name_ends[csv->name_count] = from + length;
    return csv->name_count++;
}

/* -- rows -------------------------------------------------------------------------------------------------- */

static enum csv_result store_input(struct csv *csv, int input, double value)
{
    const int64_t i = csv->rows * csv->inputs + input;
    if (value < csv->low[input])
        csv->low[input] = value;
    if (value > csv->high[input])
        csv->high[input] = value;
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

static enum csv_result read_field(struct csv *csv, int slot, const char **p, const char *text, const char *end)
{
    const char *start, *stop, *next = NULL;
    const int is_name = slot < 0 && csv->names;
    double value = 0;
    enum csv_result result = CSV_OK;
    if (slot < csv->columns && !is_name)
        next = number_field(&value, *p, end);
    if (next && isfinite(value)) { /* nearly always */
        if (slot < 0)
            csv->y[csv->rows * csv->targets - 1 - slot] = value;
        else
            result = store_input(csv, slot, value);
        if (result == CSV_OK) {
            *p = next;
            return CSV_OK;
        }
    }
    next = text_field(&start, &stop, *p, end);
    *p = next;
    csv->start = start - text;
    csv->stop = stop - text;
    if (slot >= csv->columns || result != CSV_OK)
        return result;
    if (start == stop)
        return CSV_EMPTY;
    if (is_not_finite(start, stop))
        return CSV_NOT_FINITE;
    if (!is_name)
        return CSV_TEXT;
    const int index = name_index(csv, start, stop);
    if (index < 0)
        return CSV_TOO_MANY_NAMES;
    csv->y[csv->rows * csv->targets - 1 - slot] = index;
    return CSV_OK;
}

static enum csv_result read_row(struct csv *csv, const char **line_end, const char *line, const char *text,
                                const char *end)
{
    const char *p = line;
    for (int column = 0; column < csv->columns; column++, p++) {
        const enum csv_result result = read_field(csv, csv->slots[column], &p, text, end);
        const int is_last = column == csv->columns - 1;
        if (result != CSV_OK || (is_last ? !at_line_end(p, end) : *p != ',')) {
            csv->column = column;
            csv->found = count_fields(line, end); /* too many or too few fields explain most other failures */
            return csv->found != csv->columns ? CSV_RAGGED : result;
        }
    }
    *line_end = p - 1;
    return CSV_OK;
}

static const char *next_row(struct csv *csv, const char *p, const char *end)
{
    /* Where the next row begins, behind lines that hold none; NULL at the end of the text. */
    while (p < end) {
        const char *first = skip_blanks(p);
        const int is_above = csv->line + 1 < csv->first_line;
        if (!is_above && !at_line_end(first, end))
            return p;
        while (!at_line_end(first, end))
            first++;
        csv->line++;
        p = first < end ? first + 1 : end;
    }
    return NULL;
}

static const char *end_row(struct csv *csv, const char *line_end, const char *end)
{
    /* Count the row that ends there; returns where the next line begins. */
    csv->rows++;
    csv->line++;
    return line_end < end ? line_end + 1 : end;
}

enum csv_result csv_read(struct csv *csv, const char *text, int64_t size)
{
    const char *p = text, *end = text + size, *row;
    enum csv_result result = CSV_OK;
    while ((row = next_row(csv, p, end))) {
        const char *line_end = row;
        p = row;
        if (csv->rows == csv->capacity) {
            result = CSV_FULL;
            break;
        }
        csv->row_line = csv->line + 1;
        result = read_row(csv, &line_end, row, text, end);
        if (result != CSV_OK)
            break;
        p = end_row(csv, line_end, end);
    }
    csv->used = row ? p - text : size;
    return result;
}

/* -- facts ------------------------------------------------------------------------------------------------- */

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

static int is_gap(const struct csv_gaps *gaps, const char *start, const char *stop)
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

static int is_truth(const char *start, const char *stop)
{
    /* yes/no words, in any case: those of TRUTHS in nn/data/table_files.py */
    static const char *const words[] = {"true", "yes", "y", "t", "false", "no", "n", "f"};
    const int64_t length = stop - start;
    for (int w = 0; length <= 5 && w < 8; w++) {
        int64_t i = 0;
        while (i < length && (start[i] | 32) == words[w][i])
            i++;
        if (i == length && !words[w][i])
            return 1;
    }
    return 0;
}

static int is_finite_number(int *is_infinite, const char *start, const char *stop)
{
    double value;
    if (parse_number(&value, start, stop) == stop) {
        *is_infinite = !isfinite(value);
        return !*is_infinite;
    }
    const int is_signed = *start == '-' || *start == '+';
    *is_infinite = (start[is_signed] | 32) == 'i' && is_not_finite(start, stop);
    return 0;
}

static void note(struct csv_place *place, const struct csv_place *found)
{
    if (!place->line)
        *place = *found;
}

static void count_field(struct csv_facts *facts, const struct csv_gaps *gaps, const char *text,
                        const struct csv_place *field)
{
    const char *start = text + field->start, *stop = text + field->stop;
    double seconds;
    int is_infinite = 0;
    if (is_gap(gaps, start, stop)) {
        facts->gaps++;
        return;
    }
    if (start < stop && is_finite_number(&is_infinite, start, stop)) {
        facts->numbers++;
        note(&facts->not_date, field);
        return;
    }
    note(&facts->not_number, field);
    if (parse_date(&seconds, start, stop)) {
        facts->dates++;
        return;
    }
    note(&facts->not_date, field);
    if (is_infinite)
        note(&facts->infinite, field);
    if (start < stop && is_truth(start, stop))
        facts->truths++;
    else
        facts->texts++;
}

enum csv_result csv_count(struct csv *csv, struct csv_facts *facts, const struct csv_gaps *gaps, const char *text,
                          int64_t size)
{
    const char *p = text, *end = text + size, *row, *start, *stop;
    csv->used = 0;
    while (csv->rows < csv->capacity && (row = next_row(csv, p, end))) {
        csv->row_line = csv->line + 1;
        csv->found = count_fields(row, end);
        if (csv->found != csv->columns)
            return CSV_RAGGED;
        p = row - 1;
        for (int column = 0; column < csv->columns; column++) {
            p = text_field(&start, &stop, p + 1, end);
            const struct csv_place field = {csv->row_line, start - text, stop - text, 1};
            count_field(&facts[column], gaps, text, &field);
        }
        p = end_row(csv, p, end);
    }
    csv->used = p - text;
    return csv->rows < csv->capacity ? CSV_OK : CSV_FULL;
}
