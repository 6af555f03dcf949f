/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/digest.h"

#include <stdio.h>
#include <xxhash.h>

/* struct digest is never defined: it is XXH3_state_t by another name. */

static void
print(XXH128_hash_t hash, char text[DIGEST_TEXT_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < sizeof(canonical.digest); i++)
        snprintf(text + 2 * i, 3, "%02x", canonical.digest[i]);
}

struct digest *
digest_create(void)
{
    XXH3_state_t *state = XXH3_createState();

    if (state != NULL)
        XXH3_128bits_reset(state);
    return (struct digest *)state;
}

void
digest_update(struct digest *digest, const void *bytes, size_t n)
{
    XXH3_128bits_update((XXH3_state_t *)digest, bytes, n);
}

void
digest_print(const struct digest *digest, char text[DIGEST_TEXT_BYTES])
{
    print(XXH3_128bits_digest((const XXH3_state_t *)digest), text);
}

void
digest_destroy(struct digest **digest)
{
    XXH3_freeState((XXH3_state_t *)*digest);
    *digest = NULL;
}

void
digest_of(const void *bytes, size_t n, char text[DIGEST_TEXT_BYTES])
{
    print(XXH3_128bits(bytes, n), text);
}
