# The static `lockstep` (target lockstep_single): all verbs except the viewer in one program without shared libraries, for any Linux of its
# architecture. It links the same objects and archives as the programs, so it costs only a link and no second build. Two libraries without an archive
# in Debian are left out: prometheus-cpp (no --metrics) and GSSAPI, which libzmq can use but Lockstep does not (packaging/static/gssapi.cpp replaces
# it). Not part of "all".

function(lockstep_single)
  find_package(Python3 COMPONENTS Interpreter)
  find_library(LOCKSTEP_STATIC_ZMQ libzmq.a)
  if(LOCKSTEP_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT Python3_FOUND OR NOT CMAKE_OBJCOPY OR NOT LOCKSTEP_STATIC_ZMQ)
    return()
  endif()
  set(from "${PROJECT_SOURCE_DIR}/packaging/static")
  set(folder "${CMAKE_BINARY_DIR}/static")
  file(MAKE_DIRECTORY "${folder}")
  set(objects "")
  foreach(verb IN ITEMS agent analyze attach check clean collector config doctor dump evidence export keygen mcp replay run serve top)
    # Gives each verb's main() a unique name.
    add_custom_command(OUTPUT "${folder}/${verb}.o"
      COMMAND "${CMAKE_LINKER}" -r -o "${folder}/${verb}.whole.o" "$<TARGET_OBJECTS:lockstep-${verb}>"
      COMMAND "${CMAKE_OBJCOPY}" --redefine-sym main=lockstep_${verb}_main "${folder}/${verb}.whole.o" "${folder}/${verb}.o"
      COMMAND "${CMAKE_COMMAND}" -E rm "${folder}/${verb}.whole.o"
      DEPENDS "$<TARGET_OBJECTS:lockstep-${verb}>" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects "${folder}/${verb}.o")
  endforeach()

  add_library(lockstep_metrics_none STATIC EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/collector/common/metrics/metric_set.cpp"
    "${PROJECT_SOURCE_DIR}/collector/common/metrics/metrics_none.cpp")
  lockstep_common(lockstep_metrics_none)
  target_link_libraries(lockstep_metrics_none PUBLIC absl::status absl::statusor absl::strings)
  add_executable(lockstep_single EXCLUDE_FROM_ALL "${from}/single_main.cpp" "${from}/dlopen.cpp" "${from}/gssapi.cpp" ${objects})
  lockstep_common(lockstep_single)
  foreach(library IN ITEMS lockstep_front_verbs lockstep_collector_tools_check lockstep_collector_run lockstep_collector_tools_attach lockstep_collector_agent lockstep_collector_service lockstep_collector_tools_doctor lockstep_collector_tools
      lockstep_analyzer_cli lockstep_analysis
      lockstep_ring PkgConfig::LOCKSTEP_NCURSES)
    target_link_libraries(lockstep_single PRIVATE ${library})
  endforeach()
  target_link_options(lockstep_single PRIVATE -static -Wl,--build-id=sha1)
  add_dependencies(lockstep_single lockstep_metrics_none)
  # CMake's packages and pkg-config name shared libraries. The link step replaces them with the archives next to them.
  set_target_properties(lockstep_single PROPERTIES OUTPUT_NAME lockstep RUNTIME_OUTPUT_DIRECTORY "${folder}/bin"
    LINK_DEPENDS "${from}/link.py"
    RULE_LAUNCH_LINK "\"${Python3_EXECUTABLE}\" \"${from}/link.py\" --linked \"${folder}/linked.txt\" --leave-out libprometheus-cpp --instead liblockstep_collector_common_metrics.a=${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/liblockstep_metrics_none.a --also norm,protokit,pgm,sodium,bsd,md,z,lzma,bz2,zstd,tinfo --")
endfunction()
