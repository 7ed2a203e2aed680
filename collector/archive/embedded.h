// The .sql files of this folder, built into the program.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_EMBEDDED_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_EMBEDDED_H_

#include <cstddef>

namespace lockstep::archive {

struct EmbeddedSql {
  const char* name;  // "culprits"
  const char* text;
};
extern const EmbeddedSql kEmbeddedSql[];
extern const size_t kEmbeddedSqlCount;

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_EMBEDDED_H_
