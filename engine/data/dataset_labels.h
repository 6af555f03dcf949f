/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_labels: class ids from a file of any dtype, checked.
 *
 * Private to dataset.c. A wrong label is found before the first step and named
 * by its row, counted from 1 as an editor does. Reads arrays, knows no format.
 */
#ifndef ENGINE_DATA_DATASET_LABELS_H
#define ENGINE_DATA_DATASET_LABELS_H

#include "engine/data/array.h"

struct dataset_label_rules {
    const char *name; /* the file, for sentences */
    bool has_ignore_index;
    int64_t ignore_index;
};

/* file's elements as integers >= 0 or ignore_index; *out is malloc'd. */
int dataset_labels_read(const struct array *file,
                        const struct dataset_label_rules *rules, int32_t **out,
                        struct err *err);

/* n labels against 0 .. n_classes - 1. */
int dataset_labels_check(const int32_t *label, int64_t n, int64_t n_classes,
                         const struct dataset_label_rules *rules,
                         struct err *err);

#endif
