/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_read: arrays of inputs and targets from files of any format.
 *
 * Private to dataset.c: what depends on the format ends here. Names in the
 * data set become what sentences should call each array, "FILE" or "FILE (y)".
 */
#ifndef ENGINE_DATA_DATASET_READ_H
#define ENGINE_DATA_DATASET_READ_H

#include "engine/data/dataset_private.h"

/* d->input; also d->target where one file holds both. */
int dataset_read_input(struct dataset *d, const struct spec_source *source,
                       const struct dataset_options *options, struct err *err);
/* d->target, unless it is there already. */
int dataset_read_target(struct dataset *d, const struct spec_source *source,
                        struct err *err);

/* Whether the source has all that its format needs. */
int dataset_read_check(const struct spec_source *source, struct err *err);

#endif
