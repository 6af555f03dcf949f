# SPDX-License-Identifier: Apache-2.0
# The store as a library of its own: it knows SQLite, the daemon does not.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS schema.sql)
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/schema.sql schema_hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," schema_bytes "${schema_hex}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/daemon/schema_sql.h
    CONTENT "/* made from schema.sql */\nstatic const char schema_sql[] = {@schema_bytes@ 0};\n"
    @ONLY)

add_library(traind_store STATIC
    store_sqlite.c
    store_schema.c
    store_sql.c
    store_write.c
    store_ballast.c
    store_best.c
    store_ingest.c
    store_incident.c
    store_query.c
    store_history.c
    store_fsck.c
    store_event.c
    store_token.c
    store_watch.c
    store_group.c
    store_level.c
    store_line.c
    store_metrics.c)
target_include_directories(traind_store PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(traind_store
    PUBLIC traind_proto PkgConfig::LIBUV
    PRIVATE traind_flags PkgConfig::SQLITE Threads::Threads m)
