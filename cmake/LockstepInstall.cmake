# What is installed where, in three components: the recorder alone (for images of jobs), the tools, the viewer (gui/ has its own rules).
include(GNUInstallDirs)
# lib/ whatever the distribution's habit: liblockstep.so lies where every host and container can name it, and the programs look for it in
# ../lib/ beside themselves, so that a folder that holds bin/ and lib/ can be moved.
set(LOCKSTEP_INSTALL_LIB lib)

if(TARGET lockstep)
  install(TARGETS lockstep LIBRARY DESTINATION ${LOCKSTEP_INSTALL_LIB} COMPONENT recorder)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep-recorder RENAME copyright COMPONENT recorder)
endif()

set(LOCKSTEP_PROGRAMS lockstep_front lockstep-analyze lockstep-export lockstep-run lockstep-agent lockstep-collector lockstep-dump lockstep-top
  lockstep-evidence lockstep-keygen lockstep-clean lockstep-doctor)
foreach(program IN LISTS LOCKSTEP_PROGRAMS)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endif()
endforeach()
if(TARGET lockstep_probe)
  install(TARGETS lockstep_probe RUNTIME DESTINATION ${LOCKSTEP_INSTALL_LIB}/lockstep COMPONENT tools)
  install(TARGETS lockstep_probe_nccl LIBRARY DESTINATION ${LOCKSTEP_INSTALL_LIB}/lockstep COMPONENT tools)
endif()
if(TARGET lockstep_front)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep RENAME copyright COMPONENT tools)
  install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep COMPONENT tools)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lockstep/docs COMPONENT tools FILES_MATCHING PATTERN "*.md")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/slurm" "${PROJECT_SOURCE_DIR}/packaging/kubernetes" "${PROJECT_SOURCE_DIR}/packaging/grafana"
    "${PROJECT_SOURCE_DIR}/packaging/enroot"
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep COMPONENT tools USE_SOURCE_PERMISSIONS)
endif()

if(TARGET lockstep-agent)
  # Beside the distribution's own units where the prefix is /usr, and to be linked from elsewhere.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/systemd/" DESTINATION lib/systemd/system COMPONENT tools FILES_MATCHING PATTERN "*.service")
endif()

if(TARGET lockstep_front AND NOT CMAKE_CROSSCOMPILING)
  # Made from what the programs say, so when they are there.
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND)
    set(pages "${CMAKE_BINARY_DIR}/pages")
    install(CODE "
      foreach(kind IN ITEMS man completion)
        execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/packaging/pages.py\" \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}\" \${kind}
          \"${pages}/\${kind}\" COMMAND_ERROR_IS_FATAL ANY)
      endforeach()" COMPONENT tools)
    install(DIRECTORY "${pages}/man/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools OPTIONAL)
    install(DIRECTORY "${pages}/completion/" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools OPTIONAL)
  endif()
endif()

set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "Lockstep")
set(CPACK_PACKAGE_CONTACT "The Lockstep developers <lockstep@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_INSTALL_DIRECTORY lockstep)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 2)
set(CPACK_SOURCE_IGNORE_FILES "/build.*/;/\\\\.git/")
set(CPACK_COMPONENTS_ALL "")
if(TARGET lockstep)
  list(APPEND CPACK_COMPONENTS_ALL recorder)
endif()
if(TARGET lockstep_front)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
if(TARGET lockstep-view)
  list(APPEND CPACK_COMPONENTS_ALL viewer)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

set(recorder_text "records every NCCL call of a training job\n liblockstep.so, preloaded into a job's processes, writes every NCCL call of every rank into\n a ring file in shared memory that outlives the process. It needs libc alone.")
set(tools_text "names the rank that hung a training job\n Runs jobs under the recorder, gathers what ranks recorded when they hang, and says which rank\n stopped the job or on what its ranks disagree: lockstep run, analyze, agent, collector, dump,\n top, doctor and others.")
set(viewer_text "shows which rank hung a training job\n A viewer of Lockstep's incidents: verdict, matrix of ranks and operations, who waits for whom,\n timeline, stacks.")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RECORDER_PACKAGE_NAME lockstep-recorder)
set(CPACK_DEBIAN_RECORDER_DESCRIPTION "${recorder_text}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME lockstep)
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "${tools_text}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "lockstep-recorder (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_VIEWER_PACKAGE_NAME lockstep-viewer)
set(CPACK_DEBIAN_VIEWER_DESCRIPTION "${viewer_text}")

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
set(CPACK_RPM_RECORDER_PACKAGE_NAME lockstep-recorder)
set(CPACK_RPM_TOOLS_PACKAGE_NAME lockstep)
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "lockstep-recorder = ${PROJECT_VERSION}")
set(CPACK_RPM_VIEWER_PACKAGE_NAME lockstep-viewer)
# Folders that every system has are not ours.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/applications /usr/share/mime /usr/share/mime/packages /usr/share/icons
  /usr/share/icons/hicolor /usr/share/icons/hicolor/scalable /usr/share/icons/hicolor/scalable/apps /usr/share/icons/hicolor/scalable/mimetypes
  /usr/share/metainfo)

# One archive with everything that needs nothing: see packaging/tarball.sh.
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
include(CPack)
