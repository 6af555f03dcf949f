# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=daemon/web -DDYGRAPHS=... -DOUT=web_files.c -P embed.cmake
include(${CMAKE_CURRENT_LIST_DIR}/list.cmake)
web_list(paths files types ${SOURCE} ${DYGRAPHS})

set(arrays)
set(rows)
set(i 0)
foreach(file IN LISTS files)
    list(GET paths ${i} path)
    list(GET types ${i} type)
    string(REPLACE "@" ";" type "${type}")
    file(READ ${file} hex HEX)
    file(SHA256 ${file} digest)
    string(SUBSTRING ${digest} 0 16 digest)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    # A line for every 16 bytes: compilers mind a megabyte in one.
    string(REPEAT "....." 16 sixteen)
    string(REGEX REPLACE "(${sixteen})" "\\1\n" bytes "${bytes}")
    string(APPEND arrays
        "static const unsigned char bytes_${i}[] = {\n${bytes}};\n")
    string(APPEND rows "    {\"${path}\", \"${type}\", bytes_${i}, "
        "sizeof(bytes_${i}), \"\\\"${digest}\\\"\"},\n")
    math(EXPR i "${i} + 1")
endforeach()

file(WRITE ${OUT} "/* Made by daemon/web/embed.cmake. */
#include \"daemon/web.h\"

${arrays}
const struct web_file web_table[] = {
${rows}};
const size_t web_table_len = ${i};
")
