/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_text: tables with aligned columns.
 *
 * Collects the cells of a list, since widths are known only at its end, and
 * prints them with a heading. output.c calls it.
 */
#ifndef CTL_OUTPUT_TEXT_H
#define CTL_OUTPUT_TEXT_H

#include "ctl/output.h"

/* Frees what a list begun has collected. */
void output_text_forget(struct output *output);

#endif
