/* Predicts rows that tests write: of each input a field that ends in a zero byte, w and a word
 * or d and a number. Writes what nn_predict_double returns, the class and the outputs of each
 * row, each ended by a zero byte. */
#include "m.c"

#include <stdio.h>
#include <stdlib.h>

static char field[1 << 20];

/* Reads a field and its value; returns 0 at the end of the input. The word has a place of its
 * own, behind which a sanitizer sees each byte that is read. */
static int next_value(int column, double *value)
{
    size_t length = 0;
    char *word;
    int c;
    while ((c = getchar()) != EOF && c && length + 1 < sizeof field)
        field[length++] = (char)c;
    field[length++] = '\0';
    if (c == EOF || !(word = (char *)malloc(length)))
        return 0;
    memcpy(word, field, length);
    *value = *word == 'w' ? nn_code(column, word + 1) : strtod(word + 1, NULL);
    free(word);
    return 1;
}

int main(void)
{
    static double row[NN_INPUTS];
    static nn_output out[NN_OUTPUTS];
    for (;;) {
        const char *name;
        for (int i = 0; i < NN_INPUTS; i++)
            if (!next_value(i, &row[i]))
                return 0;
        printf("%d%c", nn_predict_double(row, out), 0);
        name = nn_class_name(nn_class(out));
        printf("%s%c", name ? name : "", 0);
        for (int k = 0; k < NN_OUTPUTS; k++)
            printf("%.17g%c", (double)out[k], 0);
    }
}
