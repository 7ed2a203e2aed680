# Evidence about processes (docs/evidence.md): lockstep-evidence, and the library of those who ask it.
pkg_check_modules(DW IMPORTED_TARGET GLOBAL libdw libelf)
if(NOT DW_FOUND)
  message(FATAL_ERROR "The collector reads stacks with elfutils: install libdw-dev and libelf-dev, or configure with "
    "-DLOCKSTEP_COLLECTOR=OFF (the recorder and the analyzer need neither).")
endif()

# What /proc tells, and evidence about one process (docs/evidence.md). Small, for lockstep-evidence is started for each look.
add_library(lockstep_evidence STATIC
  evidence.cpp
  evidence_text.cpp
  evidence/child_pipe.cpp
  evidence/hardware_log.cpp
  evidence/memory_state.cpp
  evidence/pci_address.cpp
  evidence/stack_tree.cpp
  proc.cpp
  process_look.cpp)
lockstep_common(lockstep_evidence)
target_link_libraries(lockstep_evidence PUBLIC lockstep_process_evidence lockstep_wire lockstep_proto absl::strings)
lockstep_layer(lockstep_evidence collector)

# What looks into foreign processes and their files; for disposable children alone.
add_library(lockstep_stacks STATIC
  evidence/gpu_state.cpp
  evidence/proc_maps.cpp
  evidence/process_helper.cpp
  evidence/ptrace_permission.cpp
  evidence/python_frames.cpp
  evidence/python_layout.cpp
  evidence/remote_memory.cpp
  evidence/stack_capture.cpp
  evidence/stack_child.cpp
  evidence/stack_merge.cpp
  evidence/stack_unwind.cpp)
lockstep_common(lockstep_stacks)
target_link_libraries(lockstep_stacks PUBLIC lockstep_evidence PRIVATE lockstep_ring PkgConfig::DW ${CMAKE_DL_LIBS})
lockstep_layer(lockstep_stacks collector)

add_executable(lockstep-evidence evidence_main.cpp)
lockstep_common(lockstep-evidence)
target_link_libraries(lockstep-evidence PRIVATE lockstep_stacks lockstep_settings)
lockstep_layer(lockstep-evidence collector)

if(LOCKSTEP_TESTS)
  # A process to look at, with debug information, and a driver library without a driver.
  add_executable(stack_target evidence/stack_target.cpp)
  lockstep_common(stack_target NO_SANITIZE)
  target_compile_options(stack_target PRIVATE -g -O1)
  set_target_properties(stack_target PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_library(fake_nvml MODULE evidence/fake_nvml.cpp)
  lockstep_common(fake_nvml NO_SANITIZE)
  set_target_properties(fake_nvml PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endif()
lockstep_test(evidence_test
  SOURCES evidence_test.cpp evidence/hardware_log_test.cpp evidence/nvml_test.cpp evidence/proc_maps_test.cpp evidence/ptrace_permission_test.cpp
          evidence/python_frames_test.cpp evidence/stack_tree_test.cpp
  LIBS lockstep_stacks LAYER collector TIMEOUT 300
  DEFINES LOCKSTEP_EVIDENCE_HELPER="$<TARGET_FILE:lockstep-evidence>" LOCKSTEP_STACK_TARGET="${CMAKE_BINARY_DIR}/tests/stack_target"
          LOCKSTEP_FAKE_NVML_LIBRARY="${CMAKE_BINARY_DIR}/tests/libfake_nvml.so")
if(LOCKSTEP_TESTS)
  find_path(LOCKSTEP_NVML_INCLUDE nvml.h PATHS /usr/local/cuda/include /opt/cuda/include)
  if(LOCKSTEP_NVML_INCLUDE)
    set_property(SOURCE evidence/nvml_test.cpp APPEND PROPERTY INCLUDE_DIRECTORIES "${LOCKSTEP_NVML_INCLUDE}")
  endif()
  add_dependencies(evidence_test stack_target fake_nvml lockstep-evidence)
endif()
