/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/pdesc.h"

#include <assert.h>
#include <string.h>

/* ---- memory descriptors: values in 2.x, objects behind a pointer in 3.x -- */

#if DNNL_VERSION_MAJOR >= 3
#define MD_REF const_dnnl_memory_desc_t

struct mds {
    dnnl_memory_desc_t md[PDESC_MAX];
};

static dnnl_status_t
md_init(dnnl_memory_desc_t *md, const struct pdesc_tensor *t,
        dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(md, t->rank, t->dim, type, tag);
}

static void
md_fini(dnnl_memory_desc_t *md)
{
    if (*md != NULL)
        dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

static MD_REF
md_ref(const dnnl_memory_desc_t *md)
{
    return *md;
}
#else
#define MD_REF const dnnl_memory_desc_t *

struct mds {
    dnnl_memory_desc_t md[PDESC_MAX];
};

static dnnl_status_t
md_init(dnnl_memory_desc_t *md, const struct pdesc_tensor *t,
        dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(md, t->rank, t->dim, type, tag);
}

static void
md_fini(dnnl_memory_desc_t *md)
{
    (void)md;
}

static MD_REF
md_ref(const dnnl_memory_desc_t *md)
{
    return md->ndims > 0 ? md : NULL;
}
#endif

static dnnl_data_type_t
data_type(enum dtype t)
{
    assert(t == DTYPE_F32 || t == DTYPE_BF16);
    return t == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
}

static void
mds_fini(struct mds *m)
{
    for (int i = 0; i < PDESC_MAX; i++)
        md_fini(&m->md[i]);
}

/* Absent tensors stay zero, which is the library's "none" in both versions. */
static dnnl_status_t
mds_init(struct mds *m, const struct pdesc_problem *problem, bool all_any)
{
    dnnl_status_t status = dnnl_success;

    memset(m, 0, sizeof(*m));
    for (int i = 0; i < PDESC_MAX && status == dnnl_success; i++) {
        const struct pdesc_tensor *t = &problem->tensor[i];

        if (t->dtype != DTYPE_NONE)
            status =
                md_init(&m->md[i], t, data_type(t->dtype),
                        t->any || all_any ? dnnl_format_tag_any : t->plain);
    }
    if (status != dnnl_success)
        mds_fini(m);
    return status;
}

/* ---- primitive descriptors: from an op descriptor in 2.x ----------------- */

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t
create_matmul(const struct mds *m, dnnl_engine_t engine,
              const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, m->md[0], m->md[1],
                                             m->md[PDESC_BIAS],
                                             m->md[PDESC_OUT], attr);
}

static dnnl_status_t
create_conv(const struct pdesc_problem *p, const_dnnl_memory_desc_t x,
            const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t b,
            const_dnnl_memory_desc_t y, dnnl_engine_t engine,
            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    return dnnl_convolution_forward_primitive_desc_create(
        pd, engine, dnnl_forward_training, dnnl_convolution_direct, x, w, b, y,
        p->stride, p->dilation, p->padding, p->padding, attr);
}

static dnnl_status_t
create_conv_bwd(const struct pdesc_problem *p, const struct mds *m,
                const_dnnl_primitive_desc_t hint, dnnl_engine_t engine,
                const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    if (p->kind == PDESC_CONV_DX)
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, dnnl_convolution_direct, m->md[PDESC_OUT], m->md[1],
            m->md[0], p->stride, p->dilation, p->padding, p->padding, hint,
            attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, m->md[1], m->md[PDESC_OUT], NULL,
        m->md[0], p->stride, p->dilation, p->padding, p->padding, hint, attr);
}
#else
static dnnl_status_t
create_matmul(const struct mds *m, dnnl_engine_t engine,
              const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_matmul_desc_t d;
    const dnnl_status_t status = dnnl_matmul_desc_init(
        &d, md_ref(&m->md[0]), md_ref(&m->md[1]), md_ref(&m->md[PDESC_BIAS]),
        md_ref(&m->md[PDESC_OUT]));

    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

static dnnl_status_t
create_conv(const struct pdesc_problem *p, MD_REF x, MD_REF w, MD_REF b,
            MD_REF y, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
            dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_training, dnnl_convolution_direct, x, w, b, y,
        p->stride, p->dilation, p->padding, p->padding);

    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

static dnnl_status_t
create_conv_bwd(const struct pdesc_problem *p, const struct mds *m,
                const_dnnl_primitive_desc_t hint, dnnl_engine_t engine,
                const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t status;

    if (p->kind == PDESC_CONV_DX)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &d, dnnl_convolution_direct, &m->md[PDESC_OUT], &m->md[1],
            &m->md[0], p->stride, p->dilation, p->padding, p->padding);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &d, dnnl_convolution_direct, &m->md[1], &m->md[PDESC_OUT], NULL,
            &m->md[0], p->stride, p->dilation, p->padding, p->padding);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}
#endif

/* A backward convolution wants the descriptor of its forward as a hint. It
 * only compares shapes: formats are left open and data float32 or bfloat16 as
 * the gradient's input has it. */
