/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a spec: faults are well formed and in order; what is accepted
 * prints to a text that gives the same print again. And as an assignment on
 * top of a good spec.
 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec.h"
#include "proto/spec_locate.h"
#include "proto/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char good[] =
    "{\"data\": {\"train\": {\"format\": \"idx\", \"input\": \"x\","
    " \"target\": \"y\"}, \"batch_size\": 8},"
    " \"model\": [{\"linear\": {\"out_features\": 10}}, \"relu\"],"
    " \"loss\": \"mse\", \"optimizer\": \"adam\"}";

static void
check_faults(struct spec_faults *faults)
{
    assert(faults->n > 0 && faults->n <= 100);
    for (int i = 0; i < faults->n; i++) {
        const struct spec_fault *f = &faults->list[i];

        assert(f->line > 0 && f->col > 0 && f->message[0] != '\0');
        assert(utf8_valid(f->message, strlen(f->message)));
        assert(!utf8_has_control(f->message, strlen(f->message)));
        assert(utf8_valid(f->path, strlen(f->path)));
        assert(!utf8_has_control(f->path, strlen(f->path)));
        assert(i == 0 || f[-1].line < f->line ||
               (f[-1].line == f->line && f[-1].col <= f->col));
    }
    spec_faults_fini(faults);
}

static void
check_spec(struct spec *spec)
{
    char *first = spec_print(spec), *second;
    struct spec_faults faults;
    struct spec *again;

    assert(first != NULL);
    assert(spec_parse(first, strlen(first), &again, &faults) == 0);
    second = spec_print(again);
    assert(second != NULL && strcmp(first, second) == 0);
    assert(spec_resolve_paths(again, "/a", NULL) == 0);
    free(first);
    free(second);
    spec_destroy(&spec);
    spec_destroy(&again);
}

static void
parse(const char *text, size_t len)
{
    struct spec_faults faults;
    struct spec *spec;
    int rc = spec_parse(text, len, &spec, &faults);

    if (rc == 0)
        check_spec(spec);
    else
        check_faults(&faults);
    assert(rc == 0 || rc == ERR_SPEC);
}

/* Our tokenizer and jansson agree on what is JSON, but for what jansson alone
 * minds, repeated keys and huge numbers, and NUL bytes, which it may skip. */
static void
compare_with_jansson(const char *text, size_t len)
{
    struct spec_tree tree;
    json_error_t error;
    json_t *json =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    int rc = spec_locate_init(&tree, text, len);

    if (json != NULL)
        assert(rc == 0 || tree.too_deep || memchr(text, 0, len) != NULL);
    else if (rc == 0)
        assert(json_error_code(&error) == json_error_duplicate_key ||
               json_error_code(&error) == json_error_numeric_overflow);
    json_decref(json);
    spec_locate_fini(&tree);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char *changed;

    assert(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    compare_with_jansson(text, size);
    parse(text, size);
    spec_explain_key(text);
    if (spec_set(good, strlen(good), text, &changed, NULL) == 0) {
        parse(changed, strlen(changed));
        free(changed);
    }
    free(text);
    return 0;
}
