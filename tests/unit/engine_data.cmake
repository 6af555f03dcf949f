# SPDX-License-Identifier: Apache-2.0
traind_add_test(idx_test SOURCES idx_test.c LINKS traind_engine ZLIB::ZLIB)
traind_add_test(npy_test SOURCES npy_test.c LINKS traind_engine)
traind_add_test(safetensors_test SOURCES safetensors_test.c LINKS traind_engine)
traind_add_test(dataset_test SOURCES dataset_test.c LINKS traind_engine m)
traind_add_test(order_test SOURCES order_test.c LINKS traind_engine)
traind_add_test(prefetch_test SOURCES prefetch_test.c
    LINKS traind_engine Threads::Threads)
traind_add_test(ckpt_test SOURCES ckpt_test.c LINKS traind_engine m)
traind_add_test(ckpt_damage_test
    SOURCES ckpt_damage_test.c
    LINKS traind_engine m)
traind_add_test(ckpt_crash_test SOURCES ckpt_crash_test.c LINKS traind_engine)
