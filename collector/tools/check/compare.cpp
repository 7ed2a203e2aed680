#include "collector/tools/check/compare.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/init.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/splits.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/report.h"
#include "analyzer/util/rank_text.h"

namespace lockstep::check {
namespace {

constexpr int16_t kInProgress = 7;  // ncclInProgress
constexpr size_t kMostFaults = 100;

std::string RankWord(const std::vector<int32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks(ranks));
}

bool IsSlow(FindingKind kind) { return kind == STRAGGLER || kind == SLOW_LINK || kind == SLOW_HOST; }

Fault FromFinding(const Finding& finding) {
  Fault fault;
  fault.kind = FindingName(finding.kind());
  fault.ranks.assign(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  // The finding's summary is a sentence without a subject.
  fault.text = fault.ranks.empty() ? finding.summary() : absl::StrCat(RankWord(fault.ranks), " ", finding.summary());
  for (const CallSite& site : finding.call_sites())
    fault.calls.push_back({{site.ranks().begin(), site.ranks().end()}, site.operation(), site.place()});
  if (fault.ranks.empty() || finding.place().empty()) return fault;
  const bool shown = std::any_of(fault.calls.begin(), fault.calls.end(), [&](const CallAt& at) {
    return std::find(at.ranks.begin(), at.ranks.end(), fault.ranks[0]) != at.ranks.end();
  });
  if (!shown) fault.calls.push_back({{fault.ranks[0]}, "", PlaceText(finding.place())});
  return fault;
}

// Ranks that moved shortly before the job ended, and what they did.
using MovingRanks = std::map<int32_t, const char*>;

MovingRanks FindMoving(const Model& model) {
  MovingRanks moving;
  for (const Rank& rank : model.bundle.ranks) {
    const Process& process = rank.process;
    if (std::any_of(rank.ops.begin(), rank.ops.end(), [&](const Op& op) { return model.Young(rank, op); })) {
      moving[rank.rank] = "made calls";
    } else if (ClassifyActivity(process).moving == Moving::kYes) {
      moving[rank.rank] = "worked";
    } else if (process.state == "R" && process.sample_gap_ns == 0) {
      moving[rank.rank] = "waited for a core";
    }
  }
  return moving;
}

// Returns whether the finding may only mean that the job was ended too early: the ranks that others wait for moved.
bool MayBeEarly(const Finding& finding, const MovingRanks& moving) {
  const FindingFacts& facts = FindingFactsOf(finding.kind());
  if (facts.definite || !facts.rests_on_flight) return false;
  return std::any_of(moving.begin(), moving.end(), [&](const auto& rank) {
    const bool culprit = std::find(finding.culprit_ranks().begin(), finding.culprit_ranks().end(), rank.first) !=
                         finding.culprit_ranks().end();
    // A rank that is ahead waits for the others.
    return culprit == (finding.kind() != RANK_AHEAD);
  });
}

// Adds the verdict's findings, except slow ranks. A rank that exited normally is at fault only if there is no other
// finding. `cut` is true if the time limit ended the job. Returns whether a finding was left out because of that.
bool AddFindings(const AnalysisView& view, bool cut, const MovingRanks& moving, std::vector<Fault>* faults) {
  bool early = false;
  const Bundle& bundle = view.model.bundle;
  std::vector<Fault> ended;
  for (const Finding& finding : view.verdict.findings()) {
    if (IsSlow(finding.kind())) continue;
    // A job without a communicator may only start slowly.
    if (cut && (bundle.comms.empty() || MayBeEarly(finding, moving))) {
      early = true;
      continue;
    }
    const bool only_ended = finding.kind() == RANK_DEAD && finding.detail().number() == 0 &&
                            (finding.reason() == REASON_EXITED || finding.reason() == REASON_EXITED_WHILE_OTHERS_WAIT);
    Fault fault = FromFinding(finding);
    for (size_t r = 0; finding.kind() == GROUP_LEFT_OPEN && r < bundle.ranks.size(); ++r) {
      const Rank& rank = bundle.ranks[r];
      if (std::find(fault.ranks.begin(), fault.ranks.end(), rank.rank) == fault.ranks.end()) continue;
      const auto queued =
          std::find_if(rank.ops.begin(), rank.ops.end(), [](const Op& op) { return op.state == OpState::kQueued; });
      // Reports the group's first call: of all recorded calls, it is the nearest to the start of the group.
      if (queued != rank.ops.end()) fault.calls.insert(fault.calls.begin(), CallOfRank(bundle, r, *queued));
    }
    (only_ended ? &ended : faults)->push_back(std::move(fault));
  }
  if (faults->empty()) *faults = std::move(ended);
  return early;
}

std::vector<int32_t> GlobalRanks(const Bundle& bundle, const std::vector<int32_t>& indexes) {
  std::vector<int32_t> ranks;
  ranks.reserve(indexes.size());
  for (const int32_t r : indexes) ranks.push_back(bundle.ranks[static_cast<size_t>(r)].rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// If a communicator's creation did not complete, blames the ranks that did not enter it, not a cycle of ranks that wait
// there. If only a few ranks entered it, blames these.
void NameAbsent(const Model& model, std::vector<Fault>* faults) {
  const Bundle& bundle = model.bundle;
  for (const PendingCreation& creation : FindPendingCreations(model, 0)) {
    const std::vector<int32_t> absent = GlobalRanks(bundle, creation.absent);
    const std::vector<int32_t> waiting = GlobalRanks(bundle, creation.waiting);
    const std::vector<int32_t> possible = GlobalRanks(bundle, PossibleMembers(model, creation));
    const uint32_t comm = creation.parent == kNoIndex ? creation.comm : creation.parent;
    const std::string where = absl::StrCat(" nccl", ring::CallName(creation.call), " of ", CommText(bundle, comm),
                                           ", where ", RankWord(waiting), waiting.size() == 1 ? " waits" : " wait");
    if (!faults->empty() && faults->front().kind == FindingName(INIT_INCOMPLETE) && creation.parent != kNoIndex &&
        creation.failed.empty() && 2 * waiting.size() < absent.size()) {
      *faults = {{"ADDED_CALL",
                  waiting,
                  absl::StrCat(RankWord(waiting), " called nccl", ring::CallName(creation.call), " of ",
                               CommText(bundle, comm), ", which ", absent.size(), " other members did not"),
                  {}}};
      return;
    }
    for (Fault& fault : *faults) {
      if (fault.kind == FindingName(DEADLOCK_CYCLE) && !absent.empty() && 2 * absent.size() < waiting.size() &&
          std::includes(fault.ranks.begin(), fault.ranks.end(), absent.begin(), absent.end())) {
        fault = {"SKIPPED_CALL", absent, absl::StrCat(RankWord(absent), " never called", where), fault.calls};
      } else if (absent.empty() && !possible.empty() &&
                 ((fault.kind == FindingName(INIT_INCOMPLETE) && fault.ranks.empty()) || fault.ranks == waiting ||
                  fault.ranks == possible)) {
        fault = {FindingName(INIT_INCOMPLETE),
                 possible,
                 absl::StrCat(creation.unnamed, " of ", RankWord(possible), " never called", where),
                 {}};
      }
    }
  }
}

// Returns whether the ranks are evenly spaced, as members of a communicator usually are.
bool IsRegular(const std::vector<int32_t>& members) {
  for (size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != members[1] - members[0]) return false;
  }
  return true;
}

// Finds ranks that passed a different color to a split than their neighbors, although the job worked with these
// communicators.
void AddOddSplits(const Model& model, std::vector<Fault>* faults) {
  const Bundle& bundle = model.bundle;
  for (const SplitFault& split : FindSplitFaults(model, true)) {
    const bool regular = std::all_of(split.affected.begin(), split.affected.end(),
                                     [&](uint32_t comm) { return IsRegular(bundle.comms[comm].members); });
    if (split.reason != REASON_OTHER_COLOUR || split.ranks.empty() || regular) continue;
    Fault fault = {.kind = "ODD_SPLIT", .ranks = GlobalRanks(bundle, split.ranks), .text = "", .calls = {}};
    const CallRef& call = split.detail.call();
    fault.text = absl::StrCat(RankWord(fault.ranks), " passed ", split.detail.name(), " to ", call.text(),
                              call.on().empty() ? "" : absl::StrCat(" of ", call.on()), "; its neighbors passed ",
                              split.detail.other_name().empty() ? "another one" : split.detail.other_name(), "; so ",
                              CommText(bundle, split.comm), " usually does not include it");
    faults->push_back(std::move(fault));
  }
}

// Adds the first divergence of each rank. Ranks that diverged at the same call form one fault. Differences in sends and
// receives count only for `unmatched`: ranks with sends or receives without a counterpart.
void AddDivergences(const Model& model, const std::set<int32_t>& unmatched, std::vector<Fault>* faults) {
  using Type = Divergence::Type;
  const auto name_of = [](const Divergence& d) {
    switch (d.type) {
      case Type::kSkipped: return "SKIPPED_CALL";
      case Type::kExtra: return "ADDED_CALL";
      case Type::kChanged: return "CHANGED_CALL";
      case Type::kReordered: return "SWAPPED_CALLS";
    }
    return "";
  };
  std::map<std::tuple<Type, const Op*>, Fault> found;
  // Also reports a different order of calls that happened to run at the same time.
  for (const Divergence& d : FindDivergences(model, /*hung=*/false)) {
    const auto own = static_cast<size_t>(d.rank), other = static_cast<size_t>(d.sibling_rank);
    if (d.sibling == nullptr) continue;
    const bool exchange =
        ring::IsPointToPoint(d.sibling->kind) || (d.own != nullptr && ring::IsPointToPoint(d.own->kind));
    if (exchange && !unmatched.contains(model.bundle.ranks[own].rank)) continue;
    Fault& fault = found[{d.type, d.sibling}];
    fault.kind = name_of(d);
    fault.ranks.push_back(model.bundle.ranks[own].rank);
    if (d.own != nullptr) fault.calls.push_back(CallOfRank(model.bundle, own, *d.own));
    if (fault.ranks.size() > 1) continue;
    const CallAt theirs = CallOfRank(model.bundle, other, *d.sibling);
    fault.calls.insert(fault.calls.begin(), theirs);
    const std::string others =
        absl::StrCat(d.siblings_agreeing, " of the ", d.family_size, " ranks with the same role");
    switch (d.type) {
      case Type::kSkipped:
        fault.text = absl::StrCat("skipped a call: ", others, " call ", theirs.call, " there");
        break;
      case Type::kExtra:
        fault.text = absl::StrCat("made an extra call: ", others, " call no ",
                                  d.own == nullptr ? "call" : fault.calls.back().call, " there");
        break;
      case Type::kChanged: fault.text = absl::StrCat("made a different call from ", others); break;
      case Type::kReordered: fault.text = absl::StrCat("made its calls in a different order from ", others); break;
    }
  }
  for (auto& [key, fault] : found) {
    std::sort(fault.ranks.begin(), fault.ranks.end());
    fault.text = absl::StrCat(RankWord(fault.ranks), " ", fault.text);
    faults->push_back(std::move(fault));
  }
}

// Adds each rank's first call that NCCL refused.
void AddFailedCalls(const Bundle& bundle, std::vector<Fault>* faults) {
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    const auto failed = std::find_if(rank.ops.begin(), rank.ops.end(), [](const Op& op) {
      return op.result != 0 && op.result != kInProgress && op.membership != kNoIndex;
    });
    if (failed == rank.ops.end()) continue;
    faults->push_back({"FAILED_CALL",
                       {rank.rank},
                       absl::StrCat("a call on rank ", rank.rank, " returned error ", failed->result),
                       {CallOfRank(bundle, r, *failed)}});
  }
}

// Adds ranks without records in a job that failed. gloo aborts a process if its call does not match, and an aborted
// process writes no dump. Its last call is unknown, so the call of another rank is shown.
void AddSilent(const Bundle& bundle, std::vector<Fault>* faults) {
  std::set<int32_t> silent;
  for (const Communicator& comm : bundle.comms) silent.insert(comm.members.begin(), comm.members.end());
  silent.erase(-1);
  std::vector<CallAt> last;
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    silent.erase(bundle.ranks[r].rank);
    if (last.empty() && !bundle.ranks[r].ops.empty()) last.push_back(CallOfRank(bundle, r, bundle.ranks[r].ops.back()));
  }
  if (silent.empty()) return;
  const std::vector<int32_t> ranks(silent.begin(), silent.end());
  faults->push_back({FindingName(RANK_NO_DATA), ranks,
                     absl::StrCat(RankWord(ranks),
                                  " left no records: aborted or killed, or its program failed early; "
                                  "the last call of another rank is shown"),
                     last});
}

// Adds pairs of ranks with unequal numbers of sends and receives. The job can still end normally, because NCCL buffers
// small sends.
void AddUnmatched(const Model& model, std::vector<Fault>* faults) {
  const Bundle& bundle = model.bundle;
  struct Side {
    int64_t calls = 0;
    size_t rank = 0;
    const Op* last = nullptr;
  };
  std::map<std::tuple<uint32_t, int32_t, int32_t>, std::pair<Side, Side>> lanes;  // communicator, sender, receiver
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    for (const Op& op : bundle.ranks[r].ops) {
      if (!IsLaunched(op) || !ring::IsPointToPoint(op.kind)) continue;
      const Membership& ms = bundle.ranks[r].memberships[op.membership];
      const bool send = op.kind == ring::CallKind::kSend;
      const int32_t from = send ? ms.member_rank : op.root_or_peer, to = send ? op.root_or_peer : ms.member_rank;
      auto& [sends, recvs] = lanes[{ms.comm, from, to}];
      Side& side = send ? sends : recvs;
      side = {side.calls + 1, r, &op};
    }
  }
  for (const auto& [lane, sides] : lanes) {
    const auto& [sends, recvs] = sides;
    if (sends.calls == recvs.calls) continue;
    const auto& [comm, from, to] = lane;
    const std::vector<Member>& members = model.comms[comm].members;
    const auto rank_of = [&](int32_t m) {
      return m >= 0 && static_cast<size_t>(m) < members.size() ? members[static_cast<size_t>(m)].global_rank : -1;
    };
    const Side& more = sends.calls > recvs.calls ? sends : recvs;
    const auto times = [](int64_t n) { return n == 1 ? std::string("once") : absl::StrCat(n, " times"); };
    Fault fault = {"UNMATCHED_CALL",
                   {rank_of(from), rank_of(to)},
                   absl::StrCat("rank ", rank_of(from), " sends to rank ", rank_of(to), " ", times(sends.calls),
                                ", which receives from it ", times(recvs.calls), ", on ", CommText(bundle, comm)),
                   {CallOfRank(bundle, more.rank, *more.last)}};
    std::sort(fault.ranks.begin(), fault.ranks.end());
    faults->push_back(std::move(fault));
  }
}

