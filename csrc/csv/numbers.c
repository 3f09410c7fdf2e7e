/* Decimal numbers to doubles. Every double is the one nearest to the decimal number, ties to
 * even, as Python's float() gives it. */
#include "internal.h"

/* 768 significant digits decide every rounding; the rest counts as «more than that» */
enum { MAX_DIGITS = 800 };

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double double_of_bits(uint128 bits, int sticky, int exponent)
{
    /* (bits, and a little more if sticky) * 2^exponent, for results far from overflow and
     * underflow. The sticky bit lies below the half that decides the rounding of 64 bits to 53,
     * so that the conversion rounds right. */
    while (bits >> 64) {
        sticky |= (int)(bits & 1);
        bits >>= 1;
        exponent++;
    }
    return ldexp((double)((uint64_t)bits | (uint64_t)sticky), exponent);
}

static double exact_quotient(uint64_t digits, int power)
{
    /* digits / 10^power, 0 < digits, 0 < power <= 27: 5^27 has 63 bits, so that the quotient
     * keeps at least 65 */
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
    /* The number with the digits of [p, stop), one point among them perhaps, as an integer, *
     * 10^exponent.
     * strtod gets no decimal point, so that the locale cannot matter. */
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
    /* digits = digits * 10^n + the n digits at p; returns what follows them. Fractions are long
     * and of any length, so that a loop over digits costs a mispredicted branch or two: while
     * there are eight bytes, all digits among them are taken at once. Bytes are joined to pairs,
     * pairs to fours, fours to one number; fewer than eight digits are moved to the end, behind
     * zeros. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t powers[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
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
    /* Returns what follows the number at p, or NULL if there is none; the text ends at `end`.
     * Signs are as good as random and cost no branch. */
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
    /* both exact, hence one rounding */
    else if (digits >> 53 == 0 && exponent >= -22 && exponent <= 22)
        v = exponent < 0 ? (double)digits / powers_of_ten[-exponent]
                         : (double)digits * powers_of_ten[exponent];
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
