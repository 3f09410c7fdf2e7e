#if HAS_WORDS

/* ---- words ---- */

/* Returns less than 0, 0 or more as a word comes before a known one, is it, or comes after it. */
static int compare(const char *word, size_t length, const char *known, int any_case)
{
    for (size_t i = 0; i < length; i++) {
        const int k = (unsigned char)known[i];
        int c = (unsigned char)word[i];
        if (any_case && c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (c != k || !k)
            return c < k ? -1 : 1;
    }
    return known[length] ? -1 : 0;
}

/* Returns the place of a word, -1 if it is not there. */
static int find(const vocabulary *v, const char *word, size_t length)
{
    int low = 0, high = v->count;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = compare(word, length, v->words[middle], v->any_case);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* Returns the length of a decimal such as 1.50 without the zeros at its end, and without a point there. */
static size_t shortest(const char *word, size_t length)
{
    const size_t first = length && word[0] == '-';
    size_t i = first, point;
    while (i < length && word[i] >= '0' && word[i] <= '9')
        i++;
    point = i;
    if (point == first || (word[first] == '0' && point > first + 1) || point + 1 >= length || word[point] != '.')
        return length;
    for (i = point + 1; i < length; i++)
        if (word[i] < '0' || word[i] > '9')
            return length;
    while (word[length - 1] == '0')
        length--;
    return length - (word[length - 1] == '.');
}

static int is_gap(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (compare(word, length, gaps[i], 0) == 0)
            return 1;
    return 0;
}

static int code_of(int column, const char *word, size_t length)
{
    const vocabulary *v = &vocabularies[column];
    int code = is_gap(word, length) ? v->count + 1 : find(v, word, length);
    if (code < 0)
        code = find(v, word, shortest(word, length));
    return code < 0 ? v->count : code;
}

int nn_code(int column, const char *word)
{
    if (column < 0 || column >= NN_INPUTS || !vocabularies[column].words)
        return -1;
    return code_of(column, word, strlen(word));
}
#endif