static dnnl_status_t
create_hint(const struct pdesc_problem *problem, dnnl_engine_t engine,
            dnnl_primitive_desc_t *hint)
{
    struct pdesc_problem p = *problem;
    struct mds m;
    const int x = p.kind == PDESC_CONV_DX ? PDESC_OUT : 1;
    const int w = p.kind == PDESC_CONV_DX ? 1 : PDESC_OUT;
    dnnl_status_t status;

    for (int i = 0; i < PDESC_MAX; i++)
        if (p.tensor[i].dtype != DTYPE_NONE)
            p.tensor[i].dtype = p.tensor[0].dtype;
    status = mds_init(&m, &p, true);
    if (status != dnnl_success)
        return status;
    status = create_conv(&p, md_ref(&m.md[x]), md_ref(&m.md[w]), NULL,
                         md_ref(&m.md[0]), engine, NULL, hint);
    mds_fini(&m);
    return status;
}

static dnnl_status_t
create_by_kind(const struct pdesc_problem *p, const struct mds *m,
               dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
               dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = dnnl_invalid_arguments;

    switch (p->kind) {
    case PDESC_MATMUL: return create_matmul(m, engine, attr, pd);
    case PDESC_CONV:
        return create_conv(p, md_ref(&m->md[0]), md_ref(&m->md[1]),
                           md_ref(&m->md[PDESC_BIAS]),
                           md_ref(&m->md[PDESC_OUT]), engine, attr, pd);
    case PDESC_CONV_DX:
    case PDESC_CONV_DW:
        status = create_hint(p, engine, &hint);
        if (status == dnnl_success)
            status = create_conv_bwd(p, m, hint, engine, attr, pd);
        if (hint != NULL)
            dnnl_primitive_desc_destroy(hint);
        return status;
    case PDESC_REORDER: break;
    }
    return status;
}

static dnnl_status_t
create_attr(dnnl_primitive_attr_t *attr)
{
    const dnnl_status_t status = dnnl_primitive_attr_create(attr);

    if (status != dnnl_success)
        return status;
    return dnnl_primitive_attr_set_scratchpad_mode(*attr,
                                                   dnnl_scratchpad_mode_user);
}

dnnl_status_t
pdesc_create(const struct pdesc_problem *problem, dnnl_engine_t engine,
             dnnl_primitive_desc_t *pd)
{
    struct mds m;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = mds_init(&m, problem, false);

    *pd = NULL;
    if (status != dnnl_success)
        return status;
    status = create_attr(&attr);
    if (status == dnnl_success)
        status = create_by_kind(problem, &m, engine, attr, pd);
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    mds_fini(&m);
    return status;
}

/* ---- what a descriptor wants --------------------------------------------- */

static MD_REF
md_of_arg(const_dnnl_primitive_desc_t pd, int arg)
{
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

dnnl_status_t
pdesc_create_reorder(const struct pdesc_problem *problem,
                     const_dnnl_primitive_desc_t pd, int i, bool to_prim,
                     dnnl_engine_t engine, dnnl_primitive_desc_t *pd_out)
{
    const struct pdesc_tensor *t = &problem->tensor[i];
    MD_REF wanted = md_of_arg(pd, pdesc_arg(problem->kind, i));
    dnnl_primitive_attr_t attr = NULL;
    dnnl_memory_desc_t plain;
    MD_REF ours;
    dnnl_status_t status = md_init(&plain, t, data_type(t->dtype), t->plain);

    *pd_out = NULL;
    if (status != dnnl_success)
        return status;
    ours = md_ref(&plain);
    if (dnnl_memory_desc_equal(ours, wanted))
        goto out;
    status = create_attr(&attr);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(
            pd_out, to_prim ? ours : wanted, engine, to_prim ? wanted : ours,
            engine, attr);
out:
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    md_fini(&plain);
    return status;
}

int
pdesc_arg(enum pdesc_kind kind, int i)
{
    static const int args[][PDESC_MAX] = {
        [PDESC_MATMUL] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
                          DNNL_ARG_DST},
        [PDESC_CONV] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
                        DNNL_ARG_DST},
        [PDESC_CONV_DX] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, 0,
                           DNNL_ARG_DIFF_SRC},
        [PDESC_CONV_DW] = {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, 0,
                           DNNL_ARG_DIFF_WEIGHTS},
        [PDESC_REORDER] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0, 0},
    };

    assert(i >= 0 && i < PDESC_MAX);
    return args[kind][i];
}

dnnl_status_t
pdesc_create_memory(const_dnnl_primitive_desc_t pd, int arg,
                    dnnl_engine_t engine, dnnl_memory_t *memory)
{
    return dnnl_memory_create(memory, md_of_arg(pd, arg), engine,
                              DNNL_MEMORY_NONE);
}

bool
pdesc_same(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b,
           int arg)
{
    return dnnl_memory_desc_equal(md_of_arg(a, arg), md_of_arg(b, arg)) != 0;
}

size_t
pdesc_bytes(const_dnnl_primitive_desc_t pd, int arg)
{
    return dnnl_memory_desc_get_size(md_of_arg(pd, arg));
}

const char *
pdesc_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;

    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) !=
        dnnl_success)
        name = "";
    return name;
}
