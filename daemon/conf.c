/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/conf.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/spec_suggest.h"

#define CONF_MAX_BYTES (256 * 1024)

enum key_type {
    TYPE_STR,
    TYPE_INT,
    TYPE_BOOL,
    TYPE_SIZE,
    TYPE_TIME,
    TYPE_MODE,
    TYPE_LEVEL,
    TYPE_VISIBILITY
};

struct key {
    const char *section, *name;
    enum key_type type;
    int64_t least, most;
    const char *standard;
    size_t offset;
};

static const struct key keys[] = {
#define KEY(section, name, type, least, most, standard, doc)                   \
    {#section,                                                                 \
     #name,                                                                    \
     TYPE_##type,                                                              \
     least,                                                                    \
     most,                                                                     \
     standard,                                                                 \
     offsetof(struct conf, section##_##name)},
#include "daemon/conf_keys.def"
#undef KEY
};
#define N_KEYS ((int)(sizeof(keys) / sizeof(keys[0])))

struct unit {
    const char *name;
    int64_t factor;
};
static const struct unit size_units[] = {
    {"B", 1},
    {"KiB", 1024},
    {"MiB", 1024 * 1024},
    {"GiB", 1024 * 1024 * 1024},
    {"TiB", INT64_C(1024) * 1024 * 1024 * 1024},
    {NULL, 0}};
static const struct unit time_units[] = {
    {"ms", 1},          {"s", 1000},         {"min", 60 * 1000},
    {"h", 3600 * 1000}, {"d", 86400 * 1000}, {NULL, 0}};
static const char *const levels[] = {"error", "warning", "info", "debug"};
static const char *const visibilities[] = {"own", "public"};

/* ---- values ----------------------------------------------------------------
 * A reader returns NULL or what it expected instead. */

static const char *
read_integer(const char *value, const struct unit *units, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(value, &end, 10);
    if (end == value || errno != 0 || isspace((unsigned char)*value) ||
        *value == '+')
        return units == size_units   ? "a size such as 256MiB"
               : units == time_units ? "a time such as 10s"
                                     : "a whole number";
    if (units == NULL)
        return *end == '\0' ? NULL : "a whole number";
    while (*end == ' ')
        end++;
    for (; units->name != NULL; units++)
        if (strcmp(units->name, end) == 0) {
            if (*out > INT64_MAX / units->factor || *out < 0)
                return "a smaller number";
            *out *= units->factor;
            return NULL;
        }
    return "a number with its unit (B KiB MiB GiB TiB; ms s min h d)";
}

static const char *
read_word(const char *value, const char *const *words, int n, const char *what,
          int *out)
{
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], value) == 0) {
            *out = i;
            return NULL;
        }
    return what;
}

static const char *
read_mode(const char *value, int64_t *out)
{
    char *end;

    *out = strtoll(value, &end, 8);
    return *value != '0' || *end != '\0' ? "an octal mode such as 0660" : NULL;
}

static const char *
read_str(const char *value, const struct key *key, char *out)
{
    static _Thread_local char complaint[64];

    if ((int64_t)strlen(value) > key->most) {
        snprintf(complaint, sizeof(complaint), "at most %" PRId64 " bytes",
                 key->most);
        return complaint;
    }
    assert(key->most < CONF_STR_MAX);
    strcpy(out, value);
    return NULL;
}

static const char *
store_value(const struct key *key, const char *value, void *member)
{
    static const char *const yes_no[] = {"no", "yes"};
    const char *complaint = NULL;
    int choice = 0;

    switch (key->type) {
    case TYPE_STR: return read_str(value, key, member);
    case TYPE_INT: complaint = read_integer(value, NULL, member); break;
    case TYPE_SIZE: complaint = read_integer(value, size_units, member); break;
    case TYPE_TIME: complaint = read_integer(value, time_units, member); break;
    case TYPE_MODE: complaint = read_mode(value, member); break;
    case TYPE_BOOL:
        complaint = read_word(value, yes_no, 2, "yes or no", &choice);
        *(bool *)member = choice != 0;
        return complaint;
    case TYPE_LEVEL:
        complaint = read_word(value, levels, 4, "error, warning, info or debug",
                              &choice);
        *(enum log_level *)member = (enum log_level)choice;
        return complaint;
    case TYPE_VISIBILITY:
        complaint = read_word(value, visibilities, 2, "own or public", &choice);
        *(enum conf_visibility *)member = (enum conf_visibility)choice;
        return complaint;
    }
    if (complaint == NULL &&
        (*(int64_t *)member < key->least || *(int64_t *)member > key->most))
        return "";
    return complaint;
}