// Returns " for ranks 0-2": the members that have not made this call; empty if there are none.
std::string ForMissing(const Bundle& bundle, uint32_t comm, const Op& op) {
  if (ring::IsPointToPoint(op.kind)) return "";  // the call names its peer
  std::set<int32_t> missing(bundle.comms[comm].members.begin(), bundle.comms[comm].members.end());
  missing.erase(-1);
  for (const Rank& rank : bundle.ranks) {
    if (std::any_of(rank.memberships.begin(), rank.memberships.end(),
                    [&](const Membership& ms) { return ms.comm == comm && ms.issued >= op.seq; }))
      missing.erase(rank.rank);
  }
  return missing.empty() ? "" : absl::StrCat(" for ", RankWord({missing.begin(), missing.end()}));
}

// Returns the calls that ranks waited in when the job was ended, and where the other ranks were. Empty if the job was
// running: no call waited for long, and a rank moved.
std::vector<Fault> Unfinished(const Model& model, const MovingRanks& moving, bool early) {
  const Bundle& bundle = model.bundle;
  std::map<std::tuple<uint32_t, int64_t, std::string>, Fault> calls;           // communicator, number, call
  std::map<std::pair<std::string, std::string>, std::vector<int32_t>> others;  // what they did, place
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    const auto op = std::find_if(rank.ops.begin(), rank.ops.end(), [&](const Op& each) {
      return each.membership != kNoIndex && IsInFlight(each.state) && !model.Young(rank, each);
    });
    if (op == rank.ops.end()) {
      const auto moved = moving.find(rank.rank);
      const char* what = moved != moving.end()        ? moved->second
                         : rank.process.state.empty() ? "ended, or its process is unknown"
                                                      : "did not move";
      others[{what, PlaceText(CodePlace(ParseFrames(rank.process.python_stack)))}].push_back(rank.rank);
      continue;
    }
    const uint32_t comm = rank.memberships[op->membership].comm;
    const CallAt at = CallOfRank(bundle, r, *op);
    Fault& fault = calls[{comm, op->seq, at.call}];
    if (fault.ranks.empty()) fault.text = ForMissing(bundle, comm, *op);
    fault.ranks.push_back(rank.rank);
    const auto same =
        std::find_if(fault.calls.begin(), fault.calls.end(), [&](const CallAt& each) { return each.site == at.site; });
    if (same == fault.calls.end()) {
      fault.calls.push_back(at);
    } else {
      same->ranks.push_back(rank.rank);
    }
  }
  std::vector<Fault> found;
  for (auto& [key, fault] : calls) {
    fault.kind = "UNFINISHED_CALL";
    fault.text = absl::StrCat(RankWord(fault.ranks), fault.ranks.size() == 1 ? " waits" : " wait", fault.text);
    found.push_back(std::move(fault));
  }
  if (found.empty() && !early && !moving.empty()) return {};
  Fault rest = {.kind = "NOT_FINISHED", .ranks = {}, .text = "", .calls = {}};
  for (const auto& [where, ranks] : others) {
    rest.ranks.insert(rest.ranks.end(), ranks.begin(), ranks.end());
    rest.calls.push_back({ranks, where.first, where.second});
  }
  std::sort(rest.ranks.begin(), rest.ranks.end());
  rest.text = absl::StrCat(RankWord(rest.ranks), calls.empty()            ? " had not finished"
                                                 : rest.ranks.size() == 1 ? " was elsewhere"
                                                                          : " were elsewhere");
  if (!rest.ranks.empty()) found.push_back(std::move(rest));
  return found;
}

}  // namespace

