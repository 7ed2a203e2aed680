// Tests the modes of LOCKSTEP_GPU as users see them: preloaded, on the stand-in driver. Examines rings while programs
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::GpuMarks;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using ring::StreamSnapshot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kPatience = std::chrono::seconds(30);

// The program under test, with its input and output.
class Program {
 public:
  Program(const std::string& folder, const std::string& mode, const std::vector<std::string>& environment) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      for (const char* name : {"LOCKSTEP_GPU", "CUDA_DEVICE_MAX_CONNECTIONS", "LOCKSTEP_GPU_SAMPLE"}) unsetenv(name);
      setenv("LOCKSTEP_DIR", folder.c_str(), 1);
      setenv("LD_PRELOAD", LOCKSTEP_LIBRARY, 1);
      setenv("RANK", "0", 1);
      setenv("LOCKSTEP_BUDGET", "off", 1);
      for (const std::string& pair : environment) putenv(const_cast<char*>(strdup(pair.c_str())));
      alarm(100);
      execl(LOCKSTEP_GPU_HOST, LOCKSTEP_GPU_HOST, mode.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = fdopen(out[0], "r");
  }
  ~Program() { Finish(); }
  std::string Line() {
    char text[256];
    if (from_ == nullptr || std::fgets(text, sizeof(text), from_) == nullptr) return "(ended)";
    std::string line = text;
    line.pop_back();
    return line;
  }
  void GoOn() { EXPECT_EQ(write(to_, "\n", 1), 1); }
  void Kill() { kill(pid_, SIGKILL); }
  // Ends the program's input and returns its wait status.
  int Finish() {
    if (pid_ == 0) return status_;
    close(to_);
    while (Line() != "(ended)") {
    }
    std::fclose(from_);
    waitpid(pid_, &status_, 0);
    pid_ = 0;
    return status_;
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1, status_ = -1;
  FILE* from_ = nullptr;
};

class GpuTest : public support::PreloadRuns {
 protected:
  Program Start(const std::string& mode, const std::string& gpu, std::vector<std::string> more = {}) {
    std::filesystem::remove_all(rings_);
    if (!gpu.empty()) more.push_back("LOCKSTEP_GPU=" + gpu);
    return Program(rings_, mode, more);
  }
  // Reads the rings, even of a process that continues to write.
  std::vector<Snapshot> Rings() const {
    std::vector<Snapshot> snapshots;
    for (const std::string& path : RingPaths()) {
      std::string error;
      EXPECT_TRUE(ring::ReadRingFile(path, {}, &snapshots.emplace_back(), &error)) << error;
    }
    return snapshots;
  }
  Snapshot Ring() const {
    std::vector<Snapshot> rings = Rings();
    EXPECT_THAT(rings, SizeIs(1));
    return rings.empty() ? Snapshot() : rings[0];
  }
  // Reads until the condition is true or time is up, and returns the last reading.
  Snapshot RingWhere(const std::function<bool(const Snapshot&)>& condition) const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      Snapshot ring = Ring();
      if (condition(ring)) return ring;
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "the expected state was never reached";
        return ring;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
};

bool Stands(const Snapshot& ring, size_t stream, uint64_t started, uint64_t completed) {
  return ring.streams.size() > stream && ring.streams[stream].started == started &&
         ring.streams[stream].completed == completed;
}

std::vector<OpSnapshot> Reductions(const Snapshot& ring) {
  std::vector<OpSnapshot> found;
  for (const OpSnapshot& op : ring.ops) {
    if (op.kind == CallKind::kAllReduce) found.push_back(op);
  }
  return found;
}

TEST_F(GpuTest, SwitchedOffMarkersTouchNoStream) {
  Program program = Start("contexts", "off");
  EXPECT_EQ(program.Line(), "all is done");
  const Snapshot ring = Ring();
  EXPECT_EQ(ring.process.gpu_marks, GpuMarks::kOff);
  ASSERT_THAT(ring.streams, ::testing::Not(IsEmpty()));
  for (const StreamSnapshot& stream : ring.streams) {
    EXPECT_FALSE(stream.marked);
    EXPECT_EQ(stream.issued, 0u);
  }
  EXPECT_EQ(program.Finish(), 0);
}

TEST_F(GpuTest, AutoIsDoneExceptWithOneConnection) {
  for (const bool one : {false, true}) {
    Program program =
        Start("contexts", one ? "auto" : "",
              one ? std::vector<std::string>{"CUDA_DEVICE_MAX_CONNECTIONS=1"} : std::vector<std::string>{});
    EXPECT_EQ(program.Line(), "all is done");
    EXPECT_EQ(Ring().process.gpu_marks, one ? GpuMarks::kOff : GpuMarks::kDone);
    EXPECT_EQ(Ring().process.note, "");
    EXPECT_EQ(program.Finish(), 0);
  }
}

// `lockstep run` requests this mode: as much as possible without delaying other streams.
TEST_F(GpuTest, WatchIsFullOrEventsWithOneConnection) {
  for (const bool one : {false, true}) {
    Program program =
        Start("contexts", "watch", {one ? "CUDA_DEVICE_MAX_CONNECTIONS=1" : "CUDA_DEVICE_MAX_CONNECTIONS=8"});
    EXPECT_EQ(program.Line(), "all is done");
    const Snapshot ring = Ring();
    EXPECT_EQ(ring.process.gpu_marks, one ? GpuMarks::kEvents : GpuMarks::kFull);
    EXPECT_EQ(ring.process.note, "");
    ASSERT_THAT(ring.streams, ::testing::Not(IsEmpty()));
    EXPECT_EQ(ring.streams[0].timed_every, one ? 61u : 0u);
    EXPECT_EQ(program.Finish(), 0);
  }
}

// With one hardware queue, a write on a busy stream delays the others, so `auto` and `watch` write nothing.
TEST_F(GpuTest, WithOneConnectionNothingIsDelayedUnlessWritesAreRequested) {
  for (const std::string mode : {"auto", "watch", "events", "done", "full"}) {
    for (const bool one : {false, true}) {
      SCOPED_TRACE(mode + (one ? ", one connection" : ""));
      Program program =
          Start("beside", mode, {one ? "CUDA_DEVICE_MAX_CONNECTIONS=1" : "CUDA_DEVICE_MAX_CONNECTIONS=8"});
      EXPECT_EQ(program.Line(), one && (mode == "done" || mode == "full") ? "it is held up" : "it ran");
      EXPECT_EQ(program.Finish(), 0);
    }
  }
}

// A group has one pair of markers for each stream. The start is written before the outermost group end and the
// completion after it; other work in between does not matter.
TEST_F(GpuTest, AGroupHasOneMarkerForEachStream) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    const bool starts = mode != "done";
    Program program = Start("groups", mode);
    ASSERT_EQ(program.Line(), "group is open");
    Snapshot ring = RingWhere([&](const Snapshot& r) { return Stands(r, 0, starts, 1) && Stands(r, 1, starts, 1); });
    EXPECT_EQ(ring.streams[0].issued, 2u) << "the group must have a ticket";
    program.GoOn();
    ASSERT_EQ(program.Line(), "group was launched");
    // The communicator on the blocked stream delays no other communicator.
    ring = RingWhere([&](const Snapshot& r) { return Stands(r, 0, 2 * starts, 2); });
    EXPECT_TRUE(Stands(ring, 1, starts, 1)) << "the stream has not reached the group";
    EXPECT_EQ(ring.streams[1].given, 2u);
    program.GoOn();
    ASSERT_EQ(program.Line(), "all is done");
    ring = RingWhere([&](const Snapshot& r) { return Stands(r, 1, 2 * starts, 2); });
    std::map<uint32_t, std::set<uint64_t>> tickets;
    for (const OpSnapshot& op : ring.ops) {
      if (op.group != 0 && op.kind != CallKind::kGroup) tickets[op.stream].insert(op.ticket);
    }
    EXPECT_EQ(tickets, (std::map<uint32_t, std::set<uint64_t>>{{0, {2}}, {1, {2}}}));
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, AStreamThatNeverReachesTheOperationHasNotStartedIt) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    const bool starts = mode != "done";
    Program program = Start("never_reaches", mode);
    ASSERT_EQ(program.Line(), "it hangs");
    // Nothing signals the end of this wait. A wrong start would become visible in this time.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const Snapshot ring = RingWhere([&](const Snapshot& r) { return Stands(r, 0, starts, 1); });
    EXPECT_EQ(ring.streams[0].issued, 2u);
    EXPECT_EQ(ring.streams[0].given, 2u);
    EXPECT_EQ(ring.streams[0].first_error, 0);
  }
}

