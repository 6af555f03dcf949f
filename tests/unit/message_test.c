/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/err.h"
#include "proto/event.h"
#include "proto/message.h"

static char *
read_source(const char *path)
{
    const char *root = getenv("TRAIND_SOURCE");
    char name[4096];
    char *text = calloc(1, 256 * 1024);
    FILE *f;

    snprintf(name, sizeof(name), "%s/%s", root != NULL ? root : ".", path);
    f = fopen(name, "r");
    if (f == NULL)
        fail_msg("%s is missing", name);
    assert_true(fread(text, 1, 256 * 1024 - 1, f) > 0);
    fclose(f);
    return text;
}

static const char *const flows[] = {"control", "order", "report"};
static const char *const rights[] = {"any", "owner", "admin", "none"};
static const char *const shapes[] = {"one", "many", "stream", "later"};
static const char *const types[] = {"i64", "f64",  "bool",
                                    "str", "i64s", "strs"};

/* All that two programs of different age have to agree on. */
static char *
print_protocol(void)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    fprintf(f, "protocol %d to %d\n\n", MESSAGE_PROTO_MIN, MESSAGE_PROTO_MAX);
    for (int i = 0; i < MESSAGE_ID_COUNT; i++) {
        const struct message *m = &message_table[i];

        fprintf(f, "%3d %-12s %-7s %-5s %-6s %s -> %s\n", m->number, m->name,
                flows[m->flow], rights[m->right], shapes[m->shape],
                view_table[m->request].name, view_table[m->reply].name);
    }
    for (int v = 0; v < VIEW_ID_COUNT; v++) {
        fprintf(f, "\n%s\n", view_table[v].name);
        for (int i = 0; i < view_table[v].n_fields; i++)
            fprintf(f, "    %-4s %s\n", types[view_table[v].fields[i].type],
                    view_table[v].fields[i].name);
    }
    fclose(f);
    return text;
}

/*
 * A failure means that the protocol changed. A field added at the end of a
 * view is compatible; anything else needs a new MESSAGE_PROTO_MAX. Then
 * rewrite the listing with TRAIND_UPDATE_GOLDEN=1.
 */
static void
test_message_golden(void **state)
{
    char *now = print_protocol();
    char *golden;

    (void)state;
    if (getenv("TRAIND_UPDATE_GOLDEN") != NULL) {
        FILE *f = fopen("tests/golden/messages.txt", "w");

        assert_non_null(f);
        fputs(now, f);
        fclose(f);
    }
    golden = read_source("tests/golden/messages.txt");
    assert_string_equal(now, golden);
    free(golden);
    free(now);
}

static void
test_message_table(void **state)
{
    (void)state;
    for (int i = 0; i < MESSAGE_ID_COUNT; i++) {
        const struct message *m = &message_table[i];

        assert_int_equal(message_find(m->name), i);
        assert_true(m->number > 0);
        assert_true(m->doc[0] != '\0');
        if (m->flow != MESSAGE_CONTROL) {
            assert_int_equal(m->reply, VIEW_ID_none);
            assert_int_equal(m->right, MESSAGE_NONE);
        } else {
            assert_int_not_equal(m->reply, VIEW_ID_none);
            assert_int_not_equal(m->right, MESSAGE_NONE);
        }
        for (int j = 0; j < i; j++)
            assert_int_not_equal(m->number, message_table[j].number);
    }
    assert_int_equal(message_find("nonsense"), MESSAGE_ID_COUNT);
    assert_int_equal(message_find(""), MESSAGE_ID_COUNT);
}

/* A verb that is an owner's business says which job it is about, or which
 * incident. */
static void
test_message_owner_names_job(void **state)
{
    (void)state;
    for (int i = 0; i < MESSAGE_ID_COUNT; i++) {
        const struct view_desc *v = &view_table[message_table[i].request];

        if (message_table[i].right == MESSAGE_OWNER &&
            message_table[i].request != VIEW_ID_incident_ref)
            assert_string_equal(v->fields[0].name, "job");
    }
}

