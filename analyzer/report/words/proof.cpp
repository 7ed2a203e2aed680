#include "analyzer/report/words/proof.h"

#include "absl/strings/str_cat.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {
namespace {

using Ranks = google::protobuf::RepeatedField<int32_t>;

std::string Is(const Ranks& ranks) { return absl::StrCat(RankNames(ranks), ranks.size() == 1 ? " is" : " are"); }

// "with the missing call"; "if rank 3 made its next calls".
std::string CorrectionText(const Proof& proof) {
  const Ranks& ranks = proof.corrected_ranks();
  const bool one = proof.any_one() || ranks.size() == 1;
  const std::string who = absl::StrCat(proof.any_one() ? "any one of " : "", RankNames(ranks));
  const std::string where = proof.any_one() ? absl::StrCat(" at ", who) : "";
  const auto calls = [&](const char* which) {
    return proof.corrected_calls() == 1 ? absl::StrCat(which, " call")
                                        : absl::StrCat(CountText(proof.corrected_calls()), " ", which, " calls");
  };
  switch (proof.correction()) {
    case Proof::CONTINUE: return absl::StrCat("if ", who, " made ", one ? "its" : "their", " next calls");
    case Proof::GPU_CONTINUES: return absl::StrCat("if the GPU of ", who, " continued");
    case Proof::BOTH_CONTINUE:
      return absl::StrCat("if ", who, one ? " and its GPU continued" : " and their GPUs continued");
    case Proof::ADD_CALLS: return absl::StrCat("with the ", calls("missing"), where);
    case Proof::REMOVE_CALLS: return absl::StrCat("without the ", calls("extra"), where);
    case Proof::SAME_ARGUMENTS:
      return proof.any_one() ? absl::StrCat("if one of ", RankNames(ranks), " passed what the other side passes")
                             : absl::StrCat("if ", who, " made the call that matches the others'");
    case Proof::OTHER_ORDER: return absl::StrCat("with the calls in the usual order", where);
    default: return "";
  }
}

std::string AlsoHelps(const Ranks& ranks) {
  return absl::StrCat("a change at ", ranks.size() == 1 ? "" : "any of ", RankNames(ranks), " would also help");
}

std::string OpenText(const Proof::Open& open) {
  const auto rank = [](int32_t number) { return number < 0 ? "a rank" : absl::StrCat("rank ", number); };
  const std::string what = open.exchange()
                               ? absl::StrCat("a send from ", rank(open.sender()), " to ", rank(open.receiver()))
                               : absl::StrCat("collective #", open.number());
  return absl::StrCat(Counted(open.count(), "operation remains unfinished", "operations remain unfinished"),
                      ", among them ", what, " on ",
                      open.has_communicator() ? open.communicator().label() : "a new communicator",
                      open.arguments_differ() ? ", where the arguments differ" : "");
}

std::string WhyText(const Proof& proof) {
  const Ranks& ranks = proof.why_ranks();
  switch (proof.why()) {
    case Proof::NO_RANK_NAMED: return "the verdict names no rank";
    case Proof::NO_CORRECTION: return "a replay of calls cannot correct a finding of this kind";
    case Proof::CALL_WITHOUT_NUMBER: return "the record does not number the call";
    case Proof::TOO_MANY_CALLS: return "too many calls are in flight to replay them";
    case Proof::NO_CALLS_OF: return absl::StrCat(RankNames(ranks), " left no calls to replay");
    case Proof::GPU_UNKNOWN:
      return absl::StrCat("the record does not show what the GPU of ", RankNames(ranks), " is running");
    case Proof::NO_CALLS: return "the incident has no recorded calls to replay";
    case Proof::NONE_IN_FLIGHT: return "no recorded call is in flight: there is nothing to replay";
    case Proof::OTHER_FINDINGS_SUFFICE:
      return "the recorded calls would also complete if only the further findings were corrected";
    case Proof::CALLS_DO_NOT_HANG:
      return "the recorded calls do not hang on their own: no rank that left data keeps its peers waiting";
    case Proof::ALL_INSIDE:
      return "all members are in an operation that does not finish, and none of the recorded calls explains why";
    case Proof::CALLS_NOT_RECORDED:
      return absl::StrCat(Is(ranks),
                          " idle, and may be waiting for another rank in a send, receive or barrier: this backend does "
                          "not record them");
    case Proof::STILL_HANGS:
      return absl::StrCat("the recorded calls would still hang ", CorrectionText(proof), ": ",
                          proof.has_open() ? OpenText(proof.open()) : "the record does not show where");
    case Proof::NOT_ALL_NEEDED:
      return absl::StrCat("the recorded calls would complete without a change at ", RankNames(ranks));
    case Proof::TOO_MANY_NAMED: return "the verdict names too many ranks to try the replay without each of them";
    case Proof::NO_OTHER_RANK: return "there is no other rank to compare with";
    case Proof::LIMIT_REACHED:
      return absl::StrCat("the replay reached its limit of calls after ",
                          Counted(proof.candidates(), "candidate", "candidates"));
    case Proof::OTHERS_HELP:
      return absl::StrCat("the recorded calls would complete ", CorrectionText(proof), "; ", AlsoHelps(proof.rivals()));
    case Proof::TOO_MANY_RANKS: return absl::StrCat("the job has ", CountText(proof.ranks()), " ranks");
    default: return "";
  }
}

std::string ProvedText(const Proof& proof) {
  const int others = proof.candidates() - proof.excluded_size();
  std::string text =
      absl::StrCat("proved by replay: ", proof.others_corrected() ? "with the further faults corrected, too, " : "",
                   "the recorded calls would complete ", CorrectionText(proof));
  if (others == 1) {
    text += "; a change at the other rank tried instead would not help";
  } else if (others > 1) {
    absl::StrAppend(&text, "; changes at ", CountText(others), " others tried instead would not help");
  }
  if (proof.excluded().empty()) return text;
  const bool one = proof.excluded_size() == 1;
  return absl::StrCat(text, "; ", AlsoHelps(proof.excluded()), ", but ", one ? "it" : "they",
                      " made the usual calls of ", one ? "its role" : "their roles");
}

}  // namespace

std::string ProofText(const Proof& proof) {
  switch (proof.result()) {
    case Proof::PROVED: return ProvedText(proof);
    case Proof::NOT_PROVED: return absl::StrCat("not proved by replay: ", WhyText(proof));
    case Proof::NOT_JUDGED: return absl::StrCat("not judged by replay: ", WhyText(proof));
    case Proof::NOT_TRIED: return absl::StrCat("replay not tried: ", WhyText(proof));
    default: return "";
  }
}

}  // namespace lockstep
