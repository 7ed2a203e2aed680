# Flight Recorder dumps of a large job, and how fast they are analysed. `ninja bench-flight-recorder` prints it for the
# dumps as PyTorch writes them; analysis_bench takes any other dumps by hand.
add_executable(fr_dumps EXCLUDE_FROM_ALL fr_dumps.cpp)
lockstep_common(fr_dumps NO_SANITIZE)
add_executable(analysis_bench EXCLUDE_FROM_ALL analysis_bench.cpp)
lockstep_common(analysis_bench NO_SANITIZE)
target_link_libraries(analysis_bench PRIVATE lockstep_analysis)
set_target_properties(fr_dumps analysis_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

set(LOCKSTEP_BENCH_DATA "${CMAKE_BINARY_DIR}/bench/data" CACHE PATH "Where benchmarks write their dumps; some hundred megabytes")
add_custom_target(bench-flight-recorder
  COMMAND ${CMAKE_COMMAND} -E make_directory ${LOCKSTEP_BENCH_DATA}
  COMMAND fr_dumps ${LOCKSTEP_BENCH_DATA}/flight_recorder
  COMMAND analysis_bench $<TARGET_FILE:lockstep-analyze> ${LOCKSTEP_BENCH_DATA}/flight_recorder
  DEPENDS fr_dumps analysis_bench lockstep-analyze USES_TERMINAL VERBATIM)
