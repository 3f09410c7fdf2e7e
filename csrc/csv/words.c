/* Words: those for a gap, and the different words of a column, in a hash table. uses: numbers.c,
 * fields.c */
#include "internal.h"

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

INLINE double unless_gap(const struct csv_gaps *gaps, double value)
{
    /* A number, nan where a word for a gap is the same number, written as it may be. */
    for (int i = 0; i < gaps->number_count; i++)
        if (value == gaps->numbers[i])
            return NAN;
    return value;
}

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
    hash = (hash ^ few_bytes(p, first, limit)) * factor +
           few_bytes(p + first, length - first, limit) * other_factor;
    return hash ^ hash >> 32;
}

INLINE int are_same(const char *a, const char *b, int64_t length, const char *limit_of_a,
                    const char *limit_of_b)
{
    for (; length > 8; a += 8, b += 8, length -= 8)
        if (eight_bytes(a) != eight_bytes(b))
            return 0;
    return few_bytes(a, length, limit_of_a) == few_bytes(b, length, limit_of_b);
}

INLINE uint64_t find_place(const struct csv_words *words, uint64_t hash, const char *start,
                           int64_t length, const char *limit)
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

static uint64_t entry_of(uint64_t hash, int index)
{ return (hash >> 32 << 32) | (uint64_t)(index + 1); }

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

INLINE int word_index(struct csv_words *words, const struct field *field, const char *limit)
{
    /* The index of a word, which is put there if it is new; -1 if there may be no room for it. */
    const char *start = field->start;
    int64_t length = field->stop - start;
    const int64_t used = words->count ? words->ends[words->count - 1] : 0;
    const int has_bytes = words->size - used >= length;
    if (!words->table || (field->doubled && !has_bytes))
        return -1;
    if (field->doubled) {
        length = undouble(words->text + used, start, field->stop);
        start = words->text + used;
        limit = words->text + words->size;
    }
    const uint64_t hash = hash_of(start, length, limit),
                   at = find_place(words, hash, start, length, limit);
    if (words->table[at])
        return (int)(words->table[at] & 0xFFFFFFFF) - 1;
    if (!has_bytes || words->count == words->most)
        return -1;
    if (!field->doubled)
        memcpy(words->text + used, start, (size_t)length);
    words->ends[words->count] = used + length;
    words->table[at] = entry_of(hash, words->count);
    return words->count++;
}

INLINE void count_row(struct csv_words *words, int index, int64_t row)
{
    /* Counts a row of a word. A row that is read again, from its front, is counted once. */
    words->rows[index] += words->last != row;
    words->last = row;
}

static int count_odd(struct csv_words *words, const struct field *field, int64_t row,
                     const char *limit)
{
    /* 0 if there may be no room for the word. */
    int index = word_index(words, field, limit);
    if (index < 0 && (!words->rows || words->count < words->limit))
        return 0;
    index = index < 0 ? words->most : index;
    if (!words->rows[index])
        words->first[index] = row;
    count_row(words, index, row);
    return 1;
}
