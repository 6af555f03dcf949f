/* SPDX-License-Identifier: Apache-2.0 */
/* How images are moved: the choice, and the pixels that follow from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/data/prefetch.h"
#include "tests/support/datafiles.h"

#define SEED   0x123456789abcdef0u
#define HEIGHT 3
#define WIDTH  4

/* ---- the choice ---------------------------------------------------------- */

/* As computed apart from this code, in Python: a promise, as the order is. */
static void
test_augment_stays_the_same(void **state)
{
    static const struct {
        int64_t position;
        uint32_t micro_batch;
        int64_t index;
        struct augment_choice want;
    } cases[] = {
        {0, 0, 0, {2, 2, true}},          {0, 0, 1, {5, 1, false}},
        {0, 1, 0, {1, 0, true}},          {1, 0, 0, {4, 1, false}},
        {8589934593, 3, 7, {5, 6, true}},
    };
    const struct augment_options options = {.crop_padding = 4, .flip_p = 0.5};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct augment_key key = {SEED, cases[i].position,
                                        cases[i].micro_batch};
        const struct augment_choice c =
            augment_choose(&options, &key, cases[i].index);

        assert_int_equal(c.top, cases[i].want.top);
        assert_int_equal(c.left, cases[i].want.left);
        assert_int_equal(c.flip, cases[i].want.flip);
    }
}

/* Every offset about as often, flips as often as asked for. */
static void
test_augment_is_even(void **state)
{
    const struct augment_options options = {.crop_padding = 2, .flip_p = 0.25};
    const struct augment_key key = {SEED, 5, 1};
    int64_t at[25] = {0}, flips = 0;
    double chi2 = 0;

    (void)state;
    for (int64_t i = 0; i < 25000; i++) {
        const struct augment_choice c = augment_choose(&options, &key, i);

        at[c.top * 5 + c.left]++;
        flips += c.flip;
    }
    for (int i = 0; i < 25; i++)
        chi2 += ((double)at[i] - 1e3) * ((double)at[i] - 1e3) / 1e3;
    assert_true(chi2 < 51.2); /* 24 degrees of freedom: once in 1000 seeds */
    assert_true(flips > 6000 && flips < 6500);
}

static void
test_augment_ends(void **state)
{
    const struct augment_options always = {.flip_p = 1}, off = {0};
    const struct augment_options crop = {.crop_padding = 1};
    const struct augment_key key = {SEED, 0, 0};

    (void)state;
    assert_false(augment_is_on(&off));
    assert_true(augment_is_on(&always) && augment_is_on(&crop));
    for (int64_t i = 0; i < 1000; i++) {
        const struct augment_choice c = augment_choose(&always, &key, i);

        assert_true(c.flip && c.top == 0 && c.left == 0);
        assert_false(augment_choose(&crop, &key, i).flip);
    }
}

/* ---- pixels -------------------------------------------------------------- */

/* What torchvision does: pad with 0, crop, flip; raw values. */
static float
raw_moved(const float *image, int64_t padding, const struct augment_choice *c,
          int64_t y, int64_t x)
{
    const int64_t from_x = (c->flip ? WIDTH - 1 - x : x) + c->left - padding;
    const int64_t from_y = y + c->top - padding;

    if (from_x < 0 || from_x >= WIDTH || from_y < 0 || from_y >= HEIGHT)
        return 0;
    return image[from_y * WIDTH + from_x];
}

struct images {
    int64_t n, channels;
    enum spec_format format;
    int n_normalize;
    float raw[64 * 3 * HEIGHT * WIDTH]; /* [n, channels, y, x] */
};

static const double means[] = {10, 20, 30}, stds[] = {2, 4, 8};

static float
normalized(const struct images *im, int64_t c, float v)
{
    const int64_t i = im->n_normalize > 1 ? c : 0;

    if (im->format == SPEC_FORMAT_IDX)
        v /= 255.0f;
    return im->n_normalize > 0 ? (v - (float)means[i]) / (float)stds[i] : v;
}

static void
write_images(const struct datafiles *p, const struct images *im)
{
    const int64_t n = im->n * im->channels * HEIGHT * WIDTH;
    uint8_t idx[4096] = {0, 0, 8, 4,
                         0, 0, 0, (uint8_t)im->n,
                         0, 0, 0, (uint8_t)im->channels,
                         0, 0, 0, HEIGHT,
                         0, 0, 0, WIDTH};
    uint8_t label[8 + 64] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)im->n};
    static const float zeros[64];
    char shape[64];

    if (im->format == SPEC_FORMAT_IDX) {
        for (int64_t i = 0; i < n; i++)
            idx[20 + i] = (uint8_t)im->raw[i];
        bytes_write_file(p->x, idx, (size_t)(20 + n));
        bytes_write_file(p->t, label, (size_t)(8 + im->n));
        return;
    }
    snprintf(shape, sizeof(shape), "(%d, %d, 3, 4)", (int)im->n,
             (int)im->channels);
    datafiles_write_npy(p->x, "<f4", shape, im->raw, (size_t)n * 4);
    snprintf(shape, sizeof(shape), "(%d,)", (int)im->n);
    datafiles_write_npy(p->t, "<f4", shape, zeros, (size_t)im->n * 4);
}

