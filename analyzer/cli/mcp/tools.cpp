#include "analyzer/cli/mcp/tools.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/export/trace.h"
#include "analyzer/report/circumstances.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/recommended.h"
#include "analyzer/report/report.h"
#include "analyzer/report/state.h"
#include "analyzer/report/words/verdict.h"
#include "analyzer/settings/types.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLines = 400, kMostColumns = 1000, kMostRanks = 64, kMostFrames = 40;
constexpr int64_t kMostCalls = 200, kFewCalls = 40;

// Lines of the form "[ID] text".
class CitedLines {
 public:
  void Add(const std::string& id, const std::string& text) {
    if (text.empty()) return;
    if (++lines_ <= kMostLines) absl::StrAppend(&text_, "[", id, "] ", Printable(text, kMostColumns), "\n");
  }
  std::string Text() const {
    if (lines_ == 0) return "Nothing is recorded.";
    return lines_ <= kMostLines ? text_ : absl::StrCat(text_, lines_ - kMostLines, " more lines; narrow the request.");
  }

 private:
  std::string text_;
  size_t lines_ = 0;
};

std::string TextOf(const Json& arguments, const char* name) {
  return arguments.contains(name) ? arguments[name].get<std::string>() : "";
}

int64_t NumberOf(const Json& arguments, const char* name, int64_t otherwise) {
  return arguments.contains(name) ? arguments[name].get<int64_t>() : otherwise;
}

class AskedRanks {
 public:
  // Returns the requested ranks; without a request, those that findings name, or every rank if there are none or `all`
  // is set.
  static absl::StatusOr<AskedRanks> Of(const Json& arguments, const Verdict& verdict, bool all) {
    AskedRanks asked;
    const std::string text = TextOf(arguments, "ranks");
    if (!text.empty()) {
      if (!settings::ParseRankRanges(text, &asked.ranges_))
        return absl::InvalidArgumentError("ranks must be like 0-7,16");
      return asked;
    }
    for (const Finding& finding : verdict.findings()) {
      for (const int32_t rank : finding.culprit_ranks()) asked.ranges_.emplace_back(rank, rank);
    }
    if (all || asked.ranges_.empty()) asked.ranges_ = {{0, INT32_MAX}};
    return asked;
  }
  bool Has(int32_t rank) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [rank](const auto& range) { return range.first <= rank && rank <= range.second; });
  }

 private:
  settings::RankRanges ranges_;
};

std::string CounterText(int64_t count) {
  return count == kUnknown ? "unknown" : count == kNone ? "none" : absl::StrCat(count);
}

std::string CommText(const Communicator& comm) { return comm.name.empty() ? comm.id : comm.name; }

std::string CallId(const Rank& rank, size_t op) { return absl::StrCat("r", rank.rank, ".o", op); }

std::string CallLine(const Bundle& bundle, const Rank& rank, const Op& op) {
  TraceSlice slice;
  slice.op = &op;
  slice.rank = &rank;
  std::vector<std::string> facts = {absl::StrCat("rank ", rank.rank)};
  if (op.membership < rank.memberships.size())
    facts.push_back(absl::StrCat("on ", CommText(bundle.comms[rank.memberships[op.membership].comm])));
  for (const TraceFact& fact : FactsOf(bundle, slice))
    facts.push_back(absl::StrCat(fact.key, " ", fact.text.empty() ? absl::StrCat(fact.number) : fact.text));
  return absl::StrCat(OperationName(bundle, op), ": ", absl::StrJoin(facts, ", "));
}

std::string ProgressText(const Membership& place) {
  return absl::StrCat("issued ", CounterText(place.issued), ", started ", CounterText(place.started), ", completed ",
                      CounterText(place.completed));
}

using Answer = absl::StatusOr<std::string>;

Answer ListIncidents(const IncidentList& incidents) {
  CitedLines lines;
  size_t number = 0;
  for (const IncidentList::Listed& one : incidents.List()) lines.Add(absl::StrCat("i", ++number), one.name);
  return lines.Text();
}

Answer VerdictLines(const OpenedIncident& incident, const Json&) {
  const Verdict& verdict = incident.verdict;
  CitedLines lines;
  lines.Add("v", absl::StrCat(VerdictWord(verdict), LastedText(verdict).empty() ? "" : " for ", LastedText(verdict),
                              "; ", absl::StrJoin(CircumstanceTexts(verdict), "; ")));
  const Recommended recommended = RecommendedFor(verdict);
  lines.Add("v.recommended", absl::StrCat(ActionName(recommended.action), recommended.hosts.empty() ? "" : ", hosts ",
                                          absl::StrJoin(recommended.hosts, ", ")));
  for (int f = 0; f < verdict.findings_size(); ++f) {
    const Finding& finding = verdict.findings(f);
    const std::string id = absl::StrCat("f", f + 1);
    lines.Add(id, absl::StrCat(FindingName(finding.kind()), ", confidence ", finding.confidence(), " (",
                               ConfidenceWord(finding.confidence()), "): ", Headline(finding)));
    lines.Add(id + ".waiting", WaitingText(finding));
    int step = 0;
    for (const std::string& text : AdviceSteps(finding)) lines.Add(absl::StrCat(id, ".do", ++step), text);
  }
  for (int i = 0; i < verdict.problems_size(); ++i)
    lines.Add(absl::StrCat("p", i + 1), absl::StrCat("data: ", verdict.problems(i).text()));
  return lines.Text();
}

