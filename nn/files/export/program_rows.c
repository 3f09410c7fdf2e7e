/* ---- rows ---- */

/* Where blanks separate fields, tabs do too, and several of them are one separator. */
static int separates(const reader *r, char c) { return c == r->separator || (c == '\t' && r->separator == ' '); }

static int is_blank(const reader *r, char c) { return (c == ' ' || c == '\t' || c == '\r') && !separates(r, c); }

static int ends_field(const reader *r, const char *p) { return separates(r, *p) || p == r->text + r->length; }

/* Where a field begins, from p on. */
static char *field_start(const reader *r, char *p)
{
    while (p < r->text + r->length && (is_blank(r, *p) || (r->separator == ' ' && separates(r, *p))))
        p++;
    return p;
}

/* The separator or the end behind a field that ends at p. */
static char *behind_field(const reader *r, char *p)
{
    char *next = field_start(r, p);
    return r->separator == ' ' && next == r->text + r->length ? next : p;
}

/* The next byte, EOF at the end of the input; a row that is cut by a failure would be read as another number. */
static int next_byte(void)
{
    int c = getchar();
    if (c == EOF && ferror(stdin)) {
        fputs("standard input: cannot read\n", stderr);
        exit(NOT_READ_OR_WRITTEN);
    }
    return c;
}

/* Adds a line to the text; returns 0 at the end of the input. */
static int read_line(reader *r)
{
    int c = next_byte();
    if (c == EOF)
        return 0;
    for (r->lines++; c != EOF && c != '\n'; c = next_byte()) {
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
    *next = behind_field(r, q);
    return f;
}

static field next_field(reader *r, char *p, char **next)
{
    field f = {p, p, 0};
    p = field_start(r, p);
    if (*p == '"') {
        f = quoted_field(r, p, next);
    } else {
        f.start = p;
        while (!ends_field(r, p))
            p++;
        f.stop = p, *next = behind_field(r, p);
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

static int is_blank_row(reader *r)
{
    return field_start(r, r->text) == r->text + r->length;
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
