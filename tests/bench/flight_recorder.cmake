# Flight Recorder dumps of a large job, and how fast they are analyzed (tests/bench/performance.py). The commands of a
# page run them, so tests need them.
if(NOT LOCKSTEP_TESTS)
  set(as_asked EXCLUDE_FROM_ALL)
endif()
add_executable(fr_dumps ${as_asked} fr_dumps.cpp)
lockstep_common(fr_dumps NO_SANITIZE)
target_link_libraries(fr_dumps PRIVATE lockstep_jobmodel)
add_executable(analysis_bench ${as_asked} analysis_bench.cpp)
lockstep_common(analysis_bench NO_SANITIZE)
target_link_libraries(analysis_bench PRIVATE lockstep_analysis)
set_target_properties(fr_dumps analysis_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
