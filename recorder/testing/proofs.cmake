# Tests of what the recorder promises whatever happens: nothing torn, nothing lost to a kill, nothing allocated, other machines.
lockstep_test(recorder_torn_test SOURCES torn_test.cpp testing/torn.cpp $<TARGET_OBJECTS:lockstep_recorder_core>
  LIBS lockstep_ring LAYER recorder TIMEOUT 300)

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
    set_tests_properties(recorder_torn_tsan_test PROPERTIES TIMEOUT 300 ENVIRONMENT "TSAN_OPTIONS=halt_on_error=0:exitcode=66")
  endif()
endif()

if(LOCKSTEP_TESTS)
  find_package(Threads REQUIRED)
  add_library(recorder_ack_nccl SHARED testing/ack_nccl.cpp)
  lockstep_common(recorder_ack_nccl NO_SANITIZE)
  set_target_properties(recorder_ack_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2 LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/ack")
  target_link_options(recorder_ack_nccl PRIVATE -Wl,-soname,libnccl.so.2)
  add_executable(recorder_kill_host testing/kill_host.cpp)
  lockstep_common(recorder_kill_host NO_SANITIZE)
  target_link_libraries(recorder_kill_host PRIVATE recorder_ack_nccl Threads::Threads)
  set_target_properties(recorder_kill_host PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  lockstep_test(recorder_kill_test SOURCES kill_test.cpp LIBS lockstep_ring LAYER ring TIMEOUT 900
    DEFINES LOCKSTEP_LIBRARY="$<TARGET_FILE:lockstep>" LOCKSTEP_KILL_PROGRAM="$<TARGET_FILE:recorder_kill_host>")
  add_dependencies(recorder_kill_test lockstep recorder_kill_host)
endif()

if(LOCKSTEP_TESTS)
  add_executable(recorder_ring_print testing/ring_print.cpp)
  lockstep_common(recorder_ring_print)
  target_link_libraries(recorder_ring_print PRIVATE lockstep_ring)
  set_target_properties(recorder_ring_print PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    add_test(NAME recorder_build_test COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/build_test.py" "${PROJECT_SOURCE_DIR}"
      "${CMAKE_BINARY_DIR}/tests/builds" $<TARGET_FILE:recorder_ring_print> "${CMAKE_CXX_COMPILER}")
    set_tests_properties(recorder_build_test PROPERTIES TIMEOUT 900)
    add_test(NAME recorder_musl_test COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/musl_test.py" "${PROJECT_SOURCE_DIR}"
      $<TARGET_FILE:lockstep> $<TARGET_FILE:recorder_ring_print> "${CMAKE_CXX_COMPILER}")
    set_tests_properties(recorder_musl_test PROPERTIES TIMEOUT 120)
  endif()
endif()

if(LOCKSTEP_TESTS)
  lockstep_test(recorder_allocation_test SOURCES allocation_test.cpp LIBS lockstep_ring LAYER ring
    DEFINES LOCKSTEP_LIBRARY="$<TARGET_FILE:lockstep>" LOCKSTEP_ALLOCATION_PROGRAM="$<TARGET_FILE:recorder_allocation_host>")
  add_dependencies(recorder_allocation_test lockstep recorder_allocation_host)
endif()
