// What is known about a selection, as text, from the index and the facts, without any widget.
#pragma once

#include <QString>

#include <atomic>
#include <utility>
#include <vector>

#include "gui/model/document.h"
#include "gui/model/tables/columns.h"

namespace lockstep::gui {

struct DetailLine {
  QString label;  // empty if it continues the previous line
  QString text;   // safe to show, not escaped
  int link = -1;  // index into Details::links; -1 if there is none
  ViewState mark = ViewState::kOutside;
  bool mono = false;  // the line is a stack frame
};

struct DetailSection {
  QString title;
  std::vector<DetailLine> lines;
};

struct Details {
  std::vector<DetailSection> sections;
  std::vector<Selection> links;
  // The operation about which the rank's file has more facts; -1 if there is none. Its section is the first.
  int32_t record_rank = -1;
  int64_t record = -1;
};

// Any thread may call it. Takes some milliseconds for a few ranks, 50 for all of 24,576. Returns early if *cancel
// becomes true.
Details DetailsOf(const DocumentPtr& document, const Selection& selection, const std::atomic<bool>* cancel = nullptr);

// Returns the operation's index among the rank's own; -1 if not recorded.
int64_t FindRecord(const Document& document, int row, int32_t comm, int64_t seq);

// Returns the state of each member at one collective, worst first; among equal states, those with fewer members first.
std::vector<std::pair<ViewState, Ranks>> MembersAt(const Document& document, const IncidentColumns& columns,
                                                   int32_t comm, int64_t seq);

// Returns lines of label, tab and text.
QString DetailsText(const Details& details);

}  // namespace lockstep::gui
