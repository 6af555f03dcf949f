/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/near.h"

#include <limits.h>
#include <string.h>

#define WORD_MAX 32 /* longer words are compared by their beginning */

static int
min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

/* Levenshtein's distance of the first WORD_MAX bytes. */
static int
count_edits(const char *a, const char *b)
{
    int na = (int)strnlen(a, WORD_MAX), nb = (int)strnlen(b, WORD_MAX);
    int row[WORD_MAX + 1];

    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int above = row[j];
            row[j] = min3(row[j] + 1, row[j - 1] + 1,
                          diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}

struct near
near_start(const char *word)
{
    return (struct near){word, NULL, INT_MAX};
}

void
near_offer(struct near *near, const char *candidate)
{
    int distance = count_edits(near->word, candidate);

    if (distance < near->distance) {
        near->distance = distance;
        near->best = candidate;
    }
}

const char *
near_best(const struct near *near)
{
    int len = (int)strlen(near->word);
    int allowed = len / 3 > 0 ? len / 3 : 1;

    return near->distance <= allowed && near->distance < len ? near->best
                                                             : NULL;
}