static void
describe_range(const struct key *key, char *out, size_t size)
{
    const char *unit = key->type == TYPE_SIZE   ? " B"
                       : key->type == TYPE_TIME ? " ms"
                                                : "";

    if (key->type == TYPE_MODE)
        snprintf(out, size, "0%" PRIo64 " to 0%" PRIo64, key->least, key->most);
    else
        snprintf(out, size, "%" PRId64 "%s to %" PRId64 "%s", key->least, unit,
                 key->most, unit);
}

/* ---- lines ---------------------------------------------------------------- */

struct place {
    const char *name;
    int line;
    char section[64];
    int seen[sizeof(keys) / sizeof(keys[0])]; /* line of each key, 0 = none */
};

static int
complain_unknown(const struct place *at, const char *what, const char *asked,
                 const char *const *known, int n, struct err *err)
{
    const char *near = spec_suggest(asked, known, n);

    return err_set(err, ERR_CONFIG, "%s:%d: unknown %s %.60s%s%s%s", at->name,
                   at->line, what, asked, near != NULL ? "; did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "?" : "");
}

static int
read_section(struct place *at, char *text, struct err *err)
{
    const char *known[N_KEYS];
    size_t len = strlen(text);
    int n = 0;

    if (text[len - 1] != ']')
        return err_set(err, ERR_CONFIG, "%s:%d: a section ends in ]", at->name,
                       at->line);
    text[len - 1] = '\0';
    text++;
    for (int i = 0; i < N_KEYS; i++) {
        if (n == 0 || strcmp(known[n - 1], keys[i].section) != 0)
            known[n++] = keys[i].section;
        if (strcmp(keys[i].section, text) == 0) {
            snprintf(at->section, sizeof(at->section), "%s", text);
            return 0;
        }
    }
    return complain_unknown(at, "section", text, known, n, err);
}

static const struct key *
find_key(const struct place *at, const char *name, struct err *err)
{
    const char *known[N_KEYS];
    int n = 0;

    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].section, at->section) != 0)
            continue;
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
        known[n++] = keys[i].name;
    }
    complain_unknown(at, "key", name, known, n, err);
    return NULL;
}

static char *
trim(char *s)
{
    char *end;

    while (*s == ' ' || *s == '\t')
        s++;
    end = s + strlen(s);
    while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *end = '\0';
    return s;
}

static int
read_assignment(struct conf *conf, struct place *at, char *text,
                struct err *err)
{
    char *equals = strchr(text, '='), *name, *value, range[96];
    const struct key *key;
    const char *complaint;

    if (equals == NULL)
        return err_set(err, ERR_CONFIG,
                       "%s:%d: neither [section] nor key = value", at->name,
                       at->line);
    *equals = '\0';
    name = trim(text);
    value = trim(equals + 1);
    if (at->section[0] == '\0')
        return err_set(err, ERR_CONFIG, "%s:%d: key %.60s before any [section]",
                       at->name, at->line, name);
    key = find_key(at, name, err);
    if (key == NULL)
        return ERR_CONFIG;
    if (at->seen[key - keys] != 0)
        return err_set(err, ERR_CONFIG,
                       "%s:%d: %s.%s is set in line %d already", at->name,
                       at->line, key->section, key->name, at->seen[key - keys]);
    at->seen[key - keys] = at->line;
    complaint = store_value(key, value, (char *)conf + key->offset);
    if (complaint == NULL)
        return 0;
    if (*complaint == '\0') {
        describe_range(key, range, sizeof(range));
        complaint = range;
    }
    return err_set(err, ERR_CONFIG, "%s:%d: %s.%s: expected %s, not \"%.60s\"",
                   at->name, at->line, key->section, key->name, complaint,
                   value);
}

