#include "collector/tools/top_view.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "collector/common/rank_set.h"

namespace lockstep {
namespace {

// More of a hostile or damaged answer is not shown.
constexpr size_t kMostLines = 4096;
constexpr size_t kMostExtras = 8;

std::string Cut(std::string text, size_t width) {
  if (text.size() <= width) return text;
  text.resize(width - 1);
  return text + '~';
}

std::string Padded(const std::string& text, size_t width) {
  std::string padded = Cut(text, width);
  padded.resize(width, ' ');
  return padded;
}

std::string RightPadded(const std::string& text, size_t width) {
  const std::string cut = Cut(text, width);
  return std::string(width - cut.size(), ' ') + cut;
}

Ranks SetOf(const RankSet& message) {
  absl::StatusOr<Ranks> ranks = Ranks::From(message);
  return ranks.ok() ? *std::move(ranks) : Ranks();
}

// "3 (1-2, 9)" or "0".
std::string CountAndRanks(const RankSet& message) {
  const Ranks ranks = SetOf(message);
  if (ranks.empty()) return "0";
  return absl::StrCat(ranks.size(), " (", ranks.Text(3), ")");
}

std::string JobName(const JobIdentity& job) {
  std::string name = PrintableAscii(job.job().empty() ? "(no name)" : job.job());
  if (!job.step().empty()) absl::StrAppend(&name, " step ", PrintableAscii(job.step()));
  if (job.restart_count() != 0) absl::StrAppend(&name, " restart ", job.restart_count());
  return name;
}

std::string Short(int64_t ns) {
  return ns <= 0 ? "-" : DurationText(ns);
}

// For columns: "0.4s", "14s", "1m13s", "2h05m", "12d".
std::string Tight(int64_t ns) {
  const int64_t seconds = ns / 1'000'000'000;
  if (ns <= 0) return "-";
  if (seconds < 10) return absl::StrFormat("%.1fs", static_cast<double>(ns) / 1e9);
  if (seconds < 60) return absl::StrFormat("%ds", seconds);
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  if (seconds < 100 * 3600) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%dd", seconds / 86400);
}

TopStyle StateStyle(const std::string& state) {
  if (state == "hung") return TopStyle::kBad;
  if (state == "late") return TopStyle::kLate;
  return state == "moving" ? TopStyle::kGood : TopStyle::kDim;
}

// tp_217 -> tp_*: communicators of one role differ in their numbers.
std::string RoleOf(const std::string& name) {
  std::string role;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (role.empty() || role.back() != '*') role.push_back('*');
    } else {
      role.push_back(c);
    }
  }
  return role;
}

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

// At most `width` columns a line, broken between words; further lines are below, indented by `indent`.
std::vector<std::string> Wrapped(const std::string& text, size_t width, size_t indent) {
  std::vector<std::string> lines;
  std::string rest = text;
  indent = std::min(indent, width / 2);
  while (rest.size() > width) {
    const size_t begin = rest.find_first_not_of(' ');
    size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || begin == std::string::npos || at <= std::max(begin, indent))
      at = width;  // one long word
    std::string line = rest.substr(0, at);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    lines.push_back(std::move(line));
    const size_t next = rest.find_first_not_of(' ', at);
    rest = next == std::string::npos ? "" : std::string(indent, ' ') + rest.substr(next);
  }
  if (!rest.empty() || lines.empty()) lines.push_back(std::move(rest));
  return lines;
}

size_t IndentOf(const std::string& text) {
  const size_t at = text.find_first_not_of(' ');
  return at == std::string::npos ? 0 : at;
}

// Where the text of a report's row begins ("  evidence 1 of 2 .."); 0: it is none.
size_t RowColumn(const std::string& line) {
  constexpr size_t kLabel = 2, kText = 11;
  if (IndentOf(line) != kLabel || line.size() <= kText || line[kText] == ' ') return 0;
  const size_t end = line.find(' ', kLabel);
  return end < kText && line.find_first_not_of(' ', end) == kText ? kText : 0;
}

