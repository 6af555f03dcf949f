/* SPDX-License-Identifier: Apache-2.0 */
/* What data_files_test.py asks this project's readers and writer:
 *   data_tool npy|idx FILE       the array as JSON
 *   data_tool safetensors FILE   the tensors as JSON
 *   data_tool checkpoint DIR     writes it000000100-a1 into DIR */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/idx.h"
#include "engine/data/npy.h"
#include "engine/data/safetensors.h"
#include "engine/run/ckpt.h"
#include "tests/support/model_state.h"

static void
print_array(const struct array *a)
{
    printf("{\"dtype\": \"%s\", \"shape\": [", dtype_name(a->desc.dtype));
    for (int i = 0; i < a->desc.rank; i++)
        printf("%s%" PRId64, i > 0 ? ", " : "", a->desc.dim[i]);
    printf("], \"values\": [");
    for (int64_t i = 0; i < a->n_elems; i++) {
        const double v = array_get_double(a, i);

        if (i > 0)
            printf(", ");
        if (isnan(v))
            printf("NaN");
        else if (isinf(v))
            printf(v > 0 ? "Infinity" : "-Infinity");
        else
            printf("%.17g", v);
    }
    printf("]}");
}

static int
print_file(int (*open)(const char *, struct array *, struct err *),
           const char *path)
{
    struct array a;
    struct err err;

    if (open(path, &a, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    print_array(&a);
    printf("\n");
    array_fini(&a);
    return 0;
}

static void
print_tensor(const struct safetensors_entry *e)
{
    const size_t n = tensor_n_bytes(&e->desc);
    void *copy = malloc(n > 0 ? n : 1);
    struct array a;

    if (copy == NULL)
        exit(1);
    if (n > 0)
        memcpy(copy, e->data, n);
    array_init_take(&a, &e->desc, copy, 0, false);
    printf("\"%s\": ", e->name);
    print_array(&a);
    array_fini(&a);
}

static int
print_safetensors(const char *path)
{
    struct safetensors *f;
    struct err err;

    if (safetensors_open(path, &f, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("{");
    for (int i = 0; i < safetensors_n_entries(f); i++) {
        printf(i > 0 ? ", " : "");
        print_tensor(safetensors_at(f, i));
    }
    printf("}\n");
    safetensors_close(&f);
    return 0;
}

static int
write_checkpoint(const char *directory)
{
    const struct ckpt_write_args args = {.directory = directory,
                                         .attempt = 1,
                                         .policy = "{\"dtype\": \"float16\"}"};
    struct state *state = model_state_create(2);
    struct ckpt_info info;
    struct err err;
    int rc;

    model_state_fill(state, 100);
    rc = ckpt_write(state, &args, &info, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.msg);
    else
        printf("%s\n", info.name);
    state_destroy(&state);
    return rc < 0;
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "npy") == 0)
        return print_file(npy_open, argv[2]);
    if (argc == 3 && strcmp(argv[1], "idx") == 0)
        return print_file(idx_open, argv[2]);
    if (argc == 3 && strcmp(argv[1], "safetensors") == 0)
        return print_safetensors(argv[2]);
    if (argc == 3 && strcmp(argv[1], "checkpoint") == 0)
        return write_checkpoint(argv[2]);
    fprintf(stderr, "data_tool npy|idx|safetensors|checkpoint PATH\n");
    return 2;
}
