#include "collector/tools/top_view.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/model/rank_set.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/rank_text.h"
#include "analyzer/util/time_text.h"
#include "collector/tools/top_lists.h"
#include "collector/tools/top_text.h"

namespace lockstep {
namespace {

using namespace top;  // NOLINT: the parts of this screen

constexpr size_t kMostExtras = 8;
constexpr size_t kMostSlowest = 256;  // in the JSON output

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

Lines JobHead(const JobStatus& job, const TopState& state, size_t at) {
  const int64_t now_real_ns = state.now_real_ns;
  Lines lines;
  std::string line = job.state().empty() ? "state unknown" : PrintableAscii(job.state());
  if (job.since_real_ns() > 0 && now_real_ns > job.since_real_ns()) {
    absl::StrAppend(&line, " for ", DurationText(now_real_ns - job.since_real_ns()));
  }
  if (job.limit_ns() > 0) absl::StrAppend(&line, "   learned limit ", DurationText(job.limit_ns()));
  if (job.started_real_ns() > 0 && now_real_ns > job.started_real_ns()) {
    absl::StrAppend(&line, "   up ", DurationText(now_real_ns - job.started_real_ns()));
  }
  Add(&lines, StateStyle(job.state()), std::move(line));
  Add(&lines, TopStyle::kPlain,
      absl::StrCat("calls/s ", RateText(at < state.calls_a_second.size() ? state.calls_a_second[at] : -1),
                   "   slowest rank ", SlowestText(job)));
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
  const Ranks dead = Ranks::FromOrNone(job.dead());
  absl::StrAppend(&line, "   alive ", CountText(job.ranks() - std::min<uint64_t>(job.ranks(), dead.size())), "   dead ",
                  CountAndRanks(job.dead()), "   stopped ", CountAndRanks(job.stopped()), "   in D ",
                  CountAndRanks(job.in_d()));
  const bool trouble = job.dead().first_size() + job.stopped().first_size() + job.in_d().first_size() != 0;
  Add(&lines, trouble ? TopStyle::kLate : TopStyle::kPlain, std::move(line));
  line = absl::StrCat("agents ", CountText(job.agents()), job.agents_silent() != 0 ? " (" : "",
                      job.agents_silent() != 0 ? CountText(job.agents_silent()) + " silent)" : "", "   GPU markers ",
                      job.mode().empty() ? "unknown" : PrintableAscii(job.mode()));
  if (!job.versions().empty()) absl::StrAppend(&line, "   ", PrintableAscii(job.versions()));
  Add(&lines, job.agents_silent() != 0 ? TopStyle::kLate : TopStyle::kPlain, std::move(line));
  line = absl::StrCat("cost: ", job.call_ns() > 0 ? absl::StrFormat("%.0f ns per call   ", job.call_ns()) : "",
                      "lost records ", CountText(job.records_lost()));
  if (job.ring_bytes() != 0)
    absl::StrAppend(&line, absl::StrFormat("   rings %.0f MiB", static_cast<double>(job.ring_bytes()) / 1048576.0));
  if (job.agent_cpu_share() > 0)
    absl::StrAppend(&line, absl::StrFormat("   agent CPU %.1f %%", 100 * job.agent_cpu_share()));
  absl::StrAppend(&line, "   heartbeat lag ", job.heartbeat_lag_ns() <= 0 ? "-" : DurationText(job.heartbeat_lag_ns()));
  Add(&lines, TopStyle::kDim, std::move(line));
  return lines;
}

Lines JobBody(const JobStatus& job, const TopState& state, size_t width) {
  Lines lines;
  AddGroup(job, state, width, &lines);
  AddExtras("LATE ARRIVALS, last ten minutes", job.late_arrivals(), TopStyle::kPlain, &lines);
  AddExtras("RANKS DISAGREE, but nothing hangs so far", job.disagreements(), TopStyle::kLate, &lines);
  AddExtras("LINKS SLOWER THAN THEIR PEERS in the last incident", job.slow_links(), TopStyle::kLate, &lines);
  AddExtras("HARDWARE", job.hardware(), TopStyle::kBad, &lines);
  AddExtras("BLIND", job.blind(), TopStyle::kLate, &lines);
  if (!job.last_incident().path().empty()) {
    Add(&lines, TopStyle::kHeading, "LAST INCIDENT (w shows it)");
    AddVerdict(job, &lines);
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
           "S        the same, taken now (needs an operator key, because it stops processes for a moment)",
           "d        request a dump now (needs an operator key)",
           "g        group: communicators, ranks, roles, hosts, rails, pipeline stages",
           "o        sort the ranks: trouble first, by rank, by host",
           "f        find a rank: its host, its state and its missing calls",
           "ENTER    open the selected job",
           "TAB      the next job",
           "j k      down and up; arrow and page keys also work",
           "ESC      back: to the list, then to all jobs",
           "q        quit",
       }) {
    Add(&lines, TopStyle::kPlain, text);
  }
  return lines;
}

bool AllJobs(const std::vector<JobStatus>& jobs, const TopState& state) { return state.all_jobs && jobs.size() > 1; }

std::string TitleOf(const std::vector<JobStatus>& jobs, const TopState& state, size_t width) {
  std::string left = "lockstep top";
  if (AllJobs(jobs, state)) {
    absl::StrAppend(&left, "  ", jobs.size(), " jobs");
  } else if (!jobs.empty()) {
    const size_t at = std::min(state.job, jobs.size() - 1);
    absl::StrAppend(&left, "  ", JobName(jobs[at].job()));
    if (jobs.size() > 1) absl::StrAppend(&left, "  [", at + 1, "/", jobs.size(), "]");
  }
  const std::string right =
      state.silent_ns > 0 ? "NO RESPONSE for " + DurationText(state.silent_ns) : PrintableAscii(state.endpoint);
  if (left.size() + right.size() + 2 > width) return Padded(left, width);
  return left + std::string(width - left.size() - right.size(), ' ') + right;
}

const char* TopGroupName(TopGroup group) {
  switch (group) {
    case TopGroup::kCommunicators: return "communicators";
    case TopGroup::kRanks: return "ranks";
    case TopGroup::kRoles: return "roles";
    case TopGroup::kHosts: return "hosts";
    case TopGroup::kRails: return "rails";
    case TopGroup::kStages: return "stages";
  }
  return "";
}

}  // namespace

