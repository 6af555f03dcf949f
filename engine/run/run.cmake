# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    base/clock.c
    run/scaler.c
    run/state.c
    run/lrate.c
    run/optimizer_kind.c
    run/optimizer.c
    run/exec.c
    run/variants.c
    run/step.c
    run/evaluate.c
    run/sampler.c
    run/report.c
    run/policy.c
    run/keeper.c
    run/source.c
    diagnose/replay.c
    diagnose/flush.c
    run/loop.c
    engine.c)
