# SPDX-License-Identifier: Apache-2.0
traind_add_fuzz(fuzz_npy SOURCES fuzz_npy.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/npy)
traind_add_fuzz(fuzz_idx SOURCES fuzz_idx.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/idx)
traind_add_fuzz(fuzz_safetensors SOURCES fuzz_safetensors.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/safetensors)
traind_add_fuzz(fuzz_ckpt SOURCES fuzz_ckpt.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/ckpt)
traind_add_fuzz(fuzz_incident SOURCES fuzz_incident.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/incident)
traind_add_fuzz(fuzz_incident_dir SOURCES fuzz_incident_dir.c
    LINKS traind_engine PkgConfig::JANSSON
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/incident_dir)
traind_add_fuzz(fuzz_csv SOURCES fuzz_csv.c LINKS traind_engine m
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/csv)
traind_add_fuzz(fuzz_tokens SOURCES fuzz_tokens.c LINKS traind_engine
    CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/tokens)
