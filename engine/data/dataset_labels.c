/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset_labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define PYTORCH_IGNORE_INDEX (-100)

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
        return err_set(err, ERR_DATA, "%s: row %" PRId64 " NaN", rules->name,
                       at + 1);
    if (v != floor(v) || isinf(v))
        return err_set(err, ERR_DATA,
                       "%s: row %" PRId64 " value %g not an integer",
                       rules->name, at + 1, v);
    if (fabs(v) > 0x1p53)
        return err_set(err, ERR_DATA, "%s: row %" PRId64 " value %g too large",
                       rules->name, at + 1, v);
    *out = (int64_t)v;
    return 0;
}

static int
refuse_label(const struct dataset_label_rules *rules, int64_t at, int64_t v,
             struct err *err)
{
    if (v > INT32_MAX)
        return err_set(err, ERR_DATA,
                       "%s: row %" PRId64 " value %" PRId64 " too large",
                       rules->name, at + 1, v);
    return err_set(err, ERR_DATA,
                   "%s: row %" PRId64 " value %" PRId64
                   ", class ids start at 0%s",
                   rules->name, at + 1, v,
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
        int rc = get_integer(file, i, rules, &v, err);

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
        return err_set(err, ERR_DATA,
                       "%s: row %" PRId64 " value %" PRId32
                       ", allowed 0..%" PRId64 "%s",
                       rules->name, i + 1, label[i], n_classes - 1,
                       look_one_based(label, n, n_classes, rules)
                           ? "; the labels look one-based"
                           : "");
    }
    return 0;
}
