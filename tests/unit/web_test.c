/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard's files: all there, each by its own name, and nothing in them
 * that the page's content security policy or a hostile name could trip over. */
#include "daemon/web.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_LIMIT (256 * 1024)

static const struct {
    const char *path, *name;
} listed[] = {
#define FILE(path, name, type)     {path, "daemon/web/" name},
#define DYGRAPHS(path, name, type) {path, NULL},
#include "daemon/web/files.def"
#undef FILE
#undef DYGRAPHS
};
#define N_LISTED (sizeof(listed) / sizeof(listed[0]))

static void
test_web_has_every_file(void **state)
{
    (void)state;
    assert_int_equal(web_table_len, N_LISTED);
    for (size_t i = 0; i < N_LISTED; i++) {
        const struct web_file *file = web_find(listed[i].path);

        assert_non_null(file);
        assert_true(file->len > 0);
        assert_true(file->len < FILE_LIMIT);
        assert_int_equal(file->etag[0], '"');
        assert_int_equal(strlen(file->etag), 18);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(file->etag, web_find(listed[k].path)->etag);
    }
}

static void
test_web_holds_the_bytes(void **state)
{
    unsigned char *bytes = malloc(FILE_LIMIT);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < N_LISTED; i++) {
        const struct web_file *file = web_find(listed[i].path);
        FILE *f = listed[i].name ? fopen(listed[i].name, "rb") : NULL;

        if (listed[i].name == NULL)
            continue;
        assert_non_null(f);
        assert_int_equal(fread(bytes, 1, FILE_LIMIT, f), file->len);
        assert_memory_equal(bytes, file->data, file->len);
        fclose(f);
    }
    free(bytes);
}

static void
test_web_knows_nothing_else(void **state)
{
    static const char *const other[] = {
        "",           "/index.html",      "/app.js?x", "/../app.js",
        "/files.def", "/v1/openapi.json", "app.js",    "/App.js"};

    (void)state;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_null(web_find(other[i]));
    assert_string_equal(web_find("/")->type, "text/html; charset=utf-8");
}

/* Is word in the file? */
static bool
has(const struct web_file *file, const char *word)
{
    return memmem(file->data, file->len, word, strlen(word)) != NULL;
}

static void
test_web_parses_no_markup_and_runs_no_text(void **state)
{
    static const char *const never[] = {
        "innerHTML",      "outerHTML", "insertAdjacentHTML",  "document.write",
        "eval(",          "Function(", "setAttribute('style", "DOMParser",
        "javascript:",    " style=",   "onclick=\"",          "srcdoc",
        "document.cookie"};

    (void)state;
    for (size_t i = 0; i < N_LISTED; i++) {
        const struct web_file *file = web_find(listed[i].path);

        for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++)
            if (listed[i].name != NULL && has(file, never[k]))
                fail_msg("%s has %s", listed[i].path, never[k]);
    }
}

/* Everything that the page asks for at first is in the table. */
static void
test_web_page_names_only_what_is_there(void **state)
{
    const struct web_file *page = web_find("/");
    char *text = strndup((const char *)page->data, page->len);
    int n = 0;

    (void)state;
    assert_non_null(text);
    for (char *at = text; (at = strpbrk(at, "\"")) != NULL; at++) {
        char *end = strchr(at + 1, '"');

        assert_non_null(end);
        *end = '\0';
        if (at[1] == '/') {
            if (web_find(at + 1) == NULL)
                fail_msg("%s is not there", at + 1);
            n++;
        }
        at = end;
    }
    assert_true(n > 10);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_web_has_every_file),
        cmocka_unit_test(test_web_holds_the_bytes),
        cmocka_unit_test(test_web_knows_nothing_else),
        cmocka_unit_test(test_web_parses_no_markup_and_runs_no_text),
        cmocka_unit_test(test_web_page_names_only_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
