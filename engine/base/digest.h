/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest: XXH3-128 of a stream of bytes as 32 hex digits.
 *
 * For finding damage, not forgery. The digits are XXH128's canonical form: the
 * same on every machine, and what `xxh128sum` prints. No state of its own.
 */
#ifndef ENGINE_BASE_DIGEST_H
#define ENGINE_BASE_DIGEST_H

#include <stddef.h>

#define DIGEST_TEXT_BYTES 33 /* with NUL */

struct digest;

struct digest *digest_create(void); /* NULL: no memory */
void digest_update(struct digest *digest, const void *bytes, size_t n);
void digest_print(const struct digest *digest, char text[DIGEST_TEXT_BYTES]);
void digest_destroy(struct digest **digest);

/* All at once. */
void digest_of(const void *bytes, size_t n, char text[DIGEST_TEXT_BYTES]);

#endif
