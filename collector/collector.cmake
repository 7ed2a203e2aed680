# The collector: what it decides (pure), what it keeps on disk, its process, and the dump verb. Included by CMakeLists.txt.
add_library(lockstep_gather STATIC
  collector_core.cpp
  collector_core_client.cpp
  collector_core_desync.cpp
  collector_core_chunks.cpp
  collector_core_evidence.cpp
  collector_core_incident.cpp
  collector_core_jobs.cpp
  collector_core_round.cpp
  collector_core_stacks.cpp
  collector_incident.cpp
  collector_job.cpp
  collector_options.cpp
  digest_round.cpp
  flying.cpp
  incident_store.cpp
  job_communicators.cpp
  job_lines.cpp
  known_members.cpp
  recorder_facts.cpp
  relay.cpp
  relay_jobs.cpp
  verdict_hook.cpp
  work_lane.cpp)
lockstep_common(lockstep_gather)
target_compile_definitions(lockstep_gather PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep_gather PUBLIC lockstep_collector lockstep_wire lockstep_tools lockstep_evidence absl::flat_hash_map absl::flat_hash_set
  PRIVATE nlohmann_json::nlohmann_json PkgConfig::LOCKSTEP_WIRE_ZSTD)
lockstep_layer(lockstep_gather collector)
lockstep_test(gather_test
  SOURCES collector_core_late_test.cpp collector_core_test.cpp collector_incident_test.cpp collector_options_test.cpp core_jobs_test.cpp core_test_fleet.cpp core_top_test.cpp digest_round_test.cpp incident_store_test.cpp
          job_lines_test.cpp known_members_test.cpp reading_group_test.cpp relay_test.cpp retention_test.cpp
          verdict_hook_test.cpp ../analyzer/engine_test_job_test.cpp
  LIBS lockstep_gather PkgConfig::LOCKSTEP_WIRE_ZSTD LAYER collector)
# Late and hung, of simulated jobs: through agents' digests and what the collector makes of them.
lockstep_test(detection_suite_test SOURCES detection_suite_test.cpp detection_test_job.cpp LIBS lockstep_agent lockstep_gather LAYER collector TIMEOUT 300)

add_executable(lockstep-dump dump_main.cpp)
lockstep_common(lockstep-dump)
target_compile_definitions(lockstep-dump PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep-dump PRIVATE lockstep_tools)
lockstep_layer(lockstep-dump collector)

add_executable(lockstep-collector collector_main.cpp collector_process.cpp)
lockstep_common(lockstep-collector)
target_compile_definitions(lockstep-collector PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep-collector PRIVATE lockstep_gather lockstep_metrics)
lockstep_layer(lockstep-collector collector)