TEST_F(GpuTest, AnOperationThatNeverEndsHasStarted) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    const bool starts = mode != "done";
    Program program = Start("never_ends", mode);
    ASSERT_EQ(program.Line(), "it hangs");
    Snapshot ring = RingWhere([&](const Snapshot& r) { return Stands(r, 0, 2 * starts, 1); });
    EXPECT_EQ(ring.streams[0].issued, 3u);
    // The data is still there after the process ended.
    program.Kill();
    program.Finish();
    EXPECT_TRUE(Stands(Ring(), 0, 2 * starts, 1));
  }
}

TEST_F(GpuTest, AnErrorIsNotACompletion) {
  for (const std::string mode : {"off", "done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("sticky", mode);
    // The program checks that no error is consumed, hidden or added.
    ASSERT_EQ(program.Line(), "it is broken");
    if (mode == "off") continue;
    // With events, the recorder's thread may notice the error after the program does.
    const Snapshot ring = RingWhere([&](const Snapshot& r) {
      const StreamSnapshot& stream = r.streams.at(0);
      return stream.first_error != 0 && (mode != "events" || stream.given == stream.completed);
    });
    EXPECT_EQ(ring.streams[0].first_error, 700);
    const uint64_t given = ring.streams[0].given, last = Reductions(ring).back().ticket;
    EXPECT_TRUE(last == 0 || last > given) << "later work is unknown: " << last;
    if (mode == "events") {
      // Work that was not checked before the error stays unknown.
      EXPECT_LE(ring.streams[0].completed, 1u);
    } else {
      EXPECT_EQ(ring.streams[0].completed, 1u);
      EXPECT_EQ(given, 3u);
    }
    EXPECT_EQ(Reductions(ring).back().stage, OpStage::kFailed);
  }
}

TEST_F(GpuTest, MarkersUseTheStreamsContextWhateverIsCurrent) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("contexts", mode);
    // The program checks that its contexts stay as they were.
    ASSERT_EQ(program.Line(), "all is done");
    const auto all_done = [](const Snapshot& r) {
      return std::all_of(r.streams.begin(), r.streams.end(),
                         [](const StreamSnapshot& s) { return s.issued != 0 && s.completed == s.issued; });
    };
    const Snapshot ring = RingWhere(all_done);
    std::multiset<uint64_t> issued;
    for (const StreamSnapshot& stream : ring.streams) {
      EXPECT_EQ(stream.device, 1);
      EXPECT_TRUE(stream.marked);
      issued.insert(stream.issued);
    }
    // One stream used by two threads, the legacy stream, and the default stream of each thread.
    EXPECT_EQ(issued, (std::multiset<uint64_t>{4, 2, 4, 1}));
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, AReusedHandleIsAnotherStream) {
  for (const std::string mode : {"full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("reused", mode);
    const std::string address = program.Line();
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = RingWhere([](const Snapshot& r) {
      return std::all_of(r.streams.begin(), r.streams.end(),
                         [](const StreamSnapshot& s) { return s.completed == s.issued; });
    });
    if (address == "same") {
      EXPECT_EQ(ring.streams.at(0).handle, ring.streams.at(1).handle);
      EXPECT_NE(Reductions(ring).at(0).stream, Reductions(ring).at(1).stream);
    }
    for (const OpSnapshot& op : Reductions(ring)) EXPECT_GT(op.ticket, 0u);
    EXPECT_LE(ring.streams.size(), 256u);
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, AMissingDeviceOrDriverFeatureIsReported) {
  struct Case {
    const char *lacks, *gpu, *says;
  };
  for (const Case& c : {Case{"STANDIN_NO_MEM_OPS=1", "full", "no 64-bit stream memory operations"},
                        Case{"STANDIN_NO_HOST_REGISTER=1", "done", "refused to register the ring (error 800)"}}) {
    Program program = Start("contexts", c.gpu, {c.lacks});
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = Ring();
    EXPECT_THAT(ring.process.note, HasSubstr(c.says));
    EXPECT_THAT(ring.process.note, HasSubstr("LOCKSTEP_GPU=events"));
    for (const StreamSnapshot& stream : ring.streams) {
      EXPECT_FALSE(stream.marked);
      EXPECT_EQ(stream.first_error, 0) << "the GPU has no error";
    }
    EXPECT_EQ(program.Finish(), 0);
    // The note recommends LOCKSTEP_GPU=events, with which the streams are marked.
    Program events = Start("contexts", "events", {c.lacks});
    ASSERT_EQ(events.Line(), "all is done");
    EXPECT_TRUE(Ring().streams.at(0).marked);
    EXPECT_EQ(Ring().process.note, "");
    EXPECT_EQ(events.Finish(), 0);
  }
  Program program = Start("contexts", "sometimes", {"LOCKSTEP_GPU_SAMPLE=often"});
  ASSERT_EQ(program.Line(), "all is done");
  EXPECT_THAT(Ring().process.note, HasSubstr("LOCKSTEP_GPU has an unknown value; using done"));
}

TEST_F(GpuTest, EventsMeasureHowLongOperationsTook) {
  Program program = Start("timed", "events");
  ASSERT_EQ(program.Line(), "all is done");
  const Snapshot ring = RingWhere([](const Snapshot& r) { return Stands(r, 0, 8, 8) && Stands(r, 1, 8, 8); });
  std::map<uint32_t, std::vector<OpSnapshot>> by_stream;
  for (const OpSnapshot& op : Reductions(ring)) by_stream[op.stream].push_back(op);
  ASSERT_THAT(by_stream, SizeIs(2));
  int64_t longest = 0;
  for (auto& [index, ops] : by_stream) {
    ASSERT_THAT(ops, SizeIs(8));
    for (size_t i = 0; i < ops.size(); ++i) {
      const OpSnapshot& op = ops[i];
      ASSERT_GT(op.started_ns, 0);
      EXPECT_GE(op.started_ns, op.enter_ns) << "an operation must not begin before its call";
      EXPECT_LE(op.completed_ns, ring.read_mono_ns);
      EXPECT_LT(op.time_uncertainty_ns, 10'000'000'000);
      longest = std::max(longest, op.completed_ns - op.started_ns);
      // True times are in [time - uncertainty, time]: one operation ends before the next is requested.
      if (i > 0) {
        EXPECT_LE(ops[i - 1].completed_ns - ops[i - 1].time_uncertainty_ns, op.enter_ns);
      }
    }
  }
  // The other member joined 20 ms after the call, but a busy machine may have begun late.
  EXPECT_GE(longest, 15'000'000);
  for (size_t i = 0; i < 8; ++i) EXPECT_GE(by_stream[0][i].completed_ns, by_stream[1][i].enter_ns);
  EXPECT_EQ(program.Finish(), 0);
}

TEST_F(GpuTest, OneOperationInSeveralIsTimedAndAllStartsAndEndsAreKnown) {
  Program program = Start("timed", "events", {"LOCKSTEP_GPU_SAMPLE=4"});
  ASSERT_EQ(program.Line(), "all is done");
  const Snapshot ring = RingWhere([](const Snapshot& r) { return Stands(r, 0, 8, 8) && Stands(r, 1, 8, 8); });
  EXPECT_EQ(ring.streams[0].timed_every, 4u);
  EXPECT_TRUE(ring.streams[0].starts_marked);
  for (const StreamSnapshot& stream : {ring.streams[0], ring.streams[1]}) EXPECT_EQ(stream.started, stream.issued);
  int timed = 0;
  for (const OpSnapshot& op : Reductions(ring)) {
    EXPECT_EQ(op.completed_ns != 0, op.ticket % 4 == 0) << op.ticket;
    timed += op.completed_ns != 0;
  }
  EXPECT_EQ(timed, 4);
}

TEST_F(GpuTest, EventsAreReusedAndOperationsWithoutOneAreUnknown) {
  Program program = Start("many", "events");
  ASSERT_EQ(program.Line(), "all are queued");
  const Snapshot ring = Ring();
  const StreamSnapshot& stream = ring.streams.at(0);
  EXPECT_GT(stream.issued, stream.completed);
  EXPECT_LE(stream.issued - stream.completed, 256u);
  EXPECT_EQ(stream.given, stream.issued);
  uint64_t unknown = 0, lost = ring.comms.at(0).lost_records;
  for (const OpSnapshot& op : Reductions(ring)) unknown += op.ticket == 0;
  EXPECT_GE(unknown, 500u - 256u - lost);
  EXPECT_LE(unknown + stream.issued, 700u);
  EXPECT_GE(unknown + stream.issued + lost, 700u);
  program.GoOn();
  const std::string events = program.Line();
  EXPECT_LE(std::stoul(events), 2 * 256u + 1) << events;
  const Snapshot after =
      RingWhere([](const Snapshot& r) { return r.streams.at(0).completed == r.streams.at(0).issued; });
  EXPECT_GT(Reductions(after).back().ticket, 0u);
  EXPECT_EQ(program.Finish(), 0);
}

TEST_F(GpuTest, ANonblockingCommunicatorsMarkerWaitsUntilItsWorkIsQueued) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("nonblocking", mode, {"STANDIN_ASYNC_DELAY_US=400000"});
    ASSERT_EQ(program.Line(), "the operation is being queued");
    Snapshot ring = RingWhere([](const Snapshot& r) { return r.streams.at(0).completed == 1; });
    // The state of the other communicator's operation behind it is also unknown, because its marker would count for
    // both.
    EXPECT_EQ(ring.streams[0].issued, 3u);
    EXPECT_EQ(ring.streams[0].given, 1u);
    program.GoOn();
    ASSERT_EQ(program.Line(), "the operation was queued");
    ring = RingWhere([](const Snapshot& r) { return r.streams.at(0).completed == 3; });
    EXPECT_EQ(ring.streams[0].given, 3u);
    program.GoOn();
    ASSERT_EQ(program.Line(), "a group is being queued");
    ring = Ring();
    EXPECT_EQ(ring.streams[0].issued, 4u);
    EXPECT_EQ(ring.streams[0].given, 3u);
    program.GoOn();
    ASSERT_EQ(program.Line(), "all is done");
    ring = RingWhere([](const Snapshot& r) { return r.streams.at(0).completed == 6; });
    EXPECT_EQ(ring.streams[0].given, 6u);
    for (const OpSnapshot& op : Reductions(ring)) {
      if (!ring.comms.at(op.comm).blocking) {
        EXPECT_EQ(op.completed_ns, 0) << "its duration was not measured";
      }
    }
    EXPECT_EQ(program.Finish(), 0);
  }
}

// A marker that is written during a capture would become part of the graph.
TEST_F(GpuTest, ANonblockingCommunicatorsMarkerStaysOutOfACapture) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("captured_late", mode, {"STANDIN_ASYNC_DELAY_US=100000"});
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = RingWhere([](const Snapshot& r) { return r.streams.at(0).completed == 3; });
    EXPECT_EQ(ring.streams[0].given, 3u);
    EXPECT_EQ(program.Finish(), 0);
  }
}

