/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8: where the characters of a byte string are.
 *
 * Private to proto/. Accepts exactly RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF. Holds no state.
 */
#ifndef PROTO_UTF8_H
#define PROTO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at s (n bytes are there), 0 when it is none. */
size_t utf8_length(const char *s, size_t n);

/* All n bytes are characters. */
bool utf8_valid(const char *s, size_t n);

/* The largest m <= n that does not cut a character of s in two. */
size_t utf8_cut(const char *s, size_t n);

/* The character c as bytes; how many. c is a scalar value. */
size_t utf8_encode(uint32_t c, char out[4]);

/* Holds a control character: C0, DEL, or C1. s is valid. */
bool utf8_has_control(const char *s, size_t n);

#endif
