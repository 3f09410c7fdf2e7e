
/* ---- program: rows of CSV on standard input become predictions on standard output ---- */

#ifdef NN_MAIN

#include <stdio.h>
#include <stdlib.h>
#if !HAS_WORDS
#include <string.h>
#endif

enum { MOST_BYTES = 1 << 20, MOST_FIELDS = 1 << 16, BAD_DATA = 65 };    /* of a row; exit status */

/*@program_constants*/

/* What a row holds between two separators, without quotes and blanks around it. */
typedef struct {
    char *start, *stop;
    int doubled;                                /* a quote within is written twice */
} field;

typedef struct {
    char text[MOST_BYTES];                      /* of the row */
    size_t length;
    field fields[MOST_FIELDS];
    int count, width;                           /* of this row, of every row */
    int place[NN_INPUTS];                       /* of each input among the fields */
    char separator;
    long line, lines;                           /* where the row begins; lines that were read */
} reader;

/* ---- failures ---- */

static void print_column(FILE *to, int input)
{
#if HAS_NAMES
    fprintf(to, "column %s", columns[input]);
#else
    fprintf(to, "column %d of %d", input + 1, NN_INPUTS);
#endif
}

static void fail(const reader *r, const char *what)
{
    fprintf(stderr, "row %ld: found %s\n", r->line, what);
    exit(BAD_DATA);
}

static void fail_at(const reader *r, int input, const field *f, const char *expected)
{
    const char *p;
    fprintf(stderr, "row %ld, ", r->line);
    print_column(stderr, input);
    fputs(f->start == f->stop ? ": found an empty field" : ": found \"", stderr);
    for (p = f->start; p < f->stop && p - f->start < 40; p++)
        fputc((unsigned char)*p < ' ' ? '?' : *p, stderr);
    fprintf(stderr, "%s, expected %s\n", f->start == f->stop ? "" : p < f->stop ? "...\"" : "\"", expected);
    exit(BAD_DATA);
}

/* ---- rows ---- */

static int is_blank(const reader *r, char c) { return (c == ' ' || c == '\t' || c == '\r') && c != r->separator; }

static int ends_field(const reader *r, const char *p) { return *p == r->separator || p == r->text + r->length; }

/* Adds a line to the text; returns 0 at the end of the input. */
static int read_line(reader *r)
{
    int c = getchar();
    if (c == EOF)
        return 0;
    for (r->lines++; c != EOF && c != '\n'; c = getchar()) {
        if (r->length + 2 >= MOST_BYTES)
            fail(r, "more than a million bytes, expected a row");
        r->text[r->length++] = (char)c;
    }
    if (r->lines == 1 && r->length >= 3 && memcmp(r->text, "\357\273\277", 3) == 0)     /* a byte order mark */
        memmove(r->text, r->text + 3, r->length -= 3);
    r->text[r->length] = '\0';
    return 1;
}

/* A field that begins with a quote, which is at p; start is NULL while quotes are open. */
static field quoted_field(reader *r, char *p, char **next)
{
    field f = {p + 1, NULL, 0};
    char *q = p + 1, *end = r->text + r->length;
    for (; q < end && (*q != '"' || (q + 1 < end && q[1] == '"')); q++)
        if (*q == '"')
            f.doubled = 1, q++;
    f.stop = q;
    if (q == end) {
        f.start = NULL;
        return f;
    }
    for (q++; q < end && is_blank(r, *q);)
        q++;
    if (!ends_field(r, q)) {                    /* text follows: the quotes belong to it */
        while (!ends_field(r, q))
            q++;
        f.start = p, f.stop = q, f.doubled = 0;
    }
    *next = q;
    return f;
}

static field next_field(reader *r, char *p, char **next)
{
    field f = {p, p, 0};
    while (!ends_field(r, p) && is_blank(r, *p))
        p++;
    if (*p == '"') {
        f = quoted_field(r, p, next);
    } else {
        f.start = p;
        while (!ends_field(r, p))
            p++;
        f.stop = *next = p;
    }
    if (!f.start)
        return f;
    while (f.start < f.stop && (is_blank(r, *f.start) || *f.start == '\n'))
        f.start++;
    while (f.stop > f.start && (is_blank(r, f.stop[-1]) || f.stop[-1] == '\n'))
        f.stop--;
    return f;
}

