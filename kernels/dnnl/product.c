/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/product.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/dnnl/product_private.h"

#define ALIGN 64
/* What a piece may take of a core's second-level cache. */
#define PIECE_BYTES (768 * 1024)
/* Pieces of a matrix: oneDNN's inner blocks are 64 wide. */
#define PIECE_MIN_COLS 64
#define PIECE_MAX_COLS 256
/* Multiply-adds (x 2) below which dealing out pieces does not pay. */
#define PIECES_MIN_FLOPS 4e6
/* Terms of a piece behind an element of a summed output: adding pieces up
 * must be small beside multiplying them. */
#define SUM_MIN_TERMS 512

/* Tensor i of the problem in the signature; NULL: absent. */
static const struct tensor_desc *
tensor_of(const struct kernel_sig *sig, int i)
{
    if (i == PDESC_OUT)
        return &sig->out[0];
    if (i >= sig->n_in || sig->in[i].dtype == DTYPE_NONE)
        return NULL;
    return &sig->in[i];
}

static bool
dtypes_known(const struct kernel_sig *sig)
{
    for (int i = 0; i < PDESC_MAX; i++) {
        const struct tensor_desc *t = tensor_of(sig, i);

        if (t == NULL)
            continue;
        if (t->dtype != DTYPE_F32 && !dtype_is_half(t->dtype))
            return false;
        if (tensor_n_elems(t) == 0)
            return false;
    }
    return true;
}

static bool
is_native(const struct kernel_sig *sig, enum product_native native)
{
    if (sig->in[0].dtype != DTYPE_BF16 || sig->in[1].dtype != DTYPE_BF16)
        return false;
    return native == PRODUCT_NATIVE_ALWAYS ? onednn_has_bf16()
                                           : onednn_bf16_pays();
}

/* A weight gradient is float32 on the way even when it ends in half, because
 * oneDNN sums its parts (threads, images) in the output's dtype. */
static bool
keeps_bf16(const struct kernel_sig *sig, int i)
{
    const struct tensor_desc *t = tensor_of(sig, i);

    if (t->dtype != DTYPE_BF16)
        return false;
    return i != PDESC_OUT ||
           (sig->op != OP_LINEAR_DW && sig->op != OP_CONV2D_DW);
}

static bool
describe_all(const struct kernel_sig *sig, product_describe_fn *describe,
             enum product_native native, struct pdesc_problem *problem)
{
    const bool bf16 = is_native(sig, native);

    if (!dtypes_known(sig) || !describe(sig, problem))
        return false;
    for (int i = 0; i < PDESC_MAX; i++) {
        if (tensor_of(sig, i) == NULL)
            problem->tensor[i].dtype = DTYPE_NONE;
        else
            problem->tensor[i].dtype =
                bf16 && keeps_bf16(sig, i) ? DTYPE_BF16 : DTYPE_F32;
    }
    return true;
}

bool
product_supports(const struct kernel_sig *sig, product_describe_fn *describe,
                 enum product_native native)
{
    struct pdesc_problem problem = {0};
    struct err err;

    return describe_all(sig, describe, native, &problem) &&
           onednn_check(&problem, sig->threads, &err) == 0;
}

/* ---- pieces -------------------------------------------------------------- */

static int64_t
div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t
cut_length(const struct pdesc_problem *problem)
{
    for (int i = 0; i < PDESC_MAX; i++)
        if (problem->tensor[i].dtype != DTYPE_NONE &&
            problem->tensor[i].cut >= 0)
            return problem->tensor[i].dim[problem->tensor[i].cut];
    return 1;
}

/* Bytes of a piece of length 1, all cut tensors together. */
static int64_t
unit_bytes(const struct kernel_sig *sig, const struct pdesc_problem *problem,
           int64_t length)
{
    int64_t bytes = 0;

    for (int i = 0; i < PDESC_MAX; i++)
        if (problem->tensor[i].dtype != DTYPE_NONE &&
            problem->tensor[i].cut >= 0)
            bytes += tensor_n_elems(tensor_of(sig, i)) / length *
                     (int64_t)dtype_size_bytes(problem->tensor[i].dtype);
    return bytes;
}

/* Several products, rank 3. oneDNN 2.6.3 loses a part of the sum when it shares
 * out a long k between threads there: it gets one thread each time. */
static bool
is_batched(const struct pdesc_problem *problem)
{
    return problem->kind == PDESC_MATMUL &&
           problem->tensor[PDESC_OUT].rank == 3;
}

/* Images always pay: a piece stays in the cache between reading and writing.
 * Products are cut when there is something to convert on the way. */
static bool
pieces_pay(const struct kernel_sig *sig, const struct pdesc_problem *problem)
{
    if (op_flops(sig->op, &sig->params, sig->in, sig->out) < PIECES_MIN_FLOPS)
        return false;
    if (problem->kind != PDESC_MATMUL || is_batched(problem))
        return true;
    return sig->in[0].dtype != problem->tensor[0].dtype;
}

