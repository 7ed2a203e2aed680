# The packages that CPack makes from the components (LockstepInstall.cmake): .deb with the distribution's libraries, .rpm with the static program and
# a viewer that needs only Qt from the distribution.
# packaging/make.py runs CPack and makes the rest: tarball, debug symbols, SBOM.
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "Lockstep")
set(CPACK_PACKAGE_CONTACT "The Lockstep developers <lockstep@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_INSTALL_DIRECTORY lockstep)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_THREADS 2)
set(CPACK_STRIP_FILES ON)  # packaging/make.py keeps the debug symbols, by build ID
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_RECORDER_GROUP recorder)
set(CPACK_COMPONENT_TOOLS_GROUP tools)
set(CPACK_COMPONENT_SINGLE_GROUP tools)
set(CPACK_COMPONENT_COMMON_GROUP tools)
set(CPACK_COMPONENT_VIEWER_GROUP viewer)
set(CPACK_COMPONENT_VIEWER_SINGLE_GROUP viewer)
set(CPACK_COMPONENT_VIEWER_COMMON_GROUP viewer)
# Which components exist depends on what was built; the generator decides which of them it uses.
set(LOCKSTEP_BUILT "")
foreach(pair IN ITEMS recorder:lockstep tools:lockstep_front common:lockstep_front single:lockstep_single viewer:lockstep-view
    viewer_common:lockstep-view viewer_single:lockstep_view_single)
  string(REPLACE ":" ";" pair "${pair}")
  list(GET pair 1 target)
  if(TARGET ${target})
    list(GET pair 0 component)
    list(APPEND LOCKSTEP_BUILT ${component})
  endif()
endforeach()
set(CPACK_COMPONENTS_ALL ${LOCKSTEP_BUILT})
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/LockstepCPack.cmake" @ONLY CONTENT [=[
set(CPACK_COMPONENTS_ALL @LOCKSTEP_BUILT@)
if(CPACK_GENERATOR STREQUAL "RPM")
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL tools viewer)
else()
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL single viewer_single)
endif()
]=])
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_BINARY_DIR}/LockstepCPack.cmake")

set(recorder_summary "records every NCCL call of a training job")
set(recorder_text "liblockstep.so, preloaded into a job's processes, writes every NCCL call\n of every rank into a ring file in shared memory that outlives the process.\n It needs only libc.")
set(tools_summary "names the rank that hung a training job")
set(tools_text "Runs jobs under the recorder, gathers what ranks recorded when they hang,\n and names the rank that stopped the job, or the call on which ranks disagree:\n lockstep run, analyze, agent, collector, dump, top, doctor and others.")
set(viewer_summary "shows which rank hung a training job")
set(viewer_text "A viewer of Lockstep's incidents: verdict, matrix of ranks and operations,\n who waits for whom, timeline, stacks.")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_COMPRESSION_TYPE xz)
# Keeps data about the machine and the time out of the package. The doctor's probe may fail to start, so its dependencies are left to the host;
# nothing else needs more than libc.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _buildhost reproducible
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none
%define __requires_exclude_from ^/usr/lib/lockstep/
%define __provides_exclude_from ^/usr/lib/lockstep/")
foreach(pair IN ITEMS RECORDER:lockstep-recorder:recorder TOOLS:lockstep:tools VIEWER:lockstep-viewer:viewer)
  string(REPLACE ":" ";" pair "${pair}")
  list(GET pair 0 group)
  list(GET pair 1 package)
  list(GET pair 2 text)
  set(CPACK_DEBIAN_${group}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${group}_DESCRIPTION "${${text}_text}")
  set(CPACK_DEBIAN_${group}_PACKAGE_SECTION utils)
  set(CPACK_RPM_${group}_PACKAGE_NAME ${package})
  set(CPACK_RPM_${group}_PACKAGE_SUMMARY "${${text}_summary}")
  string(REPLACE "\n " "\n" plain "${${text}_text}")
  set(CPACK_RPM_${group}_PACKAGE_DESCRIPTION "${plain}")
endforeach()
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "lockstep-recorder (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "curl")  # for share/lockstep/notify
set(CPACK_DEBIAN_VIEWER_PACKAGE_RECOMMENDS "lockstep (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/packaging/debian/postinst" "${PROJECT_SOURCE_DIR}/packaging/debian/prerm"
  "${PROJECT_SOURCE_DIR}/packaging/debian/postrm")
foreach(script IN ITEMS POST_INSTALL PRE_UNINSTALL POST_UNINSTALL)
  string(TOLOWER ${script} name)
  set(CPACK_RPM_TOOLS_${script}_SCRIPT_FILE "${PROJECT_SOURCE_DIR}/packaging/rpm/${name}")
endforeach()
set(CPACK_DEBIAN_RECORDER_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/packaging/debian/triggers")
set(CPACK_RPM_VIEWER_PACKAGE_SUGGESTS "lockstep = ${PROJECT_VERSION}")
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "lockstep-recorder = ${PROJECT_VERSION}")
# Folders that every system has do not belong to the package.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/lib/systemd /usr/lib/systemd/system /usr/lib/sysusers.d /usr/share/doc /usr/share/applications /usr/share/mime /usr/share/mime/packages
  /usr/share/icons /usr/share/icons/hicolor)
foreach(size IN ITEMS scalable 48x48 128x128)
  list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/icons/hicolor/${size} /usr/share/icons/hicolor/${size}/apps)
endforeach()
include(CPack)