std::vector<TopLine> RenderTop(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, size_t height,
                               size_t* first) {
  width = std::max<size_t>(width, 40);
  height = std::max<size_t>(height, 10);
  Lines lines;
  Add(&lines, state.silent_ns > 0 ? TopStyle::kBad : TopStyle::kTitle, TitleOf(jobs, state, width));
  Lines body;
  size_t scroll = state.scroll;
  if (state.help) {
    for (const TopLine& line : Help()) {
      for (std::string& text : Wrapped(line.text, width, 9)) Add(&body, line.style, std::move(text));
    }
  } else if (!state.text.empty()) {
    Add(&body, TopStyle::kHeading, PrintableAscii(state.text_title));
    for (const std::string& line : state.text) {
      const std::string printable = PrintableAscii(line);
      for (std::string& part : Wrapped(printable, width, IndentOf(printable) + 2))
        Add(&body, TopStyle::kPlain, std::move(part));
    }
  } else if (jobs.empty()) {
    Add(&body, TopStyle::kDim, "The collector knows no job.");
    Add(&body, TopStyle::kDim,
        "Agents report jobs that load liblockstep.so. `lockstep doctor` explains why a job may not.");
  } else if (AllJobs(jobs, state)) {
    AddJobs(jobs, state, width, &body);
    const auto marked = std::find_if(body.begin(), body.end(), [](const TopLine& line) { return line.text[0] == '>'; });
    // Keeps the selected job in the middle of the window.
    scroll = static_cast<size_t>(marked - body.begin());
    scroll -= std::min(scroll, height / 2);
  } else {
    const size_t at = std::min(state.job, jobs.size() - 1);
    const JobStatus& job = jobs[at];
    for (const TopLine& line : JobHead(job, state, at)) {
      for (std::string& text : Wrapped(line.text, width, 2)) Add(&lines, line.style, std::move(text));
    }
    Add(&lines, TopStyle::kPlain, "");
    for (const TopLine& line : JobBody(job, state, width)) {
      // Sentences are indented, columns are not.
      if (IndentOf(line.text) == 0) {
        body.push_back(line);
      } else {
        for (std::string& text : Wrapped(line.text, width, IndentOf(line.text) + 2))
          Add(&body, line.style, std::move(text));
      }
    }
  }
  // A part of the list stays visible even in a narrow window.
  if (lines.size() > height - 3) lines.resize(height - 3);
  const size_t room = height - 1 - lines.size();
  const size_t from = body.size() > room ? std::min(scroll, body.size() - room) : 0;
  if (first != nullptr) *first = from;
  for (size_t i = from; i < body.size() && i < from + room; ++i) lines.push_back(std::move(body[i]));
  lines.resize(height - 1);
  std::string last = PrintableAscii(state.prompt);
  if (last.empty()) {
    last = AllJobs(jobs, state) && state.text.empty()
               ? "ENTER open the selected job  w why  s/S stacks  d dump  j k down and up  ? help  q quit"
               : absl::StrCat("w why s/S stacks d dump g group: ", TopGroupName(state.group),
                              " f find TAB job ? help q quit");
  }
  lines.push_back({std::move(last), TopStyle::kDim});
  for (TopLine& line : lines) line.text = Cut(std::move(line.text), width);
  return lines;
}

std::string TopText(const std::vector<JobStatus>& jobs, const TopState& state) {
  constexpr size_t kWide = 140;
  if (jobs.empty()) return "The collector knows no job.\n";
  std::string text;
  for (size_t at = 0; at < jobs.size(); ++at) {
    const JobStatus& job = jobs[at];
    if (!text.empty()) text += '\n';
    absl::StrAppend(&text, "job ", JobName(job.job()), "\n");
    for (const Lines& part : {JobHead(job, state, at), JobBody(job, state, kWide)}) {
      for (const TopLine& line : part) {
        std::string plain = line.text;
        while (!plain.empty() && plain.back() == ' ') plain.pop_back();
        absl::StrAppend(&text, plain, "\n");
      }
    }
  }
  return text;
}

std::string TopJson(const JobStatus& job, double calls_a_second) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(job, &text, options).ok() || text.empty()) return "";
  text.pop_back();  // the brace that ends the object
  absl::StrAppend(&text, ",\"calls_a_second\":", calls_a_second < 0 ? "null" : absl::StrFormat("%.3f", calls_a_second),
                  ",\"slowest_ranks\":");
  const std::optional<Ranks> slowest = SlowestRanks(job);
  absl::StrAppend(
      &text, slowest.has_value() ? absl::StrCat("[", absl::StrJoin(slowest->List(kMostSlowest), ","), "]") : "null");
  return text + "}";
}

}  // namespace lockstep
