# Measures what the recorder costs. `ninja bench-recorder` prints the table.
add_library(recorder_idle_nccl SHARED EXCLUDE_FROM_ALL recorder_idle_nccl.cpp)
lockstep_common(recorder_idle_nccl NO_SANITIZE)
target_compile_options(recorder_idle_nccl PRIVATE -O2)
set_target_properties(recorder_idle_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench/lib")
target_link_options(recorder_idle_nccl PRIVATE -Wl,-soname,libnccl.so.2)

foreach(library cuda:1 cudart:13)
  string(REPLACE ":" ";" parts ${library})
  list(GET parts 0 name)
  list(GET parts 1 version)
  add_library(recorder_idle_${name} SHARED EXCLUDE_FROM_ALL recorder_idle_cuda.cpp)
  lockstep_common(recorder_idle_${name} NO_SANITIZE)
  target_compile_options(recorder_idle_${name} PRIVATE -O2)
  set_target_properties(recorder_idle_${name} PROPERTIES OUTPUT_NAME ${name} SUFFIX .so.${version}
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench/lib")
  target_link_options(recorder_idle_${name} PRIVATE -Wl,-soname,lib${name}.so.${version})
endforeach()

find_package(Threads REQUIRED)
add_executable(recorder_calls EXCLUDE_FROM_ALL recorder_calls.cpp)
lockstep_common(recorder_calls NO_SANITIZE)
target_compile_options(recorder_calls PRIVATE -O2)
target_link_libraries(recorder_calls PRIVATE recorder_idle_nccl recorder_idle_cudart recorder_idle_cuda Threads::Threads)
# LD_LIBRARY_PATH must take precedence, so that stand-ins can replace the idle libraries.
target_link_options(recorder_calls PRIVATE -Wl,--no-as-needed -Wl,--enable-new-dtags)

add_executable(recorder_bench EXCLUDE_FROM_ALL recorder_bench.cpp $<TARGET_OBJECTS:lockstep_recorder_core>)
lockstep_common(recorder_bench NO_SANITIZE)
target_compile_options(recorder_bench PRIVATE -O2)
target_link_libraries(recorder_bench PRIVATE Threads::Threads)
add_executable(reader_bench EXCLUDE_FROM_ALL reader_bench.cpp $<TARGET_OBJECTS:lockstep_recorder_core>)
lockstep_common(reader_bench NO_SANITIZE)
target_compile_options(reader_bench PRIVATE -O2)
target_link_libraries(reader_bench PRIVATE lockstep_ring)
set_target_properties(recorder_calls recorder_bench reader_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")

add_executable(recorder_lookups EXCLUDE_FROM_ALL recorder_lookups.cpp)
lockstep_common(recorder_lookups NO_SANITIZE)
target_compile_options(recorder_lookups PRIVATE -O2)
target_link_libraries(recorder_lookups PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(recorder_lookups PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
set(preloaded ${CMAKE_COMMAND} -E env "LD_PRELOAD=$<TARGET_FILE:lockstep>")
add_custom_target(bench-lookups
  COMMAND recorder_lookups $<TARGET_FILE:recorder_idle_nccl> "without the recorder"
  COMMAND ${preloaded} LOCKSTEP_HOOK=symbols $<TARGET_FILE:recorder_lookups> $<TARGET_FILE:recorder_idle_nccl> "with LOCKSTEP_HOOK=symbols"
  COMMAND ${preloaded} LOCKSTEP_HOOK=dlsym $<TARGET_FILE:recorder_lookups> $<TARGET_FILE:recorder_idle_nccl> "with LOCKSTEP_HOOK=dlsym"
  DEPENDS recorder_lookups recorder_idle_nccl lockstep USES_TERMINAL VERBATIM)

add_custom_target(bench-recorder
  COMMAND recorder_bench $<TARGET_FILE:recorder_calls> $<TARGET_FILE:lockstep> ${CMAKE_BINARY_DIR}/bench/rings ${CMAKE_BINARY_DIR}/standin/lib
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/bench/rings
  COMMAND reader_bench
  DEPENDS recorder_bench recorder_calls reader_bench lockstep standin_nccl standin_cudart standin_cuda USES_TERMINAL VERBATIM)
