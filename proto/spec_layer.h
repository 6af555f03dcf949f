/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_layer: what each kind of layer takes and owns.
 *
 * Private to proto/. Knows the parameters of a kind, the inputs that it wants,
 * and what its settings must be beyond the ranges of spec_keys.def. Called by
 * the reader of layers, which passes the nodes to point at, and by the checks
 * of names.
 */
#ifndef PROTO_SPEC_LAYER_H
#define PROTO_SPEC_LAYER_H

#include "proto/spec_fault.h"

#define SPEC_LAYER_MAX_PARAMS 4

/* The parameters' names behind the layer's path ("weight", "bias"); how many.
 * A weight that comes from another layer is not among them. */
int spec_layer_params(const struct spec_layer *layer,
                      const char *names[SPEC_LAYER_MAX_PARAMS]);

/* Settings against each other, and those that follow from others. node is the
 * settings' object, -1 for a bare name, at is the layer. */
void spec_layer_check_settings(struct spec_reader *r, int at, int node,
                               struct spec_layer *layer);

/* The number of inputs; tells an attention's mask by it. */
void spec_layer_check_inputs(struct spec_reader *r, int node,
                             struct spec_layer *layer);

/* weight_init, bias_init and weight_from, at these nodes (-1: absent), are of
 * use to the layer. */
void spec_layer_check_params(struct spec_reader *r, int weight_init,
                             int bias_init, int weight_from,
                             const struct spec_layer *layer);

#endif
