// Parts of file names.
#pragma once

#include <string_view>

namespace lockstep {

// Returns the part after the last '/'.
inline std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace lockstep
