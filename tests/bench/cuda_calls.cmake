# Measures what the recorder adds to CUDA calls. `ninja bench-cuda` prints it.
add_library(recorder_calls_cudart SHARED EXCLUDE_FROM_ALL cuda_idle_runtime.cpp)
lockstep_common(recorder_calls_cudart NO_SANITIZE)
target_compile_options(recorder_calls_cudart PRIVATE -O2)
set_target_properties(recorder_calls_cudart PROPERTIES OUTPUT_NAME cudart SUFFIX .so.13
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench/cuda")
target_link_options(recorder_calls_cudart PRIVATE -Wl,-soname,libcudart.so.13)
add_executable(recorder_cuda_calls EXCLUDE_FROM_ALL cuda_calls.cpp)
lockstep_common(recorder_cuda_calls NO_SANITIZE)
target_compile_options(recorder_cuda_calls PRIVATE -O2)
target_link_libraries(recorder_cuda_calls PRIVATE recorder_idle_nccl recorder_calls_cudart)
set_target_properties(recorder_cuda_calls PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
set(recorded ${CMAKE_COMMAND} -E env "LD_PRELOAD=$<TARGET_FILE:lockstep>" LOCKSTEP_GPU=off
  "LOCKSTEP_DIR=${CMAKE_BINARY_DIR}/bench/cuda-rings")
add_custom_target(bench-cuda
  COMMAND ${CMAKE_COMMAND} -E echo "without the recorder"
  COMMAND recorder_cuda_calls 1000000
  COMMAND ${CMAKE_COMMAND} -E echo "with LOCKSTEP_CUDA=off"
  COMMAND ${recorded} LOCKSTEP_CUDA=off $<TARGET_FILE:recorder_cuda_calls> 1000000
  COMMAND ${CMAKE_COMMAND} -E echo "with LOCKSTEP_CUDA=on"
  COMMAND ${recorded} LOCKSTEP_CUDA=on $<TARGET_FILE:recorder_cuda_calls> 1000000
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/bench/cuda-rings
  DEPENDS recorder_cuda_calls lockstep USES_TERMINAL VERBATIM)
