# Many simulated agents, relays and the collector. `ninja bench-fleet` runs all sizes (an hour); fleet.py --help for less.
if(NOT TARGET lockstep_agent_session OR NOT TARGET lockstep-collector)
  return()
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(FLEET_ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(FLEET_ZSTD REQUIRED IMPORTED_TARGET libzstd)
add_executable(fleet_agents EXCLUDE_FROM_ALL fleet/fleet_agents.cpp fleet/synthetic_job.cpp)
lockstep_common(fleet_agents)
target_link_libraries(fleet_agents PRIVATE lockstep_agent_session PkgConfig::FLEET_ZMQ PkgConfig::FLEET_ZSTD)
set_target_properties(fleet_agents PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

add_custom_target(bench-fleet
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/fleet/fleet.py --build ${CMAKE_BINARY_DIR}
  DEPENDS fleet_agents lockstep-collector lockstep-keygen USES_TERMINAL VERBATIM)
