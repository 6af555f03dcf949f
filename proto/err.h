/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err: an error is a code from errors.def and one sentence for a person.
 *
 * A function that can fail returns 0 or a negative ERR_ code. Where a person
 * needs a sentence, its last parameter is `struct err *`: whoever knows the
 * sentence writes it once with err_set() and everybody else passes it up.
 * Sentences are one line, without "failed to", and hold the name, number or
 * path concerned. Thread-safe: an err belongs to its caller.
 */
#ifndef PROTO_ERR_H
#define PROTO_ERR_H

enum err_code {
    ERR_OK = 0,
#define ERR(name, number, exit_code, http, line) ERR_##name = -(number),
#include "proto/errors.def"
#undef ERR
};

#define ERR_SENTENCE_MAX 512

struct err {
    int code; /* ERR_OK or a negative enum err_code */
    char msg[ERR_SENTENCE_MAX];
};

/* Clears e. e may be NULL here and in err_set(). */
void err_clear(struct err *e);

/* Writes code and sentence into e and returns code. An overlong sentence is
 * cut at ERR_SENTENCE_MAX - 1 bytes, never inside a UTF-8 sequence. */
int err_set(struct err *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As err_set() with ": " and strerror(errnum) appended. */
int err_set_errno(struct err *e, int code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "prefix: " before e's sentence; keeps the code and returns it. */
int err_prefix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "spec", "io", ...; "ok" for 0 and "unknown" for a code not in the table. */
const char *err_name(int code);
const char *err_line(int code);
int err_exit_code(int code);   /* 0 for 0, 70 for an unknown code */
int err_http_status(int code); /* 200 for 0, 500 for an unknown code */

#endif
