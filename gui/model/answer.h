// What explains one finding beside the words of the report, from the document's facts without any widget.
#pragma once

#include <QString>

#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

// Returns the picture of the finding or, without findings (0), of the newest calls; null if there is none.
const Focus* FocusOf(const Document& document, int finding);
// Returns whether the verdict has a finding with a picture. If so, the viewer opens on it.
bool HasAnswer(const Document& document);

// The nodes of the merged stacks that the rank is in, innermost first: one list for each of its stacks.
std::vector<std::vector<const StackNode*>> StacksOf(const ViewFacts& facts, int32_t rank);

struct AnswerStack {
  RankIntervals ranks;  // the named ranks that are in it
  std::vector<const StackNode*> frames;
  int own = -1;  // the frame of the user's code; -1 none
};
// The stacks of the first named rank that has any.
std::vector<AnswerStack> CulpritStacks(const Document& document, int finding);
// Why a named rank has no stack; empty: not known.
QString NoStackBecause(const Document& document, int finding);

struct AnswerSite {
  RankIntervals ranks;
  std::string operation, place;  // operation is empty if the site is not a call, but where the rank's code is
  bool culprit = false;
};
// Where named ranks and others made the call at issue, or else are in their code; named ranks first.
std::vector<AnswerSite> SitesOf(const Document& document, int finding);

// What a click on the picture selects; `column` -1 for the row.
Selection FocusSelection(const Focus& focus, int row, int column);

}  // namespace lockstep::gui
