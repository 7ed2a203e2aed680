// Anomalies: findings, missing ranks, calls that differ, lagging communicators, failed calls. Also what is unknown.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/parts.h"
#include "analyzer/viewdata/state.h"

namespace lockstep {
namespace {

constexpr int kMostMismatches = 1000;
constexpr int kMostOfAKind = 64;  // maximum of each: lagging communicators, failed calls, mismatches
constexpr size_t kMostGroups = 64;

struct Group {
  const Op* op = nullptr;
  std::vector<int32_t> ranks;  // global ranks
  bool odd = false;
};

void AddGroups(const ViewInput& in, const Mismatch& m, CallMismatch* out) {
  const Model& model = in.analysis.model;
  const Bundle& bundle = model.bundle;
  std::vector<Group> groups;
  auto add = [&](int32_t rank_index, const Op* op, bool apart) {
    if (op == nullptr) return;
    const bool odd = std::binary_search(m.odd_ranks.begin(), m.odd_ranks.end(), rank_index);
    Group* same = nullptr;
    for (Group& g : groups) {
      if (!apart && CompareCalls(bundle, *op, *g.op, nullptr, nullptr) == FINDING_UNSPECIFIED) same = &g;
    }
    if (same == nullptr && groups.size() < kMostGroups) {
      groups.push_back({op, {}, odd});
      same = &groups.back();
    }
    if (same == nullptr) return;
    same->ranks.push_back(bundle.ranks[static_cast<size_t>(rank_index)].rank);
    same->odd |= odd;
  };
  const auto& members = model.comms[m.comm].members;
  if (m.sender >= 0) {
    const Member &sender = members[static_cast<size_t>(m.sender)], &receiver = members[static_cast<size_t>(m.receiver)];
    if (sender.rank_index >= 0)
      add(sender.rank_index, model.FindPointToPoint(sender, ring::CallKind::kSend, m.receiver, m.seq), true);
    if (receiver.rank_index >= 0)
      add(receiver.rank_index, model.FindPointToPoint(receiver, ring::CallKind::kRecv, m.sender, m.seq), true);
  } else {
    for (const Member& member : members) {
      if (member.recorded())
        add(member.rank_index, model.FindCollective(member, m.seq),
            m.kind == MISMATCH_SPLITS && groups.size() + 1 < kMostGroups);
    }
  }
  if (groups.empty()) return;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.ranks.size() > b.ranks.size(); });
  // The reference: the value of the majority, or of communicators with the same role.
  const Group* reference = nullptr;
  for (const Group& g : groups) {
    if (m.majority && !g.odd && reference == nullptr) reference = &g;
  }
  for (const Group& g : groups) {
    CallMismatch::Group* group = out->add_groups();
    std::string own, other;
    const Group& against = &g != &groups[0] ? groups[0] : groups.size() > 1 ? groups[1] : g;
    CompareCalls(bundle, *g.op, *against.op, &own, &other);
    group->set_value(CleanUtf8(own.empty() ? ArgumentsText(bundle, *g.op) : own, 200));
    SetRuns(g.ranks, group->mutable_ranks());
    group->set_reference(&g == reference);
  }
}

Anomaly* AddAnomaly(const std::string& text, int32_t comm, int64_t sequence, ViewFacts* facts) {
  Anomaly* out = facts->add_anomalies();
  out->set_text(CleanUtf8(text, 600));
  out->set_comm(comm);
  out->set_sequence(comm < 0 ? -1 : sequence);
  out->set_finding(-1);
  return out;
}

