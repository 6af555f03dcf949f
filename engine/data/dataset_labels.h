/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_labels: class ids from a file of any dtype, checked.
 *
 * Private to dataset.c. A wrong label is found before the first step and named
 * by its row, counted from 1 as an editor does, and by its sample's id, counted
 * from 0 as in events. Reads arrays, knows no format.
 */
#ifndef ENGINE_DATA_DATASET_LABELS_H
#define ENGINE_DATA_DATASET_LABELS_H

#include "engine/data/array.h"

struct dataset_label_rules {
    const char *name;  /* the file, for sentences */
    int64_t row_elems; /* labels of a sample */
    bool has_ignore_index;
    int64_t ignore_index;     /* with a mask in any case */
    const struct array *mask; /* like the file; NULL: none */
};

/* file's elements as integers >= 0 or ignore_index, which is also what masked
 * ones become, whatever the file has there; *out is malloc'd. */
int dataset_labels_read(const struct array *file,
                        const struct dataset_label_rules *rules, int32_t **out,
                        struct err *err);

/* n labels (not masked: what read gave) against 0 .. n_classes - 1. */
int dataset_labels_check(const int32_t *label, int64_t n, int64_t n_classes,
                         const struct dataset_label_rules *rules,
                         struct err *err);

#endif
