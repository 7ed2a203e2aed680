# The agent of a host: its session with the collector, its spool, its finding of rings. Included by CMakeLists.txt.
add_library(lockstep_spool STATIC spool.cpp)
lockstep_common(lockstep_spool)
target_link_libraries(lockstep_spool PUBLIC lockstep_collector PRIVATE PkgConfig::LOCKSTEP_WIRE_ZSTD)
lockstep_layer(lockstep_spool collector)
lockstep_test(spool_test SOURCES spool_test.cpp LIBS lockstep_spool PkgConfig::LOCKSTEP_WIRE_ZSTD LAYER collector)
