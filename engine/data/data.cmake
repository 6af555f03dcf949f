# SPDX-License-Identifier: Apache-2.0
target_sources(traind_engine PRIVATE
    base/failpoint.c
    base/digest.c
    base/canonical.c
    data/file.c
    data/array.c
    data/idx.c
    data/npy_header.c
    data/npy.c
    data/safetensors.c
    data/safetensors_write.c
    data/mask.c
    data/tokens.c
    data/csv_field.c
    data/csv.c
    data/dataset_read.c
    data/dataset_labels.c
    data/dataset.c
    data/augment.c
    data/dataset_fill.c
    data/order.c
    data/detour.c
    data/prefetch.c)
# Checkpoints are the engine's other file format.
target_sources(traind_engine PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt_dir.c
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt_manifest.c
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt_tensors.c
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt.c
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt_read.c
    ${CMAKE_CURRENT_SOURCE_DIR}/run/ckpt_weights.c)
