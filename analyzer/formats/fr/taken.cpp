#include "analyzer/formats/fr/taken.h"

#include <algorithm>
#include <set>

#include "analyzer/model/call_kinds.h"

namespace lockstep::fr {
namespace {

// A file written this soon after its newest entry was written when the dump was taken; a later one may be a copy. The
// newest entry is the last in record order. The time of that entry may be earlier than others' if the clock was set
// back.
constexpr int64_t kTakenWithin = 60'000'000'000;
// File times are coarser than entries' times: kernel ticks, or whole seconds in gzip files and tar archives.
constexpr int64_t kCoarse = 2'000'000'000;

// Maximum time from the timeout until the file is written: the watchdog's interval plus the time to write.
constexpr int64_t kWatchdogIsLate = 120'000'000'000;

// Returns the newest entry with a time; null if there is none.
const Op* NewestOf(const Rank& rank) {
  const auto last = std::find_if(rank.ops.rbegin(), rank.ops.rend(), [](const Op& op) { return op.enter_ns > 0; });
  return last == rank.ops.rend() ? nullptr : &*last;
}

}  // namespace

void SetTaken(int64_t written_ns, FileData* file) {
  Rank* const rank = &file->rank;
  const Op* const last = NewestOf(*rank);
  if (last == nullptr || written_ns <= 0) return;
  const int64_t waited = written_ns - file->oldest_open_ns, timeout = rank->timeout_ns;
  // The watchdog gave up on the oldest unfinished operation.
  const bool timed_out =
      file->oldest_open_ns > 0 && timeout > 0 && waited >= timeout && waited - timeout < kWatchdogIsLate;
  if (written_ns - last->enter_ns >= kTakenWithin && !timed_out) return;
  if (written_ns < last->enter_ns - kCoarse) {
    rank->set_back = true;
  } else {
    rank->captured_ns = std::max(written_ns, last->enter_ns);
  }
}

bool TimedOut(const FileData& file) {
  return file.rank.captured_ns > 0 && file.oldest_open_ns > 0 && file.rank.timeout_ns > 0 &&
         file.rank.captured_ns - file.oldest_open_ns >= file.rank.timeout_ns;
}

void DoubtTimesOfCopies(std::vector<FileData>* files) {
  constexpr int64_t kAtOnce = 5'000'000'000, kApart = 100'000'000;
  // File times alone also differ if hosts' clocks differ. Times since the newest entry alone also differ if one host
  // stopped early.
  struct Range {
    int64_t least = INT64_MAX, most = INT64_MIN;
    void Add(int64_t value) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
    bool Wide() const { return most > least && most - least > kAtOnce; }
  } written, idle;
  std::vector<int64_t> times;
  for (const FileData& file : *files) {
    const Rank& rank = file.rank;
    if (rank.captured_ns == 0) continue;
    if (TimedOut(file)) return;
    written.Add(rank.captured_ns);
    times.push_back(rank.captured_ns);
    idle.Add(rank.captured_ns - NewestOf(rank)->enter_ns);
  }
  if (!written.Wide() || !idle.Wide()) return;
  // Ranks of one host are dumped at once, so gaps between most files are a sign of copies.
  std::sort(times.begin(), times.end());
  size_t apart = 0;
  for (size_t i = 1; i < times.size(); ++i) apart += times[i] - times[i - 1] >= kApart;
  if (apart * 2 < times.size() - 1) return;
  for (FileData& file : *files) file.rank.captured_ns = 0;
}

void TellByUnnoticedEnds(std::vector<FileData>* files) {
  const auto unknown = [](const FileData& file) { return file.rank.captured_ns == 0 && !file.rank.set_back; };
  const auto ran =
      std::count_if(files->begin(), files->end(), [](const FileData& file) { return file.ends_unnoticed; });
  if (2 * static_cast<size_t>(ran) < files->size() || !std::all_of(files->begin(), files->end(), unknown)) return;
  for (FileData& file : *files) file.rank.captured_ns = file.newest_ns;
}

void TellByUnnoticedEnds(Bundle* bundle) {
  constexpr int64_t kBetweenLooks = 2'000'000'000;
  struct Counts {
    int64_t most_issued = kNone, least_issued = INT64_MAX, most_completed = kNone;
  };
  std::vector<Counts> counts(bundle->comms.size());
  // By each rank's own clock: hosts' clocks may differ by seconds.
  std::vector<int64_t> newest;
  for (const Rank& rank : bundle->ranks) {
    if (rank.source != Source::kFlightRecorder || rank.captured_ns > 0 || rank.set_back) return;
    for (const Membership& ms : rank.memberships) {
      Counts& of = counts[ms.comm];
      of.most_issued = std::max(of.most_issued, ms.issued);
      of.least_issued = std::min(of.least_issued, ms.issued);
      of.most_completed = std::max(of.most_completed, ms.completed);
    }
    int64_t& last = newest.emplace_back(0);
    for (const Op& op : rank.ops) last = std::max(last, op.enter_ns);
  }
  const auto unnoticed = [&](const Rank& rank, const Op& op, int64_t last) {
    if (op.membership == kNoIndex || !NeedsEveryMember(op.kind) || op.seq < 0) return false;
    const Membership& ms = rank.memberships[op.membership];
    // If a backend marks failed operations as complete, an operation looks complete even if a member never entered it.
    const Counts& of = counts[ms.comm];
    return IsUnfinished(op.state) && last - op.enter_ns <= kBetweenLooks && of.most_completed >= op.seq &&
           of.least_issued >= op.seq && ms.issued >= of.most_issued;
  };
  bool ran = false;
  for (size_t r = 0; r < newest.size(); ++r) {
    const Rank& rank = bundle->ranks[r];
    // Each group has its own watchdog. A rank that is behind in several groups at once has a hung GPU, not slow
    // watchdogs.
    std::set<uint32_t> behind;
    for (const Op& op : rank.ops) {
      if (unnoticed(rank, op, newest[r])) behind.insert(op.membership);
    }
    if (behind.size() > 1) return;
    ran |= !behind.empty();
  }
  for (size_t r = 0; ran && r < newest.size(); ++r) bundle->ranks[r].captured_ns = newest[r];
}

}  // namespace lockstep::fr
