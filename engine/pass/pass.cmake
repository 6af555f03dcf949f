# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    pass/copy.c
    pass/autocast.c
    pass/autodiff.c
    pass/autodiff_rules.c
    pass/recompute.c
    pass/memplan.c
    pass/program.c
    pass/program_print.c)