// Work put on a stream before the wait does not wait. Two unfinished waits are both recorded.
TEST_F(GpuTest, AWaitHoldsUpOnlyLaterWork) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("waits", mode);
    ASSERT_EQ(program.Line(), "all wait");
    const Snapshot ring = Ring();
    ASSERT_THAT(ring.streams, SizeIs(2));
    std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> waits;
    for (const auto& wait : ring.streams[1].depends_on) {
      if (wait.ticket > 3) waits.emplace_back(wait.stream, wait.after, wait.ticket);
    }
    std::sort(waits.begin(), waits.end());
    EXPECT_THAT(waits, ElementsAre(std::tuple(0u, 1u, 4u), std::tuple(0u, 2u, 5u)));
    EXPECT_THAT(ring.streams[0].depends_on, IsEmpty());
    program.GoOn();
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, ACopyIsACpuWaitUntilItReturns) {
  Program program = Start("copies", "done");
  const auto waits = [](const Snapshot& ring) {
    std::vector<std::pair<CallKind, uint32_t>> found;
    for (const auto& thread : ring.threads) {
      if (thread.wait != CallKind::kNone) found.emplace_back(thread.wait, thread.wait_stream);
    }
    return found;
  };
  for (const std::string way : {"1d", "2d", "peer", "batch", "ptsz", "driver by name", "driver by address"}) {
    SCOPED_TRACE(way);
    ASSERT_EQ(program.Line(), way);
    // The CUDA version decides which parameter of a batch is the stream.
    const uint32_t stream = way == "batch" ? UINT32_MAX : 0;
    const Snapshot ring = RingWhere([&](const Snapshot& now) { return !waits(now).empty(); });
    EXPECT_THAT(waits(ring), ElementsAre(std::pair(CallKind::kMemcpyAsync, stream)));
    program.GoOn();
  }
  ASSERT_EQ(program.Line(), "pinned");
  EXPECT_THAT(waits(Ring()), IsEmpty());
  program.GoOn();
  ASSERT_EQ(program.Line(), "all is done");
  EXPECT_EQ(program.Finish(), 0);
}

