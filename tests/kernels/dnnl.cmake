# SPDX-License-Identifier: Apache-2.0
traind_add_test(dnnl_test
    SOURCES dnnl_test.c dnnl_naive.c guarded.c
    LINKS traind_kernels m
    LABELS kernels)
traind_add_test(dnnl_vector_test
    SOURCES dnnl_vector_test.c guarded.c
    LINKS traind_kernels m
    LABELS kernels)