/* More than a quarter of the threads' time would be spent waiting. */
static bool
is_uneven(int64_t n_pieces, int threads)
{
    return n_pieces * 4 < div_up(n_pieces, threads) * threads * 3;
}

/* p->length, piece and n_pieces. */
static void
choose_pieces(struct product *p, const struct kernel_sig *sig,
              const struct pdesc_problem *problem)
{
    const int64_t length = cut_length(problem);
    /* Columns or rows of one product; else images, or whole products. */
    const bool sides = problem->kind == PDESC_MATMUL && !is_batched(problem);
    const int64_t unit = sides ? 16 : 1;
    int64_t piece = PIECE_BYTES / unit_bytes(sig, problem, length);

    p->length = p->piece = length;
    p->n_pieces = 1;
    if (!pieces_pay(sig, problem))
        return;
    if (sides)
        piece = piece < PIECE_MIN_COLS   ? PIECE_MIN_COLS
                : piece > PIECE_MAX_COLS ? PIECE_MAX_COLS
                                         : piece;
    if (problem->kind == PDESC_CONV_DW) {
        const int64_t terms = sig->in[0].dim[2] * sig->in[0].dim[3];

        if (piece < div_up(SUM_MIN_TERMS, terms))
            piece = div_up(SUM_MIN_TERMS, terms);
    }
    if (piece < 1)
        piece = 1;
    /* Evenly, and as many for each thread. */
    p->n_pieces = div_up(div_up(length, piece), sig->threads) * sig->threads;
    p->piece = div_up(div_up(length, p->n_pieces), unit) * unit;
    p->n_pieces = div_up(length, p->piece);
    if (p->n_pieces == 1 || is_uneven(p->n_pieces, sig->threads)) {
        p->piece = length;
        p->n_pieces = 1;
    }
}

/* The problem of one piece. */
static struct pdesc_problem
problem_of_piece(const struct pdesc_problem *problem, int64_t n)
{
    struct pdesc_problem piece = *problem;

    for (int i = 0; i < PDESC_MAX; i++)
        if (piece.tensor[i].dtype != DTYPE_NONE && piece.tensor[i].cut >= 0)
            piece.tensor[i].dim[piece.tensor[i].cut] = n;
    return piece;
}

/* ---- the plan ------------------------------------------------------------ */