Answer Why(const OpenedIncident& incident, const Json& arguments) {
  const Verdict& verdict = incident.verdict;
  const int64_t number = NumberOf(arguments, "finding", 1);
  CitedLines lines;
  for (int i = 0; i < verdict.ruled_out_size(); ++i)
    lines.Add(absl::StrCat("n", i + 1), NotTheCauseText(verdict.ruled_out(i)));
  if (verdict.findings().empty()) return lines.Text();
  if (number < 1 || number > verdict.findings_size())
    return absl::InvalidArgumentError(absl::StrCat("findings are numbered 1 to ", verdict.findings_size()));
  const Finding& finding = verdict.findings(static_cast<int>(number - 1));
  const std::string id = absl::StrCat("f", number);
  lines.Add(id, Headline(finding));
  const auto list = [&](const char* kind, const auto& items, const auto& text) {
    int n = 0;
    for (const auto& item : items) lines.Add(absl::StrCat(id, kind, ++n), text(item));
  };
  list(".e", finding.evidence(), [](const Evidence& item) {
    return absl::StrCat(item.text(), item.source().empty() ? "" : absl::StrCat(" (", item.source(), ")"));
  });
  list(".c", finding.chain(), [](const ChainLink& link) { return "chain: " + link.text(); });
  list(".s", finding.call_sites(), [](const CallSite& site) {
    return absl::StrCat(RanksText({site.ranks().begin(), site.ranks().end()}), " called ", site.operation(), " at ",
                        site.place());
  });
  list(".a", finding.alternatives(), [](const std::string& text) { return "another explanation: " + text; });
  if (!finding.tells_apart().empty()) lines.Add(id + ".t", "what would decide: " + finding.tells_apart());
  if (!finding.refuted_by().empty()) lines.Add(id + ".r", "what would refute it: " + finding.refuted_by());
  return lines.Text();
}

Answer RankLines(const OpenedIncident& incident, const Json& arguments) {
  const auto asked = AskedRanks::Of(arguments, incident.verdict, false);
  if (!asked.ok()) return asked.status();
  CitedLines lines;
  size_t ranks = 0;
  for (const Rank& rank : incident.bundle.ranks) {
    if (!asked->Has(rank.rank) || ++ranks > kMostRanks) continue;
    const std::string id = absl::StrCat("r", rank.rank);
    const std::string state = RankStateText(rank);
    lines.Add(id, absl::StrCat("rank ", rank.rank, rank.host.empty() ? "" : " on ", rank.host,
                               rank.gpu_index < 0 ? "" : absl::StrCat(", GPU ", rank.gpu_index),
                               rank.pid == 0 ? "" : absl::StrCat(", PID ", rank.pid), "; ",
                               state.empty() ? "its process was not sampled" : state));
    if (!MovingText(rank).empty()) lines.Add(id + ".moving", "moving: " + MovingText(rank));
    for (size_t m = 0; m < rank.memberships.size(); ++m) {
      const Membership& place = rank.memberships[m];
      lines.Add(absl::StrCat(id, ".m", m),
                absl::StrCat(CommText(incident.bundle.comms[place.comm]), ": ", ProgressText(place)));
    }
  }
  if (ranks > kMostRanks) lines.Add("more", absl::StrCat(ranks - kMostRanks, " more ranks match"));
  return lines.Text();
}

