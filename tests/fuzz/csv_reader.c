/* libFuzzer's harness of the C reader of CSV: text of strangers, in memory that ends where the text ends.

   The first two bytes choose separator, point, type and what becomes of the columns. The text is taken apart, counted
   and read as Python does it: rows go on in blocks of three, words get more room when they ask for it. */
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

static int make_room(struct csv_words *words, int64_t length)
{
    /* as _Words.make_room in nn/data/csv_reader.py, in small steps */
    if (words->count == MOST_WORDS)
        return 0;
    const int64_t used = words->count ? words->ends[words->count - 1] : 0;
    if (words->count == words->most) {
        words->most = words->count + 4 < MOST_WORDS ? words->count + 4 : MOST_WORDS;
        words->ends = realloc(words->ends, (size_t)words->most * sizeof *words->ends);
    }
    if (words->size - used < length) {
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
    free(words->table);
}

static void assign_roles(struct csv *csv, struct csv_column *roles, unsigned kinds)
{
    int *counts[] = {NULL, &csv->inputs, &csv->targets, &csv->texts, &csv->dates, &csv->ids};
    for (int i = 0; i < csv->columns; i++) {
        const int role = i == csv->columns - 1 ? CSV_TARGET : (int)((kinds >> i % 8) + (unsigned)i) % 6;
        roles[i] = (struct csv_column){role, role ? (*counts[role])++ : 0};
    }
    csv->roles = roles;
}

static void new_block(struct csv *csv)
{
    free(csv->x), free(csv->y), free(csv->codes), free(csv->seconds), free(csv->id);
    csv->x = zeros((size_t)(BLOCK_ROWS * csv->inputs), csv->type == CSV_UINT8 ? 1 : csv->type == CSV_FLOAT32 ? 4 : 8);
    csv->y = zeros((size_t)(BLOCK_ROWS * csv->targets), sizeof *csv->y);
    csv->codes = zeros((size_t)(BLOCK_ROWS * csv->texts), sizeof *csv->codes);
    csv->seconds = zeros((size_t)(BLOCK_ROWS * csv->dates), sizeof *csv->seconds);
    csv->id = zeros((size_t)(BLOCK_ROWS * csv->ids), sizeof *csv->id);
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
            const struct csv_column column = csv->roles[csv->column];
            check(0 <= csv->start && csv->start <= csv->stop && csv->stop <= size);
            if (!make_room(column.role == CSV_TARGET ? csv->names : &csv->words[column.slot], csv->stop - csv->start))
                break;
        }
        last = csv->used;
        text += csv->used, size -= csv->used;
    }
    check(csv->rows <= csv->capacity && csv->left_out <= csv->taken);
}

static void count_fields(struct csv *csv, const char *text, int64_t size)
{
    struct csv_facts *facts = zeros((size_t)csv->columns, sizeof *facts);
    struct csv_place *place = zeros((size_t)csv->columns, sizeof *place);
    csv->capacity = 1000;
    csv_count(csv, facts, place, text, size);
    for (int i = 0; i < csv->columns; i++)
        check(facts[i].gaps + facts[i].numbers + facts[i].truths + facts[i].dates + facts[i].texts >= csv->rows);
    free(facts), free(place);
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
        struct csv start = csv;
        struct csv_column roles[MOST_COLUMNS];
        struct csv_words words[MOST_COLUMNS + 1] = {{0}};
        double low[MOST_COLUMNS] = {0}, high[MOST_COLUMNS] = {0}, row[MOST_COLUMNS];
        start.first_line = how >> 7;
        start.used = start.line = 0;
        csv = start;
        count_fields(&csv, text, size);
        csv = start;
        csv.type = (enum csv_type)(how >> 4 & 3) % 3;
        csv.leave_out = how >> 6 & 1;
        assign_roles(&csv, roles, kinds);
        csv.words = words;
        csv.names = kinds >> 7 ? &words[MOST_COLUMNS] : NULL;
        csv.low = low, csv.high = high, csv.row = row;
        read_rows(&csv, text, size);
        free(csv.x), free(csv.y), free(csv.codes), free(csv.seconds), free(csv.id);
        for (int i = 0; i <= MOST_COLUMNS; i++)
            free_words(&words[i]);
    }
    free(text);
    return 0;
}
