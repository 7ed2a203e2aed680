// The page's script and style, read from web/ at build time.
#pragma once

#include <string_view>

namespace lockstep {

struct ExploreAsset {
  std::string_view text;
  std::string_view sha256;  // hexadecimal
};
const ExploreAsset& ExploreScript();
const ExploreAsset& ExploreStyle();

}  // namespace lockstep
