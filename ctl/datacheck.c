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

/* The key that a sentence is about: it begins with one of the files of
 * data.train or data.validation; "" when it names its own place. */
static const char *
find_key(const struct spec *spec, const char *text)
{
    const struct {
        const char *key, *path;
    } named[] = {
        {"data.train.input", spec->data.train.input},
        {"data.train.target", spec->data.train.target},
        {"data.train.mask", spec->data.train.mask},
        {"data.validation.input", spec->data.validation.input},
        {"data.validation.target", spec->data.validation.target},
        {"data.validation.mask", spec->data.validation.mask},
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        const size_t n = named[i].path != NULL ? strlen(named[i].path) : 0;

        if (n > 0 && strncmp(text, named[i].path, n) == 0 &&
            (text[n] == ':' || text[n] == ' '))
            return named[i].key;
    }
    return "";
}

static void
hand_fault(struct session *s, const struct specfile *file, const char *text,
           specfile_fault_fn *fn, void *ctx)
{
    struct view_fault fault;
    int line, col;

    view_init(VIEW_ID_fault, &fault);
    fault.path = find_key(file->spec, text);
    if (fault.path[0] != '\0' && spec_find_place(file->text, strlen(file->text),
                                                 fault.path, &line, &col)) {
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
