# Measures many simulated agents with real relays and a real collector. `ninja bench-fleet` runs all sizes (an hour); `fleet.py --help` shows options for
# shorter runs.
if(NOT TARGET lockstep_collector_agent OR NOT TARGET lockstep-collector)
  return()
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(FLEET_ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(FLEET_ZSTD REQUIRED IMPORTED_TARGET libzstd)
add_library(fleet_synthetic STATIC EXCLUDE_FROM_ALL fleet/synthetic_host.cpp fleet/synthetic_job.cpp)
lockstep_common(fleet_synthetic)
target_link_libraries(fleet_synthetic PUBLIC lockstep_collector_agent lockstep_collector_service lockstep_jobmodel PRIVATE PkgConfig::FLEET_ZSTD)
add_executable(fleet_agents EXCLUDE_FROM_ALL fleet/fleet_agents.cpp)
lockstep_common(fleet_agents)
target_link_libraries(fleet_agents PRIVATE fleet_synthetic PkgConfig::FLEET_ZMQ)
# Measures only the steps of the root collector.
add_executable(fleet_root EXCLUDE_FROM_ALL fleet/fleet_root.cpp)
lockstep_common(fleet_root)
target_link_libraries(fleet_root PRIVATE fleet_synthetic)
set_target_properties(fleet_agents fleet_root PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

add_custom_target(bench-fleet
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/fleet/fleet.py --build ${CMAKE_BINARY_DIR}
  COMMAND fleet_root 1024 8192 24576 98304
  DEPENDS fleet_agents fleet_root lockstep-collector lockstep-keygen USES_TERMINAL VERBATIM)
