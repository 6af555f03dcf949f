# SPDX-License-Identifier: Apache-2.0
traind_add_test(store_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_test.c
    LINKS traind_store traind_proto PkgConfig::SQLITE)
