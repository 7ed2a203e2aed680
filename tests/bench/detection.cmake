# Measures what hang detection costs a collector. `ninja bench-detection` prints the table.
if(TARGET lockstep_collector_detect)
  add_executable(detection_bench EXCLUDE_FROM_ALL detection_bench.cpp)
  lockstep_common(detection_bench)
  target_link_libraries(detection_bench PRIVATE lockstep_collector_detect)
  set_target_properties(detection_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  add_custom_target(bench-detection COMMAND detection_bench DEPENDS detection_bench USES_TERMINAL VERBATIM)
endif()
