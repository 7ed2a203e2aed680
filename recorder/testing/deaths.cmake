# Lives and deaths: an NCCL that counts, a host that ends in every way, the same linked with the recorder for set-uid.
add_library(recorder_deaths_nccl SHARED testing/deaths_nccl.cpp)
lockstep_common(recorder_deaths_nccl NO_SANITIZE)
set_target_properties(recorder_deaths_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/deaths")
target_link_options(recorder_deaths_nccl PRIVATE -Wl,-soname,libnccl.so.2)
foreach(host deaths secure)
  add_executable(recorder_${host}_host testing/deaths_host.cpp)
  lockstep_common(recorder_${host}_host NO_SANITIZE)
  target_compile_options(recorder_${host}_host PRIVATE -O1)
  set_target_properties(recorder_${host}_host PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endforeach()
target_link_libraries(recorder_deaths_host PRIVATE recorder_deaths_nccl Threads::Threads)
target_link_options(recorder_secure_host PRIVATE -Wl,--no-as-needed)
target_link_libraries(recorder_secure_host PRIVATE lockstep recorder_deaths_nccl Threads::Threads)
lockstep_test(recorder_deaths_test SOURCES deaths_test.cpp LIBS lockstep_ring LAYER ring
  DEFINES LOCKSTEP_LIBRARY="$<TARGET_FILE:lockstep>" LOCKSTEP_DEATHS_PROGRAM="$<TARGET_FILE:recorder_deaths_host>"
    LOCKSTEP_SECURE_PROGRAM="$<TARGET_FILE:recorder_secure_host>" LOCKSTEP_HOST_PROGRAM="$<TARGET_FILE:recorder_host>")
add_dependencies(recorder_deaths_test lockstep recorder_host recorder_deaths_host recorder_secure_host)
lockstep_test(recorder_switches_test SOURCES config_test.cpp switches_test.cpp $<TARGET_OBJECTS:lockstep_recorder_core>
  LIBS lockstep_ring LAYER recorder
  DEFINES LOCKSTEP_LIBRARY="$<TARGET_FILE:lockstep>" LOCKSTEP_DEATHS_PROGRAM="$<TARGET_FILE:recorder_deaths_host>"
    LOCKSTEP_HOST_PROGRAM="$<TARGET_FILE:recorder_host>")
add_dependencies(recorder_switches_test lockstep recorder_host recorder_deaths_host)