void AddLagging(const ViewInput& in, ViewFacts* facts) {
  struct Lagging {
    uint32_t comm;
    int64_t seq, most = 0;  // the first missing number; the largest number of missing calls
    std::vector<int32_t> ranks;
  };
  const Model& model = in.analysis.model;
  std::vector<Lagging> all;
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    int64_t furthest = kNone;
    for (const Member& m : model.comms[c].members) furthest = std::max(furthest, m.arrived);
    Lagging here{c, INT64_MAX, 0, {}};
    for (const Member& m : model.comms[c].members) {
      if (!m.recorded() || m.left || furthest < 0) continue;
      const Rank& rank = model.bundle.ranks[static_cast<size_t>(m.rank_index)];
      const Membership& ms = rank.memberships[m.membership];
      if (ms.issued == kUnknown) continue;
      const int64_t own = m.arrived == kNone ? ms.first_seq - 1 : m.arrived;
      if (own >= furthest || own < -1) continue;
      here.ranks.push_back(rank.rank);
      here.seq = std::min(here.seq, own + 1);
      here.most = std::max(here.most, furthest - own);
    }
    // If most members lag, a few are ahead, so this is not an anomaly.
    if (!here.ranks.empty() && here.ranks.size() * 2 <= model.comms[c].members.size()) all.push_back(std::move(here));
  }
  std::stable_sort(all.begin(), all.end(), [](const Lagging& a, const Lagging& b) { return a.most > b.most; });
  if (all.size() > kMostOfAKind) all.resize(kMostOfAKind);
  for (const Lagging& l : all) {
    const std::string text =
        absl::StrCat(RanksText(l.ranks), l.ranks.size() == 1 ? " is " : " are up to ", CountText(l.most),
                     l.most == 1 ? " call" : " calls", " behind the others on ", CommText(model.bundle, l.comm));
    SetRuns(l.ranks, AddAnomaly(text, static_cast<int32_t>(l.comm), l.seq, facts)->mutable_ranks());
  }
}

void AddFailed(const ViewInput& in, ViewFacts* facts) {
  struct Failed {
    std::string text;
    std::vector<int32_t> ranks;
    bool collective = false;
  };
  std::map<std::pair<int32_t, int64_t>, Failed> failed;
  for (const Rank& rank : in.bundle.ranks) {
    for (const Op& op : rank.ops) {
      if (op.state != OpState::kFailed) continue;
      const int32_t comm =
          op.membership < rank.memberships.size() ? static_cast<int32_t>(rank.memberships[op.membership].comm) : -1;
      if (failed.size() >= kMostOfAKind && !failed.contains({comm, op.seq})) continue;
      auto& [text, ranks, collective] = failed[{comm, op.seq}];
      if (text.empty()) {
        collective = ring::IsCollective(op.kind) && op.seq >= 0;
        text = absl::StrCat(OpName(in.bundle, op), op.seq >= 0 ? absl::StrCat(" #", op.seq) : "",
                            comm < 0 ? "" : absl::StrCat(" on ", CommText(in.bundle, static_cast<uint32_t>(comm))),
                            " failed", op.result != 0 ? absl::StrCat(" with result ", op.result) : "");
      }
      if (ranks.empty() || ranks.back() != rank.rank) ranks.push_back(rank.rank);
    }
  }
  for (const auto& [place, what] : failed) {
    const auto& [text, ranks, collective] = what;
    SetRuns(ranks,
            AddAnomaly(absl::StrCat(RanksText(ranks), ": ", text), place.first, collective ? place.second : -1, facts)
                ->mutable_ranks());
  }
}

}  // namespace

void SetMismatches(const ViewInput& in, ViewFacts* facts) {
  for (const Mismatch& m : in.analysis.mismatches) {
    if (facts->mismatches_size() >= kMostMismatches) break;
    CallMismatch* out = facts->add_mismatches();
    out->set_comm(m.comm == kNoIndex ? -1 : static_cast<int32_t>(m.comm));
    out->set_sequence(m.seq < 0 ? -1 : m.seq);
    const char* argument = FindingFactsOf(m.kind).differs;
    out->set_field(argument == nullptr ? "call" : argument);
    out->set_point_to_point(m.sender >= 0);
    if (m.comm != kNoIndex) AddGroups(in, m, out);
  }
}

