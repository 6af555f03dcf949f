# SPDX-License-Identifier: Apache-2.0
traind_add_test(args_test SOURCES args_test.c LINKS traind_ctl LABELS unit)
traind_add_test(joblist_test SOURCES joblist_test.c
    LINKS traind_ctl LABELS unit)
traind_add_test(ctl_format_test SOURCES ctl_format_test.c
    LINKS traind_ctl LABELS unit)
traind_add_test(plot_test SOURCES plot_test.c LINKS traind_ctl LABELS unit)
traind_add_test(bar_test SOURCES bar_test.c LINKS traind_ctl LABELS unit)
traind_add_test(output_test SOURCES output_test.c LINKS traind_ctl LABELS unit)
traind_add_test(tail_test SOURCES tail_test.c LINKS traind_ctl LABELS unit)
traind_add_test(tfevents_test
    SOURCES tfevents_test.c LINKS traind_ctl LABELS unit)
traind_add_test(lines_test SOURCES lines_test.c LINKS traind_ctl LABELS unit)
traind_add_test(printable_test
    SOURCES printable_test.c LINKS traind_ctl LABELS unit)
traind_add_test(story_test SOURCES story_test.c LINKS traind_ctl LABELS unit)
traind_add_test(branches_test
    SOURCES branches_test.c LINKS traind_ctl LABELS unit)
traind_add_test(ctl_program_test
    SOURCES ctl_program_test.c LINKS traind_ctl LABELS unit)
traind_add_test(cmd_test SOURCES cmd_test.c LINKS traind_ctl LABELS unit)
# The program as a whole, against a scripted daemon.
traind_add_test(trainctl_test
    SOURCES
        trainctl_test.c
        ../support/fake_daemon.c
    LABELS unit)
add_dependencies(trainctl_test trainctl)
traind_add_test(trainctl_verbs_test
    SOURCES
        trainctl_verbs_test.c
        ../support/fake_daemon.c
    LABELS unit)
add_dependencies(trainctl_verbs_test trainctl traind-worker)
traind_add_test(trainctl_diagnosis_test
    SOURCES
        trainctl_diagnosis_test.c
        ../support/fake_daemon.c
    LABELS unit)
add_dependencies(trainctl_diagnosis_test trainctl)
find_program(MANDOC mandoc)
if(MANDOC)
    traind_add_script(trainctl_manual
        COMMAND ${MANDOC} -Tlint -W warning ${CMAKE_SOURCE_DIR}/ctl/trainctl.1
        LABELS lint)
endif()
