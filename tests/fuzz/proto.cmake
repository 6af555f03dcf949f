# SPDX-License-Identifier: Apache-2.0
traind_add_fuzz(fuzz_frame SOURCES fuzz_frame.c LINKS traind_proto
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/frame)
traind_add_fuzz(fuzz_spec SOURCES fuzz_spec.c LINKS traind_proto
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/spec)
traind_add_fuzz(fuzz_event SOURCES fuzz_event.c LINKS traind_proto
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/event)
traind_add_fuzz(fuzz_codec SOURCES fuzz_codec.c LINKS traind_proto
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/codec)
traind_add_fuzz(fuzz_http SOURCES fuzz_http.c
    ${CMAKE_SOURCE_DIR}/daemon/http_uri.c ${CMAKE_SOURCE_DIR}/daemon/http_args.c
    LINKS traind_proto
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/http)
