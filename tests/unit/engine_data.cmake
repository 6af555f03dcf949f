# SPDX-License-Identifier: Apache-2.0
traind_add_test(idx_test SOURCES idx_test.c LINKS traind_engine ZLIB::ZLIB)
traind_add_test(npy_test SOURCES npy_test.c LINKS traind_engine)
traind_add_test(safetensors_test SOURCES safetensors_test.c LINKS traind_engine)
traind_add_test(tokens_test SOURCES tokens_test.c LINKS traind_engine)
traind_add_test(dataset_test SOURCES dataset_test.c LINKS traind_engine m)
traind_add_test(csv_test SOURCES csv_test.c LINKS traind_engine)
traind_add_test(dataset_formats_test SOURCES dataset_formats_test.c
    LINKS traind_engine)
traind_add_test(augment_test SOURCES augment_test.c
    LINKS traind_engine Threads::Threads)
traind_add_test(dataset_labels_test SOURCES dataset_labels_test.c
    LINKS traind_engine m)
traind_add_test(dataset_text_test SOURCES dataset_text_test.c
    LINKS traind_engine)
traind_add_test(order_test SOURCES order_test.c LINKS traind_engine)
traind_add_test(detour_test SOURCES detour_test.c LINKS traind_engine)
traind_add_test(prefetch_test SOURCES prefetch_test.c
    LINKS traind_engine Threads::Threads)
target_link_options(prefetch_test PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc)
traind_add_test(ckpt_test SOURCES ckpt_test.c LINKS traind_engine m)
traind_add_test(ckpt_weights_test SOURCES ckpt_weights_test.c
    LINKS traind_engine m)
traind_add_test(ckpt_damage_test
    SOURCES ckpt_damage_test.c
    LINKS traind_engine m)
traind_add_test(ckpt_crash_test SOURCES ckpt_crash_test.c LINKS traind_engine)

# Against NumPy and the safetensors library; ./dev test makes their venv.
add_executable(data_tool data_tool.c)
target_link_libraries(data_tool PRIVATE traind_engine traind_flags m)
traind_add_script(data_files_test
    COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/data_files_test.py)
set_tests_properties(data_files_test PROPERTIES SKIP_RETURN_CODE 77)
