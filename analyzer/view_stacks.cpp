// The stacks of all ranks as one tree.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/clean_utf8.h"
#include "analyzer/process_evidence.h"
#include "analyzer/report_state.h"
#include "analyzer/report_words.h"
#include "analyzer/view_parts.h"

namespace lockstep {
namespace {

constexpr int kMostNodes = 20'000;
constexpr size_t kDeepest = 128;

class Tree {
 public:
  explicit Tree(ViewFacts* facts) : facts_(facts) {}

  // Frames outermost first. Ranks come ascending.
  void Add(int32_t rank, const std::vector<std::pair<std::string, StackFrame::Kind>>& frames) {
    int32_t at = -1;
    for (size_t i = 0; i < frames.size() && i < kDeepest; ++i) {
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
      AddToRuns(rank, facts_->mutable_stacks(at)->mutable_ranks());
    }
  }

 private:
  ViewFacts* facts_;
  absl::flat_hash_map<std::pair<int32_t, std::string>, int32_t> children_;
};

using Path = std::vector<std::pair<std::string, StackFrame::Kind>>;

Path Plain(const std::vector<std::string>& innermost_first, StackFrame::Kind kind) {
  Path path;
  for (const std::string& frame : Frames(innermost_first, kDeepest)) path.emplace_back(CleanUtf8(frame, 200), kind);
  std::reverse(path.begin(), path.end());
  return path;
}

// The thread that trains: the one with Python frames that began first, else the process's first. Others sleep in the same
// places on every rank.
const ThreadStack* ThreadOf(const Rank& rank) {
  const ThreadStack *python = nullptr, *first = nullptr;
  for (const ThreadStack& thread : rank.process.evidence->threads()) {
    if (thread.frames().empty()) continue;
    const bool has_python = std::any_of(thread.frames().begin(), thread.frames().end(), [](const StackFrame& f) { return f.kind() == StackFrame::PYTHON; });
    if (has_python && (python == nullptr || thread.tid() < python->tid())) python = &thread;
    if (first == nullptr || thread.tid() < first->tid()) first = &thread;
  }
  return python != nullptr ? python : first;
}

}  // namespace

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