// A report has lines for a wider window: its broken lines are joined, and broken again for this one.
std::vector<std::string> Reflowed(const std::vector<std::string>& text, size_t width) {
  constexpr size_t kContinued = 13;  // two more than a row's text
  std::vector<std::string> whole;
  bool headline = true;
  for (const std::string& line : text) {
    const std::string printable = PrintableAscii(line);
    const size_t indent = IndentOf(printable);
    headline &= RowColumn(printable) == 0 && (whole.empty() || indent == 2);
    if (!whole.empty() && !printable.empty() && ((headline && indent == 2) || indent >= kContinued)) {
      absl::StrAppend(&whole.back(), " ", printable.substr(indent));
    } else {
      whole.push_back(printable);
    }
  }
  std::vector<std::string> lines;
  for (const std::string& line : whole) {
    const size_t column = RowColumn(line);
    for (std::string& part : Wrapped(line, width, column != 0 ? column : IndentOf(line) + 2))
      lines.push_back(std::move(part));
  }
  return lines;
}

using Lines = std::vector<TopLine>;

void Add(Lines* lines, TopStyle style, std::string text) {
  if (lines->size() < kMostLines) lines->push_back({std::move(text), style});
}

// The widths follow the contents and the window: the rest goes to the operation.
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
  // In a narrow window whose turn it is counts more than the limit and the operation.
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
    if (const Ranks ranks = SetOf(comm.missing()); !ranks.empty()) missing = ranks.Text(2);
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
    Role& role = roles[comm.name().empty() ? "(no name)" : RoleOf(PrintableAscii(comm.name()))];
    const uint64_t alike = std::max<uint32_t>(1, comm.alike());
    role.communicators += alike;
    role.oldest = std::max(role.oldest, comm.age_ns());
    const Ranks missing = SetOf(comm.missing());
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
  Ranks troubled = SetOf(job.dead());
  troubled.Unite(SetOf(job.stopped()));
  troubled.Unite(SetOf(job.in_d()));
  for (const CommunicatorStatus& comm : job.communicators()) troubled.Unite(SetOf(comm.missing()));
  return troubled;
}

void AddHosts(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("HOST", 24), " ", RightPadded("RANKS", 6), " ", RightPadded("TROUBLED", 9), " ",
                   Padded("AGENT", 7), " WHICH"));
  for (const HostStatus& host : job.hosts()) {
    const Ranks ranks = SetOf(host.ranks());
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

void AddRails(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  struct Rail {
    size_t ranks = 0;
    Ranks troubled;
  };
  std::map<size_t, Rail> rails;
  for (const HostStatus& host : job.hosts()) {
    // No host has more GPUs than that; a longer set is no set of one host.
    size_t place = 0;
    for (const int32_t rank : SetOf(host.ranks()).List(64)) {
      Rail& rail = rails[place++];
      ++rail.ranks;
      if (troubled.Contains(rank)) rail.troubled.Add(rank);
    }
  }
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("RAIL", 6), " ", RightPadded("RANKS", 7), " ", RightPadded("TROUBLED", 9), " WHICH"));
  for (const auto& [place, rail] : rails) {
    Add(lines, rail.troubled.empty() ? TopStyle::kPlain : TopStyle::kLate,
        absl::StrCat(Padded(absl::StrCat(place), 6), " ", RightPadded(CountText(rail.ranks), 7), " ",
                     RightPadded(CountText(rail.troubled.size()), 9), " ",
                     rail.troubled.empty() ? "" : rail.troubled.Text(4)));
  }
}

