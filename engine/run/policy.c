/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/policy.h"

#include "engine/pass/autocast.h"
#include "kernels/backend.h"

#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static json_t *
make_scaler(const struct spec_scaler *s)
{
    if (!s->enabled)
        return json_pack("{s:b}", "enabled", 0);
    if (!s->dynamic)
        return json_pack("{s:b,s:b,s:f}", "enabled", 1, "dynamic", 0,
                         "init_scale", s->init_scale);
    return json_pack("{s:b,s:f,s:f,s:f,s:I,s:f,s:f}", "enabled", 1,
                     "init_scale", s->init_scale, "growth_factor",
                     s->growth_factor, "backoff_factor", s->backoff_factor,
                     "growth_interval", (json_int_t)s->growth_interval,
                     "min_scale", s->min_scale, "max_scale", s->max_scale);
}

static json_t *
make_op_list(void)
{
    char hash[17];

    snprintf(hash, sizeof(hash), "%016llx",
             (unsigned long long)autocast_list_hash());
    return json_pack("{s:i,s:s}", "version", AUTOCAST_LIST_VERSION, "hash",
                     hash);
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted: their order in the spec means nothing. */
static json_t *
make_regions(const struct spec *spec)
{
    const int n = spec->amp.n_fp32_regions;
    const char **sorted = calloc((size_t)n + 1, sizeof(*sorted));
    json_t *list = json_array();

    if (sorted == NULL) {
        json_decref(list);
        return NULL;
    }
    if (n > 0)
        memcpy(sorted, spec->amp.fp32_regions, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_names);
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(sorted[i]));
    free(sorted);
    return list;
}

/* Our own loops give the same bits on any processor. Products of oneDNN do
 * not, nor do logarithms and powers of the C library. */
static json_t *
make_libraries(const char *backend)
{
    const struct backend *known = backend_find(backend);
    char text[128] = "";

    if (known != NULL)
        backend_describe(known, text, sizeof(text));
    return json_pack("{s:s,s:s}", "kernels", text, "libc",
                     gnu_get_libc_version());
}

char *
policy_format(const struct spec *spec, const char *backend, int threads)
{
    const bool pytorch = spec->amp.wgrad_rounding == SPEC_WGRAD_PYTORCH;
    json_t *policy = json_pack(
        "{s:s,s:o,s:o,s:o,s:s,s:s,s:o,s:i}", "dtype",
        dtype_name(spec->amp.dtype), "op_list", make_op_list(), "scaler",
        make_scaler(&spec->amp.scaler), "fp32_regions", make_regions(spec),
        "wgrad_rounding", pytorch ? "pytorch" : "fp32", "backend", backend,
        "libraries", make_libraries(backend), "threads", threads);
    char *text = NULL;

    if (policy != NULL)
        text = json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(policy);
    return text;
}

/* ---- differences ----------------------------------------------------------*/

struct comparison {
    policy_difference_fn *fn;
    void *ctx;
};

static void
tell_difference(const struct comparison *c, const char *path,
                const json_t *here, const json_t *recorded)
{
    const int flags = JSON_COMPACT | JSON_ENCODE_ANY;
    char *is = here != NULL ? json_dumps(here, flags) : NULL;
    char *was = recorded != NULL ? json_dumps(recorded, flags) : NULL;
    char text[320];

    snprintf(text, sizeof(text), "%s: %.120s here, %.120s recorded", path,
             is != NULL ? is : "none", was != NULL ? was : "none");
    c->fn(c->ctx, text);
    free(is);
    free(was);
}

static void
join_path(char out[96], const char *path, const char *key)
{
    snprintf(out, 96, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
}

/* Policies are a few levels deep, but a stranger may have written one. */
static void
compare_values(const struct comparison *c, const char *path, json_t *here,
               json_t *recorded, int depth)
{
    char below[96];
    const char *key;
    json_t *value;

    if (!json_is_object(here) || !json_is_object(recorded) || depth == 0) {
        if (!json_equal(here, recorded))
            tell_difference(c, path, here, recorded);
        return;
    }
    json_object_foreach(here, key, value)
    {
        join_path(below, path, key);
        compare_values(c, below, value, json_object_get(recorded, key),
                       depth - 1);
    }
    json_object_foreach(recorded, key, value)
    {
        join_path(below, path, key);
        if (json_object_get(here, key) == NULL)
            tell_difference(c, below, NULL, value);
    }
}

void
policy_compare(const char *here, const char *recorded, policy_difference_fn *fn,
               void *ctx)
{
    const struct comparison c = {fn, ctx};
    json_t *is = json_loads(here, 0, NULL);
    json_t *was = json_loads(recorded, 0, NULL);

    if (is != NULL && was != NULL)
        compare_values(&c, "", is, was, 4);
    json_decref(is);
    json_decref(was);
}

/* Earlier versions may have said less. */
static int
check_member(const json_t *policy, const char *key, json_t *want_take,
             struct err *err)
{
    json_t *is = json_object_get(policy, key);
    char *text =
        is != NULL ? json_dumps(is, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    int rc = 0;

    if (want_take == NULL)
        rc = err_set(err, ERR_NOMEM, "no memory");
    else if (is != NULL && !json_equal(is, want_take))
        rc = err_set(err, ERR_SPEC,
                     "%s is %.120s, which is not what the spec "
                     "has",
                     key, text != NULL ? text : "something else");
    free(text);
    json_decref(want_take);
    return rc;
}

int
policy_check(const char *text, const struct spec *spec, struct err *err)
{
    const bool pytorch = spec->amp.wgrad_rounding == SPEC_WGRAD_PYTORCH;
    json_error_t error;
    json_t *policy = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    int rc;

    if (policy == NULL)
        return err_set(err, ERR_SPEC, "%s at byte %d", error.text,
                       error.position);
    if (!json_is_object(policy))
        rc = err_set(err, ERR_SPEC, "not an object");
    else
        rc = check_member(policy, "dtype",
                          json_string(dtype_name(spec->amp.dtype)), err);
    if (rc == 0)
        rc = check_member(policy, "fp32_regions", make_regions(spec), err);
    if (rc == 0)
        rc = check_member(policy, "wgrad_rounding",
                          json_string(pytorch ? "pytorch" : "fp32"), err);
    json_decref(policy);
    return rc;
}

uint64_t
policy_hash_spec(const struct spec *spec)
{
    char *text = spec_print(spec);
    const uint64_t hash = text != NULL ? XXH3_64bits(text, strlen(text)) : 0;

    free(text);
    return hash;
}
