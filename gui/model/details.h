// What is known of a selection, in words: made from the index and the facts without any widget.
#ifndef LOCKSTEP_GUI_MODEL_DETAILS_H_
#define LOCKSTEP_GUI_MODEL_DETAILS_H_

#include <QString>

#include <atomic>
#include <utility>
#include <vector>

#include "gui/model/document.h"
#include "gui/model/incident_columns.h"

namespace lockstep::gui {

struct DetailLine {
  QString label;  // may be empty: continues the line above
  QString text;   // safe, not escaped
  int link = -1;  // into Details::links; -1 none
  ViewState mark = ViewState::kOutside;
  bool mono = false;  // a frame of a stack
};

struct DetailSection {
  QString title;
  std::vector<DetailLine> lines;
};

struct Details {
  std::vector<DetailSection> sections;
  std::vector<Selection> links;
  // The operation with more facts in the rank's file; -1 none. Its section is the first.
  int32_t record_rank = -1;
  int64_t record = -1;
};

// Any thread; some milliseconds for a few ranks, 50 for all of 24,576. Returns early when *cancel turns true.
Details DetailsOf(const DocumentPtr& document, const Selection& selection, const std::atomic<bool>* cancel = nullptr);

// The rank's operation among its own; -1: not recorded.
int64_t FindRecord(const Document& document, int row, int32_t comm, int64_t seq);

// The state of each member at one collective, worst first, among equals the fewer first.
std::vector<std::pair<ViewState, RankIntervals>> MembersAt(const Document& document, const IncidentColumns& columns,
                                                           int32_t comm, int64_t seq);

// Lines of label, tabulator, text.
QString DetailsText(const Details& details);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_DETAILS_H_