void AddStages(const JobStatus& job, Lines* lines) {
  const Ranks troubled = Troubled(job);
  Add(lines, TopStyle::kHeading,
      absl::StrCat(Padded("STAGE", 6), " ", RightPadded("RANKS", 7), " ", RightPadded("TROUBLED", 9), " WHICH"));
  for (const StageStatus& stage : job.stages()) {
    const Ranks ranks = SetOf(stage.ranks());
    const Ranks here = ranks.Common(troubled);
    Add(lines, here.empty() ? TopStyle::kPlain : TopStyle::kLate,
        absl::StrCat(Padded(absl::StrCat(stage.stage()), 6), " ", RightPadded(CountText(ranks.size()), 7), " ",
                     RightPadded(CountText(here.size()), 9), " ", here.empty() ? "" : here.Text(4)));
  }
  if (job.stages().empty()) {
    Add(lines, TopStyle::kDim, "no communicator of this job is named as a pipeline (pp_0, PIPELINE...):");
    Add(lines, TopStyle::kDim, "its stages are not known");
  }
}

template <typename Texts>
void AddExtras(const char* title, const Texts& texts, TopStyle style, Lines* lines) {
  if (texts.empty()) return;
  Add(lines, TopStyle::kHeading, title);
  size_t shown = 0;
  for (const std::string& text : texts) {
    if (shown++ == kMostExtras) {
      Add(lines, TopStyle::kDim, absl::StrCat("  and ", texts.size() - static_cast<int>(kMostExtras), " more"));
      break;
    }
    Add(lines, style, "  " + PrintableAscii(text));
  }
}

Lines JobHead(const JobStatus& job, int64_t now_real_ns) {
  Lines lines;
  const std::string state = PrintableAscii(job.state());
  std::string line = absl::StrCat(state.empty() ? "state not known" : state);
  if (job.since_real_ns() > 0 && now_real_ns > job.since_real_ns()) {
    absl::StrAppend(&line, " for ", DurationText(now_real_ns - job.since_real_ns()));
  }
  if (job.limit_ns() > 0) absl::StrAppend(&line, "   learned limit ", DurationText(job.limit_ns()));
  if (job.started_real_ns() > 0 && now_real_ns > job.started_real_ns()) {
    absl::StrAppend(&line, "   up ", DurationText(now_real_ns - job.started_real_ns()));
  }
  Add(&lines, StateStyle(job.state()), std::move(line));
  if (job.restarts_inside() != 0) {
    line = absl::StrCat("restarted inside its processes ",
                        job.restarts_inside() == 1 ? "once" : absl::StrCat(CountText(job.restarts_inside()), " times"));
    if (job.restarted_real_ns() > 0 && now_real_ns > job.restarted_real_ns()) {
      absl::StrAppend(&line, job.restarts_inside() == 1 ? ", " : ", last ",
                      DurationText(now_real_ns - job.restarted_real_ns()), " ago");
    }
    Add(&lines, TopStyle::kPlain, std::move(line));
  }
  line = absl::StrCat("ranks ", CountText(job.ranks()));
  if (job.ranks_expected() != 0) absl::StrAppend(&line, " of ", CountText(job.ranks_expected()));
  const Ranks dead = SetOf(job.dead());
  absl::StrAppend(&line, "   alive ", CountText(job.ranks() - std::min<uint64_t>(job.ranks(), dead.size())), "   dead ",
                  CountAndRanks(job.dead()), "   stopped ", CountAndRanks(job.stopped()), "   in D ",
                  CountAndRanks(job.in_d()));
  const bool trouble = job.dead().first_size() + job.stopped().first_size() + job.in_d().first_size() != 0;
  Add(&lines, trouble ? TopStyle::kLate : TopStyle::kPlain, std::move(line));
  line = absl::StrCat("agents ", CountText(job.agents()), job.agents_silent() != 0 ? " (" : "",
                      job.agents_silent() != 0 ? CountText(job.agents_silent()) + " silent)" : "", "   GPU marks ",
                      job.mode().empty() ? "not known" : PrintableAscii(job.mode()));
  if (!job.versions().empty()) absl::StrAppend(&line, "   ", PrintableAscii(job.versions()));
  Add(&lines, job.agents_silent() != 0 ? TopStyle::kLate : TopStyle::kPlain, std::move(line));
  line = absl::StrCat("cost: ", job.call_ns() > 0 ? absl::StrFormat("%.0f ns a call   ", job.call_ns()) : "",
                      "lost records ", CountText(job.records_lost()));
  if (job.ring_bytes() != 0)
    absl::StrAppend(&line, absl::StrFormat("   rings %.0f MiB", static_cast<double>(job.ring_bytes()) / 1048576.0));
  if (job.agent_cpu_share() > 0)
    absl::StrAppend(&line, absl::StrFormat("   agent CPU %.1f %%", 100 * job.agent_cpu_share()));
  absl::StrAppend(&line, "   heartbeat lag ", Short(job.heartbeat_lag_ns()));
  Add(&lines, TopStyle::kDim, std::move(line));
  return lines;
}

