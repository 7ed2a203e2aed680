// The stacks of all ranks as one tree.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/report/state.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/facts.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

constexpr int kMostNodes = 20'000;
constexpr size_t kDeepestStack = 128;

class Tree {
 public:
  explicit Tree(ViewFacts* facts) : facts_(facts) {
    for (int i = 0; i < facts->stacks_size(); ++i)
      children_.try_emplace({facts->stacks(i).parent(), facts->stacks(i).frame()}, i);
  }

  // Calls `visit` with the node of each frame, as far as there is room. Frames are outermost first.
  template <typename Visit>
  void Add(const std::vector<std::pair<std::string, StackFrame::Kind>>& frames, Visit visit) {
    int32_t at = -1;
    for (size_t i = 0; i < frames.size() && i < kDeepestStack; ++i) {
      const auto [it, fresh] = children_.try_emplace({at, frames[i].first}, facts_->stacks_size());
      if (fresh) {
        if (facts_->stacks_size() >= kMostNodes) {
          children_.erase(it);
          return;
        }
        StackNode* node = facts_->add_stacks();
        node->set_parent(at);
        node->set_frame(frames[i].first);
        node->set_kind(frames[i].second);
      }
      at = it->second;
      visit(at);
    }
  }

  // Ranks must be added in ascending order.
  void Add(int32_t rank, const std::vector<std::pair<std::string, StackFrame::Kind>>& frames) {
    Add(frames, [&](int32_t node) { AddToRuns(rank, facts_->mutable_stacks(node)->mutable_ranks()); });
  }

 private:
  ViewFacts* facts_;
  absl::flat_hash_map<std::pair<int32_t, std::string>, int32_t> children_;
};

using Path = std::vector<std::pair<std::string, StackFrame::Kind>>;

Path Plain(const std::vector<std::string>& innermost_first, StackFrame::Kind kind) {
  Path path;
  for (const std::string& frame : Frames(innermost_first, kDeepestStack))
    path.emplace_back(CleanUtf8(frame, 200),
                      ParseFrame(frame).kind() == StackFrame::KERNEL ? StackFrame::KERNEL : kind);
  std::reverse(path.begin(), path.end());
  return path;
}

// Returns the thread that trains: the oldest thread with Python frames, otherwise the oldest with a stack; null if
// there is none. Other threads sleep in the same places on every rank.
const ThreadStack* ThreadOf(const Rank& rank) {
  const ThreadStack *python = nullptr, *first = nullptr;
  for (const ThreadStack& thread : rank.process.evidence->threads()) {
    if (thread.frames().empty()) continue;
    const bool has_python = std::any_of(thread.frames().begin(), thread.frames().end(),
                                        [](const StackFrame& f) { return f.kind() == StackFrame::PYTHON; });
    if (has_python && (python == nullptr || thread.tid() < python->tid())) python = &thread;
    if (first == nullptr || thread.tid() < first->tid()) first = &thread;
  }
  return python != nullptr ? python : first;
}

}  // namespace

void AddMergedStacks(const MergedStacks& merged, ViewFacts* facts) {
  Ranks has_own;
  absl::flat_hash_set<int32_t> has_python;
  for (const StackNode& node : facts->stacks()) {
    if (node.parent() < 0) has_own.Unite(Ranks::Of(node.ranks()));
  }
  Tree tree(facts);
  std::vector<Path> paths;
  for (const MergedStack& stack : merged.stacks) {
    Path path;
    bool python = false;
    for (const std::string& frame : Frames(stack.frames, kDeepestStack)) {
      const StackFrame::Kind kind = ParseFrame(frame).kind();
      python |= kind == StackFrame::PYTHON;
      path.emplace_back(CleanUtf8(frame, 200), kind);
    }
    std::reverse(path.begin(), path.end());
    if (python) has_python.insert(stack.ranks.begin(), stack.ranks.end());
    paths.push_back(std::move(path));
  }
  absl::flat_hash_map<int32_t, std::vector<int32_t>> added;  // indexed by node
  for (size_t s = 0; s < paths.size(); ++s) {
    const Path& path = paths[s];
    const bool python =
        std::any_of(path.begin(), path.end(), [](const auto& frame) { return frame.second == StackFrame::PYTHON; });
    std::vector<int32_t> ranks;
    for (const int32_t rank : merged.stacks[s].ranks) {
      if (!has_own.Contains(rank) && (python || !has_python.contains(rank))) ranks.push_back(rank);
    }
    if (ranks.empty()) continue;
    tree.Add(path, [&](int32_t node) { added[node].insert(added[node].end(), ranks.begin(), ranks.end()); });
  }
  for (auto& [node, ranks] : added) {
    RankRuns* runs = facts->mutable_stacks(node)->mutable_ranks();
    const std::vector<int32_t> before = Ranks::Of(*runs).List();
    ranks.insert(ranks.end(), before.begin(), before.end());
    runs->Clear();
    SetRuns(std::move(ranks), runs);
  }
  constexpr size_t kMostRefused = 8;
  for (size_t i = 0; i < std::min(merged.refused.size(), kMostRefused); ++i) {
    facts->add_unknown(absl::StrCat("no stacks from ", CleanUtf8(Printable(merged.refused[i], 300), 300)));
  }
  if (merged.refused.size() > kMostRefused)
    facts->add_unknown(absl::StrCat("no stacks from ", merged.refused.size() - kMostRefused, " more hosts"));
}

void SetStacks(const Bundle& bundle, ViewFacts* facts) {
  Tree tree(facts);
  for (const Rank& rank : bundle.ranks) {
    const Process& process = rank.process;
    const ThreadStack* thread = process.evidence == nullptr ? nullptr : ThreadOf(rank);
    if (thread != nullptr) {
      Path path;
      for (const StackFrame& frame : thread->frames()) {
        path.emplace_back(CleanUtf8(Printable(FrameText(frame, *process.evidence), 200), 200),
                          StackFrame::Kind_IsValid(frame.kind()) ? frame.kind() : StackFrame::NATIVE);
      }
      std::reverse(path.begin(), path.end());
      tree.Add(rank.rank, path);
      continue;
    }
    tree.Add(rank.rank, Plain(process.python_stack, StackFrame::PYTHON));
    tree.Add(rank.rank, Plain(process.stack, StackFrame::NATIVE));
  }
}

}  // namespace lockstep
