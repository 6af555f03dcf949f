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

/* Edits between the first WORD_MAX bytes: a letter put in, left out or changed,
 * or two neighbours exchanged. */
static int
count_edits(const char *a, const char *b)
{
    int na = (int)strnlen(a, WORD_MAX), nb = (int)strnlen(b, WORD_MAX);
    int d[WORD_MAX + 1][WORD_MAX + 1];

    for (int i = 0; i <= na; i++)
        d[i][0] = i;
    for (int j = 0; j <= nb; j++)
        d[0][j] = j;
    for (int i = 1; i <= na; i++)
        for (int j = 1; j <= nb; j++) {
            d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1,
                           d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[na][nb];
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