Lines JobBody(const JobStatus& job, TopGroup group, size_t width) {
  Lines lines;
  switch (group) {
    case TopGroup::kCommunicators:
      AddCommunicators(job, width, &lines);
      break;
    case TopGroup::kRoles:
      AddRoles(job, &lines);
      break;
    case TopGroup::kHosts:
      AddHosts(job, &lines);
      break;
    case TopGroup::kRails:
      AddRails(job, &lines);
      break;
    case TopGroup::kStages:
      AddStages(job, &lines);
      break;
  }
  AddExtras("LATE ARRIVALS, last ten minutes", job.late_arrivals(), TopStyle::kPlain, &lines);
  AddExtras("RANKS DISAGREE, without a hang so far", job.disagreements(), TopStyle::kLate, &lines);
  AddExtras("LINKS BELOW THEIR PEERS, in the last incident", job.slow_links(), TopStyle::kLate, &lines);
  AddExtras("HARDWARE", job.hardware(), TopStyle::kBad, &lines);
  AddExtras("BLIND", job.blind(), TopStyle::kLate, &lines);
  if (!job.last_incident().path().empty()) {
    Add(&lines, TopStyle::kHeading, "LAST INCIDENT (w shows it)");
    Add(&lines, TopStyle::kBad, "  " + PrintableAscii(job.last_incident().path()));
  }
  return lines;
}

Lines Help() {
  Lines lines;
  Add(&lines, TopStyle::kHeading, "KEYS");
  for (const char* text : {
           "w        why: the last verdict of this job",
           "s        stacks of the ranks that the others wait for, from the last incident",
           "S        the same, taken now (an operator's key; a reader may not stop processes)",
           "d        take a dump now (needs an operator's key)",
           "g        group: communicators, roles, hosts, rails, pipeline stages",
           "f        find a rank: where it is and what it does",
           "TAB      the next job",
           "j k      down and up, also with the arrows and page keys",
           "ESC      back to the list",
           "q        quit",
       }) {
    Add(&lines, TopStyle::kPlain, text);
  }
  return lines;
}

std::string TitleOf(const std::vector<JobStatus>& jobs, const TopState& state, size_t width) {
  std::string left = "lockstep top";
  if (!jobs.empty()) {
    const size_t at = std::min(state.job, jobs.size() - 1);
    absl::StrAppend(&left, "  ", JobName(jobs[at].job()));
    if (jobs.size() > 1) absl::StrAppend(&left, "  [", at + 1, "/", jobs.size(), "]");
  }
  const std::string right =
      state.silent_ns > 0 ? "NO ANSWER for " + DurationText(state.silent_ns) : PrintableAscii(state.endpoint);
  if (left.size() + right.size() + 2 > width) return Padded(left, width);
  return left + std::string(width - left.size() - right.size(), ' ') + right;
}

}  // namespace

