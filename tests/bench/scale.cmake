# How fast the analysis is.
add_executable(scale_dumps EXCLUDE_FROM_ALL scale_dumps.cpp)
lockstep_common(scale_dumps)
target_compile_options(scale_dumps PRIVATE -O2)
target_link_libraries(scale_dumps PRIVATE lockstep_analysis)
set_target_properties(scale_dumps PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
