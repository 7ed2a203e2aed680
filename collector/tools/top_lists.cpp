#include "collector/tools/top_lists.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/model/pipeline_name.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "collector/tools/top_text.h"

namespace lockstep::top {
namespace {

constexpr size_t kMostLines = 4096;

std::string CommName(const CommunicatorStatus& comm) {
  std::string name = PrintableAscii(comm.name());
  if (name.empty()) name = absl::StrCat(absl::Hex(comm.id(), absl::kZeroPad16));
  if (comm.alike() > 1) absl::StrAppend(&name, " x", comm.alike());
  return name;
}

TopStyle CommStyle(const CommunicatorStatus& comm) {
  if (comm.standing() == "root") return TopStyle::kBad;
  return comm.limit_ns() > 0 && comm.age_ns() > comm.limit_ns() && comm.missing().first_size() != 0 ? TopStyle::kLate
                                                                                                    : TopStyle::kPlain;
}

// The widths depend on the contents and the window; the operation gets the remaining space.
void AddCommunicators(const JobStatus& job, size_t width, Lines* lines) {
  constexpr size_t kMissing = 18;  // "[victim of tp_217]"
  const size_t longest_name = width >= 110 ? 24 : 16;
  size_t name = 12, in = 2, started = 0;
  const auto in_text = [](const CommunicatorStatus& comm) { return absl::StrCat(comm.in(), "/", comm.size()); };
  for (const CommunicatorStatus& comm : job.communicators()) {
    name = std::min(longest_name, std::max(name, CommName(comm).size()));
    in = std::min<size_t>(11, std::max(in, in_text(comm).size()));
    if (comm.has_started())
      started = std::min<size_t>(7, std::max({started, size_t{3}, absl::StrCat(comm.started()).size()}));
  }
  // In a narrow window, the missing ranks are more important than the limit and the operation.
  const bool narrow = width < 72, narrowest = width < 60;
  if (narrowest) started = 0;
  const size_t fixed =
      name + 1 + in + 1 + 1 + 6 + 1 + (narrow ? 0 : 6 + 1) + kMissing + (started > 0 ? started + 1 : 0);
  const size_t doing = narrowest ? 0 : std::max<size_t>(12, width > fixed ? width - fixed : 12);
  const auto doing_text = [doing](const std::string& text) { return doing == 0 ? "" : Padded(text, doing) + " "; };
  const auto limit_text = [narrow](const std::string& text) { return narrow ? "" : RightPadded(text, 6) + " "; };
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("COMMUNICATOR", name), " ", RightPadded("IN", in), " ",
                   started > 0 ? RightPadded("GPU", started) + " " : "", doing_text("IN FLIGHT"), RightPadded("AGE", 6),
                   " ", limit_text("LIMIT"), "MISSING"));
  for (const CommunicatorStatus& comm : job.communicators()) {
    std::string operation = PrintableAscii(comm.doing());
    if (operation.empty()) operation = absl::StrCat("#", CountText(comm.issued_max()));
    std::string missing;
    if (const Ranks ranks = Ranks::FromOrNone(comm.missing()); !ranks.empty()) missing = ranks.Text(2);
    if (!comm.standing().empty()) {
      absl::StrAppend(&missing, missing.empty() ? "" : " ", "[", PrintableAscii(comm.standing()), "]");
    }
    const std::string gpu =
        started == 0 ? "" : RightPadded(comm.has_started() ? absl::StrCat(comm.started()) : "-", started) + " ";
    Add(lines, CommStyle(comm),
        absl::StrCat(Padded(CommName(comm), name), " ", RightPadded(in_text(comm), in), " ", gpu, doing_text(operation),
                     RightPadded(Tight(comm.age_ns()), 6), " ", limit_text(Tight(comm.limit_ns())), missing));
  }
  uint64_t shown = 0;
  for (const CommunicatorStatus& comm : job.communicators()) shown += std::max<uint32_t>(1, comm.alike());
  if (job.communicators_total() > shown) {
    Add(lines, TopStyle::kDim,
        absl::StrCat("and ", CountText(job.communicators_total() - shown), " more communicators, newer"));
  }
  if (job.communicators().empty()) Add(lines, TopStyle::kDim, "no communicator is known yet");
}

