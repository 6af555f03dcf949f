/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output.h"

#include <assert.h>
#include <stdlib.h>

#include "ctl/output_text.h"

int
output_begin(struct output *output, const struct output_layout *layout,
             struct err *err)
{
    assert(output->layout == NULL && output->priv == NULL);
    output->layout = layout;
    output->n_rows = 0;
    return output->ops->begin(output, err);
}

int
output_row(struct output *output, const void *view, struct err *err)
{
    assert(output->layout != NULL);
    int rc = output->ops->row(output, view, err);

    output->n_rows++;
    return rc;
}

int
output_end(struct output *output, struct err *err)
{
    int rc = output->ops->end(output, err);

    output_abandon(output);
    return rc;
}

void
output_abandon(struct output *output)
{
    if (output->priv != NULL)
        output_text_forget(output);
    output->layout = NULL;
}
