/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as manifest.json and as incident.json of a kept incident: refused
 * with a sentence, or printing them gives the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/diagnose/incident_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_take(char *again, const char *text, size_t size)
{
    assert(again != NULL && strlen(again) == size);
    assert(memcmp(again, text, size) == 0);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct incident_manifest manifest;
    struct incident_record record;
    struct err err;

    err_clear(&err);
    if (incident_record_parse_manifest(text, size, &manifest, &err) == 0)
        check_take(incident_record_print_manifest(&manifest), text, size);
    else
        assert(strncmp(err.msg, "manifest.json:", 14) == 0);
    err_clear(&err);
    if (incident_record_parse(text, size, &record, &err) == 0) {
        check_take(incident_record_print(&record), text, size);
        incident_record_fini(&record);
    } else {
        assert(strncmp(err.msg, "incident.json:", 14) == 0);
    }
    return 0;
}
