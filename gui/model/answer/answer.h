// What explains one finding in addition to the report's words, from the document's facts, without any widget.
#pragma once

#include <QString>

#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Returns the picture of the finding or, without findings (0), of the newest calls; null if there is none.
const Focus* FocusOf(const Document& document, int finding);

// Returns the nodes of the merged stacks that contain the rank, innermost first: one list for each of its stacks.
std::vector<std::vector<const StackNode*>> StacksOf(const ViewFacts& facts, int32_t rank);

struct AnswerStack {
  Ranks ranks;  // the named ranks in this stack
  std::vector<const StackNode*> frames;
  int own = -1;  // the frame of the user's code; -1 if there is none
};
// Returns the stacks of the first named rank that has any.
std::vector<AnswerStack> CulpritStacks(const Document& document, int finding);
// Returns why a named rank has no stack; empty if unknown.
QString NoStackBecause(const Document& document, int finding);

struct AnswerSite {
  Ranks ranks;
  std::string operation, place;  // operation is empty if the site is not a call, but where the rank's code currently is
  bool culprit = false;
};
// Returns where named ranks and others made the call in question, otherwise where their code is. Named ranks come
// first.
std::vector<AnswerSite> SitesOf(const Document& document, int finding);

// Returns what a click on the picture selects; `column` -1 for the whole row.
Selection FocusSelection(const Focus& focus, int row, int column);

}  // namespace lockstep::gui
