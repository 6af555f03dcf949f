# SPDX-License-Identifier: Apache-2.0
# How every target of the project is built, and the one way to add a test.

add_library(traind_flags INTERFACE)
target_include_directories(traind_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(traind_flags INTERFACE
    _GNU_SOURCE TRAIND_VERSION="${PROJECT_VERSION}")
# -ffp-contract=off: every build and vector width gives the same bits.
target_compile_options(traind_flags INTERFACE
    -fno-common -ffp-contract=off -fno-strict-aliasing -fstack-protector-strong
    -Wall -Wextra -Wvla -Wundef -Wswitch-enum -Wshadow -Wpointer-arith
    -Wsign-compare -Wstrict-prototypes -Wmissing-prototypes
    -Wmissing-declarations -Wcast-qual -Wwrite-strings -Wformat=2
    $<$<BOOL:${TRAIND_WERROR}>:-Werror>)
if(TRAIND_SANITIZE)
    target_compile_options(traind_flags INTERFACE
        -fsanitize=${TRAIND_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
    target_link_options(traind_flags INTERFACE -fsanitize=${TRAIND_SANITIZE})
    target_compile_definitions(traind_flags INTERFACE TRAIND_SANITIZED=1)
else()
    target_compile_definitions(traind_flags INTERFACE TRAIND_SANITIZED=0)
endif()

# The fuzzer must see into the libraries, not only into its own target.
if(TRAIND_FUZZ)
    target_compile_options(traind_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# traind_add_test(name SOURCES a.c ... [LINKS lib ...] [LABELS label ...]
#                 [TIMEOUT seconds])
# A CMocka program that is also a ctest.
function(traind_add_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
    add_executable(${name} ${T_SOURCES})
    target_link_libraries(${name} PRIVATE
        ${T_LINKS} traind_flags PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 120)
    endif()
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "${TRAIND_TEST_ENV}" TIMEOUT ${T_TIMEOUT}
        LABELS "${T_LABELS}")
endfunction()

# traind_add_script(name COMMAND cmd ... [LABELS label ...] [TIMEOUT seconds])
# A scenario driven from outside, as a ctest.
function(traind_add_script name)
    cmake_parse_arguments(T "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
    add_test(NAME ${name} COMMAND ${T_COMMAND}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 300)
    endif()
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "${TRAIND_TEST_ENV}" TIMEOUT ${T_TIMEOUT}
        LABELS "${T_LABELS}")
endfunction()

# traind_add_fuzz(name SOURCES a.c LINKS lib ... CORPUS dir)
# A libFuzzer target; ctest runs it on its corpus.
function(traind_add_fuzz name)
    cmake_parse_arguments(T "" "CORPUS" "SOURCES;LINKS" ${ARGN})
    add_executable(${name} ${T_SOURCES})
    target_link_libraries(${name} PRIVATE ${T_LINKS} traind_flags)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=2000 -max_total_time=10
        ${CMAKE_CURRENT_BINARY_DIR}/${name}.new ${T_CORPUS}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}.new)
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "${TRAIND_TEST_ENV}" TIMEOUT 120 LABELS fuzz)
endfunction()