TEST_F(GpuTest, AForkedChildCreatesItsOwnMarkers) {
  for (const std::string mode : {"full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("forks", mode);
    ASSERT_EQ(program.Line(), "all is done");
    EXPECT_EQ(program.Finish(), 0);
    std::multiset<uint64_t> completed;
    for (const Snapshot& ring : Rings()) {
      for (const StreamSnapshot& stream : ring.streams) completed.insert(stream.completed);
    }
    EXPECT_EQ(completed, (std::multiset<uint64_t>{3, 5}));
  }
}

TEST_F(GpuTest, ADeviceResetRemovesMarkersAndEvents) {
  for (const std::string mode : {"done", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("reset", mode);
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = Ring();
    for (const StreamSnapshot& stream : ring.streams) EXPECT_EQ(stream.first_error, 0);
    uint64_t known = 0;
    for (const OpSnapshot& op : Reductions(ring)) known += op.ticket != 0;
    EXPECT_GE(known, 150u) << "markers work again after each reset";
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, ThreadsThatShareAStreamNeverMakeTicketsDecrease) {
  for (const std::string mode : {"full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("shared", mode);
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = RingWhere([](const Snapshot& r) {
      return std::all_of(r.streams.begin(), r.streams.end(),
                         [](const StreamSnapshot& s) { return s.completed == s.issued; });
    });
    // Threads that see a stream for the first time at the same moment may each have an entry for it.
    std::set<std::pair<uint32_t, uint64_t>> tickets;
    uint64_t issued = 0;
    for (const StreamSnapshot& stream : ring.streams) issued += stream.issued;
    for (const OpSnapshot& op : Reductions(ring)) {
      if (op.ticket != 0) {
        EXPECT_TRUE(tickets.emplace(op.stream, op.ticket).second) << op.ticket;
      }
    }
    EXPECT_EQ(tickets.size(), issued);
    EXPECT_EQ(program.Finish(), 0);
  }
}

TEST_F(GpuTest, NothingIsAddedToACaptureAndNoneIsInvalidated) {
  for (const std::string mode : {"done", "full", "events"}) {
    SCOPED_TRACE(mode);
    Program program = Start("captures", mode);
    // The program checks that each capture ends well.
    ASSERT_EQ(program.Line(), "all is done");
    const Snapshot ring = Ring();
    int captured = 0;
    for (const OpSnapshot& op : Reductions(ring)) {
      if (op.stage != OpStage::kCaptured) continue;
      ++captured;
      EXPECT_EQ(op.ticket, 0u);
    }
    EXPECT_EQ(captured, 50);
    EXPECT_EQ(program.Finish(), 0);
  }
}

}  // namespace
}  // namespace lockstep