Answer StackLines(const OpenedIncident& incident, const Json& arguments) {
  const auto asked = AskedRanks::Of(arguments, incident.verdict, false);
  if (!asked.ok()) return asked.status();
  CitedLines lines;
  const auto frames = [](const std::vector<std::string>& stack) {
    return absl::StrJoin(Frames(stack, kMostFrames), " < ");
  };
  for (size_t s = 0; s < incident.stacks.stacks.size(); ++s) {
    const MergedStack& stack = incident.stacks.stacks[s];
    if (std::none_of(stack.ranks.begin(), stack.ranks.end(), [&](int32_t rank) { return asked->Has(rank); })) continue;
    lines.Add(absl::StrCat("s", s + 1), absl::StrCat(RanksText(stack.ranks), ": ", frames(stack.frames)));
  }
  for (const Rank& rank : incident.bundle.ranks) {
    if (!asked->Has(rank.rank)) continue;
    const std::string id = absl::StrCat("r", rank.rank), who = absl::StrCat("rank ", rank.rank);
    const Process& process = rank.process;
    if (!process.python_stack.empty()) lines.Add(id + ".python", who + ", Python: " + frames(process.python_stack));
    if (!process.stack.empty()) lines.Add(id + ".native", who + ", native: " + frames(process.stack));
    if (!process.stack_refused.empty()) lines.Add(id + ".refused", who + ": no stack: " + process.stack_refused);
    if (process.evidence == nullptr) continue;
    for (const ThreadStack& thread : process.evidence->threads()) {
      const std::vector<std::string> texts = StackTexts(thread, *process.evidence);
      if (texts.empty()) continue;
      lines.Add(absl::StrCat(id, ".t", thread.tid()),
                absl::StrCat(who, ", thread ", thread.name(), " (", thread.state(), "): ", frames(texts)));
    }
  }
  for (size_t i = 0; i < incident.stacks.refused.size(); ++i)
    lines.Add(absl::StrCat("s.refused", i + 1), incident.stacks.refused[i]);
  return lines.Text();
}

Answer Query(const OpenedIncident& incident, const Json& arguments) {
  const auto asked = AskedRanks::Of(arguments, incident.verdict, true);
  if (!asked.ok()) return asked.status();
  const std::string operation = TextOf(arguments, "operation"), communicator = TextOf(arguments, "communicator"),
                    state = TextOf(arguments, "state");
  const int64_t sequence = NumberOf(arguments, "sequence", -1);
  const int64_t most = std::clamp<int64_t>(NumberOf(arguments, "limit", kFewCalls), 1, kMostCalls);
  const Bundle& bundle = incident.bundle;
  CitedLines lines;
  int64_t found = 0;
  for (const Rank& rank : bundle.ranks) {
    if (!asked->Has(rank.rank)) continue;
    for (size_t o = rank.ops.size(); o-- > 0;) {
      const Op& op = rank.ops[o];
      if (sequence >= 0 && op.seq != sequence) continue;
      if (!absl::StartsWith(StateName(op.state), state)) continue;
      if (!operation.empty() && !absl::EqualsIgnoreCase(OperationName(bundle, op), operation) &&
          !absl::EqualsIgnoreCase(ring::CallName(op.kind), operation))
        continue;
      if (!communicator.empty()) {
        if (op.membership >= rank.memberships.size()) continue;
        const Communicator& comm = bundle.comms[rank.memberships[op.membership].comm];
        if (comm.name != communicator && comm.id != communicator) continue;
      }
      if (++found <= most) lines.Add(CallId(rank, o), CallLine(bundle, rank, op));
    }
  }
  lines.Add("count", absl::StrCat(found, " calls match", found > most ? absl::StrCat("; the first ", most) : "",
                                  found > most ? " are shown, the newest of each rank first" : ""));
  return lines.Text();
}

// Finds the first collective of one communicator that the two ranks issued differently, among those in both records.
void CompareCalls(const Bundle& bundle, const Rank& one, uint32_t one_place, const Rank& other, uint32_t other_place,
                  const std::string& id, CitedLines* lines) {
  const auto collectives = [](const Rank& rank, uint32_t place) {
    std::map<int64_t, size_t> by_sequence;
    for (size_t o = 0; o < rank.ops.size(); ++o) {
      const Op& op = rank.ops[o];
      if (op.membership == place && op.seq >= 0 && ring::IsCollective(op.kind)) by_sequence[op.seq] = o;
    }
    return by_sequence;
  };
  const std::map<int64_t, size_t> ones = collectives(one, one_place), others = collectives(other, other_place);
  size_t both = 0;
  for (const auto& [sequence, at] : ones) {
    const auto found = others.find(sequence);
    if (found == others.end()) continue;
    ++both;
    const Op &a = one.ops[at], &b = other.ops[found->second];
    if (a.kind == b.kind && a.count == b.count && a.datatype == b.datatype && a.reduction == b.reduction &&
        a.root_or_peer == b.root_or_peer)
      continue;
    lines->Add(id, absl::StrCat("the first recorded call that may differ is #", sequence, ":"));
    lines->Add(CallId(one, at), CallLine(bundle, one, a));
    lines->Add(CallId(other, found->second), CallLine(bundle, other, b));
    return;
  }
  lines->Add(id, absl::StrCat("kind, count, datatype, reduction and root are equal in all ", both,
                              " calls that both ranks recorded"));
}

