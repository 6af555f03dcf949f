# SPDX-License-Identifier: Apache-2.0
foreach(name store_test store_history_test store_level_test
        store_migrate_test store_fsck_test)
    traind_add_test(${name}
        SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.c
            ${CMAKE_CURRENT_LIST_DIR}/store_bench.c
        LINKS traind_store traind_proto PkgConfig::SQLITE)
endforeach()
