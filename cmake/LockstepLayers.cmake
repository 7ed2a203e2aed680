# The one table of which folder may use which. A folder's library links the libraries of the folders that it may use, and its files include nothing
# else of the project. Configuring fails if either is violated. A folder name covers everything below it.
#
#   lockstep_folder(FOLDER USES FOLDER...)
set(LOCKSTEP_FOLDERS "" CACHE INTERNAL "")
function(lockstep_folder FOLDER)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  set(LOCKSTEP_FOLDERS ${LOCKSTEP_FOLDERS} ${FOLDER} CACHE INTERNAL "")
  set(LOCKSTEP_USES_${FOLDER} ${ARG_USES} CACHE INTERNAL "")
endfunction()

lockstep_folder(proto)

# The recorder depends only on libc. Other folders may use only the ring's layout and reader.
lockstep_folder(recorder/ring)
lockstep_folder(recorder/base USES recorder/ring)
lockstep_folder(recorder/abi USES recorder/base)
lockstep_folder(recorder/core USES recorder/abi recorder/base recorder/ring)
lockstep_folder(recorder/profiler USES recorder/core recorder/abi recorder/base recorder/ring)
lockstep_folder(recorder/calls USES recorder/core recorder/abi recorder/base recorder/ring)

lockstep_folder(analyzer/util)
lockstep_folder(analyzer/util/http USES analyzer/util)
lockstep_folder(analyzer/settings USES analyzer/util recorder/ring)
lockstep_folder(analyzer/model USES analyzer/util proto recorder/ring)
lockstep_folder(analyzer/report/words USES analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/evidence USES analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats USES analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/fr USES analyzer/formats analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/ring USES analyzer/formats analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/lsd USES analyzer/formats analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/lsi USES analyzer/formats/lsd analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/logs USES analyzer/formats/fr analyzer/formats analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/formats/load USES analyzer/formats/fr analyzer/formats/ring analyzer/formats/lsd analyzer/formats/logs analyzer/formats analyzer/evidence
  analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/engine/facts USES analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/engine/calibration USES proto)
lockstep_folder(analyzer/engine/rules USES analyzer/engine/calibration analyzer/engine/facts analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/engine/slow USES analyzer/engine/facts analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/engine USES analyzer/report/words analyzer/engine/slow analyzer/engine/rules analyzer/engine/facts analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/report USES analyzer/report/words analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/report/html USES analyzer/report/words analyzer/report analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/export USES analyzer/report analyzer/engine/facts analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/viewdata USES analyzer/report/words analyzer/engine/replay analyzer/engine analyzer/engine/facts analyzer/report analyzer/formats/load analyzer/formats/lsi analyzer/formats/lsd
  analyzer/formats analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/browser/explore USES analyzer/report/words analyzer/viewdata analyzer/formats/lsi analyzer/report analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/cli/mcp USES analyzer/report/words analyzer/engine/replay analyzer/settings analyzer/formats/load analyzer/engine analyzer/export analyzer/report analyzer/evidence analyzer/model analyzer/util
  proto recorder/ring)
