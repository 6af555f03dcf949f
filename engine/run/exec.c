/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/exec.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct entry {
    void (*run)(const struct kernel_call *call);
    struct kernel_call call;
};

/* One operand that an input of the graph is read through. */
struct patch {
    enum graph_input which;
    int entry, operand;
};

struct exec {
    const struct program *program; /* borrowed */
    struct state *state;           /* borrowed */
    char *block;                   /* borrowed */
    bool training;
    int n_entries, n_prologue;
    struct entry *entry; /* owned */
    int n_patches;
    struct patch *patch; /* owned */
    const void *input[GRAPH_INPUT_COUNT];
    bool prologue_valid;
    uint64_t prologue_version; /* of the weights it last ran for */
};

static void *
resolve(const struct exec *x, const struct program_ref *ref)
{
    struct state *s = x->state;
    float *buffers = x->training ? s->buffers_pending : s->buffers;

    switch (ref->space) {
    case PROGRAM_NONE: return NULL;
    case PROGRAM_BLOCK: return x->block + ref->offset;
    case PROGRAM_PARAM: return s->weights + s->param[ref->index].offset;
    case PROGRAM_BUFFER: return buffers + s->buffer[ref->index].offset;
    case PROGRAM_GRAD: return s->grads + s->param[ref->index].offset;
    case PROGRAM_INPUT: return (void *)(uintptr_t)x->input[ref->index];
    }
    assert(!"space of a reference");
    return NULL;
}

static void
bind_entry(struct exec *x, int i)
{
    const struct program_instr *instr = program_instr_at(x->program, i);
    struct entry *e = &x->entry[i];

    e->run = instr->kernel->run;
    e->call.sig = &instr->sig;
    e->call.state = instr->state;
    for (int k = 0; k < OP_MAX_IN; k++) {
        e->call.in[k] = resolve(x, &instr->in[k]);
        if (instr->in[k].space == PROGRAM_INPUT)
            x->patch[x->n_patches++] =
                (struct patch){(enum graph_input)instr->in[k].index, i, k};
    }
    for (int k = 0; k < OP_MAX_OUT; k++)
        e->call.out[k] = resolve(x, &instr->out[k]);
    if (instr->workspace_bytes > 0)
        e->call.workspace = x->block + instr->workspace_offset;
}

static int
count_inputs(const struct program *p)
{
    int n = 0;

    for (int i = 0; i < program_n_instrs(p); i++)
        for (int k = 0; k < OP_MAX_IN; k++)
            n += program_instr_at(p, i)->in[k].space == PROGRAM_INPUT;
    return n;
}

int
exec_create(const struct program *program, struct state *state, void *block,
            bool training, struct exec **out, struct err *err)
{
    const int n = program_n_instrs(program);
    struct exec *x = calloc(1, sizeof(*x));

    assert((uintptr_t)block % 64 == 0);
    *out = NULL;
    if (x != NULL) {
        x->entry = calloc((size_t)n + 1, sizeof(*x->entry));
        x->patch = calloc((size_t)count_inputs(program) + 1, sizeof(*x->patch));
    }
    if (x == NULL || x->entry == NULL || x->patch == NULL) {
        exec_destroy(&x);
        return err_set(err, ERR_NOMEM, "exec: no memory");
    }
    x->program = program;
    x->state = state;
    x->block = block;
    x->training = training;
    x->n_entries = n;
    x->n_prologue = program_n_prologue(program);
    for (int i = 0; i < n; i++)
        bind_entry(x, i);
    *out = x;
    return 0;
}

void
exec_destroy(struct exec **exec)
{
    struct exec *x = *exec;

    *exec = NULL;
    if (x == NULL)
        return;
    free(x->entry);
    free(x->patch);
    free(x);
}

void
exec_set_input(struct exec *exec, enum graph_input which, const void *p)
{
    if (exec->input[which] == p)
        return;
    exec->input[which] = p;
    for (int i = 0; i < exec->n_patches; i++) {
        const struct patch *patch = &exec->patch[i];
        if (patch->which == which)
            exec->entry[patch->entry].call.in[patch->operand] = p;
    }
}

void
exec_invalidate(struct exec *exec)
{
    exec->prologue_valid = false;
}

static void
run_entry(struct exec *x, int i, const struct kernel_step *step)
{
    struct entry *e = &x->entry[i];

    e->call.step = step;
    e->run(&e->call);
}

static void
prologue_done(struct exec *x)
{
    x->prologue_valid = true;
    x->prologue_version = x->state->weights_version;
}

void
exec_run(struct exec *exec, const struct kernel_step *step)
{
    int first = 0;

    if (exec->prologue_valid &&
        exec->prologue_version == exec->state->weights_version)
        first = exec->n_prologue;
    for (int i = first; i < exec->n_entries; i++)
        run_entry(exec, i, step);
    prologue_done(exec);
}

void
exec_run_probed(struct exec *exec, const struct kernel_step *step,
                exec_probe_fn *probe, void *ctx)
{
    exec->prologue_valid = false;
    for (int i = 0; i < exec->n_entries; i++) {
        run_entry(exec, i, step);
        if (!probe(ctx, exec, i))
            return;
    }
    prologue_done(exec);
}

const struct program *
exec_program(const struct exec *exec)
{
    return exec->program;
}

const void *
exec_value(const struct exec *exec, int value)
{
    const struct program_ref ref = program_value_ref(exec->program, value);

    return resolve(exec, &ref);
}