void AddRoles(const JobStatus& job, Lines* lines) {
  struct Role {
    uint64_t communicators = 0, late = 0;
    int64_t oldest = 0;
    Ranks missing;
  };
  std::map<std::string, Role> roles;
  for (const CommunicatorStatus& comm : job.communicators()) {
    Role& role = roles[comm.name().empty() ? "(no name)" : NamePattern(PrintableAscii(comm.name()))];
    const uint64_t alike = std::max<uint32_t>(1, comm.alike());
    role.communicators += alike;
    role.oldest = std::max(role.oldest, comm.age_ns());
    const Ranks missing = Ranks::FromOrNone(comm.missing());
    if (!missing.empty()) role.late += alike;
    role.missing.Unite(missing);
  }
  std::vector<std::pair<std::string, Role>> sorted(roles.begin(), roles.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.oldest > b.second.oldest; });
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("ROLE", 24), " ", RightPadded("COMMS", 8), " ", RightPadded("INCOMPLETE", 10), " ",
                   RightPadded("OLDEST", 6), " MISSING"));
  for (const auto& [name, role] : sorted) {
    Add(lines, role.late != 0 ? TopStyle::kLate : TopStyle::kPlain,
        absl::StrCat(Padded(name, 24), " ", RightPadded(CountText(role.communicators), 8), " ",
                     RightPadded(CountText(role.late), 10), " ", RightPadded(Tight(role.oldest), 6), " ",
                     role.missing.empty() ? "" : role.missing.Text(3)));
  }
}

Ranks Troubled(const JobStatus& job) {
  Ranks troubled = Ranks::FromOrNone(job.dead());
  troubled.Unite(Ranks::FromOrNone(job.stopped()));
  troubled.Unite(Ranks::FromOrNone(job.in_d()));
  for (const CommunicatorStatus& comm : job.communicators()) troubled.Unite(Ranks::FromOrNone(comm.missing()));
  return troubled;
}

void AddHosts(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("HOST", 24), " ", RightPadded("RANKS", 6), " ", RightPadded("TROUBLED", 9), " ",
                   Padded("AGENT", 7), " TROUBLED RANKS"));
  for (const HostStatus& host : job.hosts()) {
    const Ranks ranks = Ranks::FromOrNone(host.ranks());
    const Ranks here = ranks.Common(troubled);
    Add(lines,
        host.silent()          ? TopStyle::kBad
        : host.troubled() != 0 ? TopStyle::kLate
                               : TopStyle::kPlain,
        absl::StrCat(Padded(PrintableAscii(host.host()), 24), " ", RightPadded(absl::StrCat(ranks.size()), 6), " ",
                     RightPadded(absl::StrCat(host.troubled()), 9), " ", Padded(host.silent() ? "SILENT" : "ok", 7),
                     " ", here.empty() ? "" : here.Text(4)));
  }
  if (job.hosts_total() > static_cast<uint32_t>(job.hosts_size())) {
    Add(lines, TopStyle::kDim,
        absl::StrCat("and ", CountText(job.hosts_total() - static_cast<uint32_t>(job.hosts_size())), " more hosts"));
  }
}

struct Part {
  uint64_t ranks = 0;
  Ranks troubled;
};

void AddParts(const char* title, const std::map<uint64_t, Part>& parts, Lines* lines) {
  const auto row = [](const std::string& number, const std::string& ranks, const std::string& troubled) {
    return absl::StrCat(Padded(number, 6), " ", RightPadded(ranks, 7), " ", RightPadded(troubled, 9), " ");
  };
  Add(lines, TopStyle::kHeading, row(title, "RANKS", "TROUBLED") + "TROUBLED RANKS");
  for (const auto& [number, part] : parts) {
    const bool none = part.troubled.empty();
    Add(lines, none ? TopStyle::kPlain : TopStyle::kLate,
        row(absl::StrCat(number), CountText(part.ranks), CountText(part.troubled.size())) +
            (none ? "" : part.troubled.Text(4)));
  }
}

void AddRails(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  std::map<uint64_t, Part> rails;
  for (const HostStatus& host : job.hosts()) {
    // No host has more than 64 GPUs, so the ranks after these are not on one host.
    uint64_t place = 0;
    for (const int32_t rank : Ranks::FromOrNone(host.ranks()).List(64)) {
      Part& rail = rails[place++];
      ++rail.ranks;
      if (troubled.Contains(rank)) rail.troubled.Add(rank);
    }
  }
  AddParts("RAIL", rails, lines);
}

