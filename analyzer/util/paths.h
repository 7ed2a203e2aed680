// Parts of file names.
#ifndef LOCKSTEP_ANALYZER_UTIL_PATHS_H_
#define LOCKSTEP_ANALYZER_UTIL_PATHS_H_

#include <string_view>

namespace lockstep {

// The part after the last '/'.
inline std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_PATHS_H_
