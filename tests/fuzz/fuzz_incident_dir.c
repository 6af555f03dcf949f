/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a kept incident that somebody else made: it is opened, held
 * against its own model, loaded and, where that is small, run again.
 *
 * The input is six parts, each "u32 little endian length | bytes": spec.json,
 * incident.json (any JSON: it is printed as the engine would), and of weights
 * and batch the header's JSON and the data. Lengths of headers and the
 * manifest are made to agree, so that what is tried is the reader, not the
 * checksum. The mutator changes one part and keeps the frame. */
#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/canonical.h"
#include "engine/diagnose/incident_file.h"
#include "engine/diagnose/ranges.h"

#define N_PARTS   6
#define MAX_ELEMS (1 << 16) /* of all tensors of a graph that is run */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned int seed);

struct parts {
    const uint8_t *at[N_PARTS];
    size_t len[N_PARTS];
};

static struct parts
split(const uint8_t *data, size_t size)
{
    struct parts p = {0};

    for (int i = 0; i < N_PARTS && size >= 4; i++) {
        const size_t n = (size_t)data[0] | (size_t)data[1] << 8 |
                         (size_t)data[2] << 16 | (size_t)data[3] << 24;

        p.at[i] = data + 4;
        p.len[i] = n < size - 4 ? n : size - 4;
        data += 4 + p.len[i];
        size -= 4 + p.len[i];
    }
    return p;
}

static size_t
put_part(uint8_t *to, const uint8_t *part, size_t n)
{
    for (int b = 0; b < 4; b++)
        to[b] = (uint8_t)(n >> (8 * b));
    if (n > 0)
        memcpy(to + 4, part, n);
    return 4 + n;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                        unsigned int seed)
{
    const struct parts p = split(data, size);
    const int which = (int)(seed % N_PARTS);
    size_t n = 0, kept = 0;

    for (int i = 0; i < N_PARTS; i++)
        kept += 4 + (i == which ? 0 : p.len[i]);
    if (kept >= max)
        return LLVMFuzzerMutate(data, size, max);
    uint8_t *out = malloc(max), *part = malloc(max - kept);
    const size_t len = p.len[which] < max - kept ? p.len[which] : max - kept;
    assert(out != NULL && part != NULL);
    if (len > 0)
        memcpy(part, p.at[which], len);
    const size_t mutated = LLVMFuzzerMutate(part, len, max - kept);
    for (int i = 0; i < N_PARTS; i++)
        n += i == which ? put_part(out + n, part, mutated)
                        : put_part(out + n, p.at[i], p.len[i]);
    memcpy(data, out, n);
    free(part);
    free(out);
    return n;
}

/* ---- the directory --------------------------------------------------------*/

static char dir[] = "/tmp/traind-fuzz-XXXXXX";

static void
sweep(void)
{
    char path[128];

    for (int i = 0; i <= INCIDENT_RECORD_N_FILES; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir,
                 i == INCIDENT_RECORD_N_FILES
                     ? INCIDENT_RECORD_MANIFEST
                     : incident_record_file_name((enum incident_record_file)i));
        unlink(path);
    }
    rmdir(dir);
}

static const char *
scratch(void)
{
    static bool made;

    if (!made) {
        made = mkdtemp(dir) != NULL;
        atexit(sweep);
    }
    assert(made);
    return dir;
}

static void
write_file(const char *name, const void *bytes, size_t n)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", scratch(), name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert(fd >= 0);
    assert(n == 0 || write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

static void
put_file(struct incident_manifest *m, enum incident_record_file which,
         const void *bytes, size_t n)
{
    write_file(incident_record_file_name(which), bytes, n);
    digest_of(bytes, n, m->file[which].digest);
    m->file[which].n_bytes = (int64_t)n;
}

static void
put_tensors(struct incident_manifest *m, enum incident_record_file which,
            const struct parts *p, int header)
{
    const size_t n_header = p->len[header], n = p->len[header + 1];
    uint8_t *bytes = calloc(1, 8 + n_header + n);

    assert(bytes != NULL);
    for (int b = 0; b < 8; b++)
        bytes[b] = (uint8_t)((uint64_t)n_header >> (8 * b));
    if (n_header > 0)
        memcpy(bytes + 8, p->at[header], n_header);
    if (n > 0)
        memcpy(bytes + 8 + n_header, p->at[header + 1], n);
    put_file(m, which, bytes, 8 + n_header + n);
    free(bytes);
}

static void
put_record(struct incident_manifest *m, const struct parts *p)
{
    json_t *value = json_loadb(p->at[1] != NULL ? (const char *)p->at[1] : "",
                               p->len[1], 0, NULL);
    const char *name = json_string_value(json_object_get(value, "name"));
    char *text;

    snprintf(m->name, sizeof(m->name), "%s",
             name != NULL ? name : "it000000001-a1");
    text = canonical_print_take(value);
    if (text != NULL)
        put_file(m, INCIDENT_RECORD_SELF, text, strlen(text));
    else
        put_file(m, INCIDENT_RECORD_SELF, p->at[1], p->len[1]);
    free(text);
}

static void
write_all(const struct parts *p)
{
    struct incident_manifest m = {0};
    char *text;

    put_record(&m, p);
    put_file(&m, INCIDENT_RECORD_SPEC, p->at[0], p->len[0]);
    put_tensors(&m, INCIDENT_RECORD_WEIGHTS, p, 2);
    put_tensors(&m, INCIDENT_RECORD_BATCH, p, 4);
    text = incident_record_print_manifest(&m);
    if (text != NULL)
        write_file(INCIDENT_RECORD_MANIFEST, text, strlen(text));
    free(text);
}

/* ---- what a replay does ---------------------------------------------------*/

static bool
is_small(const struct graph *graph)
{
    int64_t n = 0;

    for (int i = 0; i < graph_n_values(graph) && n <= MAX_ELEMS; i++)
        n += tensor_n_elems(&graph_value_at(graph, i)->desc);
    return n <= MAX_ELEMS;
}

static void
run(struct incident_file *file, struct state *state)
{
    const struct incident_record *record = incident_file_record(file);
    const struct ranges_options o = {
        .spec = incident_file_spec(file),
        .data = record->data,
        .backend = backend_find("reference"),
        .threads = 1,
    };
    struct ranges *ranges = NULL;
    struct err err;

    err_clear(&err);
    if (ranges_measure(&o, state, incident_file_window(file), &ranges, &err) ==
        0)
        assert(ranges_outcome(ranges)->digest[0] != '\0');
    else
        assert(err.msg[0] != '\0');
    ranges_destroy(&ranges);
}

static void
load(struct incident_file *file)
{
    struct graph *graph = NULL;
    struct state *state = NULL;
    int64_t full, last;
    struct err err;

    err_clear(&err);
    incident_file_batch_sizes(file, &full, &last);
    if (incident_file_make_state(file, &state, &err) != 0)
        assert(state == NULL && err.msg[0] != '\0');
    else if (build_graph(incident_file_spec(file),
                         &incident_file_record(file)->data, BUILD_TRAIN, full,
                         &graph, &err) == 0 &&
             is_small(graph))
        run(file, state);
    state_destroy(&state);
    graph_destroy(&graph);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct parts p = split(data, size);
    struct incident_file *file = NULL;
    struct err err;

    err_clear(&err);
    write_all(&p);
    if (incident_file_open(scratch(), &file, &err) == 0)
        load(file);
    else
        assert(strncmp(err.msg, scratch(), strlen(scratch())) == 0);
    incident_file_close(&file);
    return 0;
}
