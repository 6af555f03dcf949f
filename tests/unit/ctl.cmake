# SPDX-License-Identifier: Apache-2.0
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
add_dependencies(trainctl_verbs_test trainctl)