void AddStages(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  std::map<uint64_t, Part> stages;
  for (const StageStatus& stage : job.stages()) {
    const Ranks ranks = Ranks::FromOrNone(stage.ranks());
    stages[stage.stage()] = {ranks.size(), ranks.Common(troubled)};
  }
  AddParts("STAGE", stages, lines);
  if (stages.empty()) {
    Add(lines, TopStyle::kDim, "no communicator of this job has a pipeline name (pp_0, PIPELINE...),");
    Add(lines, TopStyle::kDim, "so its stages are unknown");
  }
}

// Returns the late communicator that explains the job's state: the root, otherwise the oldest. Null if none is late.
const CommunicatorStatus* Oldest(const JobStatus& job) {
  const CommunicatorStatus* oldest = nullptr;
  for (const CommunicatorStatus& comm : job.communicators()) {
    if (CommStyle(comm) == TopStyle::kPlain) continue;
    if (oldest == nullptr || (comm.standing() == "root") > (oldest->standing() == "root") ||
        (comm.standing() == oldest->standing() && comm.age_ns() > oldest->age_ns()))
      oldest = &comm;
  }
  return oldest;
}

// What is known about one rank.
struct RankRow {
  int32_t rank = 0;
  std::string host;
  const char* state = "";
  int trouble = 0;  // a higher number is worse
  std::string missing_from;
  int64_t age_ns = 0;
};

std::vector<RankRow> RankRows(const JobStatus& job) {
  std::map<int32_t, RankRow> rows;
  const auto row = [&rows](int32_t rank) {
    RankRow* found = &rows[rank];
    found->rank = rank;
    return found;
  };
  for (const HostStatus& host : job.hosts()) {
    for (const int32_t rank : Ranks::FromOrNone(host.ranks()).List(kMostLines - std::min(kMostLines, rows.size()))) {
      RankRow* of = row(rank);
      of->host = PrintableAscii(host.host());
      if (host.silent()) of->state = "agent silent", of->trouble = 1;
    }
  }
  const auto mark = [&row](const RankSet& ranks, const char* state, int trouble) {
    for (const int32_t rank : Ranks::FromOrNone(ranks).List(kMostLines)) {
      RankRow* of = row(rank);
      if (of->trouble < trouble) of->state = state, of->trouble = trouble;
    }
  };
  mark(job.in_d(), "in state D", 3);
  mark(job.stopped(), "stopped", 4);
  mark(job.dead(), "dead", 5);
  for (const CommunicatorStatus& comm : job.communicators()) {
    for (const int32_t rank : Ranks::FromOrNone(comm.missing()).List(kMostLines)) {
      if (rows.size() >= 2 * kMostLines) break;
      RankRow* of = row(rank);
      if (of->trouble == 0) of->trouble = 2;
      if (comm.age_ns() < of->age_ns) continue;
      of->age_ns = comm.age_ns();
      of->missing_from = CommName(comm);
    }
  }
  std::vector<RankRow> sorted;
  sorted.reserve(rows.size());
  for (auto& [rank, found] : rows) sorted.push_back(std::move(found));
  return sorted;
}

void AddRanks(const JobStatus& job, TopOrder order, Lines* lines) {
  std::vector<RankRow> rows = RankRows(job);
  std::stable_sort(rows.begin(), rows.end(), [order](const RankRow& a, const RankRow& b) {
    if (order == TopOrder::kHost) return a.host < b.host;
    if (order == TopOrder::kRank) return a.rank < b.rank;
    return std::make_tuple(a.trouble, a.age_ns) > std::make_tuple(b.trouble, b.age_ns);
  });
  Add(lines, TopStyle::kHeading,
      absl::StrCat(RightPadded("RANK", 7), " ", Padded("HOST", 24), " ", Padded("STATE", 12), " ",
                   RightPadded("FOR", 6), " MISSING FROM"));
  for (const RankRow& row : rows) {
    Add(lines,
        row.trouble >= 4  ? TopStyle::kBad
        : row.trouble > 0 ? TopStyle::kLate
                          : TopStyle::kPlain,
        absl::StrCat(RightPadded(absl::StrCat(row.rank), 7), " ", Padded(row.host.empty() ? "-" : row.host, 24), " ",
                     Padded(row.state, 12), " ", RightPadded(Tight(row.age_ns), 6), " ", row.missing_from));
  }
  if (job.ranks() > rows.size())
    Add(lines, TopStyle::kDim,
        absl::StrCat("and ", CountText(job.ranks() - rows.size()), " more ranks, without trouble"));
}

}  // namespace

