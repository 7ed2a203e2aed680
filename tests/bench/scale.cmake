# Writes Lockstep's own dumps of large jobs, which tests/bench/performance.py analyzes.
if(NOT LOCKSTEP_TESTS)
  set(as_asked EXCLUDE_FROM_ALL)
endif()
add_executable(scale_dumps ${as_asked} scale_dumps.cpp scale_job.cpp)
lockstep_common(scale_dumps)
target_link_libraries(scale_dumps PRIVATE lockstep_analysis lockstep_jobmodel)
set_target_properties(scale_dumps PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
