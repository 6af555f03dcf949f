/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format: numbers, times and strangers' strings as text for a person.
 *
 * Pure: values in, text out, into the caller's buffer (FORMAT_MAX is enough).
 * Nothing that came from a socket or a spec reaches a terminal but through
 * format_safe(): a job's name may hold escape sequences. utf8 says whether
 * the terminal's character set is UTF-8; LC_CTYPE must be set accordingly.
 */
#ifndef CTL_FORMAT_H
#define CTL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FORMAT_MAX 64

/* "0:37", "1:02:03", "2d 03:04"; "-" when negative or not finite. */
void format_duration(double seconds, char *out, size_t n);
/* "312 B", "1.2 MiB" */
void format_bytes(int64_t bytes, char *out, size_t n);
/* Four significant digits; "nan", "inf", "-inf". */
void format_real(double v, char *out, size_t n);
/* As format_real() but "-" for NaN: for fields where that means "none". */
void format_known(double v, char *out, size_t n);
/* Digits that read back as v, few where few will do; NaN, Infinity,
 * -Infinity. */
void format_exact(double v, char *out, size_t n);
/* A loss scale: "65536", "2^24", "2^-3", "3.5". */
void format_scale(double v, char *out, size_t n);
/* ISO 8601 with the zone's offset; "-" for 0. */
void format_time(int64_t t_us, bool utc, char *out, size_t n);

/* s with control characters, what reorders text, and bytes that are no
 * characters written as \n, \x1b, \u202e; without utf8 every byte above 0x7f
 * so. malloc'd; NULL: no memory. */
char *format_safe(const char *s, bool utf8);
/* Writes it. */
void format_put_safe(FILE *f, const char *s, bool utf8);

/* Writes s as a JSON string; bytes that are no UTF-8 become U+FFFD. */
void format_put_json(FILE *f, const char *s);
/* As RFC 3629 has it. */
bool format_is_utf8(const char *s);

/* Columns that safe text takes on the terminal. */
int format_width(const char *s, bool utf8);

#endif
