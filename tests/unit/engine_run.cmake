# SPDX-License-Identifier: Apache-2.0
traind_add_test(scaler_test SOURCES scaler_test.c LINKS traind_engine)
traind_add_test(lrate_test SOURCES lrate_test.c LINKS traind_engine m)
traind_add_test(optimizer_test SOURCES optimizer_test.c LINKS traind_engine m)
traind_add_test(sampler_test SOURCES sampler_test.c LINKS traind_engine m)
traind_add_test(keeper_test SOURCES keeper_test.c LINKS traind_engine m)
traind_add_test(policy_test SOURCES policy_test.c LINKS traind_engine)
traind_add_test(incident_file_test SOURCES incident_file_test.c
    LINKS traind_engine m)
traind_add_test(incident_keep_test SOURCES incident_keep_test.c
    LINKS traind_engine m)
traind_add_test(spread_test SOURCES spread_test.c LINKS traind_engine m)
traind_add_test(guard_test SOURCES guard_test.c LINKS traind_engine m)
traind_add_test(guard_change_test SOURCES guard_change_test.c
    LINKS traind_engine m)
traind_add_test(guard_twin_test SOURCES guard_twin_test.c
    LINKS traind_engine m)
traind_add_test(verdict_test SOURCES verdict_test.c LINKS traind_engine m)
