/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights from a safetensors file: all of them, or what fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "engine/data/safetensors.h"
#include "engine/run/ckpt.h"
#include "tests/support/place.h"

static void
write_weights(const char *path, const struct safetensors_entry *e, int n)
{
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    struct err err;
    char digest[33];
    int64_t n_bytes;

    assert_true(fd >= 0);
    assert_int_equal(
        safetensors_write(fd, e, n, NULL, 0, digest, &n_bytes, &err), 0);
    close(fd);
}

static void
test_ckpt_weights_of_checkpoint(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[256];

    write_one(p, 100);
    path_of(p, NAME_100, "model.safetensors", path);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), 0);
    assert_memory_equal(p->other->weights, p->state->weights,
                        (size_t)p->state->param_elems * sizeof(float));
    assert_memory_equal(p->other->buffers, p->state->buffers,
                        (size_t)p->state->buffer_elems * sizeof(float));
    assert_int_equal(p->other->count.iteration, 7); /* weights alone */
    assert_true(p->other->moment[0][0] == 7.1f);
}

/* What fits is taken, the rest stays, and all of it is told. */
static void
test_ckpt_weights_partial(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {3, 4}, four[] = {4}, three[] = {3};
    float weight[12], other[4] = {0}, mean[3] = {1, 2, 3};
    int64_t tracked = 9;
    const struct safetensors_entry e[] = {
        {"0.weight", tensor_make(DTYPE_F32, 2, shape), weight},
        {"0.bias", tensor_make(DTYPE_F32, 1, four), other},
        {"1.running_mean", tensor_make(DTYPE_F32, 1, three), mean},
        {"1.num_batches_tracked", tensor_make(DTYPE_I64, 0, NULL), &tracked},
        {"head.extra", tensor_make(DTYPE_F32, 1, four), other}};
    struct ckpt_weights_report report;
    const struct state *s = p->other;
    char path[256];
    struct err err;

    for (int i = 0; i < 12; i++)
        weight[i] = (float)i;
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, 5);
    const float bias = s->weights[s->param[1].offset];
    const float var = s->buffers[s->buffer[1].offset];
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     0);
    assert_true(s->weights[s->param[0].offset + 11] == 11);
    assert_true(s->weights[s->param[1].offset] == bias);
    assert_true(s->buffers[s->buffer[0].offset + 2] == 3);
    assert_true(s->buffers_pending[s->buffer[0].offset + 2] == 3);
    assert_true(s->buffers[s->buffer[1].offset] == var);
    assert_int_equal(report.n_loaded, 2);
    assert_int_equal(report.n_missing, 2);
    assert_int_equal(report.n_differ, 1);
    assert_int_equal(report.n_unused, 1);
    assert_string_equal(report.text,
                        "initial weights: 2 of 5 tensors loaded; not in the "
                        "file: 1.weight, 1.running_var; of another shape: "
                        "0.bias; not in the model: head.extra");
    /* In full it is refused, as ever. */
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    /* Nothing at all is no partial success. */
    write_weights(path, &e[4], 1);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.msg, "nothing fits"));
    /* Nor is what is not finite. */
    weight[5] = INFINITY;
    write_weights(path, e, 5);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.msg, "0.weight[1,1] is inf"));
    assert_true(s->weights[s->param[0].offset + 11] == 11);
}

/* A thousand names are counted, not told. */
static void
test_ckpt_weights_partial_bound(void **state)
{
    enum { N = 1000 };
    struct place *p = *state;
    static char name[N][48];
    static struct safetensors_entry e[N + 1];
    const int64_t three[] = {3};
    float bias[3] = {1, 2, 3};
    struct ckpt_weights_report report;
    char path[256];
    struct err err;

    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof(name[i]), "block.%03d.attention.weight", i);
        e[i] = (struct safetensors_entry){
            name[i], tensor_make(DTYPE_F32, 1, three), bias};
    }
    e[N] = (struct safetensors_entry){"0.bias",
                                      tensor_make(DTYPE_F32, 1, three), bias};
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, N + 1);
    assert_int_equal(ckpt_read_weights_partial(path, p->other, &report, &err),
                     0);
    assert_int_equal(report.n_unused, N);
    assert_non_null(strstr(report.text, "not in the model: "
                                        "block.000.attention.weight, "));
    assert_non_null(strstr(report.text, " and 996 more"));
}

