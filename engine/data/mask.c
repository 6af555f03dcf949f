/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/mask.h"

#include <assert.h>

#include "engine/data/npy.h"

int
mask_open(const char *path, const struct tensor_desc *shape, const char *of,
          struct array *out, struct err *err)
{
    char have[128], want[128];
    int rc = npy_open(path, out, err);

    if (rc < 0)
        return rc;
    if (out->desc.dtype != DTYPE_BOOL && out->desc.dtype != DTYPE_U8)
        rc = err_set(err, ERR_DATA, "%s: a mask is of bool or uint8, not %s",
                     path, dtype_name(out->desc.dtype));
    else if (!tensor_same_shape(&out->desc, shape))
        rc = err_set(err, ERR_DATA, "%s: mask %s, but %s is %s", path,
                     tensor_format(&out->desc, have, sizeof(have)), of,
                     tensor_format(shape, want, sizeof(want)));
    if (rc < 0)
        array_fini(out);
    return rc;
}

bool
mask_get(const struct array *mask, int64_t at)
{
    assert(at >= 0 && at < mask->n_elems);
    return ((const uint8_t *)mask->data)[at] != 0;
}
