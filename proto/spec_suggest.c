/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_suggest.h"

#include <string.h>

#define WORD_MAX 48 /* longer ones are no typing mistakes */

/* What people bring along from elsewhere. */
static const struct {
    const char *asked, *meant;
} foreign[] = {
    {"fp16", "float16"},        {"f16", "float16"},
    {"half", "float16"},        {"bf16", "bfloat16"},
    {"fp32", "float32"},        {"f32", "float32"},
    {"learning_rate", "lr"},    {"binary_cross_entropy", "bce_with_logits"},
    {"bce", "bce_with_logits"}, {"labels", "target"},
    {"swish", "silu"},          {"crossentropy", "cross_entropy"},
};

/* Small letters and digits only; the length, or -1 when there are too many. */
static int
fold(const char *word, char out[WORD_MAX + 1])
{
    int n = 0;

    for (; *word != '\0'; word++) {
        char c = *word;

        if (c == '_' || c == '-' || c == ' ')
            continue;
        if (n == WORD_MAX)
            return -1;
        out[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[n] = '\0';
    return n;
}

static int
min3(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Insertions, deletions, changes and swaps of neighbours. */
static int
distance(const char *a, int na, const char *b, int nb)
{
    int row[3][WORD_MAX + 1];

    for (int j = 0; j <= nb; j++)
        row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3];
        const int *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            now[j] = min3(up[j] + 1, now[j - 1] + 1,
                          up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && up2[j - 2] + 1 < now[j])
                now[j] = up2[j - 2] + 1;
        }
    }
    return row[na % 3][nb];
}

const char *
spec_suggest(const char *asked, const char *const *known, int n)
{
    char a[WORD_MAX + 1], b[WORD_MAX + 1];
    int na = fold(asked, a);
    const char *best = NULL;
    int best_d = WORD_MAX;

    if (na <= 0)
        return NULL;
    for (size_t f = 0; f < sizeof(foreign) / sizeof(foreign[0]); f++)
        for (int i = 0; i < n && strcmp(asked, foreign[f].asked) == 0; i++)
            if (strcmp(known[i], foreign[f].meant) == 0)
                return known[i];
    for (int i = 0; i < n; i++) {
        int nb = fold(known[i], b);
        int longer = na > nb ? na : nb;
        int d;

        if (nb <= 0)
            continue;
        d = distance(a, na, b, nb);
        if (d > 0 && d >= (longer + 3) / 3) {
            /* "conv" for conv2d, "CrossEntropyLoss" for cross_entropy */
            if (na < 4 || nb < 4 ||
                (strstr(a, b) == NULL && strstr(b, a) == NULL))
                continue;
            d = longer / 3 + 1;
        }
        if (d < best_d) {
            best_d = d;
            best = known[i];
        }
    }
    return best;
}
