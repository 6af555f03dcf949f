/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/train/random_spec.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAMED 32

enum shape { ROWS, SEQUENCE, IMAGE };

/* What a value looks like: rows of c; t tokens of c; c planes of h x w. */
struct form {
    enum shape shape;
    int c, t, h, w;
};

struct maker {
    struct random_spec *spec; /* borrowed */
    size_t at;
    uint64_t state;
    struct form now;
    int n_layers; /* at the top, which are called n0, n1, ... */
    struct form named[MAX_NAMED];
};

int
random_spec_draw(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

static int
draw(struct maker *m, int n)
{
    return random_spec_draw(&m->state, n);
}

static void put(struct maker *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
put(struct maker *m, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    m->at += (size_t)vsnprintf(m->spec->text + m->at,
                               sizeof(m->spec->text) - m->at, fmt, ap);
    va_end(ap);
    assert(m->at < sizeof(m->spec->text));
}

static bool
same_form(const struct form *a, const struct form *b)
{
    return a->shape == b->shape && a->c == b->c && a->t == b->t &&
           a->h == b->h && a->w == b->w;
}

/* An earlier layer whose value can stand beside the present one; -1: none. */
static int
find_partner(struct maker *m, bool any_channels)
{
    int found[MAX_NAMED], n = 0;

    for (int i = 0; i < m->n_layers - 1; i++) {
        struct form f = m->named[i];

        if (any_channels)
            f.c = m->now.c;
        if (same_form(&f, &m->now))
            found[n++] = i;
    }
    return n == 0 ? -1 : found[draw(m, n)];
}

/* ---- layers: each puts `'kind': {...}` ------------------------------------*/

static void
put_activation(struct maker *m)
{
    static const char *const kinds[] = {
        "'relu': {}",
        "'gelu': {}",
        "'gelu': {'approximate': 'tanh'}",
        "'tanh': {}",
        "'sigmoid': {}",
        "'silu': {}",
        "'softplus': {}",
        "'prelu': {}",
        "'dropout': {'p': 0.2}",
        "'mul': {'value': 0.75}",
        "'add': {'value': 0.25}",
        "'div': {'value': 2}",
        "'sub': {'value': 0.25}",
        "'identity': {}",
        "'sequential': ['sigmoid', {'pow': {'exponent': 2}}]",
        "'sequential': ['softplus', {'add': {'value': 0.5}}, 'log']",
        "'sequential': ['tanh', 'exp']",
        "'sequential': ['sigmoid', {'add': {'value': 0.5}}, 'rsqrt']",
        "'sequential': ['sigmoid', {'add': {'value': 0.5}}, 'reciprocal']",
    };

    put(m, "%s", kinds[draw(m, (int)(sizeof(kinds) / sizeof(kinds[0])))]);
}

/* Two operands; cat makes more channels. */
static bool
put_joint(struct maker *m)
{
    static const char *const kinds[] = {"add", "sub", "mul"};
    const bool cat = draw(m, 3) == 0;
    const int partner = find_partner(m, cat);

    if (partner < 0 || m->now.c > 12)
        return false;
    if (cat) {
        put(m, "'cat': {'dim': %d}, 'input': ['n%d', 'n%d']",
            m->now.shape == SEQUENCE ? 2 : 1, m->n_layers - 1, partner);
        m->now.c += m->named[partner].c;
    } else {
        put(m, "'%s': {}, 'input': ['n%d', 'n%d']", kinds[draw(m, 3)],
            m->n_layers - 1, partner);
    }
    return true;
}

static void
put_rows(struct maker *m)
{
    switch (draw(m, 7)) {
    case 0:
        m->now.c = 3 + draw(m, 6);
        put(m, "'linear': {'out_features': %d}", m->now.c);
        break;
    case 1: put(m, "'batch_norm1d': {}"); break;
    case 2: put(m, "'layer_norm': {}"); break;
    case 3: put(m, "'rms_norm': {'eps': 1e-5}"); break;
    case 4:
        put(m,
            "'residual': [{'linear': {'out_features': %d}}, 'tanh', "
            "{'linear': {'out_features': %d}}]",
            2 + draw(m, 6), m->now.c);
        break;
    case 5:
        put(m, "'%s': {'dim': 1}", draw(m, 2) ? "softmax" : "cumsum");
        break;
    default: put_activation(m); break;
    }
}

static void
put_attention(struct maker *m)
{
    const int heads = m->now.c % 2 == 0 ? 1 + draw(m, 2) : 1;

    put(m,
        "'residual': ['layer_norm', {'multihead_attention': {'num_heads': "
        "%d, 'is_causal': %s}}]",
        heads, draw(m, 2) ? "true" : "false");
}

static void
put_sequence(struct maker *m)
{
    int t;

    switch (draw(m, 9)) {
    case 0:
        m->now.c = 3 + draw(m, 6);
        put(m, "'linear': {'out_features': %d}", m->now.c);
        break;
    case 1: put(m, "'layer_norm': {}"); break;
    case 2:
        put(m, "'positional_embedding': {'num_embeddings': %d}",
            m->now.t + draw(m, 3));
        break;
    case 3:
    case 4: put_attention(m); break;
    case 5:
        t = m->now.t;
        m->now.t = m->now.c;
        m->now.c = t;
        put(m, "'transpose': {'dim0': 1, 'dim1': 2}");
        break;
    case 6:
        put(m, "'narrow': {'dim': 1, 'start': %d, 'length': %d}",
            m->now.t > 1 ? 1 : 0, m->now.t > 1 ? m->now.t - 1 : 1);
        m->now.t = m->now.t > 1 ? m->now.t - 1 : 1;
        break;
    case 7: put(m, "'softmax': {'dim': %d}", 1 + draw(m, 2)); break;
    default: put_activation(m); break;
    }
}

static void
put_conv(struct maker *m)
{
    const int stride = m->now.h > 3 && m->now.w > 3 ? 1 + draw(m, 2) : 1;

    m->now.c = 2 * (1 + draw(m, 3));
    m->now.h = (m->now.h - 1) / stride + 1;
    m->now.w = (m->now.w - 1) / stride + 1;
    put(m,
        "'conv2d': {'out_channels': %d, 'kernel_size': 3, 'padding': 1, "
        "'stride': %d}",
        m->now.c, stride);
}

/* A block that halves its image, with a shortcut that does too. */
static void
put_block(struct maker *m)
{
    m->now.c = 2 * (1 + draw(m, 3));
    m->now.h = (m->now.h - 1) / 2 + 1;
    m->now.w = (m->now.w - 1) / 2 + 1;
    put(m,
        "'residual': {'body': [{'conv2d': {'out_channels': %d, 'kernel_size': "
        "3, 'padding': 1, 'stride': 2, 'bias': false}}, 'batch_norm2d', "
        "'relu'], 'shortcut': [{'conv2d': {'out_channels': %d, 'kernel_size': "
        "1, 'stride': 2}}]}",
        m->now.c, m->now.c);
}

static void
put_image(struct maker *m)
{
    const bool large = m->now.h > 5 || m->now.w > 5;
    const bool small = m->now.h < 2 || m->now.w < 2;

    switch (draw(m, 9)) {
    case 0:
    case 1: put_conv(m); break;
    case 2: put(m, "'batch_norm2d': {}"); break;
    case 3:
        put(m, "'group_norm': {'num_groups': %d}", m->now.c % 2 == 0 ? 2 : 1);
        break;
    case 4:
        if (small) {
            put_activation(m);
            break;
        }
        m->now.h /= 2;
        m->now.w /= 2;
        put(m, "'%s_pool2d': {'kernel_size': 2}", draw(m, 2) ? "max" : "avg");
        break;
    case 5:
        if (large) {
            put_activation(m);
            break;
        }
        m->now.h *= 2;
        m->now.w *= 2;
        put(m, "'upsample': {'scale_factor': 2, 'mode': '%s'}",
            draw(m, 2) ? "nearest" : "bilinear");
        break;
    case 6: put_block(m); break;
    case 7:
        if (large) {
            put_activation(m);
            break;
        }
        m->now.c = 2 * (1 + draw(m, 2));
        m->now.h = 2 * m->now.h;
        m->now.w = 2 * m->now.w;
        put(m,
            "'conv_transpose2d': {'out_channels': %d, 'kernel_size': 2, "
            "'stride': 2}",
            m->now.c);
        break;
    default: put_activation(m); break;
    }
}

static void
put_layer(struct maker *m)
{
    put(m, "%s{'name': 'n%d', ", m->n_layers > 0 ? ", " : "", m->n_layers);
    if (m->n_layers < 2 || draw(m, 4) != 0 || !put_joint(m)) {
        switch (m->now.shape) {
        case ROWS: put_rows(m); break;
        case SEQUENCE: put_sequence(m); break;
        case IMAGE: put_image(m); break;
        }
    }
    put(m, "}");
    m->named[m->n_layers++] = m->now;
}

/* ---- around the model ------------------------------------------------------*/

static void
choose_data(struct maker *m)
{
    struct random_spec *s = m->spec;

    m->now =
        (struct form){.shape = (enum shape)draw(m, 3), .c = 2 + draw(m, 4)};
    s->rank = 1;
    s->dim[0] = m->now.c;
    if (m->now.shape == SEQUENCE) {
        m->now.t = 2 + draw(m, 5);
        s->rank = 2;
        s->dim[0] = m->now.t;
        s->dim[1] = m->now.c;
    } else if (m->now.shape == IMAGE) {
        m->now.h = 3 + draw(m, 4);
        m->now.w = 3 + draw(m, 4);
        s->rank = 3;
        s->dim[1] = m->now.h;
        s->dim[2] = m->now.w;
    }
    s->n_samples = 8 + 2 * draw(m, 3); /* never a batch of 1: batch norm */
    s->classes = draw(m, 2) == 0;
}

static void
put_model(struct maker *m)
{
    const int n = 3 + draw(m, 6);

    put(m, "'model': [");
    for (int i = 0; i < n; i++)
        put_layer(m);
    put(m, ", 'flatten', {'name': 'head', 'linear': {'out_features': %d}}], ",
        RANDOM_SPEC_OUT);
}

/* An eps so large that a gradient which is nothing but rounding moves nothing.
 */
static void
put_optimizer(struct maker *m)
{
    static const char *const kinds[] = {
        "{'lion': {'lr': 0.001}}",
        "{'sgd': {'lr': 0.05}}",
        "{'sgd': {'lr': 0.05, 'momentum': 0.9, 'nesterov': true}}",
        "{'sgd': {'lr': 0.05, 'momentum': 0.9, 'weight_decay': 0.01}}",
        "{'adam': {'lr': 0.01, 'eps': 0.01}}",
        "{'adamw': {'lr': 0.01, 'eps': 0.01}}",
        "{'adagrad': {'lr': 0.01, 'eps': 0.01}}",
        "{'rmsprop': {'lr': 0.001, 'eps': 0.01, 'momentum': 0.5, 'centered': "
        "true}}",
        "[{'sgd': {'lr': 0.05}, 'match': ['head.*']}, {'adamw': {'eps': "
        "0.01}}]",
    };
    const int which = draw(m, (int)(sizeof(kinds) / sizeof(kinds[0])));

    m->spec->by_signs = which == 0;
    put(m, "'optimizer': %s, ", kinds[which]);
}

static void
put_settings(struct maker *m)
{
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};

    put(m, "'amp': {'dtype': '%s', 'scaler': {'init_scale': 1024}}, ",
        dtypes[draw(m, 3)]);
    put(m, "'train': {'epochs': 3, 'max_iterations': 3, 'accumulate': %d",
        1 + draw(m, 2));
    if (draw(m, 3) == 0)
        put(m, ", 'clip_grad_norm': 0.5");
    if (draw(m, 3) == 0)
        put(m, ", 'ema': {'decay': 0.9}");
    if (draw(m, 3) == 0 && (strstr(m->spec->text, "'residual'") != NULL ||
                            strstr(m->spec->text, "'sequential'") != NULL))
        put(m, ", 'recompute': ['*']");
    put(m, "}");
}

void
random_spec_make(struct random_spec *spec, uint64_t seed)
{
    struct maker m = {.spec = spec, .state = seed * 2654435761u + 1};

    memset(spec, 0, sizeof(*spec));
    for (int i = 0; i < 4; i++)
        draw(&m, 2);
    choose_data(&m);
    put(&m,
        "{'seed': %d, 'threads': 2, 'data': {'train': {'format': 'npy', "
        "'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': 4}, ",
        1 + draw(&m, 1000));
    put_model(&m);
    put(&m, "'loss': '%s', ", spec->classes ? "cross_entropy" : "mse");
    put_optimizer(&m);
    put_settings(&m);
    put(&m, "}");
}