static void
make_images(struct images *im, int64_t n, int64_t channels,
            enum spec_format format, int n_normalize)
{
    *im = (struct images){.n = n,
                          .channels = channels,
                          .format = format,
                          .n_normalize = n_normalize};
    for (int64_t i = 0; i < n * channels * HEIGHT * WIDTH; i++)
        im->raw[i] = (float)(1 + i % 251);
}

static struct dataset *
open_images(const struct datafiles *p, const struct images *im,
            const struct augment_options *augment)
{
    const struct spec_source source = {
        .present = true, .format = im->format, .input = p->x, .target = p->t};
    const struct dataset_options options = {.target_is_class = true,
                                            .mean = means,
                                            .std = stds,
                                            .n_normalize = im->n_normalize,
                                            .augment = *augment};
    struct dataset *d;
    struct err err;

    write_images(p, im);
    assert_int_equal(dataset_open(&source, &options, &d, &err), 0);
    return d;
}

static void
check_image(const struct images *im, int64_t id, int64_t padding,
            const struct augment_choice *choice, const float *got)
{
    for (int64_t c = 0; c < im->channels; c++)
        for (int64_t y = 0; y < HEIGHT; y++)
            for (int64_t x = 0; x < WIDTH; x++) {
                const float *plane =
                    im->raw + (id * im->channels + c) * HEIGHT * WIDTH;
                const float v = raw_moved(plane, padding, choice, y, x);

                assert_true(got[(y * WIDTH + x) * im->channels + c] ==
                            normalized(im, c, v));
            }
}

/* One file, every choice that 40 samples come to; also paddings larger than
 * the image. */
static void
check_all(const struct datafiles *p, const struct images *im, int64_t padding)
{
    const struct augment_options augment = {.crop_padding = padding,
                                            .flip_p = 0.5};
    const int64_t elems = im->channels * HEIGHT * WIDTH;
    struct dataset *d = open_images(p, im, &augment);
    const struct augment_key key = {SEED, 3, 1};
    float *input = malloc(40 * (size_t)elems * sizeof(*input));
    int64_t ids[40];
    int32_t target[40];

    for (int64_t i = 0; i < 40; i++)
        ids[i] = i % im->n;
    dataset_fill(d, ids, 40, &key, input, target);
    for (int64_t i = 0; i < 40; i++) {
        const struct augment_choice c = augment_choose(&augment, &key, i);

        check_image(im, ids[i], padding, &c, input + i * elems);
    }
    /* Without a key nothing moves. */
    dataset_fill(d, ids, 40, NULL, input, target);
    for (int64_t i = 0; i < 40; i++) {
        const struct augment_choice still = {padding, padding, false};

        check_image(im, ids[i], padding, &still, input + i * elems);
    }
    free(input);
    dataset_destroy(&d);
}

static void
test_augment_pixels(void **state)
{
    static const struct {
        int64_t channels;
        enum spec_format format;
        int n_normalize;
    } cases[] = {
        {1, SPEC_FORMAT_IDX, 0}, {1, SPEC_FORMAT_IDX, 1},
        {3, SPEC_FORMAT_IDX, 1}, {3, SPEC_FORMAT_IDX, 3},
        {1, SPEC_FORMAT_NPY, 1}, {3, SPEC_FORMAT_NPY, 0},
        {3, SPEC_FORMAT_NPY, 1}, {3, SPEC_FORMAT_NPY, 3},
    };
    static const int64_t paddings[] = {0, 1, 2, 9};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < sizeof(paddings) / sizeof(paddings[0]); k++) {
            struct images im;

            make_images(&im, 5, cases[i].channels, cases[i].format,
                        cases[i].n_normalize);
            check_all(*state, &im, paddings[k]);
        }
}

/* Rows wider than what is converted at a time. */
static void
test_augment_wide_rows(void **state)
{
    enum { WIDE = 2500 };
    const struct datafiles *p = *state;
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_IDX,
                                       .input = p->x,
                                       .target = p->t};
    const struct augment_options augment = {.crop_padding = 7, .flip_p = 0.5};
    const struct dataset_options options = {.target_is_class = true,
                                            .augment = augment};
    const struct augment_key key = {SEED, 0, 0};
    static const int64_t ids[] = {0, 0, 0, 0, 0, 0, 0, 0};
    uint8_t *file = calloc(1, 20 + 2 * WIDE);
    static float got[8 * WIDE];
    struct dataset *d;
    struct err err;
    int32_t target[8];

    /* i16, so that it is not a table's pixels. */
    memcpy(file, "\0\0\x0b\4\0\0\0\1\0\0\0\1\0\0\0\1\0\0\x09\xc4", 20);
    for (int i = 0; i < WIDE; i++) {
        file[20 + 2 * i] = (uint8_t)((i + 1) >> 8);
        file[21 + 2 * i] = (uint8_t)(i + 1);
    }
    bytes_write_file(p->x, file, 20 + 2 * WIDE);
    bytes_write_file(p->t, "\0\0\x08\1\0\0\0\1\0", 9);
    assert_int_equal(dataset_open(&source, &options, &d, &err), 0);
    dataset_fill(d, ids, 8, &key, got, target);
    for (int64_t i = 0; i < 8; i++) {
        const struct augment_choice c = augment_choose(&augment, &key, i);

        for (int64_t x = 0; x < WIDE; x++) {
            const int64_t at = (c.flip ? WIDE - 1 - x : x) + c.left - 7;
            const bool inside = at >= 0 && at < WIDE && c.top == 7;

            assert_true(got[i * WIDE + x] == (inside ? (float)(at + 1) : 0));
        }
    }
    dataset_destroy(&d);
    free(file);
}

