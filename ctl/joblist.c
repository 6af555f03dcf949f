/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/joblist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
add_ref(struct joblist *list, const char *ref, size_t len, struct err *err)
{
    char **grown;

    if (list->n >= JOBLIST_MAX)
        return err_set(err, ERR_USAGE, "more than %d jobs", JOBLIST_MAX);
    grown = reallocarray(list->ref, (size_t)list->n + 1, sizeof(*grown));
    if (grown == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    list->ref = grown;
    grown[list->n] = strndup(ref, len);
    if (grown[list->n] == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    list->n++;
    return 0;
}

/* Digits from s, a number above 0; *end is what follows. */
static bool
parse_id(const char *s, const char **end, int64_t *id)
{
    char *stop = NULL;

    if (!isdigit((unsigned char)*s))
        return false;
    errno = 0;
    long long v = strtoll(s, &stop, 10);
    *end = stop;
    *id = v;
    return errno == 0 && v > 0 && v < INT64_MAX;
}

static int
add_range(struct joblist *list, int64_t first, int64_t last, struct err *err)
{
    char id[24];

    if (last < first)
        return err_set(err, ERR_USAGE, "jobs %lld-%lld: the range is backwards",
                       (long long)first, (long long)last);
    if (last - first >= JOBLIST_MAX)
        return err_set(err, ERR_USAGE, "jobs %lld-%lld: more than %d jobs",
                       (long long)first, (long long)last, JOBLIST_MAX);
    for (int64_t i = first; i <= last; i++) {
        int len = snprintf(id, sizeof(id), "%lld", (long long)i);
        int rc = add_ref(list, id, (size_t)len, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* One item between commas: "@", "12" or "12-15". */
static int
add_item(struct joblist *list, const char *item, size_t len, struct err *err)
{
    const char *end = NULL;
    int64_t first, last;

    if (len == 1 && item[0] == '@')
        return add_ref(list, item, len, err);
    if (parse_id(item, &end, &first)) {
        last = first;
        if ((*end != '-' || parse_id(end + 1, &end, &last)) &&
            end == item + len)
            return add_range(list, first, last, err);
    }
    return err_set(err, ERR_USAGE,
                   "\"%.*s\" names no job: a number, a range "
                   "12-15, @ or name:NAME",
                   (int)len, item);
}

int
joblist_add(struct joblist *list, const char *word, struct err *err)
{
    if (strncmp(word, "name:", 5) == 0) { /* a name may hold commas */
        if (word[5] == '\0')
            return err_set(err, ERR_USAGE, "name: needs a name");
        return add_ref(list, word, strlen(word), err);
    }
    for (;;) {
        size_t len = strcspn(word, ",");
        int rc = add_item(list, word, len, err);
        if (rc < 0 || word[len] == '\0')
            return rc;
        word += len + 1;
    }
}

void
joblist_fini(struct joblist *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->ref[i]);
    free(list->ref);
    *list = (struct joblist){0};
}
