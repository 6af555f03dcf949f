/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/event.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define COUNT(names) (int)(sizeof(names) / sizeof((names)[0]))

static const char *const kinds[] = {
    [EVENT_STARTED] = "started",
    [EVENT_STEP] = "step",
    [EVENT_SCALE] = "scale",
    [EVENT_INCIDENT] = "incident",
    [EVENT_EVALUATION] = "evaluation",
    [EVENT_CHECKPOINT] = "checkpoint",
    [EVENT_CHECKPOINT_FAILED] = "checkpoint_failed",
    [EVENT_CHECKPOINT_PRUNED] = "checkpoint_pruned",
    [EVENT_WARNING] = "warning",
    [EVENT_FINISHED] = "finished",
};
static const char *const passes[] = {
    [EVENT_PASS_INPUT] = "input",     [EVENT_PASS_FORWARD] = "forward",
    [EVENT_PASS_LOSS] = "loss",       [EVENT_PASS_BACKWARD] = "backward",
    [EVENT_PASS_UNSCALE] = "unscale", [EVENT_PASS_OPTIMIZER] = "optimizer",
};
static const char *const nonfinites[] = {
    [EVENT_NAN] = "nan",
    [EVENT_POS_INF] = "+inf",
    [EVENT_NEG_INF] = "-inf",
};
static const char *const scale_causes[] = {
    [EVENT_SCALE_SKIP] = "skip",
    [EVENT_SCALE_GROWTH] = "growth",
    [EVENT_SCALE_SET] = "set",
};
static const char *const checkpoint_causes[] = {
    [EVENT_CHECKPOINT_PERIODIC] = "periodic",
    [EVENT_CHECKPOINT_DEMAND] = "demand",
    [EVENT_CHECKPOINT_STOP] = "stop",
    [EVENT_CHECKPOINT_END] = "end",
};
static const char *const outcomes[] = {
    [EVENT_OUTCOME_COMPLETED] = "completed",
    [EVENT_OUTCOME_STOPPED] = "stopped",
    [EVENT_OUTCOME_FAILED] = "failed",
};

static int
find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static const char *
name_of(const char *const *names, int n, int i)
{
    assert(i >= 0 && i < n && names[i] != NULL);
    return names[i];
}

const char *
event_kind_name(enum event_kind kind)
{
    return name_of(kinds, COUNT(kinds), (int)kind);
}

const char *
event_pass_name(enum event_pass pass)
{
    return name_of(passes, COUNT(passes), (int)pass);
}

const char *
event_nonfinite_name(enum event_nonfinite what)
{
    return name_of(nonfinites, COUNT(nonfinites), (int)what);
}

const char *
event_scale_cause_name(enum event_scale_cause cause)
{
    return name_of(scale_causes, COUNT(scale_causes), (int)cause);
}

const char *
event_checkpoint_cause_name(enum event_checkpoint_cause cause)
{
    return name_of(checkpoint_causes, COUNT(checkpoint_causes), (int)cause);
}

const char *
event_outcome_name(enum event_outcome outcome)
{
    return name_of(outcomes, COUNT(outcomes), (int)outcome);
}

int
event_kind_parse(const char *name)
{
    return find(kinds, COUNT(kinds), name);
}

int
event_pass_parse(const char *name)
{
    return find(passes, COUNT(passes), name);
}

int
event_nonfinite_parse(const char *name)
{
    return find(nonfinites, COUNT(nonfinites), name);
}

int
event_scale_cause_parse(const char *name)
{
    return find(scale_causes, COUNT(scale_causes), name);
}

int
event_checkpoint_cause_parse(const char *name)
{
    return find(checkpoint_causes, COUNT(checkpoint_causes), name);
}

int
event_outcome_parse(const char *name)
{
    return find(outcomes, COUNT(outcomes), name);
}
