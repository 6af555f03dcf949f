/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_parts: what the files of the spec's parser offer to each other.
 *
 * Private to proto/. spec.c calls spec_sections_read() for the whole spec; it
 * calls the readers of layers and optimizer, and spec_check_all() last, which
 * sees what no single key shows. A reader that returns false has reported why.
 */
#ifndef PROTO_SPEC_PARTS_H
#define PROTO_SPEC_PARTS_H

#include "proto/spec.h"
#include "proto/spec_read.h"
#include "proto/spec_write.h"

/* Sections that were read without a fault that would make checks across
 * sections meaningless. */
struct spec_sound {
    bool model, loss, optimizer;
};

/* spec_sections.c; ERR_NOMEM. Faults are no failure of the reader. */
int spec_sections_read(struct spec_reader *r, struct spec *spec);

/* spec_data.c: the object at node, -1 for none. */
void spec_data_read(struct spec_reader *r, int node, struct spec *spec);

/* spec_layers.c: spec->model from the array at node. */
bool spec_layers_read(struct spec_reader *r, int node, struct spec *spec);

/* spec_optimizer.c */
bool spec_optimizer_read(struct spec_reader *r, int node, struct spec *spec);
/* The keys of an optimizer of this kind, or of its groups. */
enum spec_object spec_optimizer_object(enum spec_optimizer kind, bool group);

/* spec_rules.c: spec->guard from the value at node, -1 for none. */
void spec_rules_read(struct spec_reader *r, int node, struct spec *spec);
/* What other sections have against it; the paths of all layers, NULL where
 * they are not known. */
void spec_rules_check(struct spec_reader *r, const struct spec *spec,
                      const char *const *layers, int n_layers);

/* spec_print_rules.c: the value of "guard". */
void spec_print_rules(struct spec_writer *root, const struct spec *spec);

/* spec_print_model.c: the list of layers, as the value of "model". */
void spec_print_model(struct text *t, const struct spec *spec);

/* spec_print_data.c */
void spec_print_data(struct spec_writer *root, const struct spec *spec);

/* spec_check.c: the targets of a loss are classes. */
bool spec_check_has_classes(enum spec_loss loss);

/* spec_check.c; ERR_NOMEM */
int spec_check_all(struct spec_reader *r, const struct spec *spec,
                   const struct spec_sound *sound);

#endif
