/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernels/philox.h"

/* Known answers of Random123 (kat_vectors, philox4x32-10). */
static void
test_philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t answer[4];
    } known[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         0xffffffffffffffffu,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         0x299f31d0a4093822u,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint32_t c[4];

        memcpy(c, known[i].counter, sizeof(c));
        philox_4x32(known[i].key, c);
        assert_memory_equal(c, known[i].answer, sizeof(c));
    }
}

/* What a stream's words are keyed by: each field changes them. */
static void
test_philox_words_keyed(void **state)
{
    uint32_t base[4], other[4];

    (void)state;
    philox_words(1, 2, 3, 4, 5, base);
    philox_words(1, 2, 3, 4, 5, other);
    assert_memory_equal(base, other, sizeof(base));
    philox_words(2, 2, 3, 4, 5, other);
    assert_memory_not_equal(base, other, sizeof(base));
    philox_words(1, 3, 3, 4, 5, other);
    assert_memory_not_equal(base, other, sizeof(base));
    philox_words(1, 2, 4, 4, 5, other);
    assert_memory_not_equal(base, other, sizeof(base));
    philox_words(1, 2, 3 + ((uint64_t)1 << 32), 4, 5, other);
    assert_memory_not_equal(base, other, sizeof(base));
    philox_words(1, 2, 3, 5, 5, other);
    assert_memory_not_equal(base, other, sizeof(base));
    philox_words(1, 2, 3, 4, 6, other);
    assert_memory_not_equal(base, other, sizeof(base));
}

static void
test_philox_uniform_range(void **state)
{
    (void)state;
    assert_true(philox_uniform(0) == 0.0f);
    assert_true(philox_uniform(0xffffffff) == 1 - 0x1p-24f);
    assert_true(philox_uniform(0x80000000) == 0.5f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_philox_words_keyed),
        cmocka_unit_test(test_philox_uniform_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