/* Cuts the text into fields; returns 0 while quotes are open. */
static int split(reader *r)
{
    char *p = r->text;
    for (r->count = 0;; p++) {
        if (r->count == MOST_FIELDS)
            fail(r, "more than 65536 fields, expected a row");
        r->fields[r->count] = next_field(r, p, &p);
        if (!r->fields[r->count++].start)
            return 0;
        if (p == r->text + r->length)
            return 1;
    }
}

static int is_blank_row(const reader *r)
{
    size_t i = 0;
    while (i < r->length && is_blank(r, r->text[i]))
        i++;
    return i == r->length;
}

/* Reads the next row that is not blank and cuts it into fields; returns 0 at the end of the input. */
static int next_row(reader *r)
{
    do {
        r->length = 0;
        if (!read_line(r))
            return 0;
    } while (is_blank_row(r));
    r->line = r->lines;
    while (!split(r)) {
        r->text[r->length++] = '\n';
        if (!read_line(r))
            fail(r, "a field that begins with \" and no other \" that ends it, expected a pair");
    }
    return 1;
}

/* ---- fields ---- */

#if HAS_WORDS || HAS_NAMES
static size_t undoubled(field *f)
{
    char *to = f->start, *from = f->start;
    for (; f->doubled && from < f->stop; from++) {
        *to++ = *from;
        from += *from == '"' && from + 1 < f->stop && from[1] == '"';
    }
    if (f->doubled)
        f->stop = to, f->doubled = 0;
    return (size_t)(f->stop - f->start);
}

#endif
#if HAS_GAPS
static int is_gap_field(const field *f)
{
    const size_t length = (size_t)(f->stop - f->start);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (strlen(gaps[i]) == length && memcmp(f->start, gaps[i], length) == 0)
            return 1;
    return 0;
}

#endif
static char *after_digits(char *p, const char *stop)
{
    while (p < stop && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Whether a field is a decimal number; *point is where its point is, or a comma where separators are others. */
static int is_number(const reader *r, const field *f, char **point)
{
    char *p = f->start + (f->start < f->stop && (*f->start == '-' || *f->start == '+')), *first = p;
    long digits;
    p = after_digits(p, f->stop);
    digits = (long)(p - first);
    *point = NULL;
    if (p < f->stop && (*p == '.' || (*p == ',' && r->separator != ','))) {
        *point = p;
        p = after_digits(p + 1, f->stop);
        digits += (long)(p - *point) - 1;
    }
    if (digits && p < f->stop && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < f->stop && (*p == '-' || *p == '+');
        if (after_digits(p, f->stop) == p)
            return 0;
        p = after_digits(p, f->stop);
    }
    return digits && p == f->stop;
}

static double number_of(const reader *r, int input, field *f)
{
    char *point;
    double value;
    if (!is_number(r, f, &point))
        fail_at(r, input, f, "a number");
    if (point)
        *point = '.';
    *f->stop = '\0';                            /* the separator has been read */
    value = strtod(f->start, NULL);
#if HAS_BYTES
    if (!(value >= 0 && value <= 255 && value == floor(value)))
        fail_at(r, input, f, "a byte, 0 to 255");
#endif
    if (!(fabs(value) <= MOST))
        fail_at(r, input, f, "a smaller number");
    return value;
}

#if HAS_DATES
/* A number of two digits, -1 if there is none. */
static int two_digits(const char *p)
{
    return p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9' ? 10 * (p[0] - '0') + p[1] - '0' : -1;
}

/* Days since 1970 of YYYY-MM-DD or YYYY/MM/DD; years are counted from March, so that the day of leap years is last. */
static const char *read_day(double *days, const char *p, const char *stop)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int century, rest_of_year, month, day, year, is_leap;
    long y;
    if (stop - p < 10 || (p[4] != '-' && p[4] != '/') || p[7] != p[4])
        return NULL;
    century = two_digits(p), rest_of_year = two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8);
    if (century < 0 || rest_of_year < 0 || month < 1 || month > 12 || day < 1)
        return NULL;
    year = 100 * century + rest_of_year;
    is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + (month == 2 && is_leap))
        return NULL;
    y = year - (month <= 2);
    *days = (double)(365 * y + y / 4 - y / 100 + y / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day - 1 - 719468);
    return p + 10;
}

