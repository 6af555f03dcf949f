/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

void
cases_function(const struct cases_maker *m)
{
    (void)m;
}
