// Describes the result of a replay in words and as JSON.
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/replay/judge.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"

namespace lockstep::replay {

std::string AnswerReport(const Answer& answer) {
  const Proof& proof = answer.proof;
  std::string text = Printable(proof.text()) + "\n";
  const bool judged = proof.result() == Proof::PROVED || proof.result() == Proof::NOT_PROVED;
  if (!answer.suspects.empty() && judged)
    absl::StrAppend(
        &text, "  corrected ", answer.suspects.size() == 1 ? "rank " : "ranks ", FoldRanks(answer.suspects),
        answer.instead ? ", instead of the ranks that the first finding names: " : ", which the first finding names: ",
        FindingKind_Name(answer.kind), "\n");
  if (proof.calls() > 0)
    absl::StrAppend(&text, "  replayed  ", CountText(proof.calls()), " calls of ", CountText(proof.ranks()),
                    " ranks: all calls in flight, and those that differ\n");
  for (const std::string& assumed : answer.assumed) absl::StrAppend(&text, "  assumed   ", Printable(assumed), "\n");
  return text;
}

std::string AnswerJson(const Answer& answer) {
  const Proof& proof = answer.proof;
  nlohmann::ordered_json json;
  json["result"] = Proof::Result_Name(proof.result());
  json["kind"] = FindingKind_Name(answer.kind);
  json["culprit_ranks"] = answer.suspects;
  json["text"] = proof.text();
  json["correction"] = Proof::Correction_Name(proof.correction());
  json["why_not"] = Proof::Why_Name(proof.why());
  json["ranks"] = proof.ranks();
  json["calls"] = proof.calls();
  json["candidates"] = proof.candidates();
  json["rivals"] = std::vector<int32_t>(proof.rivals().begin(), proof.rivals().end());
  json["excluded"] = std::vector<int32_t>(proof.excluded().begin(), proof.excluded().end());
  json["assumed"] = answer.assumed;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::replay
