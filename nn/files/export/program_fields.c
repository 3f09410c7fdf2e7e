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
