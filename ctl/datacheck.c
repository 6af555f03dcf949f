/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/datacheck.h"

#include <limits.h>
#include <string.h>

#include "ctl/program.h"

struct answer {
    char text[ERR_SENTENCE_MAX];
    size_t n;
};

static int
keep(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct answer *a = ctx;
    const size_t room = sizeof(a->text) - 1 - a->n;

    (void)err;
    memcpy(a->text + a->n, bytes, n < room ? n : room);
    a->n += n < room ? n : room;
    a->text[a->n] = '\0';
    return 0;
}

/* ---- where a sentence belongs ---------------------------------------------*/

/* The key of the file that a sentence begins with; "" when it begins with none
 * of them. */
static const char *
find_file(const struct spec *spec, const char *text)
{
    const char *key, *path;

    for (int i = 0; spec_file_at(spec, i, &key, &path); i++) {
        const size_t n = path != NULL ? strlen(path) : 0;

        if (n > 0 && strncmp(text, path, n) == 0 &&
            (text[n] == ':' || text[n] == ' '))
            return key;
    }
    return "";
}

/* The innermost layer whose path text begins with: "h.0.attn.c_attn (linear):
 * .." or "head.weight: ..". */
static const struct spec_layer *
find_layer(const struct spec_layer *list, int n, const char *text)
{
    for (int i = 0; i < n; i++) {
        const struct spec_layer *layer = &list[i], *inner;
        const size_t len = strlen(layer->path);

        if (strncmp(text, layer->path, len) != 0 ||
            strchr(" .:", text[len]) == NULL)
            continue;
        inner = find_layer(layer->body, layer->n_body, text);
        if (inner == NULL)
            inner = find_layer(layer->shortcut, layer->n_shortcut, text);
        return inner != NULL ? inner : layer;
    }
    return NULL;
}

/* The place of a sentence that names its key, as "model: head: ..", "loss: .."
 * and "evaluate.top_k: .." do. */
static void
find_place(const struct specfile *file, const char *text,
           struct view_fault *fault)
{
    const size_t n = strcspn(text, ": ");
    const struct spec_layer *layer = NULL;
    char key[64];
    int line, col;

    if (n >= sizeof(key) || strncmp(text + n, ": ", 2) != 0)
        return;
    memcpy(key, text, n);
    key[n] = '\0';
    if (strcmp(key, "model") == 0)
        layer =
            find_layer(file->spec->model, file->spec->n_model, text + n + 2);
    if (layer != NULL && layer->line > 0) {
        fault->line = layer->line;
        fault->col = layer->col;
    } else if (spec_find_place(file->text, strlen(file->text), key, &line,
                               &col)) {
        fault->line = line;
        fault->col = col;
    }
}

static void
hand_fault(struct session *s, const struct specfile *file, const char *text,
           specfile_fault_fn *fn, void *ctx)
{
    struct view_fault fault;
    int line, col;

    view_init(VIEW_ID_fault, &fault);
    fault.path = find_file(file->spec, text);
    if (fault.path[0] == '\0') {
        find_place(file, text, &fault);
    } else if (spec_find_place(file->text, strlen(file->text), fault.path,
                               &line, &col)) {
        fault.line = line;
        fault.col = col;
    }
    fault.message = text;
    fn(s, file, &fault, ctx);
}

int
datacheck_run(struct session *s, const struct specfile *file,
              specfile_fault_fn *fn, void *ctx, struct err *err)
{
    char worker[PATH_MAX];
    char *const argv[] = {worker, (char[]){"--check-data"}, (char[]){"-"},
                          NULL};
    struct answer answer = {.n = 0};
    struct err none;
    int rc;

    err_clear(&none);
    if (program_find("traind-worker", worker, sizeof(worker), &none) < 0)
        return 0;
    rc = program_run(argv, file->wire, strlen(file->wire), keep, &answer, err);
    if (rc <= 0)
        return rc;
    answer.text[strcspn(answer.text, "\n")] = '\0';
    if (answer.text[0] != '\0' &&
        (rc == err_exit_code(ERR_DATA) || rc == err_exit_code(ERR_IO))) {
        hand_fault(s, file, answer.text, fn, ctx);
        return 1;
    }
    session_say(s, "%s: the data were not checked: %s", file->name,
                answer.text[0] != '\0' ? answer.text : "the worker fell");
    return 0;
}
