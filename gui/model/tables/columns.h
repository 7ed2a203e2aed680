// The tables' data about communicators, ranks and operations in flight, derived from the index once for all tables.
#pragma once

#include <QString>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gui/model/document.h"

namespace lockstep::gui {

struct CommMember {
  int32_t row = 0;  // row of the document
  int64_t issued = kUnknown, completed = kUnknown;
};

struct CommSummary {
  int32_t with_data = 0;  // number of members with data
  int64_t min_completed = kUnknown, median_completed = kUnknown, max_completed = kUnknown;
  int64_t in_flight_seq = -1;  // the lowest number of a collective in flight; -1 if there is none
  int64_t age_ns = -1;         // how long the first member has been in that collective; -1 if unknown
  int32_t missing = 0;         // number of members with data that have not issued that collective
  int32_t mismatch = -1;       // index of the communicator's first mismatch in the facts; -1 if there is none
};

struct InFlightOp {
  int32_t row = 0;
  int32_t comm = -1;
  int64_t record = 0;  // index among the rank's operations
  int64_t seq = -1;
  int64_t age_ns = -1;
  int32_t missing = -1;  // number of members with data that have not issued the collective; -1 for other calls
  ring::CallKind kind = ring::CallKind::kNone;
  OpState state = OpState::kUnknown;
  bool oldest = false;  // the oldest in-flight operation of its rank
  int32_t waits = -1;   // index into the texts of the ranks that the operation waits for; -1 if computed on request
};

// Immutable, shared between the views of a document.
class IncidentColumns {
 public:
  // Thread-safe. Takes about 0.2 s for 24,576 ranks with 2,048 records. Later calls return the same object while the
  // document exists. Returns null if *cancel became true.
  static std::shared_ptr<const IncidentColumns> Of(const DocumentPtr& document,
                                                   const std::atomic<bool>* cancel = nullptr);

  const std::vector<CommSummary>& comms() const { return comms_; }
  // By rank, the oldest operation of each rank first; at most max(4, kMostInFlight / ranks) per rank.
  const std::vector<InFlightOp>& in_flight() const { return in_flight_; }
  int64_t in_flight_total() const { return in_flight_total_; }
  int32_t InFlightOf(int row) const { return in_flight_of_[static_cast<size_t>(row)]; }
  // Returns members with data, by row.
  std::span<const CommMember> Members(int32_t comm) const;
  // Returns the ranks with data that have not issued the collective.
  Ranks Missing(const Document& document, int32_t comm, int64_t seq) const;
  // Returns the state that marks a rank: that of its class, or of the findings that name it.
  ViewState MarkOf(int row) const { return marks_[static_cast<size_t>(row)]; }
  ViewState MarkOfComm(int32_t comm) const;
  // Returns what an operation in flight waits for, as text.
  QString WaitsFor(const Document& document, size_t in_flight) const;

  static constexpr int64_t kMostInFlight = 131'072;

 private:
  bool Build(const Document& document, const std::atomic<bool>* cancel);
  void BuildComms(const Document& document);
  bool BuildInFlight(const Document& document, const std::atomic<bool>* cancel);

  std::vector<CommSummary> comms_;
  std::vector<uint64_t> first_member_;  // one entry per communicator, and the end
  std::vector<CommMember> members_;
  std::vector<InFlightOp> in_flight_;
  std::vector<int32_t> in_flight_of_;
  std::vector<QString> waits_;
  std::vector<ViewState> marks_;
  int64_t in_flight_total_ = 0;
};

// "cause", "waits", "in the cycle", "runs", "no data"; empty if unknown.
QString WaitClassWord(const Document& document, int row);

// "AllReduce #41 of dp", safe to show.
QString OpWords(const Document& document, ring::CallKind kind, int64_t seq, int32_t comm);

// "in the call", "enqueued", ..: the state of one operation.
QString OpStateWord(OpState state);

}  // namespace lockstep::gui
