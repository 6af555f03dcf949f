/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/message.h"

#include <string.h>

const struct message message_table[MESSAGE_ID_COUNT] = {
#define MESSAGE(name, number, flow, right, request, reply, shape, doc)         \
    {#name,                                                                    \
     number,                                                                   \
     MESSAGE_##flow,                                                           \
     MESSAGE_##right,                                                          \
     VIEW_ID_##request,                                                        \
     VIEW_ID_##reply,                                                          \
     MESSAGE_##shape,                                                          \
     doc},
#include "proto/messages.def"
#undef MESSAGE
};

enum message_id
message_find(const char *name)
{
    int i = 0;

    while (i < MESSAGE_ID_COUNT && strcmp(message_table[i].name, name) != 0)
        i++;
    return (enum message_id)i;
}