static int
read_line(struct conf *conf, struct place *at, char *line, struct err *err)
{
    char *text = trim(line);

    if (*text == '\0' || *text == '#' || *text == ';')
        return 0;
    if (*text == '[')
        return read_section(at, text, err);
    return read_assignment(conf, at, text, err);
}

int
conf_parse(struct conf *conf, const char *text, size_t len, const char *name,
           struct err *err)
{
    struct place at = {.name = name, .line = 1};
    int rc = 0;

    for (size_t i = 0; i < len && rc == 0; at.line++) {
        const char *end = memchr(text + i, '\n', len - i);
        size_t n = end == NULL ? len - i : (size_t)(end - text) - i;
        char *line = strndup(text + i, n);

        if (line == NULL)
            return err_set(err, ERR_NOMEM, "%s: out of memory", name);
        if (strlen(line) != n)
            rc = err_set(err, ERR_CONFIG, "%s:%d: a NUL byte", name, at.line);
        else
            rc = read_line(conf, &at, line, err);
        free(line);
        i += n + 1;
    }
    return rc;
}

/* ---- the rest ------------------------------------------------------------- */

void
conf_default(struct conf *conf)
{
    memset(conf, 0, sizeof(*conf));
    for (int i = 0; i < N_KEYS; i++) {
        const char *complaint = store_value(&keys[i], keys[i].standard,
                                            (char *)conf + keys[i].offset);

        assert(complaint == NULL);
    }
}

int
conf_load(struct conf *conf, const char *path, bool must_exist, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    size_t n = 0;
    ssize_t got = 0;
    int rc;

    if (fd < 0 && errno == ENOENT && !must_exist)
        return 0;
    if (fd < 0)
        return err_set_errno(err, ERR_CONFIG, errno, "%s", path);
    text = malloc(CONF_MAX_BYTES + 1);
    while (text != NULL && n <= CONF_MAX_BYTES &&
           (got = read(fd, text + n, CONF_MAX_BYTES + 1 - n)) > 0)
        n += (size_t)got;
    if (text == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: out of memory", path);
    else if (got < 0)
        rc = err_set_errno(err, ERR_CONFIG, errno, "%s", path);
    else if (n > CONF_MAX_BYTES)
        rc = err_set(err, ERR_CONFIG, "%s: more than %d bytes", path,
                     CONF_MAX_BYTES);
    else
        rc = conf_parse(conf, text, n, path, err);
    free(text);
    close(fd);
    return rc;
}

bool
conf_describe(const struct conf *conf, int i, char *out, size_t size)
{
    const struct key *key;
    const void *member;
    int n;

    if (i < 0 || i >= N_KEYS)
        return false;
    key = &keys[i];
    member = (const char *)conf + key->offset;
    n = snprintf(out, size, "%s.%s = ", key->section, key->name);
    out += n;
    size -= (size_t)n;
    switch (key->type) {
    case TYPE_STR: snprintf(out, size, "%s", (const char *)member); break;
    case TYPE_INT:
        snprintf(out, size, "%" PRId64, *(const int64_t *)member);
        break;
    case TYPE_SIZE:
        snprintf(out, size, "%" PRId64 "B", *(const int64_t *)member);
        break;
    case TYPE_TIME:
        snprintf(out, size, "%" PRId64 "ms", *(const int64_t *)member);
        break;
    case TYPE_MODE:
        snprintf(out, size, "0%" PRIo64, *(const int64_t *)member);
        break;
    case TYPE_BOOL:
        snprintf(out, size, "%s", *(const bool *)member ? "yes" : "no");
        break;
    case TYPE_LEVEL:
        snprintf(out, size, "%s", levels[*(const enum log_level *)member]);
        break;
    case TYPE_VISIBILITY:
        snprintf(out, size, "%s",
                 visibilities[*(const enum conf_visibility *)member]);
        break;
    }
    return true;
}