static void
test_view_table(void **state)
{
    (void)state;
    for (int v = 0; v < VIEW_ID_COUNT; v++) {
        const struct view_desc *d = &view_table[v];

        assert_true(d->size_bytes > 0);
        for (int i = 0; i < d->n_fields; i++) {
            assert_true(d->fields[i].offset < d->size_bytes);
            assert_true(d->fields[i].doc[0] != '\0');
            for (int j = 0; j < i; j++) {
                assert_string_not_equal(d->fields[i].name, d->fields[j].name);
                assert_true(d->fields[j].offset < d->fields[i].offset);
            }
        }
        assert_null(d->fields[d->n_fields].name);
    }
}

static void
test_view_init(void **state)
{
    struct view_scale s;

    (void)state;
    memset(&s, 0xff, sizeof(s));
    view_init(VIEW_ID_scale, &s);
    assert_int_equal(s.iteration, 0);
    assert_true(s.before != s.before);
    assert_string_equal(s.cause, "");
    assert_false(s.live);
    assert_null(s.samples.v);
    assert_int_equal(s.samples.n, 0);
}

/* ".Ic name" in traind-proto(7) for every message, ".Cm name" for the fields
 * of every view. */
static void
test_message_manual(void **state)
{
    char *manual = read_source("proto/traind-proto.7");

    (void)state;
    for (int i = 0; i < MESSAGE_ID_COUNT; i++) {
        char want[100];

        snprintf(want, sizeof(want), "\n.It Ic %s\n", message_table[i].name);
        if (strstr(manual, want) == NULL)
            fail_msg("traind-proto.7 lacks message %s", message_table[i].name);
    }
    for (int v = 0; v < VIEW_ID_COUNT; v++) {
        char want[100];
        char *section, *end;

        if (view_table[v].n_fields == 0)
            continue;
        snprintf(want, sizeof(want), "\n.Ss Record %s\n", view_table[v].name);
        section = strstr(manual, want);
        if (section == NULL) {
            fail_msg("traind-proto.7 lacks record %s", view_table[v].name);
            return;
        }
        end = strstr(section + 5, "\n.Ss ");
        end = end != NULL ? end : section + strlen(section);
        for (int i = 0; i < view_table[v].n_fields; i++) {
            char *at;

            snprintf(want, sizeof(want), "\n.It Cm %s ",
                     view_table[v].fields[i].name);
            at = strstr(section, want);
            if (at == NULL || at > end)
                fail_msg("traind-proto.7 lacks %s.%s", view_table[v].name,
                         view_table[v].fields[i].name);
        }
    }
    free(manual);
}

static void
test_event_manual(void **state)
{
    char *manual = read_source("proto/traind-proto.7");

    (void)state;
    for (int k = EVENT_STARTED; k <= EVENT_INCIDENT_PRUNED; k++) {
        char want[100];

        snprintf(want, sizeof(want), "\n.It Ic %s\n.Cm ",
                 event_kind_name((enum event_kind)k));
        if (strstr(manual, want) == NULL)
            fail_msg("traind-proto.7 lacks event %s",
                     event_kind_name((enum event_kind)k));
    }
    free(manual);
}

/* And every error by name. */
static void
test_errors_manual(void **state)
{
    static const int codes[] = {
#define ERR(name, number, exit_code, http, line) ERR_##name,
#include "proto/errors.def"
#undef ERR
    };
    char *manual = read_source("proto/traind-proto.7");

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char want[100];

        snprintf(want, sizeof(want), "\n.It %s Ta %d Ta %d Ta ",
                 err_name(codes[i]), codes[i], err_exit_code(codes[i]));
        if (strstr(manual, want) == NULL)
            fail_msg("traind-proto.7 lacks error %s", err_name(codes[i]));
    }
    free(manual);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_golden),
        cmocka_unit_test(test_message_table),
        cmocka_unit_test(test_message_owner_names_job),
        cmocka_unit_test(test_view_table),
        cmocka_unit_test(test_view_init),
        cmocka_unit_test(test_message_manual),
        cmocka_unit_test(test_event_manual),
        cmocka_unit_test(test_errors_manual),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
