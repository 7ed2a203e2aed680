#include "analyzer/formats/fr/taken.h"

#include <algorithm>
#include <set>

#include "analyzer/model/call_kinds.h"

namespace lockstep::fr {
namespace {

// A file written this soon after its newest entry was written when the dump was taken. A later file may be a copy. The
// newest entry is the last in record order: its time may be smaller than others' if the clock was set back.
constexpr int64_t kTakenWithin = 60'000'000'000;
// File times are coarser than the entries': ticks of the kernel, whole seconds in a tar archive, two in a zip.
constexpr int64_t kCoarse = 2'000'000'000;

// From the timeout until the file is written: the watchdog's interval and the time to write.
constexpr int64_t kWatchdogIsLate = 120'000'000'000;

// The newest entry with a time; null: none.
const Op* NewestOf(const Rank& rank) {
  const auto last = std::find_if(rank.ops.rbegin(), rank.ops.rend(), [](const Op& op) { return op.enter_ns > 0; });
  return last == rank.ops.rend() ? nullptr : &*last;
}

}  // namespace

void SetTaken(int64_t written_ns, FileData* file) {
  Rank* const rank = &file->rank;
  const Op* const last = NewestOf(*rank);
  if (last == nullptr || written_ns <= 0) return;
  const int64_t waited = written_ns - file->oldest_open_ns, timeout = file->open_timeout_ns;
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

void DoubtTimesOfCopies(std::vector<FileData>* files) {
  constexpr int64_t kAtOnce = 5'000'000'000, kApart = 100'000'000;
  // File times alone would also differ between hosts whose clocks differ. Times since the newest entry alone would also
  // differ if one host stopped early.
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
    if (file.oldest_open_ns > 0 && file.open_timeout_ns > 0 &&
        rank.captured_ns - file.oldest_open_ns >= file.open_timeout_ns)
      return;
    written.Add(rank.captured_ns);
    times.push_back(rank.captured_ns);
    idle.Add(rank.captured_ns - NewestOf(rank)->enter_ns);
  }
  if (!written.Wide() || !idle.Wide()) return;
  // Ranks of one host are dumped at once, so a copy shows as gaps between most files.
  std::sort(times.begin(), times.end());
  size_t apart = 0;
  for (size_t i = 1; i < times.size(); ++i) apart += times[i] - times[i - 1] >= kApart;
  if (apart * 2 < times.size() - 1) return;
  for (FileData& file : *files) file.rank.captured_ns = 0;
}

void TellByUnnoticedEnds(Bundle* bundle) {
  constexpr int64_t kBetweenLooks = 2'000'000'000;
  struct Most {
    int64_t issued = kNone, completed = kNone;
  };
  std::vector<Most> most(bundle->comms.size());
  int64_t newest = 0;
  for (const Rank& rank : bundle->ranks) {
    if (rank.source != Source::kFlightRecorder || rank.captured_ns > 0 || rank.set_back) return;
    for (const Membership& ms : rank.memberships) {
      most[ms.comm].issued = std::max(most[ms.comm].issued, ms.issued);
      most[ms.comm].completed = std::max(most[ms.comm].completed, ms.completed);
    }
    for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
  }
  const auto unnoticed = [&](const Rank& rank, const Op& op) {
    if (op.membership == kNoIndex || !NeedsEveryMember(op.kind) || op.seq < 0) return false;
    const Membership& ms = rank.memberships[op.membership];
    return IsUnfinished(op.state) && newest - op.enter_ns <= kBetweenLooks && most[ms.comm].completed >= op.seq &&
           ms.issued >= most[ms.comm].issued;
  };
  bool ran = false;
  for (const Rank& rank : bundle->ranks) {
    // Each group has its own watchdog. A rank behind in several groups at once has a hung GPU, not slow watchdogs.
    std::set<uint32_t> behind;
    for (const Op& op : rank.ops) {
      if (unnoticed(rank, op)) behind.insert(op.membership);
    }
    if (behind.size() > 1) return;
    ran |= !behind.empty();
  }
  for (Rank& rank : bundle->ranks) {
    if (ran) rank.captured_ns = newest;
  }
}

}  // namespace lockstep::fr
