// stacks.json of an incident folder: stacks of many ranks, merged on their way to the collector. docs/deploying.md
// describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct MergedStack {
  std::vector<std::string> frames;  // innermost first
  std::vector<int32_t> ranks;       // ranks with this stack, ascending; a rank may have several
};
struct MergedStacks {
  std::vector<MergedStack> stacks;
  std::vector<int32_t> ranks;        // examined ranks, ascending
  std::vector<std::string> refused;  // "host: why": hosts without stacks
};

// Returns false with *error set if an existing file is unusable. A missing file is no error and leaves *stacks
// unchanged.
bool ReadStacks(const std::string& path, MergedStacks* stacks, std::string* error);

// Reads stacks.json in an incident folder. If the file is unusable, `refused` contains the reason.
MergedStacks StacksOf(const std::string& folder);

}  // namespace lockstep