bool IsLaunched(const Op& op) {
  return op.membership != kNoIndex && !op.recent_only && op.state != OpState::kQueued && op.state != OpState::kFailed &&
         op.state != OpState::kCaptured && (ring::IsCollective(op.kind) || ring::IsPointToPoint(op.kind));
}

CallAt CallOfRank(const Bundle& bundle, size_t rank_index, const Op& op) {
  const Rank& rank = bundle.ranks[rank_index];
  const CallRef call = CallOf(bundle, static_cast<int32_t>(rank_index), op);
  return {{rank.rank}, call.on().empty() ? call.text() : absl::StrCat(call.text(), " on ", call.on()), call.site()};
}

Found FindFaults(const AnalysisView& view, HowEnded how) {
  const Bundle& bundle = view.model.bundle;
  Found found;
  found.ranks = bundle.ranks.size();
  found.comms = bundle.comms.size();
  bool lost = false;
  for (const Rank& rank : bundle.ranks) {
    found.calls += static_cast<size_t>(std::count_if(rank.ops.begin(), rank.ops.end(), IsLaunched));
    lost |= rank.records_lost > 0 || rank.not_loaded > 0 || rank.damaged;
    for (const Membership& ms : rank.memberships) lost |= ms.lost_records > 0 || ms.not_loaded > 0 || ms.unrecorded > 0;
  }
  // Without a recording, the ends of the processes are no evidence about calls.
  if (view.verdict.ranks_only_ended() == view.verdict.ranks_read()) return found;
  const bool cut = how == HowEnded::kCut;
  const MovingRanks moving = FindMoving(view.model);
  const bool early = AddFindings(view, cut, moving, &found.faults);
  NameAbsent(view.model, &found.faults);
  AddFailedCalls(bundle, &found.faults);
  // The rest looks for faults that did not stop the job. If a fault stopped it, ranks differ only because of this
  // fault.
  if (found.faults.empty()) AddOddSplits(view.model, &found.faults);
  std::vector<Fault> unmatched;
  if (lost) {
    found.not_checked = {
        "whether sends match receives, and cycles of waits: not all calls are recorded (PyTorch records no gloo sends "
        "and receives; rings hold more calls with more memory)"};
  } else if (found.faults.empty()) {
    AddUnmatched(view.model, &unmatched);
  }
  if (found.faults.empty()) {
    std::set<int32_t> ranks;
    for (const Fault& fault : unmatched) ranks.insert(fault.ranks.begin(), fault.ranks.end());
    AddDivergences(view.model, ranks, &found.faults);
  }
  if (found.faults.empty() && how == HowEnded::kWell) found.faults = std::move(unmatched);
  if (found.faults.empty() && how == HowEnded::kFailed) AddSilent(bundle, &found.faults);
  if (found.faults.empty() && !lost) found.faults = FindCycles(view.model);
  if (found.faults.size() > kMostFaults) found.faults.resize(kMostFaults);
  if (found.faults.empty() && cut) found.unfinished = Unfinished(view.model, moving, early);
  return found;
}

}  // namespace lockstep::check