const char* TopGroupName(TopGroup group) {
  switch (group) {
    case TopGroup::kCommunicators:
      return "communicators";
    case TopGroup::kRoles:
      return "roles";
    case TopGroup::kHosts:
      return "hosts";
    case TopGroup::kRails:
      return "rails";
    case TopGroup::kStages:
      return "stages";
  }
  return "";
}

std::vector<TopLine> RenderTop(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, size_t height) {
  width = std::max<size_t>(width, 40);
  height = std::max<size_t>(height, 10);
  Lines lines;
  Add(&lines, state.silent_ns > 0 ? TopStyle::kBad : TopStyle::kTitle, TitleOf(jobs, state, width));
  Lines body;
  if (state.help) {
    for (const TopLine& line : Help()) {
      for (std::string& text : Wrapped(line.text, width, 9)) Add(&body, line.style, std::move(text));
    }
  } else if (!state.text.empty()) {
    Add(&body, TopStyle::kHeading, PrintableAscii(state.text_title));
    std::vector<std::string> texts;
    if (state.report) {
      texts = Reflowed(state.text, width);
    } else {
      for (const std::string& line : state.text) {
        const std::string printable = PrintableAscii(line);
        for (std::string& part : Wrapped(printable, width, IndentOf(printable) + 2)) texts.push_back(std::move(part));
      }
    }
    for (std::string& text : texts) Add(&body, TopStyle::kPlain, std::move(text));
  } else if (jobs.empty()) {
    Add(&body, TopStyle::kDim, "No job is known to the collector.");
    Add(&body, TopStyle::kDim,
        "Agents report jobs that load liblockstep.so; `lockstep doctor` explains why one may not.");
  } else {
    const JobStatus& job = jobs[std::min(state.job, jobs.size() - 1)];
    for (const TopLine& line : JobHead(job, state.now_real_ns)) {
      for (std::string& text : Wrapped(line.text, width, 2)) Add(&lines, line.style, std::move(text));
    }
    Add(&lines, TopStyle::kPlain, "");
    for (const TopLine& line : JobBody(job, state.group, width)) {
      // Sentences are indented, columns are not.
      if (IndentOf(line.text) == 0) {
        body.push_back(line);
      } else {
        for (std::string& text : Wrapped(line.text, width, IndentOf(line.text) + 2))
          Add(&body, line.style, std::move(text));
      }
    }
  }
  // However narrow: something of the list is to be seen.
  if (lines.size() > height - 3) lines.resize(height - 3);
  const size_t room = height - 1 - lines.size();
  const size_t from = body.size() > room ? std::min(state.scroll, body.size() - room) : 0;
  for (size_t i = from; i < body.size() && i < from + room; ++i) lines.push_back(std::move(body[i]));
  lines.resize(height - 1);
  std::string last = PrintableAscii(state.prompt);
  if (last.empty()) {
    last =
        absl::StrCat("w why s/S stacks d dump g group: ", TopGroupName(state.group), " f find TAB job ? help q quit");
  }
  lines.push_back({std::move(last), TopStyle::kDim});
  for (TopLine& line : lines) line.text = Cut(std::move(line.text), width);
  return lines;
}

std::string TopText(const std::vector<JobStatus>& jobs, int64_t now_real_ns) {
  constexpr size_t kWide = 140;
  if (jobs.empty()) return "No job is known to the collector.\n";
  std::string text;
  for (const JobStatus& job : jobs) {
    if (!text.empty()) text += '\n';
    absl::StrAppend(&text, "job ", JobName(job.job()), "\n");
    for (const Lines& part : {JobHead(job, now_real_ns), JobBody(job, TopGroup::kCommunicators, kWide)}) {
      for (const TopLine& line : part) {
        std::string plain = line.text;
        while (!plain.empty() && plain.back() == ' ') plain.pop_back();
        absl::StrAppend(&text, plain, "\n");
      }
    }
  }
  return text;
}

}  // namespace lockstep
