/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output.h"

#include <stdlib.h>

#include "proto/codec.h"

static int
put_view(struct output *output, enum view_id view, const void *record,
         int indent, struct err *err)
{
    size_t len = 0;
    char *text = codec_write_view(view, record, indent, &len);

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    fwrite(text, 1, len, output->f);
    free(text);
    return 0;
}

/* An array with one record a line, so that line tools work on it too. */
static int
begin_array(struct output *output, struct err *err)
{
    (void)err;
    fputs("[", output->f);
    return 0;
}

static int
put_element(struct output *output, const void *view, struct err *err)
{
    fputs(output->n_rows > 0 ? ",\n" : "\n", output->f);
    return put_view(output, output->layout->view, view, 0, err);
}

static int
end_array(struct output *output, struct err *err)
{
    (void)err;
    fputs(output->n_rows > 0 ? "\n]\n" : "]\n", output->f);
    return 0;
}

static int
put_item(struct output *output, enum view_id view, const void *record,
         struct err *err)
{
    int rc = put_view(output, view, record, 2, err);

    putc('\n', output->f);
    return rc;
}

const struct output_ops output_json = {
    .name = "json",
    .begin = begin_array,
    .row = put_element,
    .end = end_array,
    .item = put_item,
};

/* JSON lines: each stands alone and leaves at once. */
static int
nothing(struct output *output, struct err *err)
{
    (void)output;
    (void)err;
    return 0;
}

static int
put_json_line(struct output *output, enum view_id view, const void *record,
              struct err *err)
{
    int rc = put_view(output, view, record, 0, err);

    putc('\n', output->f);
    fflush(output->f);
    return rc;
}

static int
put_json_row(struct output *output, const void *view, struct err *err)
{
    return put_json_line(output, output->layout->view, view, err);
}

const struct output_ops output_jsonl = {
    .name = "jsonl",
    .begin = nothing,
    .row = put_json_row,
    .end = nothing,
    .item = put_json_line,
};
