/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_samples: specs that several tests start from.
 *
 * Written with ' for "; spec_sample_text() gives JSON. The minimal one holds
 * the required keys only.
 */
#ifndef TESTS_UNIT_SPEC_SAMPLES_H
#define TESTS_UNIT_SPEC_SAMPLES_H

#include "proto/spec.h"

extern const char *const spec_sample_minimal;
extern const char *const spec_samples[];
extern const int spec_samples_n;

/* The text with " for '; malloc'd. */
char *spec_sample_text(const char *sample);

/* Parses, or fails the test with the first fault. */
struct spec *spec_sample_parse(const char *text);

#endif
