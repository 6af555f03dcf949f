# SPDX-License-Identifier: Apache-2.0
# The dashboard's files as a C table, daemon/web_files.c of the build: what
# files.def lists, and dygraphs from Debian's libjs-dygraphs.
find_path(TRAIND_DYGRAPHS dygraph.min.js
    PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH)
if(NOT TRAIND_DYGRAPHS)
    message(FATAL_ERROR "dygraphs is not there: install libjs-dygraphs, or "
        "set TRAIND_DYGRAPHS to the folder that holds dygraph.min.js")
endif()

set(web_source ${CMAKE_CURRENT_SOURCE_DIR}/web)
set(web_out ${CMAKE_CURRENT_BINARY_DIR}/web_files.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${web_source}/files.def)

include(${web_source}/list.cmake)
web_list(web_paths web_files web_types ${web_source} ${TRAIND_DYGRAPHS})

add_custom_command(OUTPUT ${web_out}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${web_source}
        -DDYGRAPHS=${TRAIND_DYGRAPHS} -DOUT=${web_out}
        -P ${web_source}/embed.cmake
    DEPENDS ${web_files} ${web_source}/files.def ${web_source}/list.cmake
        ${web_source}/embed.cmake
    VERBATIM)
target_sources(traind_daemon PRIVATE web.c ${web_out})