static void
test_ckpt_weights_other_dtypes(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {3, 4}, three[] = {3};
    uint16_t weight[12], bias[3] = {0x3f80, 0xc000, 0x4049};
    double scalar = 0.1;
    const struct safetensors_entry e[] = {
        {"0.weight", tensor_make(DTYPE_F16, 2, shape), weight},
        {"0.bias", tensor_make(DTYPE_BF16, 1, three), bias},
        {"1.weight", tensor_make(DTYPE_F64, 0, NULL), &scalar},
        {"head.extra", tensor_make(DTYPE_F64, 0, NULL), &scalar}};
    const struct state *s = p->other;
    char path[256], want[320];
    struct err err;

    for (int i = 0; i < 12; i++)
        weight[i] = (uint16_t)(0x3c00 + i);
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), 0);
    for (int i = 0; i < 12; i++)
        assert_true(s->weights[s->param[0].offset + i] ==
                    1.0f + (float)i / 1024.0f);
    assert_true(s->weights[s->param[1].offset] == 1.0f);
    assert_true(s->weights[s->param[1].offset + 1] == -2.0f);
    assert_true(s->weights[s->param[2].offset] == 0.1f);
    assert_true(s->buffers[0] == 7.3f); /* not in the file */

    model_state_fill(p->other, 7);
    weight[5] = 0x7c00;
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 0.weight[1,1] is inf", path);
    assert_string_equal(err.msg, want);
    weight[5] = 0;
    scalar = 1e300; /* beyond float32 */
    write_weights(path, e, 4);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 1.weight is inf", path);
    assert_string_equal(err.msg, want);
    write_weights(path, e, 2);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: 1.weight is missing", path);
    assert_string_equal(err.msg, want);
    /* Nothing was taken over by any of these. */
    model_state_fill(p->state, 7);
    assert_true(model_state_equal(p->other, p->state));
}

static void
test_ckpt_weights_half_the_statistics(void **state)
{
    struct place *p = *state;
    struct state *s = p->other;
    struct safetensors_entry e[16];
    char path[256], want[320];
    struct err err;
    int n = 0;

    assert_true(s->n_buffers > 1 && s->n_params < 15);
    for (int i = 0; i < s->n_params; i++)
        e[n++] = (struct safetensors_entry){s->param[i].name, s->param[i].desc,
                                            p->state->weights +
                                                p->state->param[i].offset};
    e[n++] = (struct safetensors_entry){s->buffer[1].name, s->buffer[1].desc,
                                        p->state->buffers +
                                            p->state->buffer[1].offset};
    snprintf(path, sizeof(path), "%s/w", p->dir);
    write_weights(path, e, n);
    assert_int_equal(ckpt_read_weights(path, s, &err), ERR_DATA);
    snprintf(want, sizeof(want),
             "%s: %s is missing, where 1 other running statistics are there",
             path, s->buffer[0].name);
    assert_string_equal(err.msg, want);
    model_state_fill(p->state, 7);
    assert_true(model_state_equal(s, p->state));
}

static void
test_ckpt_weights_other_shape(void **state)
{
    struct place *p = *state;
    const int64_t shape[] = {4, 3};
    const float weight[12] = {0};
    const struct safetensors_entry e = {
        "0.weight", tensor_make(DTYPE_F32, 2, shape), weight};
    char path[256], want[320];
    struct err err;

    snprintf(path, sizeof(path), "%s/w", p->dir);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_IO);
    write_weights(path, &e, 1);
    assert_int_equal(ckpt_read_weights(path, p->other, &err), ERR_DATA);
    snprintf(want, sizeof(want),
             "%s: 0.weight is f32[4,3], the model has f32[3,4]", path);
    assert_string_equal(err.msg, want);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ckpt_weights_of_checkpoint),
        TEST(test_ckpt_weights_partial),
        TEST(test_ckpt_weights_partial_bound),
        TEST(test_ckpt_weights_other_dtypes),
        TEST(test_ckpt_weights_half_the_statistics),
        TEST(test_ckpt_weights_other_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
