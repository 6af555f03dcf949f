/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/specfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading -------------------------------------------------------------*/

static int
read_all(FILE *f, const char *name, char **out, size_t *len, struct err *err)
{
    char *text = malloc(SPEC_MAX_BYTES + 1);

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    *len = fread(text, 1, SPEC_MAX_BYTES + 1, f);
    if (ferror(f)) {
        int saved = errno;
        free(text);
        return err_set_errno(err, ERR_IO, saved, "%s", name);
    }
    if (*len > SPEC_MAX_BYTES) {
        free(text);
        return err_set(err, ERR_SPEC,
                       "%s: larger than a spec may be (%d "
                       "bytes)",
                       name, SPEC_MAX_BYTES);
    }
    text[*len] = '\0';
    *out = text;
    return 0;
}

static int
apply_sets(struct specfile *file, size_t *len, const char *const *set,
           int n_set, struct err *err)
{
    for (int i = 0; i < n_set; i++) {
        char *changed = NULL;
        int rc = spec_set(file->text, *len, set[i], &changed, err);
        if (rc < 0)
            return err_prefix(err, "--set %s", set[i]);
        free(file->text);
        file->text = changed;
        *len = strlen(changed);
    }
    return 0;
}

int
specfile_read(struct specfile *file, const char *path, const char *const *set,
              int n_set, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    size_t len = 0;
    int rc;

    *file = (struct specfile){.name = is_stdin ? "<stdin>" : path};
    if (f == NULL)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    rc = read_all(f, file->name, &file->text, &len, err);
    if (!is_stdin)
        fclose(f);
    if (rc < 0)
        return rc;
    if (strlen(file->text) != len)
        return err_set(err, ERR_SPEC, "%s: holds a NUL byte, so it is no JSON",
                       file->name);
    return apply_sets(file, &len, set, n_set, err);
}

void
specfile_fini(struct specfile *file)
{
    free(file->text);
    free(file->full);
    free(file->wire);
    spec_destroy(&file->spec);
}

/* ---- checking ------------------------------------------------------------*/

static void
hand_faults(struct session *s, const struct specfile *file,
            const struct spec_faults *faults, specfile_fault_fn *fn, void *ctx)
{
    for (int i = 0; i < faults->n; i++) {
        struct view_fault fault;
        view_init(VIEW_ID_fault, &fault);
        fault.line = faults->list[i].line;
        fault.col = faults->list[i].col;
        fault.path = faults->list[i].path;
        fault.message = faults->list[i].message;
        fn(s, file, &fault, ctx);
    }
}