/* Seconds of HH:MM, HH:MM:SS or HH:MM:SS.fff */
static const char *read_time(double *seconds, const char *p, const char *stop)
{
    int hour, minute, decimals = 0;
    double digits = 0, power = 1;
    if (stop - p < 5 || p[2] != ':')
        return NULL;
    hour = two_digits(p), minute = two_digits(p + 3);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return NULL;
    *seconds = 3600 * hour + 60 * minute;
    p += 5;
    if (p == stop || *p != ':')
        return p;
    if (stop - p < 3 || two_digits(p + 1) < 0 || two_digits(p + 1) > 59)
        return NULL;
    digits = two_digits(p + 1);
    p += 3;
    if (p < stop && (*p == '.' || *p == ',')) {
        const char *first = ++p;
        for (; p < stop && *p >= '0' && *p <= '9'; p++)
            if (decimals < 13)
                digits = 10 * digits + (*p - '0'), power *= 10, decimals++;
        if (p == first)
            return NULL;
    }
    *seconds += digits / power;
    return p;
}

/* Takes Z, +HH, +HHMM or +HH:MM, if there is one, from the seconds. */
static const char *read_zone(double *seconds, const char *p, const char *stop)
{
    int sign, hours, minutes = 0;
    if (p == stop)
        return p;
    if (*p == 'Z' || *p == 'z')
        return p + 1;
    if ((*p != '+' && *p != '-') || stop - p < 3)
        return NULL;
    sign = *p == '+' ? 1 : -1, hours = two_digits(p + 1);
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

static int read_date(double *seconds, const char *p, const char *stop)
{
    double days = 0, time = 0;
    p = read_day(&days, p, stop);
    if (p && p < stop) {
        if (*p != 'T' && *p != 't' && *p != ' ')
            return 0;
        p = read_time(&time, p + 1, stop);
        if (p)
            p = read_zone(&time, p < stop && *p == ' ' ? p + 1 : p, stop);
    }
    *seconds = 86400 * days + time;
    return p == stop;
}

#endif
static double value_of(const reader *r, int input, field *f)
{
#if HAS_DATES
    double seconds = 0;
#endif
#if HAS_WORDS
    if (reads[input] == 'w') {
        const size_t length = undoubled(f);
        return code_of(input, f->start, length);
    }
#endif
#if HAS_GAPS
    if (is_gap_field(f))
        return NAN;
#endif
#if HAS_DATES
    if (reads[input] == 'd') {
        if (!read_date(&seconds, f->start, f->stop))
            fail_at(r, input, f, "a date such as 2024-12-31 or 2024-12-31 23:59");
        return seconds;
    }
#endif
    return number_of(r, input, f);
}

/* ---- columns ---- */

#if HAS_NAMES
/* Finds each input by its name in the first row; returns whether all are there. */
static int find_names(reader *r)
{
    int i;
    for (int input = 0; input < NN_INPUTS; input++) {
        for (i = 0; i < r->count; i++) {
            field *f = &r->fields[i];
            const size_t length = undoubled(f);
            if (strlen(columns[input]) == length && memcmp(columns[input], f->start, length) == 0)
                break;
        }
        if (i == r->count)
            return 0;
        r->place[input] = i;
    }
    return 1;
}
#else
/* Whether the first row names columns: none of its fields where numbers belong is one. */
static int has_header(const reader *r)
{
    int others = 0;
    char *point;
    for (int input = 0; input < NN_INPUTS; input++) {
        const field *f = &r->fields[r->place[input]];
#if HAS_WORDS || HAS_DATES
        if (reads[input] != 'n')
            continue;
#endif
#if HAS_GAPS
        if (is_gap_field(f))
            return 0;
#endif
        if (is_number(r, f, &point))
            return 0;
        others++;
    }
    return others > 0;
}
#endif

/* Finds each input by its place: as in the training's file, or in a file of the inputs alone. */
static int find_places(reader *r)
{
#if HAS_PLACES
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (r->count == widths[i]) {
            memcpy(r->place, places, sizeof places);
            return 1;
        }
#endif
    for (int input = 0; input < NN_INPUTS; input++)
        r->place[input] = input;
    return r->count == NN_INPUTS;
}

/* Finds separator and columns by the first row; returns whether it is one of names. */
static int find_columns(reader *r)
{
    const char *separator;
#if HAS_NAMES
    for (separator = separators; *separator; separator++) {
        r->separator = *separator;
        if (split(r) && find_names(r)) {
            r->width = r->count;
            return 1;
        }
    }
#endif
    for (separator = separators; *separator; separator++) {
        r->separator = *separator;
        if (split(r) && find_places(r)) {
            r->width = r->count;
#if HAS_NAMES
            return 0;
#else
            return has_header(r);
#endif
        }
    }
    r->separator = separators[0];
    split(r);
    fprintf(stderr, "row %ld: found %d columns, expected %d, the inputs", r->line, r->count, NN_INPUTS);
#if HAS_PLACES
    fprintf(stderr, ", or %d as in training", widths[0]);
#endif
    fputc('\n', stderr);
    exit(BAD_DATA);
}

/* ---- output ---- */

#if HAS_FLOAT64
/* The shortest decimal that gives the number back. */
static void print_number(double value)
{
    char text[40];
    int digits = 0, exponent;
    do
        snprintf(text, sizeof text, "%.*e", digits, value);
    while (strtod(text, NULL) != value && digits++ < 16);
    exponent = atoi(strchr(text, 'e') ? strchr(text, 'e') + 1 : "0");
    if (value - value != 0 || exponent < -4 || exponent >= 16)
        printf("%s", text);
    else
        printf("%.*f", digits > exponent ? digits - exponent : 1, value);
}
#else
static void print_number(double value) { printf("%.9g", value); }
#endif

static void print_text(const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void print_prediction(long number, const nn_real *out)
{
    printf("%ld", number);
#if HAS_CLASSES
    putchar(',');
    print_text(nn_class_name(nn_class(out)));
#endif
    for (int k = 0; k < NN_OUTPUTS; k++) {
        putchar(',');
        print_number(out[k]);
    }
    putchar('\n');
}

static void predict_row(reader *r, long number)
{
#if HAS_DOUBLE_ROWS
    static double row[NN_INPUTS];
#else
    static nn_real row[NN_INPUTS];
#endif
    nn_real out[NN_OUTPUTS];
    if (r->count != r->width) {
        fprintf(stderr, "row %ld: found %d columns, expected %d as in the first row\n", r->line, r->count, r->width);
        exit(BAD_DATA);
    }
    for (int input = 0; input < NN_INPUTS; input++)
#if HAS_DOUBLE_ROWS
        row[input] = value_of(r, input, &r->fields[r->place[input]]);
#else
        row[input] = (nn_real)value_of(r, input, &r->fields[r->place[input]]);
#endif
#if HAS_DOUBLE_ROWS
    nn_predict_double(row, out);
#else
    nn_predict(row, out);
#endif
    print_prediction(number, out);
}

int main(void)
{
    static reader r;
    long number = 0;
    int more;
    r.separator = separators[0];
    r.line = 1;
    if (!next_row(&r))
        fail(&r, "no rows, expected CSV on standard input");
    more = find_columns(&r) ? next_row(&r) : 1;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (i)
            putchar(',');
        print_text(heads[i]);
    }
    putchar('\n');
    for (; more; more = next_row(&r))
        predict_row(&r, number++);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("standard output: cannot write\n", stderr);
        return 74;
    }
    return 0;
}

#endif
