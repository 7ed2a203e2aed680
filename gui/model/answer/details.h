// What the index and the facts contain about a selection, as text. Without widgets.
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
  // The operation that the first section describes and of which the rank's file has more fields; -1 if there is none.
  int32_t record_rank = -1;
  int64_t record = -1;
};

// Thread-safe. Takes a few milliseconds for a few ranks, 50 ms for all of 24,576. Returns an incomplete result if
// *cancel becomes true.
Details DetailsOf(const DocumentPtr& document, const Selection& selection, const std::atomic<bool>* cancel = nullptr);

// Returns the members by their state at one collective, worst state first. Omits members of unknown rank.
std::vector<std::pair<ViewState, Ranks>> MembersAt(const Document& document, const IncidentColumns& columns,
                                                   int32_t comm, int64_t seq);

// Returns one line for each title, and one for each label and text, separated by a tab.
QString DetailsText(const Details& details);

}  // namespace lockstep::gui
