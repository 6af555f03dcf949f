# SPDX-License-Identifier: Apache-2.0
traind_add_test(shape_test SOURCES shape_test.c LINKS traind_engine)
traind_add_test(graph_test SOURCES graph_test.c LINKS traind_engine)
traind_add_test(build_test SOURCES build_test.c LINKS traind_engine m)
traind_add_test(build_layers_test SOURCES build_layers_test.c LINKS traind_engine m)
traind_add_test(autocast_test SOURCES autocast_test.c LINKS traind_engine)
traind_add_test(memplan_test SOURCES memplan_test.c LINKS traind_engine)
traind_add_test(autodiff_test SOURCES autodiff_test.c LINKS traind_engine m)
traind_add_test(autodiff_layers_test SOURCES autodiff_layers_test.c
    LINKS traind_engine m)
traind_add_test(recompute_test SOURCES recompute_test.c LINKS traind_engine m)
traind_add_test(program_test SOURCES program_test.c LINKS traind_engine m)
