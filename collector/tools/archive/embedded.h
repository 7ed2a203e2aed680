// The .sql files of this folder, built into the program.
#pragma once

#include <cstddef>

namespace lockstep::archive {

struct EmbeddedSql {
  const char* name;  // "culprits"
  const char* text;
};
extern const EmbeddedSql kEmbeddedSql[];
extern const size_t kEmbeddedSqlCount;

}  // namespace lockstep::archive