lockstep_folder(analyzer/browser/serve USES analyzer/util/http analyzer/settings analyzer/engine/replay analyzer/browser/explore analyzer/viewdata analyzer/formats/load analyzer/formats/lsi analyzer/engine analyzer/report/html analyzer/report
  analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/engine/replay USES analyzer/report analyzer/report/words analyzer/settings analyzer/formats/load analyzer/engine/facts analyzer/engine analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(analyzer/cli USES analyzer proto recorder/ring)

lockstep_folder(collector/common USES analyzer/settings analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(collector/common/metrics USES analyzer/util/http analyzer/util)
lockstep_folder(collector/host USES collector/common analyzer proto recorder/ring)
lockstep_folder(collector/wire USES collector/common analyzer/settings analyzer/util proto)
lockstep_folder(collector/rings USES collector/common collector/host analyzer proto recorder/ring)
lockstep_folder(collector/evidence USES collector/common collector/host collector/wire analyzer/evidence analyzer/model analyzer/util proto recorder/ring)
lockstep_folder(collector/evidence/stacks USES collector/evidence collector/host analyzer/settings analyzer/evidence analyzer/util proto recorder/ring)
lockstep_folder(collector/incident USES collector/common collector/host collector/wire analyzer proto)
lockstep_folder(collector/detect USES collector/common collector/host analyzer proto recorder/ring)
lockstep_folder(collector/agent USES collector/detect collector/incident collector/evidence collector/rings collector/wire collector/host
  collector/common/metrics collector/common analyzer proto recorder/ring)
lockstep_folder(collector/service/relay USES collector/detect collector/evidence collector/wire collector/common analyzer proto recorder/ring)
lockstep_folder(collector/service/core USES collector/detect collector/incident collector/evidence collector/wire collector/host
  collector/common analyzer proto recorder/ring)
lockstep_folder(collector/service USES collector/service/core collector/service/relay collector/detect collector/incident collector/evidence collector/wire collector/host
  collector/common/metrics collector/common analyzer proto recorder/ring)
lockstep_folder(collector/run USES collector/detect collector/incident collector/evidence collector/rings collector/wire collector/host
  collector/common analyzer proto recorder/ring)
lockstep_folder(collector/tools/check USES collector/run collector/host collector/common analyzer proto recorder/ring)
lockstep_folder(collector/tools/attach USES collector/incident collector/evidence collector/wire collector/host collector/common analyzer proto recorder/ring)
lockstep_folder(collector/tools/archive USES collector/common analyzer proto)
lockstep_folder(collector/tools/doctor USES collector/evidence/stacks collector/evidence collector/wire collector/host collector/common analyzer
  proto recorder/ring)
lockstep_folder(collector/tools USES collector/rings collector/wire collector/host collector/common analyzer proto recorder/ring)

lockstep_folder(gui/model USES analyzer proto recorder/ring)
lockstep_folder(gui/model/tables USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/matrix USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/timeline USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/graph USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/bandwidth USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/search USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/notes USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/model/answer USES gui/model/tables gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view USES gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/answer USES gui/model/answer gui/model/tables gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/matrix USES gui/model/matrix gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/timeline USES gui/model/timeline gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/graph USES gui/model/graph gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/stacks USES gui/model/tables gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/bandwidth USES gui/model/bandwidth gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/view/tables USES gui/model/tables gui/view gui/model analyzer proto recorder/ring)
lockstep_folder(gui/app USES gui/view/answer gui/view/matrix gui/view/timeline gui/view/graph gui/view/stacks gui/view/bandwidth gui/view/tables gui/view
  gui/model/tables gui/model/answer gui/model/matrix gui/model/timeline gui/model/graph gui/model/bandwidth gui/model/search gui/model/notes gui/model
  analyzer proto recorder/ring)

# Sets RESULT to whether files in FOLDER may use OTHER.
function(lockstep_may_use FOLDER OTHER RESULT)
  foreach(allowed IN LISTS LOCKSTEP_USES_${FOLDER} ITEMS ${FOLDER})
    if("${OTHER}" STREQUAL "${allowed}")
      set(${RESULT} TRUE PARENT_SCOPE)
      return()
    endif()
    # The name of a top folder covers everything below it.
    if(NOT allowed MATCHES "/" AND OTHER MATCHES "^${allowed}/")
      set(${RESULT} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${RESULT} FALSE PARENT_SCOPE)
endfunction()

# Checks the includes of every file except tests and everything below a testing folder.
function(lockstep_check_includes)
  file(GLOB_RECURSE files RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/recorder/*.h" "${PROJECT_SOURCE_DIR}/recorder/*.cpp"
    "${PROJECT_SOURCE_DIR}/analyzer/*.h" "${PROJECT_SOURCE_DIR}/analyzer/*.cpp" "${PROJECT_SOURCE_DIR}/collector/*.h"
    "${PROJECT_SOURCE_DIR}/collector/*.cpp" "${PROJECT_SOURCE_DIR}/gui/*.h" "${PROJECT_SOURCE_DIR}/gui/*.cpp")
  list(FILTER files EXCLUDE REGEX "_test\\.cpp$|/testing/|/tests/|/test_[a-z_]*\\.|_test_[a-z_]*\\.")
  foreach(file IN LISTS files)
    cmake_path(GET file PARENT_PATH folder)
    if(NOT folder IN_LIST LOCKSTEP_FOLDERS)
      continue()
    endif()
    file(STRINGS "${PROJECT_SOURCE_DIR}/${file}" lines REGEX "^#include \"(recorder|analyzer|collector|gui|proto|tests)/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]*)/[^/\"]*\".*" "\\1" other "${line}")
      if(DEFINED checked_${folder}_${other})
        set(allowed ${checked_${folder}_${other}})
      else()
        lockstep_may_use(${folder} ${other} allowed)
        set(checked_${folder}_${other} ${allowed})
      endif()
      if(NOT allowed)
        message(SEND_ERROR "Forbidden include: ${file} has ${line}, and ${folder} may use only: ${LOCKSTEP_USES_${folder}}. "
          "The table is cmake/LockstepLayers.cmake.")
      endif()
    endforeach()
  endforeach()
endfunction()
