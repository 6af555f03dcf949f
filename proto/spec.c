/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec_parts.h"
#include "proto/utf8.h"

/* ---- names --------------------------------------------------------------- */

static const char *
word(const struct spec_words *words, int value)
{
    const char *name = spec_words_name(words, value);

    assert(name != NULL);
    return name;
}

const char *
spec_layer_name(enum spec_layer_kind kind)
{
    return word(&spec_words_layer, (int)kind);
}

const char *
spec_loss_name(enum spec_loss loss)
{
    return word(&spec_words_loss, (int)loss);
}

const char *
spec_optimizer_name(enum spec_optimizer optimizer)
{
    return word(&spec_words_optimizer, (int)optimizer);
}

const char *
spec_schedule_name(enum spec_schedule schedule)
{
    return word(&spec_words_schedule, (int)schedule);
}

const char *
spec_metric_name(enum spec_metric metric)
{
    return word(&spec_words_metric, (int)metric);
}

bool
spec_metric_is_larger_better(enum spec_metric metric)
{
    return metric == SPEC_METRIC_ACCURACY || metric == SPEC_METRIC_TOP_K;
}

const char *
spec_format_name(enum spec_format format)
{
    return word(&spec_words_format, (int)format);
}

const char *
spec_guard_condition_name(enum spec_condition condition)
{
    return word(&spec_words_condition, (int)condition);
}

/* ---- parsing ------------------------------------------------------------- */

void
spec_faults_fini(struct spec_faults *faults)
{
    free(faults->list);
    faults->list = NULL;
    faults->n = 0;
}

/* 0, ERR_SPEC with what jansson has against the text, or ERR_NOMEM. Without
 * memory jansson is silent or calls good tokens invalid: what our tokenizer
 * has accepted (`sound`) it may refuse for two reasons only. */
static int
ask_jansson(const char *text, size_t len, bool sound, json_error_t *error)
{
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, error);
    enum json_error_code code;

    if (json != NULL) {
        json_decref(json);
        return 0;
    }
    if (error->text[0] == '\0')
        return ERR_NOMEM;
    code = json_error_code(error);
    if (sound && code != json_error_duplicate_key &&
        code != json_error_numeric_overflow)
        return ERR_NOMEM;
    return ERR_SPEC;
}

/* jansson's complaint as the only fault, at its own place. */
static void
add_syntax_fault(struct spec_reader *r, const json_error_t *error)
{
    size_t n;

    spec_fault_add(r, 0, -1, NULL, "%s", error->text);
    r->slots[0].fault.line = error->line > 0 ? error->line : 1;
    r->slots[0].fault.col = error->column > 0 ? error->column : 1;
    /* "near '...'" may quote anything. */
    n = strlen(r->slots[0].fault.message);
    for (size_t i = 0; i < n; i++) {
        char *c = &r->slots[0].fault.message[i];
        size_t k = utf8_length(c, n - i);

        if (k == 0 || utf8_has_control(c, k))
            *c = '?';
        else
            i += k - 1;
    }
}

/* What is printed must be short enough to be read: it is what the client sends
 * and the daemon keeps. Layers deep inside take more room than they were given
 * with. */
static int
check_printed(struct spec_reader *r, const struct spec *spec)
{
    char *text = spec_print(spec);
    size_t len;

    if (text == NULL)
        return ERR_NOMEM;
    len = strlen(text);
    free(text);
    if (len > SPEC_MAX_BYTES)
        spec_fault_add(r, 0, -1, NULL,
                       "the spec is %zu bytes long with all that it stands "
                       "for, at most %d are allowed",
                       len, SPEC_MAX_BYTES);
    return 0;
}

