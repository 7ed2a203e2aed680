# Programs for other distributions, not part of "all". They link the same objects and archives as the normal programs, so they cost only a
# link.

# The viewer (target lockstep_view_single): only Qt with its libraries, libstdc++ and libc are the host's; everything else is linked in.
function(lockstep_view_single)
  find_package(Python3 COMPONENTS Interpreter)
  find_library(LOCKSTEP_STATIC_PROTOBUF libprotobuf.a)
  if(LOCKSTEP_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT Python3_FOUND OR NOT LOCKSTEP_STATIC_PROTOBUF)
    return()
  endif()
  set(link "${PROJECT_SOURCE_DIR}/packaging/static/link.py")
  add_executable(lockstep_view_single EXCLUDE_FROM_ALL "$<TARGET_OBJECTS:lockstep-view>")
  lockstep_common(lockstep_view_single)
  target_link_libraries(lockstep_view_single PRIVATE lockstep_gui_app)
  target_link_options(lockstep_view_single PRIVATE -Wl,--build-id=sha1)
  set_target_properties(lockstep_view_single PROPERTIES AUTOMOC OFF LINKER_LANGUAGE CXX OUTPUT_NAME lockstep-view
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/static/bin" LINK_DEPENDS "${link}"
    RULE_LAUNCH_LINK "\"${Python3_EXECUTABLE}\" \"${link}\" --linked \"${CMAKE_BINARY_DIR}/static/view-linked.txt\" --shared libQt6 --shared libGLX --shared libOpenGL --shared libssl --shared libcrypto --")
endfunction()

# The static `lockstep` (target lockstep_single): all verbs except the viewer in one program without shared libraries, for any Linux of its
# architecture. GSSAPI has no archive in Debian; libzmq can use it but Lockstep does not (packaging/static/gssapi.cpp replaces it).
function(lockstep_single)
  find_package(Python3 COMPONENTS Interpreter)
  find_library(LOCKSTEP_STATIC_ZMQ libzmq.a)
  if(LOCKSTEP_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT Python3_FOUND OR NOT CMAKE_OBJCOPY OR NOT LOCKSTEP_STATIC_ZMQ)
    return()
  endif()
  set(from "${PROJECT_SOURCE_DIR}/packaging/static")
  set(folder "${CMAKE_BINARY_DIR}/static")
  file(MAKE_DIRECTORY "${folder}")
  file(STRINGS "${PROJECT_SOURCE_DIR}/packaging/verbs.txt" verbs)
  set(objects "")
  set(each "")
  foreach(verb IN LISTS verbs)
    string(APPEND each " VERB(${verb})")
    # Gives each verb's main() a unique name.
    add_custom_command(OUTPUT "${folder}/${verb}.o"
      COMMAND "${CMAKE_LINKER}" -r -o "${folder}/${verb}.whole.o" "$<TARGET_OBJECTS:lockstep-${verb}>"
      COMMAND "${CMAKE_OBJCOPY}" --redefine-sym main=lockstep_${verb}_main "${folder}/${verb}.whole.o" "${folder}/${verb}.o"
      COMMAND "${CMAKE_COMMAND}" -E rm "${folder}/${verb}.whole.o"
      DEPENDS "$<TARGET_OBJECTS:lockstep-${verb}>" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects "${folder}/${verb}.o")
  endforeach()

  add_executable(lockstep_single EXCLUDE_FROM_ALL "${from}/single_main.cpp" "${from}/dlopen.cpp" "${from}/gssapi.cpp" ${objects})
  lockstep_common(lockstep_single)
  target_compile_definitions(lockstep_single PRIVATE "LOCKSTEP_VERBS=${each}")
  foreach(library IN ITEMS lockstep_front_verbs lockstep_collector_tools_check lockstep_collector_run lockstep_collector_tools_attach lockstep_collector_agent lockstep_collector_service lockstep_collector_tools_doctor lockstep_collector_tools
      lockstep_analyzer_cli lockstep_analysis
      lockstep_ring PkgConfig::LOCKSTEP_NCURSES)
    target_link_libraries(lockstep_single PRIVATE ${library})
  endforeach()
  target_link_options(lockstep_single PRIVATE -static -Wl,--build-id=sha1)
  # CMake's packages and pkg-config name shared libraries. The link step replaces them with the archives next to them.
  set_target_properties(lockstep_single PROPERTIES OUTPUT_NAME lockstep RUNTIME_OUTPUT_DIRECTORY "${folder}/bin"
    LINK_DEPENDS "${from}/link.py"
    RULE_LAUNCH_LINK "\"${Python3_EXECUTABLE}\" \"${from}/link.py\" --linked \"${folder}/linked.txt\" --also norm,protokit,pgm,sodium,bsd,md,z,lzma,bz2,zstd,tinfo --")
endfunction()
