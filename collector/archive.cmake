# The archive verb: incidents to ClickHouse, and questions to it. Included by CMakeLists.txt.
pkg_check_modules(LOCKSTEP_CURL REQUIRED IMPORTED_TARGET GLOBAL libcurl)

# The queries stand in the program as they stand in the folder, from which they are installed too.
file(GLOB queries CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/archive/sql/*.sql")
set(LOCKSTEP_SQL "")
foreach(query IN LISTS queries)
  get_filename_component(name "${query}" NAME_WE)
  file(READ "${query}" text)
  string(APPEND LOCKSTEP_SQL "    {\"${name}\", R\"sql(${text})sql\"},\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${query}")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/archive_sql.cpp" @ONLY CONTENT
"// Made from collector/archive/sql.
#include \"collector/archive/embedded.h\"

namespace lockstep::archive {

const EmbeddedSql kEmbeddedSql[] = {
@LOCKSTEP_SQL@};
const size_t kEmbeddedSqlCount = sizeof kEmbeddedSql / sizeof kEmbeddedSql[0];

}  // namespace lockstep::archive
")

add_library(lockstep_archive STATIC
  archive/http.cpp
  archive/incident_rows.cpp
  archive/job_days.cpp
  archive/operation_rows.cpp
  archive/questions.cpp
  archive/spool.cpp
  archive/store.cpp
  "${CMAKE_CURRENT_BINARY_DIR}/archive_sql.cpp")
lockstep_common(lockstep_archive)
target_link_libraries(lockstep_archive PUBLIC lockstep_report lockstep_dumps absl::status absl::statusor absl::strings nlohmann_json::nlohmann_json
  PRIVATE PkgConfig::LOCKSTEP_CURL)
lockstep_layer(lockstep_archive collector)

add_executable(lockstep-archive archive/archive_main.cpp)
lockstep_common(lockstep-archive)
target_compile_definitions(lockstep-archive PRIVATE "LOCKSTEP_VERSION=\"${PROJECT_VERSION}\"")
target_link_libraries(lockstep-archive PRIVATE lockstep_archive lockstep_settings)
lockstep_layer(lockstep-archive collector)

lockstep_test(archive_test SOURCES archive/archive_test.cpp LIBS lockstep_archive LAYER collector)
