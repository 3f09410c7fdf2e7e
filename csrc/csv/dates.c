/* Dates and times in ISO 8601. uses: numbers.c */
#include "internal.h"

static int two_digits(const char *p)
{ return is_digit(p[0]) && is_digit(p[1]) ? 10 * (p[0] - '0') + p[1] - '0' : -1; }

static int64_t days_since_1970(int year, int month, int day)
{
    /* In the calendar of today, whose years are counted from March: the day of leap years comes
     * last. */
    const int64_t y = year - (month <= 2), m = (month + 9) % 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static const char *calendar_day(int64_t *days, const char *p, const char *stop)
{
    /* YYYY-MM-DD or YYYY/MM/DD: returns what follows it, or NULL */
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (stop - p < 10 || (p[4] != '-' && p[4] != '/') || p[7] != p[4])
        return NULL;
    const int century = two_digits(p), rest = two_digits(p + 2), month = two_digits(p + 5),
              day = two_digits(p + 8);
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
    /* Z, +HH, +HHMM or +HH:MM, or nothing: takes it from the seconds; returns what follows it,
     * or NULL */
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

int csv_date(double *seconds, const char *text, int64_t size)
{ return parse_date(seconds, text, text + size); }
