# Writes Flight Recorder dumps of a large job, which tests/bench/performance.py analyzes. Commands on a page of the docs use the program, so it belongs to the
# tests.
if(NOT LOCKSTEP_TESTS)
  set(as_asked EXCLUDE_FROM_ALL)
endif()
add_executable(fr_dumps ${as_asked} fr_dumps.cpp)
lockstep_common(fr_dumps NO_SANITIZE)
target_link_libraries(fr_dumps PRIVATE lockstep_jobmodel)
set_target_properties(fr_dumps PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
