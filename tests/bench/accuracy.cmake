# Scores the analyzer on a sample of the labeled corpus; `./dev accuracy` scores the entire corpus.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(LOCKSTEP_TESTS)
  add_test(NAME accuracy_scorer COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/accuracy/accuracy_test.py")
  set_tests_properties(accuracy_scorer PROPERTIES TIMEOUT 120)
  if(TARGET lockstep-corpus)
    add_test(NAME accuracy_sample COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/accuracy/accuracy.py"
      --build "${CMAKE_BINARY_DIR}" --out "${CMAKE_BINARY_DIR}/accuracy_sample" --formats lsd,fr --scales 8,64 --variants plain --check
      --known-wrong "${CMAKE_CURRENT_SOURCE_DIR}/accuracy/known_wrong.txt" --fresh)
    set_tests_properties(accuracy_sample PROPERTIES TIMEOUT 600 LABELS integration)
    # Checks that replay proves right verdicts, and never proves an innocent rank in the culprit's place.
    add_test(NAME replay_sample COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/accuracy/replays.py" --build "${CMAKE_BINARY_DIR}"
      --out "${CMAKE_BINARY_DIR}/replay_sample" --scales 8 --variants plain,shared --least 95)
    set_tests_properties(replay_sample PROPERTIES TIMEOUT 300 LABELS integration)
    if(LOCKSTEP_COLLECTOR)
      # The scenarios of corpus_cross_check.py for which both verdicts are known to be equal.
      add_test(NAME corpus_cross_check COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tests/integration/corpus_cross_check.py"
        --build "${CMAKE_BINARY_DIR}" --scenarios 3,5,7,13,15,16,21,24,27,36)
      set_tests_properties(corpus_cross_check PROPERTIES TIMEOUT 600 LABELS "integration;process")
    endif()
  endif()
endif()