void Add(Lines* lines, TopStyle style, std::string text) {
  if (lines->size() < kMostLines) lines->push_back({std::move(text), style});
}

TopStyle StateStyle(const std::string& state) {
  if (state == "hung") return TopStyle::kBad;
  if (state == "late") return TopStyle::kLate;
  return state == "moving" ? TopStyle::kGood : TopStyle::kDim;
}

std::optional<Ranks> SlowestRanks(const JobStatus& job) {
  if (const CommunicatorStatus* oldest = Oldest(job); oldest != nullptr) {
    Ranks missing = Ranks::FromOrNone(oldest->missing());
    if (!missing.empty()) return missing;
  }
  const Verdict& verdict = job.last_incident().verdict();
  if (job.state() != "moving" || verdict.verdict() != VERDICT_SLOW || verdict.findings().empty()) return std::nullopt;
  Ranks slow;
  for (const int32_t rank : verdict.findings(0).culprit_ranks()) slow.Add(rank);
  return slow.empty() ? std::nullopt : std::optional<Ranks>(std::move(slow));
}

std::string SlowestText(const JobStatus& job) {
  const std::optional<Ranks> slowest = SlowestRanks(job);
  const CommunicatorStatus* oldest = Oldest(job);
  const std::string where = oldest == nullptr ? "" : " in " + CommName(*oldest);
  if (!slowest.has_value()) return "unknown" + where;
  return slowest->Text(2) + (oldest == nullptr ? " (from the last verdict)" : where);
}

std::string RateText(double calls_a_second) {
  return calls_a_second < 0 ? "unknown" : absl::StrFormat("%.*f", calls_a_second < 10 ? 1 : 0, calls_a_second);
}

void AddJobs(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, Lines* lines) {
  size_t name = 12;
  for (const JobStatus& job : jobs) name = std::min(width / 3, std::max(name, JobName(job.job()).size()));
  Add(lines, TopStyle::kHeading,
      absl::StrCat("  ", Padded("JOB", name), " ", Padded("STATE", 7), " ", RightPadded("FOR", 6), " ",
                   RightPadded("RANKS", 11), " ", RightPadded("CALLS/S", 7), " SLOWEST RANK"));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const JobStatus& job = jobs[i];
    const int64_t since = job.since_real_ns() > 0 ? state.now_real_ns - job.since_real_ns() : 0;
    const double rate = i < state.calls_a_second.size() ? state.calls_a_second[i] : -1;
    Add(lines, StateStyle(job.state()),
        absl::StrCat(i == state.job ? "> " : "  ", Padded(JobName(job.job()), name), " ",
                     Padded(PrintableAscii(job.state()), 7), " ", RightPadded(Tight(since), 6), " ",
                     RightPadded(absl::StrCat(CountText(job.ranks()), "/", CountText(job.ranks_expected())), 11), " ",
                     RightPadded(RateText(rate), 7), " ", SlowestText(job)));
    AddVerdict(job, lines);
  }
}

void AddVerdict(const JobStatus& job, Lines* lines) {
  const std::string& verdict = job.last_incident().text();
  if (!verdict.empty())
    Add(lines, job.state() == "hung" ? TopStyle::kBad : TopStyle::kDim,
        "    " + PrintableAscii(verdict.substr(0, verdict.find('\n'))));
}

void AddGroup(const JobStatus& job, const TopState& state, size_t width, Lines* lines) {
  switch (state.group) {
    case TopGroup::kCommunicators: return AddCommunicators(job, width, lines);
    case TopGroup::kRanks: return AddRanks(job, state.order, lines);
    case TopGroup::kRoles: return AddRoles(job, lines);
    case TopGroup::kHosts: return AddHosts(job, lines);
    case TopGroup::kRails: return AddRails(job, lines);
    case TopGroup::kStages: return AddStages(job, lines);
  }
}

}  // namespace lockstep::top
