// The search box's query language. All terms of a query must match:
//   rank:17043 rank:0-63,128 host:n21* comm:tp_* op:AllReduce state:missing seq>8800 seq:8800-8810 stage:3 class:cause
//   lag>10
// Patterns with * and ? match whole names. A plain word matches a rank's number, or any part of the name of a host,
// communicator or operation. A minus excludes a term; "quotes" keep words together; case does not matter.
#pragma once

#include <QString>
#include <QStringList>
#include <QStringView>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gui/model/document.h"

namespace lockstep::gui {

struct QueryTerm {
  enum class Key : uint8_t { kAny, kRank, kHost, kComm, kOp, kState, kSeq, kStage, kClass, kLag };
  enum class Compare : uint8_t { kMatches, kBelow, kAtMost, kAbove, kAtLeast };
  Key key = Key::kAny;
  Compare compare = Compare::kMatches;
  bool excludes = false;
  QString text;        // the pattern; for state: and class:, the word
  Ranks numbers;       // for rank:, seq: and stage: with numbers
  int64_t number = 0;  // for comparisons
};

using Query = std::vector<QueryTerm>;

// Errors: InvalidArgument with the word and the allowed forms.
absl::StatusOr<Query> ParseQuery(const QString& text);

// The words after state: and after class:, in the order of ViewState (without kOutside) and of WaitClass::Kind.
const QStringList& QueryStateWords();
const QStringList& QueryClassWords();

// * matches any text, ? one character. If `whole` is false, the pattern may match anywhere in the text.
bool QueryPatternMatches(const QString& pattern, QStringView text, bool whole);

struct QueryHit {
  int32_t rank = -1;
  int64_t record = -1;  // -1 for the rank itself
};
struct QueryResult {
  Ranks ranks;                 // ranks with a match
  std::vector<int32_t> comms;  // communicators whose name or ID matches all terms about names
  std::vector<QueryHit> hits;  // the first kMostHits, by rank
  int64_t hit_count = 0;       // total number
  bool records = false;        // the query selects operations, so hits are operations; otherwise ranks
};
constexpr int64_t kMostHits = 100'000;

// Scans the index; takes about 0.1 s for 50 million records. Any thread may call it. Returns early, with partial
// results, if *cancel becomes true.
QueryResult RunQuery(const Document& document, const Query& query, const std::atomic<bool>* cancel = nullptr);

}  // namespace lockstep::gui