/* Fills spec from text or leaves faults in r. */
static int
parse(struct spec_reader *r, const char *text, size_t len, struct spec *spec)
{
    json_error_t error = {.line = 1};
    int rc, judged;
    bool sound;

    if (len > SPEC_MAX_BYTES) {
        spec_fault_add(r, 0, -1, NULL,
                       "the spec is %zu bytes long, at most %d are allowed",
                       len, SPEC_MAX_BYTES);
        return ERR_SPEC;
    }
    rc = spec_locate_init(&r->tree, text, len);
    if (rc == ERR_NOMEM)
        return rc;
    if (rc != 0 && r->tree.too_deep) {
        spec_fault_add(r, r->tree.fault_at, -1, NULL, "nested deeper than %d",
                       SPEC_MAX_DEPTH);
        return ERR_SPEC;
    }
    sound = rc == 0 && (r->tree.nodes[0].type == SPEC_NODE_OBJECT ||
                        r->tree.nodes[0].type == SPEC_NODE_ARRAY);
    judged = ask_jansson(text, len, sound, &error);
    if (judged == ERR_NOMEM)
        return judged;
    if (rc != 0 && judged == 0) /* a NUL byte, which jansson skips */
        spec_fault_add(r, r->tree.fault_at, -1, NULL, "unexpected byte");
    if (rc == 0 && spec_read_is_object(r, 0))
        rc = spec_sections_read(r, spec);
    if (rc == ERR_NOMEM)
        return rc;
    /* What jansson alone refuses are repeated keys and huge numbers; the
     * readers say so themselves, with all the other faults, if they saw it. */
    if (r->n_slots == 0 && judged != 0)
        add_syntax_fault(r, &error);
    if (r->n_slots == 0 && check_printed(r, spec) != 0)
        return ERR_NOMEM;
    return r->n_slots > 0 ? ERR_SPEC : 0;
}

static int
give_faults(const struct spec_reader *r, struct spec_faults *faults)
{
    size_t n = (size_t)r->n_slots;

    faults->list = calloc(n, sizeof(*faults->list));
    if (faults->list == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        faults->list[i] = r->slots[i].fault;
    faults->n = r->n_slots;
    return ERR_SPEC;
}

int
spec_parse(const char *text, size_t len, struct spec **out,
           struct spec_faults *faults)
{
    struct spec_reader r = {.pool = NULL};
    struct spec *spec = calloc(1, sizeof(*spec));
    int rc = ERR_NOMEM;

    *out = NULL;
    *faults = (struct spec_faults){NULL, 0};
    r.pool = pool_create();
    r.slots = calloc(SPEC_MAX_FAULTS, sizeof(*r.slots));
    if (spec == NULL || r.pool == NULL || r.slots == NULL)
        goto out;
    spec->memory = r.pool;
    r.tree.cursor.line = r.tree.cursor.col = 1;
    rc = parse(&r, text, len, spec);
    if (rc == ERR_SPEC)
        rc = give_faults(&r, faults);
    if (rc == 0) {
        *out = spec;
        spec = NULL;
        r.pool = NULL;
    }
out:
    spec_locate_fini(&r.tree);
    free(r.slots);
    pool_destroy(&r.pool);
    free(spec);
    return rc;
}

void
spec_destroy(struct spec **spec)
{
    struct pool *pool;

    if (*spec == NULL)
        return;
    pool = (*spec)->memory;
    pool_destroy(&pool);
    free(*spec);
    *spec = NULL;
}

/* ---- paths --------------------------------------------------------------- */

static int
resolve(struct spec *spec, const char *dir, const char **path, struct err *err)
{
    size_t n = strlen(dir);
    size_t size;
    char *joined;

    if (*path == NULL || (*path)[0] == '/')
        return 0;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    size = n + strlen(*path) + 2;
    joined = pool_alloc(spec->memory, size, 1);
    if (joined == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the path of %s", *path);
    snprintf(joined, size, "%.*s%s%s", (int)n, dir,
             n > 0 && dir[n - 1] == '/' ? "" : "/", *path);
    *path = joined;
    return 0;
}

/* The files that a spec may name. */
static const struct {
    const char *key;
    size_t offset;
} files[] = {
    {"data.train.input", offsetof(struct spec, data.train.input)},
    {"data.train.target", offsetof(struct spec, data.train.target)},
    {"data.train.mask", offsetof(struct spec, data.train.mask)},
    {"data.validation.input", offsetof(struct spec, data.validation.input)},
    {"data.validation.target", offsetof(struct spec, data.validation.target)},
    {"data.validation.mask", offsetof(struct spec, data.validation.mask)},
    {"initial_weights", offsetof(struct spec, initial_weights)},
};
#define N_FILES ((int)(sizeof(files) / sizeof(files[0])))

bool
spec_file_at(const struct spec *spec, int i, const char **key,
             const char **path)
{
    if (i >= N_FILES)
        return false;
    *key = files[i].key;
    memcpy(path, (const char *)spec + files[i].offset, sizeof(*path));
    return true;
}

int
spec_resolve_paths(struct spec *spec, const char *dir, struct err *err)
{
    if (dir[0] != '/')
        return err_set(err, ERR_USAGE, "%s is no absolute path", dir);
    for (int i = 0; i < N_FILES; i++) {
        void *at = (char *)spec + files[i].offset;
        int rc = resolve(spec, dir, at, err);

        if (rc != 0)
            return rc;
    }
    return 0;
}
