#include <algorithm>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/report/html/parts.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/state.h"

namespace lockstep {
namespace {

constexpr size_t kMaxFrames = 64;
constexpr size_t kMaxNodes = 400;

// Ranks that share a frame and all frames outside it.
struct Node {
  std::string frame;
  std::vector<int32_t> ranks;  // ranks whose stacks contain this frame, ascending
  std::vector<int32_t> ends;   // ranks whose innermost frame this is
  size_t named = 0;            // number of culprits among `ranks`
  std::vector<std::unique_ptr<Node>> children;
  absl::flat_hash_map<std::string, Node*> index;

  Node* Child(const std::string& name) {
    Node*& slot = index[name];
    if (slot == nullptr) {
      children.push_back(std::make_unique<Node>());
      slot = children.back().get();
      slot->frame = name;
    }
    return slot;
  }
};

void AppendNode(const Node& top, size_t* left, int depth, std::string* out) {
  if (*left == 0) return;
  --*left;
  const bool all = top.named == top.ranks.size();
  // Frames with the same ranks share one line.
  const Node* node = &top;
  std::string text = Escaped(node->frame, 160);
  while (node->children.size() == 1 && node->children[0]->ranks.size() == node->ranks.size()) {
    node = node->children[0].get();
    absl::StrAppend(&text, " \u203a ", Escaped(node->frame, 160));
  }
  const std::string line =
      absl::StrCat("<span class=\"mono\">", text, "</span> <span class=\"set\">", RanksText(top.ranks, 60),
                   top.ranks.size() > 2 ? absl::StrCat(" (", top.ranks.size(), ")") : "", "</span>");
  if (node->children.empty()) {
    absl::StrAppend(out, "<div class=\"leaf", all ? " named" : "", "\">", line, "</div>\n");
    return;
  }
  absl::StrAppend(out, "<details class=\"tree", all ? " named" : "", "\"", top.named > 0 || depth < 2 ? " open" : "",
                  "><summary>", line, "</summary>\n");
  // Culprits' frames come first, then rare frames, because a stack that only one rank has is the most interesting.
  std::vector<const Node*> order;
  for (const auto& child : node->children) order.push_back(child.get());
  std::stable_sort(order.begin(), order.end(), [](const Node* a, const Node* b) {
    if ((a->named > 0) != (b->named > 0)) return a->named > 0;
    return a->ranks.size() != b->ranks.size() ? a->ranks.size() < b->ranks.size() : a->frame < b->frame;
  });
  if (!node->ends.empty())
    absl::StrAppend(out, "<div class=\"leaf\"><span class=\"soft\">innermost here</span> <span class=\"set\">",
                    RanksText(node->ends, 60), "</span></div>\n");
  for (const Node* child : order) AppendNode(*child, left, depth + 1, out);
  if (*left == 0) absl::StrAppend(out, "<p class=\"soft\">more branches are not shown</p>");
  absl::StrAppend(out, "</details>\n");
}

// Adds a rank's stack. Ranks must be ascending. A rank counts once for a frame that several of its stacks share.
void AddStack(int32_t rank, bool named, const std::vector<std::string>& stack, Node* root) {
  const std::vector<std::string> frames = Frames(stack, kMaxFrames);
  if (frames.empty()) return;
  const auto add = [rank](std::vector<int32_t>* ranks) {
    const bool fresh = ranks->empty() || ranks->back() != rank;
    if (fresh) ranks->push_back(rank);
    return fresh;
  };
  Node* node = root;
  add(&root->ranks);
  for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
    node = node->Child(*it);
    node->named += add(&node->ranks) && named ? 1 : 0;
  }
  add(&node->ends);
}

void AppendTree(const std::string& title, const Node& root, std::string* out) {
  if (root.children.empty()) return;
  absl::StrAppend(out, "<h3>", title, "</h3>\n");
  std::vector<const Node*> order;
  for (const auto& child : root.children) order.push_back(child.get());
  std::stable_sort(order.begin(), order.end(),
                   [](const Node* a, const Node* b) { return a->named > 0 && b->named == 0; });
  size_t left = kMaxNodes;
  for (const Node* child : order) AppendNode(*child, &left, 0, out);
}

}  // namespace

void AppendStacks(const Bundle& bundle, const std::vector<RankRole>& roles, const MergedStacks* merged,
                  std::string* out) {
  const auto named = [&](int32_t rank) {
    const auto at = static_cast<size_t>(rank);
    return rank >= 0 && at < roles.size() && roles[at] == RankRole::kCulprit;
  };
  Node python, native, threads;
  for (const Rank& rank : bundle.ranks) {
    const Process& process = rank.process;
    const bool culprit = named(rank.rank);
    AddStack(rank.rank, culprit, process.python_stack, &python);
    AddStack(rank.rank, culprit, process.stack, &native);
    if (process.evidence == nullptr) continue;
    for (const ThreadStack& thread : process.evidence->threads())
      AddStack(rank.rank, culprit, StackTexts(thread, *process.evidence), &threads);
  }
  std::string body;
  AppendTree("Python", python, &body);
  AppendTree("Native", native, &body);
  AppendTree("All threads", threads, &body);
  if (merged != nullptr) {
    std::map<int32_t, std::vector<const MergedStack*>> of;
    for (const MergedStack& stack : merged->stacks) {
      for (const int32_t rank : stack.ranks) of[rank].push_back(&stack);
    }
    Node all;
    for (const auto& [rank, list] : of) {
      for (const MergedStack* stack : list) AddStack(rank, named(rank), stack->frames, &all);
    }
    AppendTree(absl::StrCat("All threads of ", merged->ranks.size(), " ranks, merged on the way"), all, &body);
    for (const std::string& line : merged->refused)
      absl::StrAppend(&body, "<p class=\"soft\">", Escaped(line, 400), "</p>");
  }
  MergedLines refused;
  size_t count = 0;
  for (const Rank& rank : bundle.ranks) {
    if (rank.process.stack_refused.empty()) continue;
    refused.Add(Printable(rank.process.stack_refused, 300), rank.rank);
    ++count;
  }
  for (const std::string& line : refused.Lines(std::max<size_t>(count, 2), 8))
    absl::StrAppend(&body, "<p class=\"soft\">no stack from ", Escaped(line), "</p>");
  if (body.empty()) return;
  OpenSection("stacks", "Stacks, outermost frame first", out);
  absl::StrAppend(out, body, "</section>\n");
}

}  // namespace lockstep
