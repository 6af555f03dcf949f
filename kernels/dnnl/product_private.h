/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product_private: the plan that product.c makes and product_run.c follows.
 *
 * A problem runs whole, by one primitive on all threads, or in pieces: images,
 * entries of a batched product, or rows or columns of the weight. A piece is
 * brought to float32 in a buffer that fits a core's cache, multiplied there and
 * rounded into the output, so a half tensor crosses memory once, as halves.
 * Pieces are dealt to lanes, one for each thread; a lane has its primitive and
 * its buffers. A weight gradient of a convolution is the sum of its pieces: a
 * lane adds up its own, and the lanes' sums are added in order.
 */
#ifndef KERNELS_DNNL_PRODUCT_PRIVATE_H
#define KERNELS_DNNL_PRODUCT_PRIVATE_H

#include "kernels/dnnl/onednn.h"

#define PRODUCT_NOWHERE SIZE_MAX

/* One tensor on its way between the caller's memory and the primitive. */
struct product_leg {
    enum dtype ours, theirs; /* NONE: absent */
    int64_t n;
    struct onednn *reorder; /* owned; NULL: formats are the same */
    /* Of a tensor that is not cut, offsets in the workspace. */
    size_t converted_at, reordered_at; /* NOWHERE: not needed */
    /* Of one that is: memory is [n / length][length] and a piece is columns,
     * or [length][n / length] and a piece is rows. */
    bool is_cut, is_columns;
    size_t piece_at; /* in the lane; NOWHERE: used where it lies */
};

struct product {
    int threads;
    int64_t length, piece, n_pieces; /* of the cut; 1 piece: whole */
    int n_lanes;
    struct onednn **lane; /* [n_lanes] owned */
    struct onednn *tail;  /* owned; of a shorter last piece */
    struct product_leg leg[PDESC_MAX];
    size_t scratch_at, lane_scratch_at; /* reorders'; in the lane */
    size_t sum_at, term_at;             /* in the lane; of a summed output */
    size_t sum_bytes;
    size_t lanes_at, lane_bytes, bytes;
};

#endif
