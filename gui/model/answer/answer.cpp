#include "gui/model/answer/answer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/evidence/frames.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr size_t kMostSites = 8;
constexpr size_t kMostFramesOfStack = 512;

const Finding* FindingAt(const Document& document, int finding) {
  return finding >= 0 && finding < document.verdict().findings_size() ? &document.verdict().findings(finding) : nullptr;
}

template <typename List>
Ranks RanksIn(const List& ranks) {
  return Ranks::Of(std::vector<int32_t>(ranks.begin(), ranks.end()));
}

// Adds one site for each code location of the culprits, or of the other ranks.
void AddRows(const Focus* focus, bool culprits, std::vector<AnswerSite>* sites) {
  std::map<std::string, std::vector<int32_t>> at;
  for (int i = 0; focus != nullptr && i < focus->rows_size(); ++i) {
    const Focus::Row& row = focus->rows(i);
    if (row.culprit() == culprits && !row.site().empty()) at[row.site()].push_back(Ranks::Of(row.ranks()).front());
  }
  for (auto& [place, ranks] : at) sites->push_back({Ranks::Of(std::move(ranks)), "", place, culprits});
}

}  // namespace

const Focus* FocusOf(const Document& document, int finding) {
  for (const Focus& focus : document.facts().focuses()) {
    if (focus.finding() == (document.verdict().findings().empty() ? -1 : finding)) return &focus;
  }
  return nullptr;
}

std::vector<std::vector<const StackNode*>> StacksOf(const ViewFacts& facts, int32_t rank) {
  std::vector<std::vector<const StackNode*>> stacks;
  const auto& nodes = facts.stacks();
  std::vector<bool> in(static_cast<size_t>(nodes.size())), inner(in.size());
  for (int n = 0; n < nodes.size(); ++n) {
    in[static_cast<size_t>(n)] = Ranks::Of(nodes[n].ranks()).Contains(rank);
    if (in[static_cast<size_t>(n)] && nodes[n].parent() >= 0) inner[static_cast<size_t>(nodes[n].parent())] = true;
  }
  for (int n = 0; n < nodes.size(); ++n) {
    if (!in[static_cast<size_t>(n)] || inner[static_cast<size_t>(n)]) continue;
    std::vector<const StackNode*>& frames = stacks.emplace_back();
    for (int at = n; at >= 0 && frames.size() < kMostFramesOfStack; at = nodes[at].parent())
      frames.push_back(&nodes[at]);
  }
  return stacks;
}

std::vector<AnswerStack> CulpritStacks(const Document& document, int number) {
  std::vector<AnswerStack> out;
  const Finding* finding = FindingAt(document, number);
  if (finding == nullptr) return out;
  const Ranks culprits = RanksIn(finding->culprit_ranks());
  for (const int32_t rank : finding->culprit_ranks()) {
    for (std::vector<const StackNode*>& nodes : StacksOf(document.facts(), rank)) {
      google::protobuf::RepeatedPtrField<Frame> frames;
      for (const StackNode* node : nodes) {
        Frame* frame = frames.Add();
        frame->set_text(node->frame());
        frame->set_kind(node->kind());
      }
      AnswerStack& stack = out.emplace_back();
      stack.ranks = Ranks::Of(nodes.front()->ranks()).Common(culprits);
      stack.own = CodeFrame(frames);
      stack.frames = std::move(nodes);
    }
    if (!out.empty()) break;
  }
  // If a Python stack is known, a native stack shows only the interpreter, so it has no frame of the user's code.
  const auto python = [](const AnswerStack& stack) { return stack.frames.front()->kind() == StackFrame::PYTHON; };
  if (std::any_of(out.begin(), out.end(), python)) {
    for (AnswerStack& stack : out) stack.own = python(stack) ? stack.own : -1;
  }
  return out;
}

QString NoStackBecause(const Document& document, int number) {
  const Finding* finding = FindingAt(document, number);
  for (int i = 0; finding != nullptr && i < finding->evidence_size(); ++i) {
    if (finding->evidence(i).kind() == Evidence::STACK && !finding->evidence(i).refused().empty())
      return Plain(finding->evidence(i).refused(), 300);
  }
  return {};
}

std::vector<AnswerSite> SitesOf(const Document& document, int number) {
  std::vector<AnswerSite> calls, out;
  const Finding* finding = FindingAt(document, number);
  if (finding == nullptr) return out;
  const Ranks culprits = RanksIn(finding->culprit_ranks());
  bool named = false;
  for (const CallSite& site : finding->call_sites()) {
    if (calls.size() >= kMostSites) break;
    Ranks ranks = RanksIn(site.ranks());
    const bool culprit = ranks.Intersects(culprits);
    named |= culprit;
    calls.push_back({std::move(ranks), site.operation(), site.place(), culprit});
  }
  const Focus* focus = FocusOf(document, number);
  if (!named) AddRows(focus, true, &out);
  if (calls.empty()) AddRows(focus, false, &out);
  std::stable_partition(calls.begin(), calls.end(), [](const AnswerSite& site) { return site.culprit; });
  std::move(calls.begin(), calls.end(), std::back_inserter(out));
  return out;
}

Selection FocusSelection(const Focus& focus, int row, int column) {
  if (row < 0 || row >= focus.rows_size()) return {};
  const Focus::Row& at = focus.rows(row);
  if (at.cells().empty()) return Selection::Of(Ranks::Of(at.ranks()));
  const bool call =
      column >= 0 && column < at.cells_size() && at.cells(column).state() != static_cast<uint32_t>(ViewState::kOutside);
  return Selection::Of(Ranks::Of(at.ranks()), focus.comm(),
                       call && focus.first_sequence() >= 0 ? focus.first_sequence() + column : -1);
}

}  // namespace lockstep::gui
