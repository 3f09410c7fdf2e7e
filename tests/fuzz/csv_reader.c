/* libFuzzer's harness of the C reader of CSV: text of strangers, in memory that ends where the text ends.

   The first two bytes choose separator, point, type and what becomes of the columns. The text is taken apart and read as
   Python does it: rows go on in blocks of three, words get more room when they ask for it. */
#include <stddef.h>
#include <stdint.h>

#include "csv.c"

enum { MOST_COLUMNS = 64, BLOCK_ROWS = 3, MOST_WORDS = 50 };

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static void *zeros(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    check(memory != NULL);
    return memory;
}

struct gap_words {
    struct csv_gaps gaps;
    int ends[3];
    uint64_t lengths[256];
};

static void fill_gaps(struct gap_words *words, int are_known)
{
    static const char text[] = "?NAnan";
    static const int ends[] = {1, 3, 6};
    memset(words, 0, sizeof *words);
    words->gaps = (struct csv_gaps){text, ends, are_known ? 3 : 0, words->lengths, are_known};
    for (int i = 0, from = 0; i < words->gaps.count; from = ends[i++])
        words->lengths[(unsigned char)text[from]] |= (uint64_t)1 << (ends[i] - from);
}

static int make_room(struct csv_words *words, int64_t length, int are_odd)
{
    /* as _Words.make_room in nn/data/csv_reader.py, in small steps */
    words->limit = MOST_WORDS;
    if (words->count == MOST_WORDS)
        return 0;
    const int64_t used = words->count ? words->ends[words->count - 1] : 0;
    if (words->count == words->most) {
        words->most = words->count + 4 < MOST_WORDS ? words->count + 4 : MOST_WORDS;
        words->ends = realloc(words->ends, (size_t)words->most * sizeof *words->ends);
        struct csv_odd *odd = are_odd ? zeros((size_t)words->most + 1, sizeof *odd) : NULL;
        if (odd && words->odd)
            memcpy(odd, words->odd, (size_t)words->count * sizeof *odd);
        free(words->odd);
        words->odd = odd;
    }
    if (words->size - used < length || !words->text) {
        words->size = used + length;
        words->text = realloc(words->text, (size_t)words->size + !words->size);
    }
    if (words->mask < 2 * (uint64_t)words->most) {
        for (words->mask = 1; words->mask < 2 * (uint64_t)words->most;)
            words->mask = 2 * words->mask + 1;
        free(words->table);
        words->table = zeros(words->mask + 1, sizeof *words->table);
        csv_index(words);
    }
    return 1;
}

static void free_words(struct csv_words *words)
{
    free(words->text);
    free(words->ends);
    free(words->odd);
    free(words->table);
}

static void assign_roles(struct csv *csv, struct csv_column *roles, unsigned kinds)
{
    int *counts[] = {NULL, &csv->numbers, &csv->apart, &csv->apart, &csv->texts, &csv->texts};
    for (int i = 0; i < csv->columns; i++) {
        const int role = (int)((kinds >> i % 8) + (unsigned)i) % 6;
        roles[i] = (struct csv_column){role, role ? (*counts[role])++ : 0};
    }
    for (int i = 0; i < csv->columns; i++)
        roles[i].slot += roles[i].role == CSV_EXACT || roles[i].role == CSV_DATE ? csv->numbers : 0;
    csv->roles = roles;
}

static void new_block(struct csv *csv)
{
    free(csv->matrix), free(csv->doubles), free(csv->codes);
    csv->matrix = zeros((size_t)(BLOCK_ROWS * csv->numbers), csv->is_double ? 8 : 4);
    csv->doubles = zeros((size_t)(BLOCK_ROWS * csv->apart), sizeof *csv->doubles);
    csv->codes = zeros((size_t)(BLOCK_ROWS * csv->texts), sizeof *csv->codes);
    csv->rows = 0;
    csv->capacity = BLOCK_ROWS;
}

static void read_rows(struct csv *csv, const char *text, int64_t size)
{
    enum csv_result result;
    int64_t last = -1;
    while ((result = csv_read(csv, text, size)) == CSV_FULL || result == CSV_NO_ROOM) {
        check(0 <= csv->used && csv->used <= size);
        if (result == CSV_FULL) {
            check(csv->rows == csv->capacity && (csv->used > 0 || last < 0 || !csv->capacity));
            new_block(csv);
        } else {
            const int role = csv->roles[csv->column].role;
            check(0 <= csv->length && csv->length <= size);
            if (!make_room(&csv->words[csv->column], csv->length, role != CSV_WORD && role != CSV_RAW))
                break;
        }
        last = csv->used;
        text += csv->used, size -= csv->used;
    }
    check(csv->rows <= csv->capacity && csv->rows <= csv->taken);
    for (int i = 0; i < csv->columns; i++)
        for (int word = 0; csv->words[i].odd && word <= csv->words[i].most; word++) {
            const struct csv_odd odd = csv->words[i].odd[word];
            check(odd.rows <= odd.last && odd.first <= odd.last && odd.last <= csv->taken + 1);
        }
}

static void compare_number(const char *text, int64_t size)
{
    /* Where the whole text is a plain decimal, it is the double that C's own function makes of it. */
    double value;
    if (!csv_number(&value, text, size))
        return;
    const double expected = strtod(text, NULL);
    check(memcmp(&value, &expected, sizeof value) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < 2)
        return 0;
    static const char separators[] = {',', ';', '\t', '|'};
    const unsigned how = data[0], kinds = data[1];
    const int64_t size = (int64_t)length - 2;
    char *text = malloc((size_t)size + 1); /* its end is that of the memory */
    check(text != NULL);
    memcpy(text, data + 2, (size_t)size);
    text[size] = 0;
    double seconds;
    csv_date(&seconds, text, size);
    compare_number(text, size);

    struct gap_words gaps;
    fill_gaps(&gaps, how >> 2 & 1);
    const char separator = (how >> 4 & 3) == 3 ? ' ' : separators[how & 3];
    struct csv csv = {.separator = separator, .point = how >> 3 & 1 ? ',' : '.', .gaps = &gaps.gaps};
    struct csv_place place[MOST_COLUMNS];
    struct csv_row rows[3];
    const int64_t count = csv_split(&csv, rows, 3, place, MOST_COLUMNS, text, size);
    check(0 <= count && count <= 3);
    csv.columns = count ? (int)rows[0].fields : 0;
    if (csv.columns >= 1 && csv.columns <= MOST_COLUMNS) {
        struct csv_column roles[MOST_COLUMNS];
        struct csv_words words[MOST_COLUMNS] = {{0}};
        double low[MOST_COLUMNS] = {0}, high[MOST_COLUMNS] = {0}, row[MOST_COLUMNS];
        csv.first_line = how >> 7;
        csv.used = csv.line = 0;
        csv.is_double = how >> 6 & 1;
        assign_roles(&csv, roles, kinds);
        csv.words = words;
        csv.low = low, csv.high = high, csv.row = row;
        read_rows(&csv, text, size);
        free(csv.matrix), free(csv.doubles), free(csv.codes);
        for (int i = 0; i < MOST_COLUMNS; i++)
            free_words(&words[i]);
    }
    free(text);
    return 0;
}
