// The sentences for each reason. Each family of reasons has its own file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/words/words.h"
#include "analyzer/util/rank_text.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct Words {
  std::string what;                 // completes "rank 5 ", or "rank 5: " with own_subject
  std::vector<Clause> more;         // the rest of that sentence
  bool own_subject = false;         // "its GPU has not started .."
  std::vector<std::string> advice;  // most important steps first
  std::string refuted_by;
  std::vector<std::string> rivals;  // the other explanations that always come with this reason
  std::string tells_apart;          // the fact that would decide between them; empty: use the finding kind's
};

// Each function returns the words for a reason of its family, and nullopt for a reason of another family.
std::optional<Words> ProcessWords(const Finding& finding);
std::optional<Words> HostWords(const Finding& finding);
std::optional<Words> NoDataWords(const Finding& finding);
std::optional<Words> GpuWords(const Finding& finding);
std::optional<Words> StuckWords(const Finding& finding);
std::optional<Words> CallWords(const Finding& finding);
std::optional<Words> ProgramWords(const Finding& finding);
std::optional<Words> CountWords(const Finding& finding);
std::optional<Words> CircleWords(const Finding& finding);
std::optional<Words> CreationWords(const Finding& finding);
std::optional<Words> SlowWords(const Finding& finding);

// Helpers for all families.

// "AllReduce #935 on tp_3 (ranks 24-31)"; CallAndSite adds the call site if it is known: "... (train.py:88)".
std::string CallText(const CallRef& call);
std::string CallAndSite(const CallRef& call);
// " for 12 s"; empty without a duration.
std::string ForText(const Detail& detail);
// "rank 5", "ranks 0-3, 6".
std::string RankNames(const google::protobuf::RepeatedField<int32_t>& ranks);
// "; it never called AllReduce #935 on tp_3", or "; it never made the call that matches rank 4's Send". Empty if there
// is no call.
std::vector<Clause> AndNeverEntered(const Finding& finding);
// "never called ..." alone.
std::string NeverEntered(const Finding& finding);
// "; others called it in step() at train.py:288": where most other ranks called the finding's operation. Empty if it
// was not recorded.
std::vector<Clause> WhereOthersIssued(const Finding& finding);

// Returns whether the subject of the sentence is plural.
inline bool Several(const Finding& finding) { return finding.culprit_ranks_size() > 1; }
inline const char* Pick(const Finding& finding, const char* one, const char* several) {
  return Several(finding) ? several : one;
}

inline constexpr char kEntered[] = "a record showing that the rank made the call";
inline constexpr char kNotArrived[] = "a record showing that one member never called the operation";
inline constexpr char kNetworkBetween[] = "the network between these ranks failed";
inline constexpr char kGpuInside[] = "the GPU of one of these ranks is stuck inside the operation";
inline constexpr char kWhichGpuOrLink[] =
    "GPU progress markers (LOCKSTEP_GPU=full: which GPU did not start); the profiler (which network steps stopped); "
    "Xid and link errors of the hosts";
inline constexpr char kOneOrder[] = "Compare the order of these calls with the other ranks'.";
inline constexpr char kSameOrder[] = "Issue them in the same order on every rank.";
inline constexpr char kOneStream[] = "Issue them in one order on every rank, or all from one stream.";
inline constexpr char kLargerRing[] = "Record with a larger ring (LOCKSTEP_RING_KIB).";
inline constexpr char kByDesign[] = "a program in which this rank differs from the ranks with the same role by design";

}  // namespace lockstep
