# The agent of a host: its session with the collector, its spool, its finding of rings. Included by CMakeLists.txt.
find_package(prometheus-cpp CONFIG REQUIRED)

# Of agent, relay and collector.
add_library(lockstep_metrics STATIC metrics.cpp)
lockstep_common(lockstep_metrics)
target_link_libraries(lockstep_metrics PUBLIC absl::status absl::statusor absl::strings PRIVATE prometheus-cpp::pull)
lockstep_layer(lockstep_metrics collector)
lockstep_test(metrics_test SOURCES metrics_test.cpp LIBS lockstep_metrics LAYER collector)

add_library(lockstep_agent STATIC
  host_source.cpp
  host_workshop.cpp
  ring_finder.cpp
  ring_process.cpp
  spool.cpp)
lockstep_common(lockstep_agent)
target_link_libraries(lockstep_agent PUBLIC lockstep_collector PRIVATE PkgConfig::LOCKSTEP_WIRE_ZSTD)
lockstep_layer(lockstep_agent collector)
lockstep_test(spool_test SOURCES spool_test.cpp LIBS lockstep_agent PkgConfig::LOCKSTEP_WIRE_ZSTD LAYER collector)
