// Changes to one rank's program that correct a fault.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/replay/recorded.h"
#include "proto/verdict.pb.h"

namespace lockstep::replay {

using Change = Proof::Correction;

struct Remedy {
  Change change = Proof::CONTINUE;
  Place place;    // for ADD_CALLS, REMOVE_CALLS and SAME_ARGUMENTS
  int calls = 1;  // for ADD_CALLS and REMOVE_CALLS
};

constexpr bool NeedsPlace(Change change) {
  return change == Proof::ADD_CALLS || change == Proof::REMOVE_CALLS || change == Proof::SAME_ARGUMENTS;
}
bool IsMismatch(FindingKind kind);

// Returns the changes that may correct the finding, likeliest first; empty if changing calls cannot correct it.
std::vector<Change> ChangesFor(const Finding& finding);
Place PlaceOfFinding(const Model& model, const Finding& finding);

// Returns the changes to try at another rank, whose program has this `host`, if `remedy` helps at a suspect.
std::vector<Remedy> RivalsOf(const Remedy& remedy, Host host);

// Applies the remedy to this program. `variant` must be a variant of `recorded.job`.
void Apply(const Remedy& remedy, uint32_t program, const Recorded& recorded, Variant* variant);

// Returns whether the programs make two collectives in opposite orders.
bool OrdersDiffer(const Program& a, const Program& b);

bool CallsAgree(const Bundle& bundle, const Op& a, const Op& b);

// Compares a call with those that corresponding members of communicators of the class made.
class Siblings {
 public:
  explicit Siblings(const Model& model);
  // Returns whether there are at least three such calls, and most of them differ from `op`. Adds the number of
  // communicators examined to `work`.
  bool Differ(uint32_t comm, int32_t member, const Op& op, size_t* work) const;

 private:
  const Model& model_;
  absl::flat_hash_map<std::string, std::vector<uint32_t>> of_class_;  // communicators
};

}  // namespace lockstep::replay
