/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_presets.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/spec_read.h"
#include "proto/text.h"

/* ---- text ---------------------------------------------------------------- */

static void put(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Formats a piece of text. Reals go by put_real(), whatever the locale. */
static void
put(struct text *t, const char *fmt, ...)
{
    char piece[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(piece, sizeof(piece), fmt, ap);
    va_end(ap);
    assert(n >= 0 && n < (int)sizeof(piece));
    text_put(t, piece, (size_t)n);
}

static void
put_real(struct text *t, const char *before, double v, const char *after)
{
    text_puts(t, before);
    text_json_real(t, v);
    text_puts(t, after);
}

static const char *
yes(bool v)
{
    return v ? "true" : "false";
}

/* No layer takes 256 bytes: here are more than SPEC_MAX_LAYERS. */
static bool
is_too_long(const struct text *t)
{
    return t->len > SPEC_MAX_BYTES;
}

/* ---- mlp ----------------------------------------------------------------- */

static bool
expand_mlp(struct spec_reader *r, int node, struct text *t)
{
    struct spec_presets_mlp mlp = {.n_hidden = 0};
    int n = r->n_slots;

    spec_read_object(r, node, SPEC_OBJECT_MLP, &mlp);
    if ((mlp.num_classes > 0) == (mlp.out_features > 0))
        spec_fault_at(r, node,
                      "needs num_classes or out_features, one of "
                      "them");
    if (r->n_slots > n)
        return false;
    text_puts(t, "[\"flatten\"");
    for (int i = 0; i < mlp.n_hidden; i++) {
        put(t, ", {\"linear\": {\"out_features\": %" PRId64 "}}",
            mlp.hidden[i]);
        if (mlp.batch_norm)
            text_puts(t, ", \"batch_norm1d\"");
        put(t, ", \"%s\"", spec_layer_name(mlp.activation));
        if (mlp.dropout > 0)
            put_real(t, ", {\"dropout\": {\"p\": ", mlp.dropout, "}}");
    }
    put(t,
        ", {\"name\": \"head\", \"linear\": {\"out_features\": %" PRId64 "}}]",
        mlp.num_classes + mlp.out_features);
    return true;
}

/* ---- resnet -------------------------------------------------------------- */

static void
put_conv(struct text *t, const char *name, int64_t channels, int kernel,
         int stride)
{
    put(t,
        "{%s\"conv2d\": {\"out_channels\": %" PRId64 ", \"kernel_size\": %d, "
        "\"stride\": %d, \"padding\": %d, \"bias\": false}}, ",
        name, channels, kernel, stride, kernel / 2);
}

/* One block, which reads `from`. Every layer has a name: a position would hide
 * the block of that number, which the next one reads. */
static void
put_block(struct text *t, int64_t channels, int stride, const char *from)
{
    const char *shortcut = from;

    put(t, "{\"sequential\": [");
    put_conv(t, "\"name\": \"conv1\", ", channels, 3, stride);
    put(t, "{\"name\": \"bn1\", \"batch_norm2d\": {}}, "
           "{\"name\": \"relu1\", \"relu\": {}}, ");
    put_conv(t, "\"name\": \"conv2\", ", channels, 3, 1);
    put(t, "{\"name\": \"bn2\", \"batch_norm2d\": {}}, ");
    if (stride > 1) {
        put(t,
            "{\"name\": \"downsample\", \"input\": \"%s\", "
            "\"sequential\": [",
            from);
        put_conv(t, "", channels, 1, stride);
        put(t, "\"batch_norm2d\"]}, ");
        shortcut = "downsample";
    }
    put(t,
        "{\"name\": \"add\", \"input\": [\"bn2\", \"%s\"], \"add\": {}}, "
        "{\"name\": \"relu2\", \"relu\": {}}]}",
        shortcut);
}

/* He et al. 2015, section 4.2, with projections where the size changes. */
static void
put_resnet(struct text *t, const struct spec_presets_resnet *resnet)
{
    const int64_t n = (resnet->depth - 2) / 6;
    char from[32];

    text_puts(t, "[");
    put_conv(t, "\"name\": \"conv1\", ", resnet->width, 3, 1);
    put(t, "{\"name\": \"bn1\", \"batch_norm2d\": {}}, "
           "{\"name\": \"relu\", \"relu\": {}}");
    for (int stage = 1; stage <= 3; stage++) {
        put(t, ", {\"name\": \"layer%d\", \"sequential\": [", stage);
        for (int64_t i = 0; i < n && !is_too_long(t); i++) {
            if (i > 0)
                snprintf(from, sizeof(from), "%" PRId64, i - 1);
            else if (stage > 1)
                snprintf(from, sizeof(from), "layer%d", stage - 1);
            else
                snprintf(from, sizeof(from), "relu");
            text_puts(t, i > 0 ? ", " : "");
            put_block(t, resnet->width << (stage - 1),
                      i == 0 && stage > 1 ? 2 : 1, from);
        }
        text_puts(t, "]}");
    }
    put(t,
        ", {\"name\": \"avgpool\", \"adaptive_avg_pool2d\": "
        "{\"output_size\": 1}}, {\"name\": \"flatten\", \"flatten\": {}}, "
        "{\"name\": \"fc\", \"linear\": {\"out_features\": %" PRId64 "}}]",
        resnet->num_classes);
}

static bool
expand_resnet(struct spec_reader *r, int node, struct text *t)
{
    struct spec_presets_resnet resnet = {.depth = 0};
    int n = r->n_slots;

    spec_read_object(r, node, SPEC_OBJECT_RESNET, &resnet);
    if (resnet.depth > 0 && (resnet.depth < 8 || resnet.depth % 6 != 2))
        spec_fault_at(r, spec_read_find(r, node, "depth"),
                      "must be 6n + 2, as 8, 14, 20, 32, 44, 56, 110, not "
                      "%" PRId64,
                      resnet.depth);
    if (r->n_slots > n)
        return false;
    put_resnet(t, &resnet);
    return true;
}

/* ---- gpt ----------------------------------------------------------------- */

/* A linear layer that starts as GPT-2's do. */
static void
put_linear(struct text *t, const char *name, int64_t out, bool bias, double std)
{
    put(t,
        "{\"name\": \"%s\", \"linear\": {\"out_features\": %" PRId64
        ", \"bias\": %s}, ",
        name, out, yes(bias));
    put_real(t, "\"weight_init\": {\"normal\": {\"std\": ", std, "}}");
    text_puts(t, bias ? ", \"bias_init\": \"zeros\"}" : "}");
}

static void
put_dropout(struct text *t, const char *name, double p)
{
    if (p == 0)
        return;
    put(t, ", {\"name\": \"%s\", \"dropout\": ", name);
    put_real(t, "{\"p\": ", p, "}}");
}

/* x + attention(norm(x)), then the same with the two products. Every layer has
 * a name: a position would hide the block of that number. */
static void
put_decoder(struct text *t, const struct spec_presets_gpt *gpt,
            const char *from)
{
    const int64_t c = gpt->n_embd;
    /* What residual branches add up to stays the same at any depth. */
    const double std = 0.02 / sqrt(2.0 * (double)gpt->n_layer);

    put(t,
        "{\"sequential\": [{\"name\": \"ln_1\", \"layer_norm\": "
        "{\"bias\": %s}}, {\"name\": \"attn\", \"sequential\": [",
        yes(gpt->bias));
    put_linear(t, "c_attn", 3 * c, gpt->bias, 0.02);
    put(t,
        ", {\"name\": \"heads\", \"scaled_dot_product_attention\": "
        "{\"num_heads\": %" PRId64 ", \"is_causal\": true, ",
        gpt->n_head);
    put_real(t, "\"dropout_p\": ", gpt->dropout, "}}, ");
    put_linear(t, "c_proj", c, gpt->bias, std);
    put_dropout(t, "resid_dropout", gpt->dropout);
    put(t,
        "]}, {\"name\": \"add_1\", \"input\": [\"%s\", \"attn\"], "
        "\"add\": {}}, {\"name\": \"ln_2\", \"layer_norm\": {\"bias\": %s}}, "
        "{\"name\": \"mlp\", \"sequential\": [",
        from, yes(gpt->bias));
    put_linear(t, "c_fc", 4 * c, gpt->bias, 0.02);
    put(t, ", {\"name\": \"act\", \"gelu\": {\"approximate\": \"tanh\"}}, ");
    put_linear(t, "c_proj", c, gpt->bias, std);
    put_dropout(t, "dropout", gpt->dropout);
    put(t, "]}, {\"name\": \"add_2\", \"input\": [\"add_1\", \"mlp\"], "
           "\"add\": {}}]}");
}

static void
put_gpt(struct text *t, const struct spec_presets_gpt *gpt)
{
    static const char start[] =
        "\"weight_init\": {\"normal\": {\"std\": 0.02}}}";
    char from[32];

    put(t,
        "[{\"name\": \"wte\", \"embedding\": {\"num_embeddings\": %" PRId64
        ", \"embedding_dim\": %" PRId64 "}, %s, {\"name\": \"wpe\", "
        "\"positional_embedding\": {\"num_embeddings\": %" PRId64 "}, %s",
        gpt->vocab_size, gpt->n_embd, start, gpt->block_size, start);
    put_dropout(t, "drop", gpt->dropout);
    text_puts(t, ", {\"name\": \"h\", \"sequential\": [");
    snprintf(from, sizeof(from), "%s", gpt->dropout > 0 ? "drop" : "wpe");
    for (int64_t i = 0; i < gpt->n_layer && !is_too_long(t); i++) {
        text_puts(t, i > 0 ? ", " : "");
        put_decoder(t, gpt, from);
        snprintf(from, sizeof(from), "%" PRId64, i);
    }
    put(t,
        "]}, {\"name\": \"ln_f\", \"layer_norm\": {\"bias\": %s}}, "
        "{\"name\": \"lm_head\", \"linear\": {\"out_features\": %" PRId64
        ", \"bias\": false}, %s]",
        yes(gpt->bias), gpt->vocab_size,
        gpt->tie_weights ? "\"weight_from\": \"wte\"}" : start);
}

static bool
expand_gpt(struct spec_reader *r, int node, struct text *t)
{
    struct spec_presets_gpt gpt = {.n_layer = 0};
    int n = r->n_slots;

    spec_read_object(r, node, SPEC_OBJECT_GPT, &gpt);
    if (gpt.n_head > 0 && gpt.n_embd % gpt.n_head != 0)
        spec_fault_at(r, spec_read_find(r, node, "n_embd"),
                      "must be a multiple of n_head %" PRId64 ", not %" PRId64,
                      gpt.n_head, gpt.n_embd);
    if (r->n_slots > n)
        return false;
    put_gpt(t, &gpt);
    return true;
}

bool
spec_presets_expand(struct spec_reader *r, int node, int kind,
                    struct spec_preset *preset)
{
    struct text t = {NULL};
    bool sound = false;

    switch ((enum spec_presets_kind)kind) {
    case SPEC_PRESETS_FIRST: break;
    case SPEC_PRESETS_MLP: sound = expand_mlp(r, node, &t); break;
    case SPEC_PRESETS_RESNET: sound = expand_resnet(r, node, &t); break;
    case SPEC_PRESETS_GPT: sound = expand_gpt(r, node, &t); break;
    }
    if (sound && is_too_long(&t)) {
        spec_fault_at(r, node, "stands for more than %d layers",
                      SPEC_MAX_LAYERS);
        sound = false;
    }
    if (sound)
        preset->text = text_take(&t, NULL);
    if (sound && preset->text == NULL)
        pool_alloc(r->pool, SIZE_MAX, 2); /* fails, and is remembered */
    text_fini(&t);
    return sound && preset->text != NULL;
}
