/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/step_digest.h"

#include <string.h>

#define BLOCK_ELEMS 4096
#define QUIET_NAN   0x7fc00000u

static void
put_block(struct digest *d, const float *x, int64_t n)
{
    uint32_t bits[BLOCK_ELEMS];

    memcpy(bits, x, (size_t)n * sizeof(bits[0]));
    for (int64_t i = 0; i < n; i++)
        bits[i] = (bits[i] & 0x7fffffffu) > 0x7f800000u ? QUIET_NAN : bits[i];
    digest_update(d, bits, (size_t)n * sizeof(bits[0]));
}

static void
put_floats(struct digest *d, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += BLOCK_ELEMS)
        put_block(d, x + i, n - i < BLOCK_ELEMS ? n - i : BLOCK_ELEMS);
}

int
step_digest(float loss, const struct state *state, char text[DIGEST_TEXT_BYTES],
            struct err *err)
{
    struct digest *d = digest_create();

    if (d == NULL)
        return err_set(err, ERR_NOMEM, "digest: no memory");
    put_floats(d, &loss, 1);
    for (int i = 0; i < state->n_params; i++)
        put_floats(d, state->grads + state->param[i].offset,
                   state->param[i].n_elems);
    digest_print(d, text);
    digest_destroy(&d);
    return 0;
}
