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
    diagnose/step_digest.c
    diagnose/incident_record.c
    diagnose/incident_file.c
    diagnose/incident_file_read.c
    diagnose/incident_keep.c
    run/loop.c
    engine.c)