static void
test_augment_refused(void **state)
{
    const struct datafiles *p = *state;
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_NPY,
                                       .input = p->x,
                                       .target = p->t};
    const struct dataset_options options = {.augment = {.flip_p = 0.5}};
    static const float x[6];
    char want[256];
    struct dataset *d;
    struct err err;

    datafiles_write_npy(p->x, "<f4", "(2, 3)", x, sizeof(x));
    datafiles_write_npy(p->t, "<f4", "(2,)", x, 8);
    assert_int_equal(dataset_open(&source, &options, &d, &err), ERR_SPEC);
    snprintf(want, sizeof(want),
             "data.augment: crops and flips are for images (C, H, W), and %s "
             "has none",
             p->x);
    assert_string_equal(err.msg, want);
    /* A value for each pixel, which would stay where it is. */
    datafiles_write_npy(p->x, "<f4", "(1, 1, 2, 3)", x, sizeof(x));
    datafiles_write_npy(p->t, "<f4", "(1, 2, 3)", x, sizeof(x));
    assert_int_equal(dataset_open(&source, &options, &d, &err), ERR_SPEC);
    snprintf(want, sizeof(want),
             "data.augment: crops and flips move images alone, and %s has a "
             "value for each of their pixels",
             p->t);
    assert_string_equal(err.msg, want);
}

/* ---- through prefetch ---------------------------------------------------- */

/* Windows at all positions, one behind the other on this thread. */
static void
collect(struct dataset *d, const struct order *o, int64_t n, float *out)
{
    struct prefetch *p;
    struct err err;

    assert_int_equal(prefetch_create(d, o, false, &p, &err), 0);
    for (int64_t i = 0; i < n; i++) {
        const struct prefetch_window *w = prefetch_window_at(p, i);

        for (int64_t b = 0; b < w->at.n_batches; b++) {
            const size_t size = (size_t)w->batch[b].n * HEIGHT * WIDTH;

            memcpy(out, w->batch[b].input, size * sizeof(*out));
            out += size;
        }
    }
    prefetch_destroy(&p);
}

/* Resumed anywhere, on a thread, forth and back: the same bits; and each
 * sample moved by its own data position, micro-batch and index. */
static void
test_augment_resumes(void **state)
{
    enum { N = 12, POSITIONS = 6, ELEMS = HEIGHT * WIDTH };
    static const int64_t walk[] = {3, 4, 5, 0, 2, 3, 1};
    const struct augment_options augment = {.crop_padding = 2, .flip_p = 0.5};
    const struct order o = {.seed = 7,
                            .n_samples = N,
                            .batch_size = 3,
                            .accumulate = 2,
                            .shuffle = true};
    static float all[POSITIONS * 6 * ELEMS];
    struct images im;
    struct dataset *d;
    struct prefetch *p;
    struct err err;

    make_images(&im, N, 1, SPEC_FORMAT_NPY, 1);
    d = open_images(*state, &im, &augment);
    collect(d, &o, POSITIONS, all);
    assert_int_equal(prefetch_create(d, &o, true, &p, &err), 0);
    for (size_t i = 0; i < sizeof(walk) / sizeof(walk[0]); i++) {
        const struct prefetch_window *w = prefetch_window_at(p, walk[i]);

        for (int64_t b = 0; b < 2; b++) {
            const struct augment_key key = {7, walk[i], (uint32_t)b};
            const float *got = w->batch[b].input;

            assert_memory_equal(got, all + (walk[i] * 6 + b * 3) * ELEMS,
                                3 * ELEMS * sizeof(*got));
            for (int64_t k = 0; k < 3; k++) {
                const struct augment_choice c =
                    augment_choose(&augment, &key, k);

                check_image(&im, w->batch[b].ids[k], 2, &c, got + k * ELEMS);
            }
        }
    }
    prefetch_destroy(&p);
    dataset_destroy(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_augment_stays_the_same),
        cmocka_unit_test(test_augment_is_even),
        cmocka_unit_test(test_augment_ends),
        DATAFILES_TEST(test_augment_pixels),
        DATAFILES_TEST(test_augment_wide_rows),
        DATAFILES_TEST(test_augment_refused),
        DATAFILES_TEST(test_augment_resumes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
