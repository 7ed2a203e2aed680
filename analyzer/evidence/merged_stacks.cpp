#include "analyzer/evidence/merged_stacks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/evidence/frames.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

constexpr size_t kMostBytes = 64u << 20;
constexpr size_t kMostNodes = 1u << 20;
constexpr size_t kMostRanks = 1u << 22;  // in all runs together

// Expands inclusive runs and skips invalid ones. *left is the number of ranks that may still be read.
std::vector<int32_t> RanksIn(const nlohmann::json& runs, size_t* left) {
  std::vector<int32_t> ranks;
  if (!runs.is_array()) return ranks;
  for (const nlohmann::json& run : runs) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_number_integer() || !run[1].is_number_integer()) continue;
    const auto first = run[0].get<int64_t>(), last = run[1].get<int64_t>();
    if (first < 0 || last < first || last >= kMaxRanks) continue;
    for (int64_t rank = first; rank <= last && *left > 0; ++rank, --*left) ranks.push_back(static_cast<int32_t>(rank));
  }
  SortUnique(&ranks);
  return ranks;
}

}  // namespace

bool ReadStacks(const std::string& path, MergedStacks* stacks, std::string* error) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostBytes, Links::kRefuse);
  if (absl::IsNotFound(text.status())) return true;
  if (!text.ok()) {
    *error = std::string(text.status().message());
    return false;
  }
  const nlohmann::json json = ParseJson(*text);
  const nlohmann::json& nodes = JsonMember(json, "nodes");
  if (JsonInteger(json, "format") != 1 || !nodes.is_array() || nodes.size() > kMostNodes) {
    *error = path + " contains no stacks that this version can read";
    return false;
  }
  size_t left = kMostRanks;
  std::vector<size_t> parent(nodes.size(), 0);
  MergedStacks read;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const nlohmann::json& node = nodes[i];
    if (!JsonMember(node, "parent").is_number_unsigned()) continue;
    parent[i] = std::min<size_t>(node["parent"].get<size_t>(), i - 1);
    MergedStack stack;
    stack.ranks = RanksIn(JsonMember(node, "ranks"), &left);
    if (stack.ranks.empty()) continue;
    for (size_t at = i; at != 0 && std::ssize(stack.frames) < kMostStackFrames; at = parent[at]) {
      const nlohmann::json& frame = JsonMember(nodes[at], "frame");
      stack.frames.push_back(frame.is_string() ? frame.get<std::string>() : "?");
    }
    read.stacks.push_back(std::move(stack));
  }
  read.ranks = RanksIn(JsonMember(json, "ranks"), &left);
  for (const nlohmann::json& line : JsonList(json, "refused")) {
    if (line.is_string() && read.refused.size() < 64) read.refused.push_back(line.get<std::string>());
  }
  *stacks = std::move(read);
  return true;
}

MergedStacks StacksOf(const std::string& folder) {
  MergedStacks stacks;
  std::string why;
  if (!ReadStacks(folder + "/stacks.json", &stacks, &why)) stacks.refused = {why};
  return stacks;
}

}  // namespace lockstep