static size_t
take(size_t *end, size_t bytes)
{
    const size_t at = *end;

    *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static int
create_lanes(struct product *p, const struct pdesc_problem *problem,
             struct err *err)
{
    const bool whole = p->n_pieces == 1;
    const struct pdesc_problem piece = problem_of_piece(problem, p->piece);
    const int64_t rest = p->length - (p->n_pieces - 1) * p->piece;
    int rc = 0;

    p->n_lanes = whole                      ? 1
                 : p->n_pieces < p->threads ? (int)p->n_pieces
                                            : p->threads;
    p->lane = calloc((size_t)p->n_lanes, sizeof(*p->lane));
    if (p->lane == NULL)
        return err_set(err, ERR_NOMEM, "oneDNN: lanes of a product");
    for (int i = 0; i < p->n_lanes && rc == 0; i++)
        rc = onednn_create(&piece,
                           whole && !is_batched(problem) ? p->threads : 1,
                           &p->lane[i], err);
    if (rc == 0 && rest != p->piece) {
        const struct pdesc_problem tail = problem_of_piece(problem, rest);

        rc = onednn_create(&tail, 1, &p->tail, err);
    }
    return rc;
}

/* Whether memory is rows of pieces' columns: see struct product_leg. */
static bool
cuts_columns(const struct pdesc_tensor *t)
{
    return (t->cut == 0) == (t->plain == dnnl_ba);
}

static int
plan_shared(struct product *p, const struct pdesc_problem *problem, int i,
            struct err *err)
{
    struct product_leg *leg = &p->leg[i];
    int rc;

    if (leg->ours != leg->theirs)
        leg->converted_at =
            take(&p->bytes, (size_t)leg->n * dtype_size_bytes(leg->theirs));
    if (!problem->tensor[i].any)
        return 0;
    rc = onednn_create_reorder(p->lane[0], problem, i, p->threads,
                               &leg->reorder, err);
    if (rc == 0 && leg->reorder != NULL)
        leg->reordered_at = take(&p->bytes, onednn_tensor_bytes(p->lane[0], i));
    return rc;
}

static void
plan_cut(struct product *p, const struct pdesc_problem *problem, int i)
{
    struct product_leg *leg = &p->leg[i];
    const size_t unit =
        (size_t)(leg->n / p->length) * dtype_size_bytes(leg->theirs);

    assert(!problem->tensor[i].any);
    leg->is_cut = true;
    leg->is_columns = cuts_columns(&problem->tensor[i]);
    if (leg->ours != leg->theirs || (leg->is_columns && leg->n > p->length))
        leg->piece_at = take(&p->lane_bytes, (size_t)p->piece * unit);
}

static int
plan_leg(struct product *p, const struct kernel_sig *sig,
         const struct pdesc_problem *problem, int i, struct err *err)
{
    struct product_leg *leg = &p->leg[i];
    const struct tensor_desc *t = tensor_of(sig, i);

    leg->converted_at = leg->reordered_at = leg->piece_at = PRODUCT_NOWHERE;
    if (t == NULL)
        return 0;
    leg->ours = t->dtype;
    leg->theirs = problem->tensor[i].dtype;
    leg->n = tensor_n_elems(t);
    if (p->n_pieces == 1 || problem->tensor[i].cut < 0)
        return plan_shared(p, problem, i, err);
    plan_cut(p, problem, i);
    return 0;
}

static size_t
larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The rest of the workspace: sums, scratchpads, and the lanes after all. */
static void
plan_rest(struct product *p)
{
    size_t scratch = 0, lane_scratch = onednn_scratch_bytes(p->lane[0]);

    for (int i = 0; i < PDESC_MAX; i++)
        if (p->leg[i].reorder != NULL)
            scratch = larger(scratch, onednn_scratch_bytes(p->leg[i].reorder));
    if (p->tail != NULL)
        lane_scratch = larger(lane_scratch, onednn_scratch_bytes(p->tail));
    p->sum_at = p->term_at = PRODUCT_NOWHERE;
    if (p->n_pieces > 1 && !p->leg[PDESC_OUT].is_cut) {
        p->sum_bytes = onednn_tensor_bytes(p->lane[0], PDESC_OUT);
        p->sum_at = take(&p->lane_bytes, p->sum_bytes);
        p->term_at = take(&p->lane_bytes, p->sum_bytes);
    }
    p->lane_scratch_at = take(&p->lane_bytes, lane_scratch);
    p->scratch_at = take(&p->bytes, scratch);
    p->lanes_at = take(&p->bytes, p->lane_bytes * (size_t)p->n_lanes);
}

/* A shorter last piece may make oneDNN choose another format for the weights;
 * a sum or a shared weight can have only one. */
static bool
tail_agrees(const struct product *p)
{
    for (int i = 0; i < PDESC_MAX && p->tail != NULL; i++)
        if (p->leg[i].ours != DTYPE_NONE && !p->leg[i].is_cut &&
            !onednn_same_tensor(p->lane[0], p->tail, i))
            return false;
    return true;
}

static int
make_plan(struct product *p, const struct kernel_sig *sig,
          const struct pdesc_problem *problem, struct err *err)
{
    int rc = create_lanes(p, problem, err);

    for (int i = 0; i < PDESC_MAX && rc == 0; i++)
        rc = plan_leg(p, sig, problem, i, err);
    return rc;
}

static void
clear_plan(struct product *p)
{
    for (int i = 0; i < PDESC_MAX; i++)
        onednn_destroy(&p->leg[i].reorder);
    for (int i = 0; i < p->n_lanes && p->lane != NULL; i++)
        onednn_destroy(&p->lane[i]);
    onednn_destroy(&p->tail);
    free(p->lane);
    p->lane = NULL;
    p->bytes = p->lane_bytes = 0;
}

int
product_prepare(const struct kernel_sig *sig, product_describe_fn *describe,
                enum product_native native, void **state, struct err *err)
{
    struct pdesc_problem problem = {0};
    struct product *p = NULL;
    int rc = 0;

    *state = NULL;
    if (!describe_all(sig, describe, native, &problem))
        return err_set(err, ERR_UNSUPPORTED, "oneDNN: cannot take this %s",
                       op_info(sig->op)->name);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(err, ERR_NOMEM, "oneDNN: state of %s",
                       op_info(sig->op)->name);
    p->threads = sig->threads;
    choose_pieces(p, sig, &problem);
    rc = make_plan(p, sig, &problem, err);
    if (p->n_pieces > 1 &&
        (rc == ERR_UNSUPPORTED || (rc == 0 && !tail_agrees(p)))) {
        clear_plan(p);
        err_clear(err);
        p->piece = p->length;
        p->n_pieces = 1;
        rc = make_plan(p, sig, &problem, err);
    }
    if (rc != 0) {
        product_release(p);
        return rc;
    }
    plan_rest(p);
    *state = p;
    return 0;
}

void
product_release(void *state)
{
    struct product *p = state;

    if (p == NULL)
        return;
    clear_plan(p);
    free(p);
}

size_t
product_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct product *p = state;

    (void)sig;
    return p->bytes;
}
