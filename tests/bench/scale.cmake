# Lockstep's own dumps of large jobs. `ninja bench-scale` writes the dumps of 24,576 ranks with 2,048 records each (0.6 GB) and
# prints how fast they are analysed.
add_executable(scale_dumps EXCLUDE_FROM_ALL scale_dumps.cpp scale_job.cpp)
lockstep_common(scale_dumps)
target_link_libraries(scale_dumps PRIVATE lockstep_analysis)
set_target_properties(scale_dumps PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

add_custom_target(bench-scale
  COMMAND ${CMAKE_COMMAND} -E make_directory ${LOCKSTEP_BENCH_DATA}
  COMMAND scale_dumps --out ${LOCKSTEP_BENCH_DATA}/scale --ranks 24576
  COMMAND analysis_bench $<TARGET_FILE:lockstep-analyze> ${LOCKSTEP_BENCH_DATA}/scale
  DEPENDS scale_dumps analysis_bench lockstep-analyze USES_TERMINAL VERBATIM)
