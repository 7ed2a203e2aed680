// The facts that explain one finding besides the report's text: the Focus picture, stacks, call sites. Without widgets.
#pragma once

#include <QString>

#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Returns the Focus of the finding or, if the verdict has no findings, that of the newest calls; null if there is none.
const Focus* FocusOf(const Document& document, int finding);

// Returns the nodes of the merged stacks that contain the rank, innermost first: one list for each of its stacks.
std::vector<std::vector<const StackNode*>> StacksOf(const ViewFacts& facts, int32_t rank);

struct AnswerStack {
  Ranks ranks;  // the culprits that have this stack
  std::vector<const StackNode*> frames;
  int own = -1;  // the frame of the user's code; -1 if there is none
};
// Returns the stacks of the first culprit that has any, innermost frame first.
std::vector<AnswerStack> CulpritStacks(const Document& document, int finding);
// Returns why a culprit has no stack; empty if unknown.
QString NoStackBecause(const Document& document, int finding);

struct AnswerSite {
  Ranks ranks;
  std::string operation, place;  // `operation` is empty if `place` is not a call, but where the ranks are
  bool culprit = false;
};
// Returns where culprits and other ranks made the call at fault, or else the code that they execute. Culprits come
// first.
std::vector<AnswerSite> SitesOf(const Document& document, int finding);

// Returns what a click on the Focus selects. If `column` is -1, it selects the whole row.
Selection FocusSelection(const Focus& focus, int row, int column);

}  // namespace lockstep::gui
