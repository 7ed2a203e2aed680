# The agent of a host: its session with the collector, its spool, its finding of rings. Included by CMakeLists.txt.
find_package(prometheus-cpp CONFIG REQUIRED)

# Of agent, relay and collector.
add_library(lockstep_metrics STATIC metric_set.cpp metrics.cpp)
lockstep_common(lockstep_metrics)
target_link_libraries(lockstep_metrics PUBLIC absl::status absl::statusor absl::strings PRIVATE prometheus-cpp::pull)
lockstep_layer(lockstep_metrics collector)
lockstep_test(metrics_test SOURCES metrics_test.cpp LIBS lockstep_metrics LAYER collector)

add_library(lockstep_agent STATIC
  agent_log.cpp
  agent_options.cpp
  clean.cpp
  host_source.cpp
  host_workshop.cpp
  own_collector.cpp
  ring_finder.cpp
  ring_owner.cpp
  ring_process.cpp
  ring_retention.cpp
  spool.cpp
  spool_files.cpp)
lockstep_common(lockstep_agent)
target_link_libraries(lockstep_agent PUBLIC lockstep_collector PRIVATE PkgConfig::LOCKSTEP_WIRE_ZSTD)
lockstep_layer(lockstep_agent collector)
lockstep_test(spool_test SOURCES spool_test.cpp LIBS lockstep_agent PkgConfig::LOCKSTEP_WIRE_ZSTD LAYER collector)
lockstep_test(host_source_test SOURCES agent_options_test.cpp host_source_test.cpp ring_finder_test.cpp LIBS lockstep_agent LAYER collector)

add_library(lockstep_agent_session STATIC agent_process.cpp agent_session.cpp)
lockstep_common(lockstep_agent_session)
target_compile_definitions(lockstep_agent_session PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep_agent_session PUBLIC lockstep_agent PRIVATE lockstep_metrics)
lockstep_layer(lockstep_agent_session collector)
lockstep_test(agent_session_test SOURCES agent_session_test.cpp LIBS lockstep_agent_session LAYER collector)

add_executable(lockstep-agent agent_main.cpp)
lockstep_common(lockstep-agent)
target_compile_definitions(lockstep-agent PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep-agent PRIVATE lockstep_agent_session)
lockstep_layer(lockstep-agent collector)
add_dependencies(lockstep-agent lockstep-evidence lockstep-collector)

if(LOCKSTEP_TESTS AND TARGET lockstep)
  lockstep_test(agent_verb_test SOURCES agent_verb_test.cpp LIBS lockstep_agent_session PkgConfig::LOCKSTEP_WIRE_ZSTD LAYER collector TIMEOUT 300
    DEFINES LOCKSTEP_AGENT="$<TARGET_FILE:lockstep-agent>" LOCKSTEP_LIBRARY="$<TARGET_FILE:lockstep>"
            LOCKSTEP_TRAINSIM="${CMAKE_BINARY_DIR}/bin/trainsim" LOCKSTEP_STANDIN="${CMAKE_BINARY_DIR}/standin/lib")
  add_dependencies(agent_verb_test lockstep lockstep-agent)
endif()