void SetAnomalies(const ViewInput& in, ViewFacts* facts) {
  for (int i = 0; i < in.verdict.findings_size(); ++i) {
    const Finding& finding = in.verdict.findings(i);
    Anomaly* out = AddAnomaly(Headline(finding), in.CommOf(finding.communicator()),
                              in.IsSend(finding.operation()) ? -1 : finding.sequence(), facts);
    SetRuns({finding.culprit_ranks().begin(), finding.culprit_ranks().end()}, out->mutable_ranks());
    out->set_finding(i);
  }
  if (!in.missing.empty()) {
    SetRuns(in.missing,
            AddAnomaly(absl::StrCat(RanksText(in.missing), " left no data"), -1, -1, facts)->mutable_ranks());
  }
  for (int i = 0; i < facts->mismatches_size() && i < kMostOfAKind; ++i) {
    const CallMismatch& m = facts->mismatches(i);
    if (m.comm() < 0) continue;
    std::string values;
    for (const CallMismatch::Group& g : m.groups()) {
      if (values.size() < 200) absl::StrAppend(&values, values.empty() ? "" : ", ", g.value());
    }
    SetRuns(OddRanks(m).List(),
            AddAnomaly(absl::StrCat("calls differ in ", m.field(), " at #", m.sequence(), " of ",
                                    CommText(in.bundle, static_cast<uint32_t>(m.comm())), ": ", values),
                       m.comm(), m.point_to_point() ? -1 : m.sequence(), facts)
                ->mutable_ranks());
  }
  AddLagging(in, facts);
  AddFailed(in, facts);
}

void SetUnknown(const ViewInput& in, ViewFacts* facts) {
  auto say = [&](const std::string& text) { facts->add_unknown(CleanUtf8(text, 600)); };
  if (!in.missing.empty()) {
    facts->set_missing_text(CleanUtf8(
        absl::StrCat("no data from ", RanksText(in.missing), " (", CountText(static_cast<int64_t>(in.missing.size())),
                     " of ", CountText(in.verdict.ranks_expected()), ")"),
        600));
  }
  std::vector<int32_t> lost, damaged, unaligned, no_gpu, partly, refused;
  for (size_t row = 0; row < in.bundle.ranks.size(); ++row) {
    const Rank& rank = in.bundle.ranks[row];
    const RankFacts& out = facts->ranks(static_cast<int>(row));
    if (rank.records_lost > 0) lost.push_back(rank.rank);
    if (rank.damaged) damaged.push_back(rank.rank);
    if (rank.not_loaded > 0) partly.push_back(rank.rank);
    if (out.clock_uncertainty_ns() < 0) unaligned.push_back(rank.rank);
    if (!out.gpu_recorded()) no_gpu.push_back(rank.rank);
    if (!rank.process.stack_refused.empty()) refused.push_back(rank.rank);
  }
  const size_t all = in.bundle.ranks.size();
  auto who = [&](const std::vector<int32_t>& ranks) {
    return ranks.size() == all ? std::string("all ranks") : RanksText(ranks);
  };
  if (!damaged.empty()) say(absl::StrCat("part of the data of ", who(damaged), " is unreadable"));
  if (!lost.empty()) say(absl::StrCat("older operations of ", who(lost), " were overwritten in their rings"));
  if (!no_gpu.empty()) say(absl::StrCat("what the GPUs of ", who(no_gpu), " did was not recorded"));
  if (!refused.empty()) say(absl::StrCat("stacks of ", who(refused), " could not be taken"));
  if (!unaligned.empty() && all > 1)
    say(absl::StrCat("the clocks of ", who(unaligned), " are not aligned; their times are wall-clock times"));
  if (!partly.empty())
    say(absl::StrCat("the analysis used only the newest operations of ", who(partly), "; the pictures show all"));
}

}  // namespace lockstep
