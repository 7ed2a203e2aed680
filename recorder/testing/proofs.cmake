# Tests of what the recorder promises whatever happens: nothing torn, nothing lost to a kill, nothing allocated, other machines.
lockstep_test(recorder_torn_test SOURCES torn_test.cpp testing/torn.cpp $<TARGET_OBJECTS:lockstep_recorder_core>
  LIBS lockstep_ring LAYER recorder)

# The same with every access of core, reader and test watched by ThreadSanitizer, in every build that has no other sanitizer. The core is
# compiled anew, and the program runs without address randomisation, which older runtimes of the sanitizer do not bear.
if(LOCKSTEP_TESTS AND NOT LOCKSTEP_SANITIZE STREQUAL "address")
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=thread)
  check_cxx_source_compiles("int main() { return 0; }" LOCKSTEP_HAS_TSAN)
  unset(CMAKE_REQUIRED_FLAGS)
  find_program(LOCKSTEP_SETARCH setarch)
  if(LOCKSTEP_HAS_TSAN AND LOCKSTEP_SETARCH)
    find_package(GTest REQUIRED)
    add_executable(recorder_torn_tsan_test torn_test.cpp testing/torn.cpp ${LOCKSTEP_RECORDER_CORE} ${LOCKSTEP_RING_READER})
    lockstep_common(recorder_torn_tsan_test NO_SANITIZE)
    target_compile_options(recorder_torn_tsan_test PRIVATE -O1 -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
    target_link_options(recorder_torn_tsan_test PRIVATE -fsanitize=thread)
    target_compile_definitions(recorder_torn_tsan_test PRIVATE LOCKSTEP_VERSION="${PROJECT_VERSION}")
    target_link_libraries(recorder_torn_tsan_test PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
    set_target_properties(recorder_torn_tsan_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    add_test(NAME recorder_torn_tsan_test COMMAND "${LOCKSTEP_SETARCH}" -R $<TARGET_FILE:recorder_torn_tsan_test>)
    set_tests_properties(recorder_torn_tsan_test PROPERTIES TIMEOUT 120 ENVIRONMENT "TSAN_OPTIONS=halt_on_error=0:exitcode=66")
  endif()
endif()