Answer Compare(const OpenedIncident& incident, const Json& arguments) {
  const Bundle& bundle = incident.bundle;
  const Rank* ranks[2];
  const char* names[] = {"rank", "other"};
  for (int i = 0; i < 2; ++i) {
    const int64_t number = NumberOf(arguments, names[i], -1);
    ranks[i] = number < 0 || number > kMaxRanks ? nullptr : FindRank(bundle, static_cast<int32_t>(number));
    if (ranks[i] == nullptr) return absl::NotFoundError(absl::StrCat("there is no data from rank ", number));
  }
  CitedLines lines;
  for (const Rank* rank : ranks) {
    const std::string state = RankStateText(*rank);
    lines.Add(absl::StrCat("r", rank->rank),
              absl::StrCat("rank ", rank->rank, ": ", state.empty() ? "its process was not sampled" : state));
  }
  bool shared = false;
  for (uint32_t m = 0; m < ranks[0]->memberships.size(); ++m) {
    for (uint32_t n = 0; n < ranks[1]->memberships.size(); ++n) {
      const Membership &a = ranks[0]->memberships[m], &b = ranks[1]->memberships[n];
      if (a.comm != b.comm) continue;
      shared = true;
      const std::string on = CommText(bundle.comms[a.comm]);
      lines.Add(absl::StrCat("r", ranks[0]->rank, ".m", m),
                absl::StrCat("rank ", ranks[0]->rank, " on ", on, ": ", ProgressText(a)));
      lines.Add(absl::StrCat("r", ranks[1]->rank, ".m", n),
                absl::StrCat("rank ", ranks[1]->rank, " on ", on, ": ", ProgressText(b)));
      CompareCalls(bundle, *ranks[0], m, *ranks[1], n, absl::StrCat("m", m, ".compared"), &lines);
    }
  }
  if (!shared) lines.Add("compared", "the two ranks share no communicator");
  return lines.Text();
}

Json Schema(std::vector<std::pair<const char*, Json>> properties, const std::vector<std::string>& required = {}) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  for (auto& property : properties) schema["properties"][property.first] = std::move(property.second);
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json Argument(const char* type, const char* description) { return {{"type", type}, {"description", description}}; }

}  // namespace

std::vector<McpTool> IncidentTools(IncidentList* incidents) {
  using Function = Answer (*)(const OpenedIncident&, const Json&);
  const auto of_incident = [incidents](Function function) {
    return [incidents, function](const Json& arguments) -> Answer {
      const absl::StatusOr<const OpenedIncident*> incident = incidents->Open(TextOf(arguments, "incident"));
      if (!incident.ok()) return incident.status();
      Answer answer = function(**incident, arguments);
      if (answer.ok()) answer->insert(0, absl::StrCat("Incident ", (*incident)->name, "\n"));
      return answer;
    };
  };
  const std::pair<const char*, Json> incident = {"incident",
                                                 Argument("string", "a name from `incidents`; default: the newest")};
  const std::pair<const char*, Json> ranks = {
      "ranks", Argument("string", "ranks, like 0-7,16; default: the culprits (query: all)")};
  return {
      {"incidents", "Lists the available incidents, newest first.", Schema({}),
       [incidents](const Json&) { return ListIncidents(*incidents); }},
      {"verdict", "What stopped the job: the findings, their confidence, what to do, what data is missing.",
       Schema({incident}), of_incident(VerdictLines)},
      {"why",
       "Why one finding was concluded: evidence, who waits for whom, call sites, what is ruled out, other "
       "explanations, and what would refute it.",
       Schema({incident, {"finding", Argument("integer", "its number in `verdict`; default: 1")}}), of_incident(Why)},
      {"ranks", "What ranks were doing: host, GPU, process state, and how far they are on each communicator.",
       Schema({incident, ranks}), of_incident(RankLines)},
      {"stacks", "Stacks of ranks, innermost frame first. Ranks with equal stacks share a line.",
       Schema({incident, ranks}), of_incident(StackLines)},
      {"query", "Recorded NCCL calls, the newest of each rank first.",
       Schema({incident,
               ranks,
               {"operation", Argument("string", "e.g. AllReduce")},
               {"communicator", Argument("string", "its name or id")},
               {"state", Argument("string", "a state or its first letters: completed, in flight, issued, failed, ...")},
               {"sequence", Argument("integer", "number of the call on its communicator")},
               {"limit", Argument("integer", "number of calls to return; default: 40, at most 200")}}),
       of_incident(Query)},
      {"compare",
       "Compares two ranks: their progress on the communicators that they share, and the first call that differs.",
       Schema({incident, {"rank", Argument("integer", "a rank")}, {"other", Argument("integer", "another rank")}},
              {"rank", "other"}),
       of_incident(Compare)},
  };
}

}  // namespace lockstep
