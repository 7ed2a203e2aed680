// What every bundle must hold, whatever the input was.
#pragma once

#include <cstdlib>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Aborts if a reference between the bundle's tables leads nowhere.
inline void CheckReferences(const Bundle& bundle) {
  for (const Rank& rank : bundle.ranks) {
    for (const Membership& m : rank.memberships) {
      if (m.comm >= bundle.comms.size()) std::abort();
    }
    for (const Op& op : rank.ops) {
      if (op.membership != kNoIndex && op.membership >= rank.memberships.size()) std::abort();
      if (op.name != kNoIndex && op.name >= bundle.strings.size()) std::abort();
    }
  }
}

}  // namespace lockstep
