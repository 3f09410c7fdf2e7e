
/* ---- program: rows of CSV on standard input become predictions on standard output ---- */

#ifdef NN_MAIN

#include <stdio.h>
#include <stdlib.h>
#if !HAS_WORDS
#include <string.h>
#endif

enum { MOST_BYTES = 1 << 20, MOST_FIELDS = 1 << 16 };               /* of a row */
enum { BAD_DATA = 65, NOT_READ_OR_WRITTEN = 74 };               /* exit status */

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

#include "program_rows.c"

#include "program_fields.c"

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
        return NOT_READ_OR_WRITTEN;
    }
    return 0;
}

#endif
