/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert: float32 <-> float16 and bfloat16, exactly, the same bits everywhere.
 *
 * To half: round to nearest even, gradual underflow, >= 65520 gives inf. NaN
 * keeps its sign and the upper bits of its payload and becomes quiet; to
 * float32 a float16 NaN becomes quiet too, a bfloat16 NaN is only moved (as
 * the instructions of x86 do). The scalar functions are the definition; the
 * block functions take the fastest path of this machine. No state: anybody on
 * any thread may call it. Other dtypes are not its business.
 */
#ifndef KERNELS_CPU_CONVERT_H
#define KERNELS_CPU_CONVERT_H

#include "proto/dtype.h"

#include <stdint.h>

/* Elements a kernel converts at a time, on its stack. */
#define CONVERT_BLOCK 1024

float convert_f32_of_f16(uint16_t h);
uint16_t convert_f16_of_f32(float f);
float convert_f32_of_bf16(uint16_t h);
uint16_t convert_bf16_of_f32(float f);

/* n elements; t is f32, f16 or bf16. Blocks do not overlap. */
void convert_to_f32(float *dst, const void *src, enum dtype t, int64_t n);
void convert_from_f32(void *dst, enum dtype t, const float *src, int64_t n);

/* Elements at .. at + n - 1 of base as float32: in place for f32, else
 * converted into buf (n floats). */
const float *convert_view(const void *base, enum dtype t, int64_t at, int64_t n,
                          float *buf);

/* One element. */
float convert_get(const void *base, enum dtype t, int64_t at);
void convert_put(void *base, enum dtype t, int64_t at, float value);

/* The paths, for the test that they agree: NULL after the last. */
struct convert_path {
    const char *name;
    bool (*usable)(void); /* on this machine */
    void (*f32_of_f16)(float *dst, const uint16_t *src, int64_t n);
    void (*f16_of_f32)(uint16_t *dst, const float *src, int64_t n);
    void (*f32_of_bf16)(float *dst, const uint16_t *src, int64_t n);
    void (*bf16_of_f32)(uint16_t *dst, const float *src, int64_t n);
};
const struct convert_path *convert_path_at(int i);

#endif
