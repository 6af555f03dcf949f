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
    [EVENT_GUARD] = "guard",
    [EVENT_INCIDENT_PRUNED] = "incident_pruned",
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
    [EVENT_OUTCOME_PAUSED] = "paused",
    [EVENT_OUTCOME_GO_BACK] = "go_back",
};
static const char *const triggers[] = {
    [EVENT_TRIGGER_SKIP] = "skip",
    [EVENT_TRIGGER_LOSS] = "loss",
    [EVENT_TRIGGER_METRIC] = "metric",
    [EVENT_TRIGGER_WEIGHTS] = "weights",
};
static const char *const verdicts[] = {
    [EVENT_VERDICT_NONE] = "",
    [EVENT_VERDICT_SCALE_OVERFLOW] = "scale_overflow",
    [EVENT_VERDICT_FORWARD_OVERFLOW] = "forward_overflow",
    [EVENT_VERDICT_BACKWARD_OVERFLOW] = "backward_overflow",
    [EVENT_VERDICT_BAD_INPUT] = "bad_input",
    [EVENT_VERDICT_DIVERGENCE] = "divergence",
    [EVENT_VERDICT_OPTIMIZER] = "optimizer",
};
static const char *const answers[] = {
    [EVENT_NOT_ASKED] = "",
    [EVENT_NO] = "no",
    [EVENT_YES] = "yes",
};
static const char *const actions[] = {
    [EVENT_ACTION_CONTINUE] = "continue",
    [EVENT_ACTION_PAUSE] = "pause",
    [EVENT_ACTION_FAIL] = "fail",
    [EVENT_ACTION_ROLLBACK] = "rollback",
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

const char *
event_trigger_name(enum event_trigger trigger)
{
    return name_of(triggers, COUNT(triggers), (int)trigger);
}

const char *
event_verdict_name(enum event_verdict verdict)
{
    return name_of(verdicts, COUNT(verdicts), (int)verdict);
}

const char *
event_answer_name(enum event_answer answer)
{
    return name_of(answers, COUNT(answers), (int)answer);
}

const char *
event_action_name(enum event_action action)
{
    return name_of(actions, COUNT(actions), (int)action);
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

int
event_trigger_parse(const char *name)
{
    return find(triggers, COUNT(triggers), name);
}

int
event_verdict_parse(const char *name)
{
    return find(verdicts, COUNT(verdicts), name);
}

int
event_answer_parse(const char *name)
{
    return find(answers, COUNT(answers), name);
}

int
event_action_parse(const char *name)
{
    return find(actions, COUNT(actions), name);
}
