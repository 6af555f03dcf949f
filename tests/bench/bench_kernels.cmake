# SPDX-License-Identifier: Apache-2.0
# bench_kernels [DTYPE] [THREADS] [SECONDS] [BACKEND]
add_executable(bench_kernels
    bench_kernels.c
    bench_models.c)
target_link_libraries(bench_kernels PRIVATE traind_kernels traind_flags m)
