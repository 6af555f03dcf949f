/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/args.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/near.h"

struct given {
    const struct args_option *option; /* borrowed from its table */
    const char *value;                /* borrowed from argv, NULL for a flag */
};

struct args {
    const struct args_option *globals; /* borrowed */
    const struct args_option *options; /* borrowed, NULL before the verb */
    struct given *given;               /* owned */
    int n_given;
    const char **word; /* owned list of borrowed words */
    int n_words;
};

struct args *
args_create(const struct args_option *globals)
{
    struct args *args = calloc(1, sizeof(*args));

    assert(globals != NULL);
    if (args != NULL)
        args->globals = globals;
    return args;
}

void
args_destroy(struct args **args)
{
    if (*args == NULL)
        return;
    free((*args)->given);
    free((*args)->word);
    free(*args);
    *args = NULL;
}

static const struct args_option *
find_name(const struct args_option *table, const char *name, size_t len)
{
    for (; table != NULL && table->name != NULL; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static const struct args_option *
find_letter(const struct args_option *table, char letter)
{
    for (; table != NULL && table->name != NULL; table++)
        if (table->letter != 0 && table->letter == letter)
            return table;
    return NULL;
}

static int
add_given(struct args *args, const struct args_option *option,
          const char *value, struct err *err)
{
    struct given *grown =
        reallocarray(args->given, (size_t)args->n_given + 1, sizeof(*grown));

    if (grown == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    args->given = grown;
    grown[args->n_given++] = (struct given){option, value};
    return 0;
}

static int
add_word(struct args *args, const char *word, struct err *err)
{
    const char **grown =
        reallocarray(args->word, (size_t)args->n_words + 1, sizeof(*grown));

    if (grown == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    args->word = grown;
    grown[args->n_words++] = word;
    return 0;
}

static int
refuse_option(const struct args *args, const char *word, struct err *err)
{
    struct near near = near_start(word[1] == '-' ? word + 2 : word + 1);
    const struct args_option *o;

    for (o = args->options; o != NULL && o->name != NULL; o++)
        near_offer(&near, o->name);
    for (o = args->globals; o->name != NULL; o++)
        near_offer(&near, o->name);
    if (near_best(&near) != NULL)
        return err_set(err, ERR_USAGE, "unknown option %s; did you mean --%s?",
                       word, near_best(&near));
    return err_set(err, ERR_USAGE, "unknown option %s", word);
}

/* Takes the option at words[*i] and its value; *i moves past what was used. */
static int
take_option(struct args *args, int n, char *const *words, int *i,
            struct err *err)
{
    const char *word = words[*i], *name = word + 2, *equals = NULL;
    const struct args_option *option;

    if (word[1] == '-') {
        equals = strchr(name, '=');
        size_t len = equals ? (size_t)(equals - name) : strlen(name);
        option = find_name(args->options, name, len);
        if (option == NULL)
            option = find_name(args->globals, name, len);
    } else {
        option = find_letter(args->options, word[1]);
        if (option == NULL)
            option = find_letter(args->globals, word[1]);
        if (option != NULL && word[2] != '\0')
            option = NULL; /* letters are never bundled */
    }
    if (option == NULL)
        return refuse_option(args, word, err);
    (*i)++;
    if (option->value == NULL) {
        if (equals != NULL)
            return err_set(err, ERR_USAGE, "--%s takes no value", option->name);
        return add_given(args, option, NULL, err);
    }
    if (equals != NULL)
        return add_given(args, option, equals + 1, err);
    if (*i >= n)
        return err_set(err, ERR_USAGE, "--%s needs a value: %s", option->name,
                       option->value);
    return add_given(args, option, words[(*i)++], err);
}

static bool
looks_like_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

int
args_take_globals(struct args *args, int n, char *const *words, int *used,
                  struct err *err)
{
    int i = 0, rc;

    while (i < n && looks_like_option(words[i]) &&
           strcmp(words[i], "--") != 0) {
        rc = take_option(args, n, words, &i, err);
        if (rc < 0)
            return rc;
    }
    *used = i;
    return 0;
}

int
args_take(struct args *args, const struct args_option *options, int n,
          char *const *words, struct err *err)
{
    bool ended = false;
    int i = 0, rc;

    args->options = options;
    while (i < n) {
        if (!ended && strcmp(words[i], "--") == 0) {
            ended = true;
            i++;
            continue;
        }
        if (!ended && looks_like_option(words[i]))
            rc = take_option(args, n, words, &i, err);
        else
            rc = add_word(args, words[i++], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int
args_n(const struct args *args)
{
    return args->n_words;
}

const char *
args_at(const struct args *args, int i)
{
    assert(i >= 0 && i < args->n_words);
    return args->word[i];
}

/* The last given of `option`, or the i-th when i >= 0. */
static const struct given *
find_given(const struct args *args, const struct args_option *option, int i)
{
    const struct given *last = NULL;

    for (int g = 0; g < args->n_given; g++) {
        if (args->given[g].option != option)
            continue;
        last = &args->given[g];
        if (i-- == 0)
            return last;
    }
    return i >= 0 ? NULL : last;
}

static const struct args_option *
must_find(const struct args_option *table, const char *name, bool flag)
{
    const struct args_option *option = find_name(table, name, strlen(name));

    assert(option != NULL && (option->value == NULL) == flag);
    return option;
}

static const char *
last_value(const struct args *args, const struct args_option *option)
{
    const struct given *given = find_given(args, option, -1);

    return given != NULL ? given->value : NULL;
}

const char *
args_value(const struct args *args, const char *name)
{
    return last_value(args, must_find(args->options, name, false));
}

const char *
args_nth(const struct args *args, const char *name, int i)
{
    const struct given *given =
        find_given(args, must_find(args->options, name, false), i);

    assert(i >= 0);
    return given != NULL ? given->value : NULL;
}

bool
args_flag(const struct args *args, const char *name)
{
    return find_given(args, must_find(args->options, name, true), -1) != NULL;
}

int
args_i64(const struct args *args, const char *name, int64_t absent, int64_t min,
         int64_t max, int64_t *out, struct err *err)
{
    const char *value = args_value(args, name);
    char *end = NULL;

    *out = absent;
    if (value == NULL)
        return 0;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno == ERANGE || v < min || v > max)
        return err_set(err, ERR_USAGE,
                       "--%s %s: not a whole number from %lld "
                       "to %lld",
                       name, value, (long long)min, (long long)max);
    *out = v;
    return 0;
}

static int
parse_seconds(const char *name, const char *value, int64_t *out_ms,
              struct err *err)
{
    char *end = NULL;
    double v = strtod(value, &end);

    if (end == value || *end != '\0' || !isfinite(v) || v < 0 || v > 1e9)
        return err_set(err, ERR_USAGE, "--%s %s: not a number of seconds", name,
                       value);
    *out_ms = (int64_t)ceil(v * 1000);
    return 0;
}

int
args_seconds(const struct args *args, const char *name, int64_t absent_ms,
             int64_t *out_ms, struct err *err)
{
    const char *value = args_value(args, name);

    *out_ms = absent_ms;
    return value != NULL ? parse_seconds(name, value, out_ms, err) : 0;
}

const char *
args_global_value(const struct args *args, const char *name)
{
    return last_value(args, must_find(args->globals, name, false));
}

bool
args_global_flag(const struct args *args, const char *name)
{
    return find_given(args, must_find(args->globals, name, true), -1) != NULL;
}

int
args_global_seconds(const struct args *args, const char *name,
                    int64_t absent_ms, int64_t *out_ms, struct err *err)
{
    const char *value = args_global_value(args, name);

    *out_ms = absent_ms;
    return value != NULL ? parse_seconds(name, value, out_ms, err) : 0;
}
