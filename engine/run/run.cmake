# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    run/scaler.c
    run/state.c
    run/lrate.c
    run/optimizer.c)
