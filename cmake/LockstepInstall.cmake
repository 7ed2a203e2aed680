# What is installed where, by component. LockstepPackages.cmake assigns the components to packages.
#   recorder  only liblockstep.so, for job images
#   tools     the programs, using the distribution's libraries, with man pages and shell completion
#   single    the static `lockstep` instead of the programs, with a symlink lockstep-VERB for each; its packages run on any distribution
#   common    what both need: the doctor's probe, the check's stand-ins, units, recipes, documentation
#   viewer    lockstep-view (gui/ has its own rules); viewer_single and viewer_common like single and common
# `cmake --install` without a component leaves out "single" and "viewer_single".
include(GNUInstallDirs)
# Always lib/, even where the distribution uses another name. Hosts and containers need one fixed path to liblockstep.so, and the
# programs look for it in
# ../lib/ next to themselves, so that a folder with bin/ and lib/ can be moved.
set(LOCKSTEP_INSTALL_LIB lib)
set(doc ${CMAKE_INSTALL_DATADIR}/doc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/packaging/verbs.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/packaging/verbs.txt" verbs)

# The documentation files of every package: the license and Debian's changelog.
function(lockstep_install_notes PACKAGE COMPONENT)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/copyright" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${PACKAGE} COMPONENT ${COMPONENT})
  install(FILES "${CMAKE_BINARY_DIR}/pages/changelog.gz" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${PACKAGE} COMPONENT ${COMPONENT} OPTIONAL)
endfunction()
find_program(LOCKSTEP_GZIP gzip)
if(LOCKSTEP_GZIP)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/pages")
  configure_file("${PROJECT_SOURCE_DIR}/packaging/changelog" "${CMAKE_BINARY_DIR}/pages/changelog" COPYONLY)
  execute_process(COMMAND "${LOCKSTEP_GZIP}" -9nkf "${CMAKE_BINARY_DIR}/pages/changelog")
endif()

if(TARGET lockstep)
  install(TARGETS lockstep LIBRARY DESTINATION ${LOCKSTEP_INSTALL_LIB} COMPONENT recorder)
  lockstep_install_notes(lockstep-recorder recorder)
endif()

if(TARGET lockstep_front)
  install(TARGETS lockstep_front RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  foreach(verb IN LISTS verbs)
    install(TARGETS lockstep-${verb} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endforeach()
  install(TARGETS lockstep_probe RUNTIME DESTINATION ${LOCKSTEP_INSTALL_LIB}/lockstep COMPONENT common)
  install(TARGETS lockstep_probe_nccl LIBRARY DESTINATION ${LOCKSTEP_INSTALL_LIB}/lockstep COMPONENT common)
  # The libraries that `lockstep check` uses.
  install(TARGETS standin_cuda standin_cudart standin_nccl LIBRARY DESTINATION ${LOCKSTEP_INSTALL_LIB}/lockstep/standin COMPONENT common
    NAMELINK_SKIP)
  lockstep_install_notes(lockstep common)
  install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION ${doc}/lockstep COMPONENT common)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION ${doc}/lockstep/docs COMPONENT common FILES_MATCHING PATTERN "*.md" PATTERN pictures EXCLUDE)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/slurm" "${PROJECT_SOURCE_DIR}/packaging/kubernetes" "${PROJECT_SOURCE_DIR}/packaging/grafana"
    "${PROJECT_SOURCE_DIR}/packaging/prometheus" "${PROJECT_SOURCE_DIR}/packaging/notify" "${PROJECT_SOURCE_DIR}/packaging/enroot"
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep COMPONENT common USE_SOURCE_PERMISSIONS)
  # Installed next to the distribution's own units if the prefix is /usr; otherwise the user links to them.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/systemd/" DESTINATION lib/systemd/system COMPONENT common FILES_MATCHING PATTERN "*.service"
    PATTERN "lockstep-archive.service" EXCLUDE)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/systemd/lockstep.sysusers" DESTINATION lib/sysusers.d RENAME lockstep.conf COMPONENT common)
endif()

if(TARGET lockstep-archive)
  install(TARGETS lockstep-archive RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/systemd/lockstep-archive.service" DESTINATION lib/systemd/system COMPONENT tools)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/collector/tools/archive/sql/" DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/archive COMPONENT tools FILES_MATCHING
    PATTERN "*.sql")
endif()

if(TARGET lockstep_single)
  install(PROGRAMS "$<TARGET_FILE:lockstep_single>" DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT single EXCLUDE_FROM_ALL)
  foreach(verb IN LISTS verbs)
    install(CODE "file(CREATE_LINK lockstep \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/lockstep-${verb}\" SYMBOLIC)"
      COMPONENT single EXCLUDE_FROM_ALL)
  endforeach()
endif()

if(TARGET lockstep_front AND NOT CMAKE_CROSSCOMPILING)
  # Generated from the programs' own descriptions, so only if the programs exist. WITHOUT: verbs that the package does not contain.
  function(lockstep_install_pages COMPONENT WITHOUT MAN)
    set(pages "${CMAKE_BINARY_DIR}/pages/${COMPONENT}")
    set(make "COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/packaging/pages.py\" --without \"${WITHOUT}\" \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\"")
    install(CODE "
      file(REMOVE_RECURSE \"${pages}\")
      foreach(kind IN ITEMS man completion)
        execute_process(${make} \${kind} \"${pages}/\${kind}\" COMMAND_ERROR_IS_FATAL ANY)
      endforeach()
      file(GLOB made \"${pages}/man/${MAN}.1\")
      if(NOT \"${LOCKSTEP_GZIP}\" STREQUAL \"LOCKSTEP_GZIP-NOTFOUND\")
        execute_process(COMMAND \"${LOCKSTEP_GZIP}\" -9nf \${made} COMMAND_ERROR_IS_FATAL ANY)
      endif()" COMPONENT ${COMPONENT} ${ARGN})
    if(COMPONENT STREQUAL "viewer_common")
      set(others "")
    else()
      set(others PATTERN "lockstep-view.1*" EXCLUDE)
    endif()
    install(DIRECTORY "${pages}/man/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${COMPONENT} ${ARGN} OPTIONAL FILES_MATCHING PATTERN "${MAN}.1*"
      ${others})
    if(NOT COMPONENT STREQUAL "viewer_common")
      install(DIRECTORY "${pages}/completion/" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${COMPONENT} ${ARGN} OPTIONAL)
    endif()
  endfunction()
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    lockstep_install_pages(tools "" "lockstep*")
    if(TARGET lockstep_single)
      lockstep_install_pages(single "archive,view" "lockstep*" EXCLUDE_FROM_ALL)
    endif()
    if(TARGET lockstep-view)
      lockstep_install_pages(viewer_common "" "lockstep-view")
    endif()
  endif()
endif()
if(TARGET lockstep-view)
  lockstep_install_notes(lockstep-viewer viewer_common)
endif()

include(LockstepPackages)
