# SPDX-License-Identifier: Apache-2.0
# One test of each part of the daemon; scenarios are in tests/daemon.
foreach(part
        job schedule conf auth notify listen obituary subscribe ingest logcap
        start_plan procfs control ledger web http_uri http_guard http_args
        exposition room)
    traind_add_test(${part}_test SOURCES ${part}_test.c
        LINKS traind_daemon LABELS unit)
endforeach()
foreach(part metrics metrics_job)
    traind_add_test(${part}_test SOURCES ${part}_test.c metrics_stage.c
        LINKS traind_daemon LABELS unit)
endforeach()
traind_add_test(change_test SOURCES change_test.c spec_samples.c
    LINKS traind_daemon LABELS unit)
traind_add_test(exec_helper_test SOURCES exec_helper_test.c LABELS unit)
add_dependencies(exec_helper_test traind-exec)
find_program(MANDOC mandoc)
if(MANDOC)
    foreach(page traind.8 traind.conf.5 traind-metrics.7)
        traind_add_script(manual_${page}
            COMMAND ${MANDOC} -Tlint -W warning
                ${CMAKE_SOURCE_DIR}/daemon/${page}
            LABELS lint)
    endforeach()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/daemon_store.cmake OPTIONAL)
