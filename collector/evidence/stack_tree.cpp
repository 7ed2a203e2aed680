#include "collector/evidence/stack_tree.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostRuns = 65536;
constexpr int kMostNodes = 1 << 20;

// FNV-1a is the same on every host and in every version.
uint64_t HashOf(const std::vector<std::string>& frames) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::string& frame : frames) {
    for (unsigned char c : frame) hash = (hash ^ c) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;
  }
  // The last bytes affect the upper bits only after a few multiplications.
  hash ^= hash >> 32;
  return hash * 0x9e3779b97f4a7c15;
}

struct Node {
  Ranks through, ends;
  std::map<std::string, std::unique_ptr<Node>> children;
};

void Render(const Node& node, size_t depth, size_t most, std::vector<std::string>* out) {
  if (!node.ends.empty() && !node.children.empty() && out->size() < most)
    out->push_back(absl::StrCat(std::string(2 * depth, ' '), node.ends.Text(), ": innermost here"));
  // Rare stacks come first, because the stacks of few ranks are the most interesting.
  std::vector<std::pair<const std::string*, const Node*>> order;
  for (const auto& [name, child] : node.children) order.push_back({&name, child.get()});
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second->through.size() < b.second->through.size(); });
  for (const auto& [name, child] : order) {
    if (out->size() >= most) return;
    std::string text = *name;
    const Node* at = child;
    while (at->children.size() == 1 && at->ends.empty()) {
      absl::StrAppend(&text, " > ", at->children.begin()->first);
      at = at->children.begin()->second.get();
    }
    out->push_back(absl::StrCat(std::string(2 * depth, ' '), child->through.Text(), ": ", text));
    Render(*at, depth + 1, most, out);
  }
}

}  // namespace

void StackTree::Put(std::vector<std::string> frames, const Ranks& ranks) {
  if (ranks.empty() || frames.empty()) return;
  Key key{HashOf(frames), std::move(frames)};
  if (stacks_.size() >= most_stacks_ && !stacks_.empty() && std::prev(stacks_.end())->first < key) {
    left_out_.Unite(ranks);
    return;
  }
  stacks_[std::move(key)].Unite(ranks);
  while (stacks_.size() > most_stacks_) {
    left_out_.Unite(std::prev(stacks_.end())->second);
    stacks_.erase(std::prev(stacks_.end()));
  }
}

void StackTree::Add(const std::vector<std::string>& frames, int32_t rank) {
  std::vector<std::string> outer_first;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const size_t left = static_cast<size_t>(frames.rend() - frame);
    // If a stack is too deep, its middle is the least informative part.
    if (frames.size() > kMostFrames && outer_first.size() >= kMostFrames / 2 && left >= kMostFrames / 2) {
      if (outer_first.size() == kMostFrames / 2) outer_first.push_back("...");
      continue;
    }
    outer_first.push_back(CleanUtf8(*frame, kMostFrameText));
  }
  Put(std::move(outer_first), {rank});
}

void StackTree::Add(const EvidenceReport& report) {
  const ProcessEvidence& evidence = report.process().evidence();
  for (const ThreadStack& thread : evidence.threads()) Add(StackTexts(thread, evidence), report.rank());
}

void StackTree::Clear() {
  stacks_.clear();
  left_out_ = Ranks();
}

void StackTree::Merge(const StackTree& other) {
  for (const auto& [key, ranks] : other.stacks_) Put(key.second, ranks);
  left_out_.Unite(other.left_out_);
}

StackTreeMessage StackTree::ToMessage() const {
  StackTreeMessage message;
  message.add_parent(0);
  message.add_text(0);
  std::map<std::string, uint32_t> texts;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> nodes;  // (parent, text) -> node
  std::map<uint32_t, const Ranks*> ends;
  for (const auto& [key, ranks] : stacks_) {
    uint32_t node = 0;
    for (const std::string& frame : key.second) {
      const auto [text, new_text] = texts.try_emplace(frame, static_cast<uint32_t>(texts.size()));
      if (new_text) message.add_texts(frame);
      const auto [child, new_node] =
          nodes.try_emplace({node, text->second}, static_cast<uint32_t>(message.parent_size()));
      if (new_node) {
        message.add_parent(node);
        message.add_text(text->second);
      }
      node = child->second;
    }
    ends[node] = &ranks;
  }
  for (int node = 0; node < message.parent_size(); ++node) {
    const auto found = ends.find(static_cast<uint32_t>(node));
    message.add_runs(found == ends.end() ? 0 : static_cast<uint32_t>(found->second->runs().size()));
    if (found == ends.end()) continue;
    for (const Ranks::Run& run : found->second->runs()) {
      message.add_first(run.first);
      message.add_last(run.last);
    }
  }
  for (const Ranks::Run& run : left_out_.runs()) {
    message.add_left_out_first(run.first);
    message.add_left_out_last(run.last);
  }
  return message;
}

StackTree StackTree::FromMessage(const StackTreeMessage& message, size_t most_stacks) {
  StackTree tree(most_stacks);
  const int nodes = std::min({message.parent_size(), message.text_size(), message.runs_size(), kMostNodes});
  std::vector<uint32_t> depth(static_cast<size_t>(std::max(nodes, 1)), 0);
  int run = 0;
  for (int node = 1; node < nodes; ++node) {
    const uint32_t parent = message.parent(node), text = message.text(node);
    if (parent >= static_cast<uint32_t>(node) || text >= static_cast<uint32_t>(message.texts_size())) return tree;
    depth[static_cast<size_t>(node)] = depth[parent] + 1;
    const uint32_t count = message.runs(node);
    if (count == 0) continue;
    if (count > kMostRuns) return tree;
    Ranks ranks;
    for (uint32_t i = 0; i < count && run < message.first_size() && run < message.last_size(); ++i, ++run) {
      if (message.first(run) <= message.last(run)) ranks.AddRun(message.first(run), message.last(run));
    }
    if (depth[static_cast<size_t>(node)] > kMostFrames) continue;
    std::vector<std::string> frames;
    for (int at = node; at != 0; at = static_cast<int>(message.parent(at))) {
      frames.push_back(CleanUtf8(message.texts(static_cast<int>(message.text(at))), kMostFrameText));
    }
    std::reverse(frames.begin(), frames.end());
    tree.Put(std::move(frames), ranks);
  }
  for (int i = 0;
       i < std::min(message.left_out_first_size(), message.left_out_last_size()) && i < static_cast<int>(kMostRuns);
       ++i) {
    if (message.left_out_first(i) <= message.left_out_last(i))
      tree.left_out_.AddRun(message.left_out_first(i), message.left_out_last(i));
  }
  return tree;
}

std::vector<std::string> StackTree::Lines(size_t most) const {
  Node root;
  for (const auto& [key, ranks] : stacks_) {
    Node* node = &root;
    for (const std::string& frame : key.second) {
      std::unique_ptr<Node>& child = node->children[frame];
      if (child == nullptr) child = std::make_unique<Node>();
      node = child.get();
      node->through.Unite(ranks);
    }
    node->ends.Unite(ranks);
  }
  std::vector<std::string> lines;
  Render(root, 0, most, &lines);
  if (lines.size() >= most) lines.push_back("more branches are not shown");
  if (!left_out_.empty())
    lines.push_back(absl::StrCat(left_out_.Text(), ": stacks left out; the tree already has ", most_stacks_));
  return lines;
}

}  // namespace lockstep
