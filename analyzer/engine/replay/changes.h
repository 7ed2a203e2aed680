// Changes to one rank's program that correct a fault.
#pragma once

#include <vector>

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

}  // namespace lockstep::replay
