# SPDX-License-Identifier: Apache-2.0
traind_add_test(err_test SOURCES err_test.c LINKS traind_proto)
traind_add_test(proto_text_test SOURCES proto_text_test.c LINKS traind_proto)
traind_add_test(frame_test SOURCES frame_test.c LINKS traind_proto)
traind_add_test(message_test SOURCES message_test.c LINKS traind_proto)
traind_add_test(codec_test SOURCES codec_test.c LINKS traind_proto)
traind_add_test(codec_event_test SOURCES codec_event_test.c LINKS traind_proto)
traind_add_test(client_test SOURCES client_test.c LINKS traind_proto)
traind_add_test(spec_test SOURCES spec_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_fault_test SOURCES spec_fault_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_layers_test SOURCES spec_layers_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_sections_test SOURCES spec_sections_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_rules_test SOURCES spec_rules_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_presets_test SOURCES spec_presets_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_set_test SOURCES spec_set_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_merge_test SOURCES spec_merge_test.c spec_samples.c
    LINKS traind_proto)
traind_add_test(spec_keys_test SOURCES spec_keys_test.c LINKS traind_proto)
traind_add_test(proto_nomem_test SOURCES proto_nomem_test.c spec_samples.c
    LINKS traind_proto)
target_link_options(proto_nomem_test PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free)
