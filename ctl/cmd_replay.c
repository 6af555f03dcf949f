/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/rangetable.h"

/* All digits: the number of an incident. */
static bool
is_number(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

static int
find_incident(struct session *s, const char *number, char path[PATH_MAX],
              struct err *err)
{
    struct view_incident_ref ref;
    struct view_incident incident;
    int rc;

    view_init(VIEW_ID_incident_ref, &ref);
    if (sscanf(number, "%18" SCNd64, &ref.incident) != 1)
        return err_set(err, ERR_USAGE, "%s: no number of an incident", number);
    rc = session_one(s, MESSAGE_ID_incident, &ref, &incident, err);
    if (rc < 0)
        return rc;
    if (incident.path[0] == '\0')
        return err_set(err, ERR_NOTFOUND,
                       "incident %s is not kept: it was %s; diagnose.keep and "
                       "diagnose.keep_bytes of the spec say how many are",
                       number,
                       incident.replayed ? "too large, or room was needed"
                                         : "not replayed");
    if (snprintf(path, PATH_MAX, "%s", incident.path) >= PATH_MAX)
        return err_set(err, ERR_PROTO, "the incident's path is too long");
    return 0;
}

static int
run_replay(struct session *s, struct err *err)
{
    const char *word = args_at(s->args, 0);
    char path[PATH_MAX];
    const char *const words[] = {"--replay", path};
    int rc = 0;

    if (is_number(word))
        rc = find_incident(s, word, path, err);
    else if (snprintf(path, sizeof(path), "%s", word) >= PATH_MAX)
        rc = err_set(err, ERR_USAGE, "the path is too long");
    return rc < 0 ? rc : rangetable_show(s, words, 2, "", err);
}

const struct cmd cmd_replay = {
    .name = "replay",
    .synopsis = "INCIDENT|DIR",
    .doc = "run a kept incident again and show the range of every tensor",
    .detail = "Runs here, with your rights, on what was kept: the batch, the "
              "weights, the scale. Says whether the bits are those of the step "
              "that failed (exit status 1 when they are not); with --amp, "
              "--fp32-region or --scale, what changes. A directory that was "
              "copied from anywhere will do, and needs no daemon.",
    .options = (const struct args_option[]){RANGETABLE_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_replay,
};
