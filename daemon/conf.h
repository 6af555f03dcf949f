/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf: traind.conf(5), read strictly.
 *
 * Owns the meaning of every key (conf_keys.def). An unknown section or key, a
 * number without its unit, a value out of range or a key given twice is an
 * error that names file and line; nothing is guessed. Text in, struct out; the
 * only file it opens is the one it is asked to read.
 */
#ifndef DAEMON_CONF_H
#define DAEMON_CONF_H

#include "daemon/log.h"
#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_STR_MAX 1024

enum conf_visibility { CONF_OWN, CONF_PUBLIC };

#define CONF_MEMBER_STR(name)        char name[CONF_STR_MAX];
#define CONF_MEMBER_INT(name)        int64_t name;
#define CONF_MEMBER_BOOL(name)       bool name;
#define CONF_MEMBER_SIZE(name)       int64_t name;
#define CONF_MEMBER_TIME(name)       int64_t name;
#define CONF_MEMBER_MODE(name)       int64_t name;
#define CONF_MEMBER_LEVEL(name)      enum log_level name;
#define CONF_MEMBER_VISIBILITY(name) enum conf_visibility name;

/* Members are section_name; times are in milliseconds, sizes in bytes. */
struct conf {
#define KEY(section, name, type, least, most, standard, doc)                   \
    CONF_MEMBER_##type(section##_##name)
#include "daemon/conf_keys.def"
#undef KEY
};

/* Every key at its default; the paths are empty (main.c knows the places). */
void conf_default(struct conf *conf);

/* Reads text over what is in conf already. ERR_CONFIG: "name:line: ...". On
 * an error conf is half written. */
int conf_parse(struct conf *conf, const char *text, size_t len,
               const char *name, struct err *err);

/* The file at path; must_exist false: a missing file is no error. */
int conf_load(struct conf *conf, const char *path, bool must_exist,
              struct err *err);

/* Key i as text for --check-config: "section.name = value"; false at the end. */
bool conf_describe(const struct conf *conf, int i, char *out, size_t size);

#endif