/* Why the file cannot be read as data, or NULL; text holds the answer. */
static const char *
why_unreadable(const char *path, char *text, size_t n)
{
    struct stat st;
    /* Not blocking, should it be a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        snprintf(text, n, "%s: %s", path, strerror(errno));
        return text;
    }
    int rc = fstat(fd, &st);
    close(fd);
    if (rc == 0 && S_ISREG(st.st_mode))
        return NULL;
    snprintf(text, n, "%s: not a regular file", path);
    return text;
}

/* The files that a spec names, with their keys. */
static int
check_files(struct session *s, const struct specfile *file,
            specfile_fault_fn *fn, void *ctx)
{
    const char *key, *path;
    int n_faults = 0;

    for (int i = 0; spec_file_at(file->spec, i, &key, &path); i++) {
        char text[PATH_MAX + 64];
        struct view_fault fault;
        int line, col;

        if (path == NULL || why_unreadable(path, text, sizeof(text)) == NULL)
            continue;
        view_init(VIEW_ID_fault, &fault);
        if (spec_find_place(file->text, strlen(file->text), key, &line, &col)) {
            fault.line = line;
            fault.col = col;
        }
        fault.path = key;
        fault.message = text;
        fn(s, file, &fault, ctx);
        n_faults++;
    }
    return n_faults;
}

int
specfile_check(struct session *s, struct specfile *file, specfile_fault_fn *fn,
               void *ctx, struct err *err)
{
    struct spec_faults faults = {0};
    char cwd[PATH_MAX];
    int rc = spec_parse(file->text, strlen(file->text), &file->spec, &faults);

    if (rc == ERR_SPEC) {
        assert(faults.n > 0);
        hand_faults(s, file, &faults, fn, ctx);
        rc = faults.n;
    } else if (rc < 0) {
        err_set(err, rc, "%s: %s", file->name, err_line(rc));
    }
    spec_faults_fini(&faults);
    if (rc != 0)
        return rc;
    file->full = spec_print(file->spec);
    if (file->full == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return err_set_errno(err, ERR_IO, errno, "the working directory");
    rc = spec_resolve_paths(file->spec, cwd, err);
    if (rc < 0)
        return rc;
    rc = check_files(s, file, fn, ctx);
    if (rc != 0)
        return rc;
    file->wire = spec_print(file->spec);
    return file->wire != NULL ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

struct faults_to {
    struct session *s;
    const struct specfile *file;
    specfile_fault_fn *fn;
    void *ctx;
    int n;
};

/* Places of a fault that the daemon found are those of the printed text, which
 * the user never saw: left out. */
static int
hand_remote(void *ctx, const void *view, struct err *err)
{
    struct faults_to *to = ctx;
    struct view_fault fault = *(const struct view_fault *)view;

    (void)err;
    fault.line = fault.col = 0;
    to->fn(to->s, to->file, &fault, to->ctx);
    to->n++;
    return 0;
}

int
specfile_ask(struct session *s, const struct specfile *file,
             specfile_fault_fn *fn, void *ctx, struct err *err)
{
    struct faults_to to = {s, file, fn, ctx, 0};
    struct view_validate args;

    view_init(VIEW_ID_validate, &args);
    args.spec = file->wire;
    int rc =
        call_many(s->link, MESSAGE_ID_validate, &args, hand_remote, &to, err);
    if (rc < 0 && specfile_refused(s, file, fn, ctx) > 0)
        return 1;
    return rc < 0 ? rc : to.n;
}

int
specfile_refused(struct session *s, const struct specfile *file,
                 specfile_fault_fn *fn, void *ctx)
{
    struct faults_to to = {s, file, fn, ctx, 0};
    struct client *client;

    if (s->link == NULL || !link_was_refused(s->link))
        return 0;
    client = link_client(s->link);
    for (int i = 0; i < client_n_faults(client); i++) {
        struct view_fault fault;
        if (client_read_fault(client, i, &fault) == 0)
            hand_remote(&to, &fault, NULL);
    }
    return to.n;
}

/* ---- printing ------------------------------------------------------------*/

/* The assignment that gave the value at path, or NULL. */
static const char *
find_set(const struct specfile_sets *sets, const char *path)
{
    for (int i = sets != NULL ? sets->n - 1 : -1; i >= 0; i--) {
        size_t len = strcspn(sets->set[i], "=");
        if (strncmp(sets->set[i], path, len) == 0 &&
            (path[len] == '\0' || path[len] == '.' || path[len] == '['))
            return sets->set[i];
    }
    return NULL;
}

void
specfile_print_fault(struct session *s, const struct specfile *file,
                     const struct view_fault *fault, void *ctx)
{
    const char *set = find_set(ctx, fault->path);
    const char *colon = fault->path[0] != '\0' ? ": " : "";
    char place[64] = "";

    if (fault->line > 0)
        snprintf(place, sizeof(place), ":%lld:%lld", (long long)fault->line,
                 (long long)fault->col);
    if (set != NULL)
        session_complain(s, "--set %s: error: %s%s%s", set, fault->path, colon,
                         fault->message);
    else
        session_complain(s, "%s%s: error: %s%s%s", file->name, place,
                         fault->path, colon, fault->message);
}
