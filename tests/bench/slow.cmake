# Measures how often healthy jobs are called SLOW, and how often stragglers are found. `bench/slow_table` prints the table; a sample of it is a test.
if(LOCKSTEP_TESTS AND TARGET lockstep_corpus)
  add_executable(slow_table slow/slow_table.cpp slow/jobs.cpp)
  lockstep_common(slow_table)
  target_link_libraries(slow_table PRIVATE lockstep_analysis lockstep_analyzer_testing lockstep_corpus)
  set_target_properties(slow_table PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  add_test(NAME slow_sample COMMAND slow_table --sample)
  set_tests_properties(slow_sample PROPERTIES TIMEOUT 300)
endif()
