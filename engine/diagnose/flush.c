/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/flush.h"

#include <string.h>

bool
flush_is_wanted(const struct spec *spec)
{
    return spec->amp.dtype == DTYPE_F16 && !spec->amp.scaler.enabled;
}

static void
compare(const struct state *state, const float *float32,
        struct flush_result *result)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        const float *half = state->grads + t->offset;
        const float *full = float32 + t->offset;
        for (int64_t k = 0; k < t->n_elems; k++) {
            result->n_nonzero += full[k] != 0;
            result->n_flushed += full[k] != 0 && half[k] == 0;
        }
    }
}

int
flush_measure(struct rerun *rerun, const struct state *state,
              const struct prefetch_window *window, struct flush_result *result,
              struct err *err)
{
    static const struct rerun_policy full = {.dtype = DTYPE_F32};
    struct rerun_case c = rerun_window(state, window);
    struct rerun_result unused;

    memset(result, 0, sizeof(*result));
    c.scale = 1.0f;
    const int rc = rerun_run(rerun, &c, &full, NULL, NULL, &unused, err);
    if (rc == 0)
        compare(state, rerun_grads(rerun), result);
    return rc;
}
