/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset_labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/data/mask.h"

#define PYTORCH_IGNORE_INDEX (-100)

struct place {
    char text[96];
};

/* "row 3 (sample 2)", and where in it when that has several labels. */
static struct place
find_place(const struct dataset_label_rules *rules, int64_t at)
{
    const int64_t sample = at / rules->row_elems;
    struct place p;
    int n =
        snprintf(p.text, sizeof(p.text), "row %" PRId64 " (sample %" PRId64 ")",
                 sample + 1, sample);

    if (rules->row_elems > 1)
        snprintf(p.text + n, sizeof(p.text) - (size_t)n, " element %" PRId64,
                 at % rules->row_elems);
    return p;
}

static bool
is_ignored(const struct dataset_label_rules *rules, int64_t v)
{
    return rules->has_ignore_index && v == rules->ignore_index;
}

/* An element as an integer, from whatever the file holds. */
static int
get_integer(const struct array *file, int64_t at,
            const struct dataset_label_rules *rules, int64_t *out,
            struct err *err)
{
    double v;

    if (array_get_int(file, at, out))
        return 0;
    v = array_get_double(file, at);
    if (isnan(v))
        return err_set(err, ERR_DATA, "%s: %s NaN", rules->name,
                       find_place(rules, at).text);
    if (v != floor(v) || isinf(v))
        return err_set(err, ERR_DATA, "%s: %s value %g not an integer",
                       rules->name, find_place(rules, at).text, v);
    if (fabs(v) > 0x1p53)
        return err_set(err, ERR_DATA, "%s: %s value %g too large", rules->name,
                       find_place(rules, at).text, v);
    *out = (int64_t)v;
    return 0;
}

static int
refuse_label(const struct dataset_label_rules *rules, int64_t at, int64_t v,
             struct err *err)
{
    if (v > INT32_MAX)
        return err_set(err, ERR_DATA, "%s: %s value %" PRId64 " too large",
                       rules->name, find_place(rules, at).text, v);
    return err_set(err, ERR_DATA,
                   "%s: %s value %" PRId64 ", class ids start at 0%s",
                   rules->name, find_place(rules, at).text, v,
                   v == PYTORCH_IGNORE_INDEX
                       ? "; set loss.ignore_index to -100 to leave such rows "
                         "out"
                       : "");
}

int
dataset_labels_read(const struct array *file,
                    const struct dataset_label_rules *rules, int32_t **out,
                    struct err *err)
{
    const int64_t n = file->n_elems;
    int32_t *label = malloc((size_t)(n > 0 ? n : 1) * sizeof(*label));

    if (label == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for labels", rules->name);
    for (int64_t i = 0; i < n; i++) {
        int64_t v;
        int rc;

        if (rules->mask != NULL && !mask_get(rules->mask, i)) {
            label[i] = (int32_t)rules->ignore_index;
            continue;
        }
        rc = get_integer(file, i, rules, &v, err);
        if (rc == 0 && !is_ignored(rules, v) && (v < 0 || v > INT32_MAX))
            rc = refuse_label(rules, i, v, err);
        if (rc < 0) {
            free(label);
            return rc;
        }
        label[i] = (int32_t)v;
    }
    *out = label;
    return 0;
}

/* Counted from 1: no 0, and the largest is the number of classes. */
static bool
look_one_based(const int32_t *label, int64_t n, int64_t n_classes,
               const struct dataset_label_rules *rules)
{
    int64_t low = INT64_MAX, high = INT64_MIN;

    for (int64_t i = 0; i < n; i++) {
        if (is_ignored(rules, label[i]))
            continue;
        low = label[i] < low ? label[i] : low;
        high = label[i] > high ? label[i] : high;
    }
    return low == 1 && high == n_classes;
}

int
dataset_labels_check(const int32_t *label, int64_t n, int64_t n_classes,
                     const struct dataset_label_rules *rules, struct err *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (is_ignored(rules, label[i]) || label[i] < n_classes)
            continue;
        return err_set(
            err, ERR_DATA, "%s: %s value %" PRId32 ", allowed 0..%" PRId64 "%s",
            rules->name, find_place(rules, i).text, label[i], n_classes - 1,
            look_one_based(label, n, n_classes, rules)
                ? "; the labels look one-based"
                : "");
    }
    return 0;
}
