// The page's script and style, read from web/ at build time.
#ifndef LOCKSTEP_ANALYZER_EXPLORE_ASSETS_H_
#define LOCKSTEP_ANALYZER_EXPLORE_ASSETS_H_

#include <string_view>

namespace lockstep {

struct ExploreAsset {
  std::string_view text;
  std::string_view sha256;  // hexadecimal
};
const ExploreAsset& ExploreScript();
const ExploreAsset& ExploreStyle();

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_EXPLORE_ASSETS_H_
