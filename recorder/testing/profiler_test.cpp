// Tests liblockstep.so as NCCL's profiler plugin, on stand-ins for each version of the interface. The plugin works
// together with the preloaded wrappers, and alone if NCCL is linked statically. Each test checks which of the two
// made the records.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "recorder/abi/profiler.h"
#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::KernelSnapshot;
using ring::OpSnapshot;
using ring::ProxySnapshot;
using ring::ProxyState;
using ring::Snapshot;
using support::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ProfilerTest : public support::PreloadRuns {
 protected:
  std::string Command(const std::string& program, const std::string& environment) const {
    return "env -u LD_PRELOAD -u NCCL_PROFILER_PLUGIN -u LOCKSTEP_GPU HOME='" + folder_ + "' LOCKSTEP_DIR='" + rings_ +
           "' RANK=0 LOCAL_RANK=0 " + environment + " timeout 60 " + program;
  }
  Outcome Run(const std::string& program, const std::string& environment) const {
    return Shell(Command(program, environment));
  }
  // Runs in the background until the ring file has the expected contents, for at most 20 s. Then kills the program.
  Snapshot RunUntil(const std::string& program, const std::string& environment,
                    const std::function<bool(const Snapshot&)>& wanted) {
    const pid_t child = fork();
    if (child == 0) {
      setpgid(0, 0);
      execl("/bin/sh", "sh", "-c", ("exec " + Command(program, environment) + " >/dev/null 2>&1").c_str(), nullptr);
      _exit(127);
    }
    setpgid(child, child);
    Snapshot found;
    for (int look = 0; look < 2000; ++look) {
      usleep(10000);
      const std::vector<std::string> paths = RingPaths();
      std::string being_made;
      if (!paths.empty() && ring::ReadRingFile(paths[0], {}, &found, &being_made) && wanted(found)) break;
    }
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return found;
  }
};

constexpr char kPreload[] = "LD_PRELOAD='" LOCKSTEP_LIBRARY "' ";
constexpr char kPlugin[] = "NCCL_PROFILER_PLUGIN='" LOCKSTEP_LIBRARY "' ";
constexpr char kHost[] = "'" LOCKSTEP_HOST_PROGRAM "' ";
constexpr char kStaticHost[] = "'" LOCKSTEP_STATIC_HOST_PROGRAM "' ";
constexpr char kJob[] = "'" LOCKSTEP_PROFILER_PROGRAM "' ";
constexpr char kStaticJob[] = "'" LOCKSTEP_STATIC_PROFILER_PROGRAM "' ";

std::string Newest(int version) { return "STANDIN_PROFILER_MAX_VERSION=" + std::to_string(version) + " "; }

using OpKey = std::tuple<uint32_t, CallKind, uint64_t, int32_t>;
OpKey KeyOf(const OpSnapshot& op) {
  return {op.comm, op.kind, op.seq, ring::IsPointToPoint(op.kind) ? op.root_or_peer : -1};
}

// Expects that every kernel belongs to exactly one recorded operation.
void ExpectEachKernelHasItsRecord(const Snapshot& ring) {
  std::multiset<OpKey> records;
  for (const OpSnapshot& op : ring.ops) records.insert(KeyOf(op));
  for (const KernelSnapshot& kernel : ring.kernels) {
    const OpKey key{kernel.comm, kernel.kind, kernel.seq, ring::IsPointToPoint(kernel.kind) ? kernel.peer : -1};
    EXPECT_EQ(records.count(key), 1u) << ring::CallName(kernel.kind) << " #" << kernel.seq << " of communicator "
                                      << kernel.comm;
  }
}

void ExpectTimesOfVersion(const Snapshot& ring, int version) {
  EXPECT_THAT(ring.kernels, Not(IsEmpty()));
  std::map<OpKey, int64_t> called;
  for (const OpSnapshot& op : ring.ops) called[KeyOf(op)] = op.enter_ns;
  for (const KernelSnapshot& kernel : ring.kernels) {
    EXPECT_TRUE(kernel.launched);
    EXPECT_TRUE(kernel.ended);
    EXPECT_EQ(kernel.gpu_times, version >= 4);
    if (version < 3) {
      EXPECT_EQ(kernel.started_channels, 0u);
      EXPECT_EQ(kernel.completed_ns, 0);
      continue;
    }
    EXPECT_EQ(kernel.started_channels, 3u);
    EXPECT_EQ(kernel.completed_channels, 3u);
    if (version >= 4 && !ring.comms[kernel.comm].from_profiler) {
      const int64_t call =
          called[{kernel.comm, kernel.kind, kernel.seq, ring::IsPointToPoint(kernel.kind) ? kernel.peer : -1}];
      EXPECT_GE(kernel.started_ns, call);
      EXPECT_GT(kernel.uncertainty_ns, 0);
    }
    EXPECT_GE(kernel.completed_ns, kernel.started_ns);
    // The GPU has a different clock. With a wrong alignment, times would differ by years.
    EXPECT_LT(kernel.completed_ns - kernel.enqueued_ns, 60'000'000'000);
  }
}

class EachVersion : public ProfilerTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Interface, EachVersion, ::testing::Range(1, 8));

TEST_P(EachVersion, CallsAndPluginGiveOneRecord) {
  const int version = GetParam();
  Outcome outcome = Run(std::string(kHost) + "kinds", std::string(kPreload) + "LOCKSTEP_GPU=off");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot without = OnlyRing();
  std::filesystem::remove_all(rings_);
  outcome = Run(std::string(kHost) + "kinds", std::string(kPreload) + "LOCKSTEP_GPU=profiler " + Newest(version));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.process.gpu_marks, ring::GpuMarks::kProfiler);
  EXPECT_EQ(ring.process.note, "");
  EXPECT_EQ(ring.profiler.interface_version, static_cast<uint32_t>(version));
  EXPECT_EQ(ring.profiler.unmatched, 0u);
  EXPECT_EQ(ring.profiler.stale, 0u);
  EXPECT_EQ(ring.profiler.kernels_dropped, 0u);

  // The records are the same as without the plugin: none twice, none missing, all from the calls.
  std::vector<OpKey> plain, profiled;
  for (const OpSnapshot& op : without.ops) plain.push_back(KeyOf(op));
  for (const OpSnapshot& op : ring.ops) profiled.push_back(KeyOf(op));
  EXPECT_EQ(profiled, plain);
  ASSERT_THAT(ring.comms, SizeIs(4));
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_FALSE(comm.from_profiler);
    EXPECT_TRUE(comm.profiled);
    EXPECT_NE(comm.origin, CallKind::kProfilerComm);
  }
  ExpectEachKernelHasItsRecord(ring);
  ExpectTimesOfVersion(ring, version);
  // If NCCL runs a call as sends and receives, these belong to the original call.
  std::map<CallKind, int> kinds;
  for (const KernelSnapshot& kernel : ring.kernels) ++kinds[kernel.kind];
  EXPECT_EQ(kinds[CallKind::kAllReduce], 4);
  EXPECT_EQ(kinds[CallKind::kBroadcast], 4);
  EXPECT_EQ(kinds[CallKind::kAlltoAll], 8);
  EXPECT_EQ(kinds[CallKind::kSend], 2);
  EXPECT_EQ(kinds[CallKind::kRecv], 2);
}

TEST_P(EachVersion, NonBlockingCommunicatorsAndThreadsKeepOneRecord) {
  for (const char* mode : {"nonblocking", "nonblocking-group", "threads"}) {
    std::filesystem::remove_all(rings_);
    const Outcome outcome =
        Run(std::string(kHost) + mode, std::string(kPreload) + "LOCKSTEP_GPU=profiler " + Newest(GetParam()));
    ASSERT_EQ(outcome.status, 0) << mode << outcome.out << outcome.err;
    const Snapshot ring = OnlyRing();
    EXPECT_EQ(ring.profiler.unmatched, 0u) << mode;
    for (const CommSnapshot& comm : ring.comms) EXPECT_FALSE(comm.from_profiler) << mode;
    EXPECT_THAT(ring.kernels, Not(IsEmpty())) << mode;
    ExpectEachKernelHasItsRecord(ring);
  }
}

TEST_P(EachVersion, WithoutThePreloadStaticallyLinkedNcclIsRecorded) {
  const int version = GetParam();
  const Outcome outcome = Run(std::string(kStaticHost) + "kinds", kPlugin + Newest(version));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.process.gpu_marks, ring::GpuMarks::kProfiler);
  EXPECT_EQ(ring.profiler.interface_version, static_cast<uint32_t>(version));
  ASSERT_THAT(ring.comms, SizeIs(4));
  std::set<uint64_t> ids;
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_TRUE(comm.from_profiler);
    EXPECT_EQ(comm.origin, CallKind::kProfilerComm);
    EXPECT_EQ(comm.state, ring::CommState::kDestroyed);
    EXPECT_NE(comm.id, 0u);
    EXPECT_EQ(comm.size, version >= 4 ? 2 : -1);
    EXPECT_GE(comm.member_rank, 0);
    EXPECT_GE(comm.device, 0);
    ids.insert(comm.id);
  }
  EXPECT_THAT(ids, SizeIs(2));
  std::map<CallKind, int> kinds;
  for (const OpSnapshot& op : ring.ops) {
    ++kinds[op.kind];
    EXPECT_EQ(op.stage, ring::OpStage::kLaunched);
    if (op.kind == CallKind::kGroup) continue;
    EXPECT_EQ(op.stream != UINT32_MAX, version >= 5) << ring::CallName(op.kind);
  }
  EXPECT_EQ(kinds[CallKind::kAllReduce], 4);
  EXPECT_EQ(kinds[CallKind::kReduce], 2);
  EXPECT_EQ(kinds[CallKind::kBroadcast], 4);
  EXPECT_EQ(kinds[CallKind::kAllGather], 2);
  EXPECT_EQ(kinds[CallKind::kReduceScatter], 2);
  EXPECT_EQ(kinds[CallKind::kGroup] > 0, version >= 5);
  EXPECT_EQ(kinds[CallKind::kCommInitAll], 0);
  // AlltoAll, Gather and Scatter are reported as sends and receives.
  EXPECT_EQ(kinds[CallKind::kAlltoAll], 0);
  EXPECT_EQ(kinds[CallKind::kSend], 2 + 4 + 2 + 2);
  ExpectEachKernelHasItsRecord(ring);
  ExpectTimesOfVersion(ring, version);
  for (const CommSnapshot& comm : ring.comms) EXPECT_NE(comm.signature_hash, 0u);
}

TEST_P(EachVersion, NetworkStepsHaveChannelPeerAndProgress) {
  const Outcome outcome =
      Run(std::string(kJob) + "network",
          std::string(kPreload) + "LOCKSTEP_GPU=profiler STANDIN_NODE_RANKS=1 " + Newest(GetParam()));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot ring = OnlyRing();
  ASSERT_THAT(ring.proxies, SizeIs(3 * 2 * 2));  // for each operation, rank and direction
  for (const ProxySnapshot& proxy : ring.proxies) {
    EXPECT_EQ(proxy.peer, 1 - proxy.rank);
    EXPECT_EQ(proxy.channel, 1u);  // both ends have the same channel
    EXPECT_TRUE(proxy.ended);
    EXPECT_EQ(proxy.steps, 20u);
    EXPECT_EQ(proxy.begun, 20u);
    EXPECT_EQ(proxy.done, 20u);
    EXPECT_EQ(proxy.kind, CallKind::kAllReduce);
    EXPECT_GE(proxy.seq, 1u);
    EXPECT_LE(proxy.seq, 3u);
    EXPECT_GE(proxy.changed_ns, proxy.started_ns);
  }
}

TEST_P(EachVersion, AStuckNetworkShowsAtItsStep) {
  const auto stuck = [](const Snapshot& ring) {
    bool received = false, sent = false;
    for (const ProxySnapshot& proxy : ring.proxies) {
      if (proxy.ended || proxy.seq != 2 || proxy.done != 7 || proxy.step != 7) continue;
      received |= !proxy.send && proxy.rank == 1 && proxy.peer == 0 && proxy.state == ProxyState::kRecvWait;
      sent |= proxy.send && proxy.rank == 0 && proxy.peer == 1 && proxy.state == ProxyState::kSendWait;
    }
    return received && sent;
  };
  for (const bool alone : {false, true}) {
    std::filesystem::remove_all(rings_);
    const std::string way = alone ? std::string(kPlugin) : std::string(kPreload) + "LOCKSTEP_GPU=profiler ";
    const Snapshot ring = RunUntil(std::string(alone ? kStaticJob : kJob) + "network",
                                   way + "STANDIN_NODE_RANKS=1 STANDIN_NET_STUCK=0:1:7:2 " + Newest(GetParam()), stuck);
    ASSERT_TRUE(stuck(ring)) << alone;
    EXPECT_EQ(ring.comms[0].from_profiler, alone);
  }
}

TEST_F(ProfilerTest, EachReplayOfAGraphNamesItsOperation) {
  for (const int version : {5, 6}) {
    std::filesystem::remove_all(rings_);
    const Outcome outcome =
        Run(std::string(kJob) + "replay", std::string(kPreload) + "LOCKSTEP_GPU=profiler " + Newest(version));
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Snapshot ring = OnlyRing();
    int replays = 0;
    for (const KernelSnapshot& kernel : ring.kernels) {
      if (!kernel.captured) continue;
      ++replays;
      EXPECT_EQ(kernel.kind, CallKind::kAllReduce);
      EXPECT_EQ(kernel.seq, 0u);  // the graph's record counts the launches
      EXPECT_LT(kernel.comm, 2u);
      EXPECT_TRUE(kernel.ended);
    }
    EXPECT_EQ(replays, 2 * 4);
    EXPECT_EQ(ring.profiler.stale, 0u);
    EXPECT_EQ(ring.profiler.unmatched, 0u);
    // The previous operation and four launches, known only from the CPU calls.
    for (const CommSnapshot& comm : ring.comms) EXPECT_EQ(comm.issued_seq, 5u);
  }
}

TEST_F(ProfilerTest, OperationsOfOtherProcessesAreIgnored) {
  const Outcome outcome =
      Run(std::string(kJob) + "network",
          std::string(kPreload) + "LOCKSTEP_GPU=profiler STANDIN_NODE_RANKS=1 STANDIN_PROFILER_PXN=1");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.profiler.remote, 12u);
  int remote = 0;
  for (const ProxySnapshot& proxy : ring.proxies) {
    if (!proxy.remote) continue;
    ++remote;
    EXPECT_EQ(proxy.comm, UINT32_MAX);
    EXPECT_EQ(proxy.seq, 0u);
  }
  EXPECT_EQ(remote, 12);
}

TEST_F(ProfilerTest, CopyEngineCollectivesHaveNoKernel) {
  for (const bool alone : {false, true}) {
    std::filesystem::remove_all(rings_);
    const std::string way = alone ? std::string(kPlugin) : std::string(kPreload) + "LOCKSTEP_GPU=profiler ";
    const Outcome outcome = Run(std::string(alone ? kStaticJob : kJob) + "network", way + "STANDIN_PROFILER_CE=1");
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Snapshot ring = OnlyRing();
    ASSERT_THAT(ring.kernels, SizeIs(6));
    for (const KernelSnapshot& kernel : ring.kernels) {
      EXPECT_TRUE(kernel.copy_engine);
      EXPECT_TRUE(kernel.ended);
      EXPECT_EQ(kernel.started_ns, 0);
    }
    ExpectEachKernelHasItsRecord(ring);
  }
}

TEST_F(ProfilerTest, EntriesAreReusedAndNothingIsDropped) {
  const Outcome outcome =
      Run(std::string(kJob) + "many", std::string(kPreload) + "LOCKSTEP_GPU=profiler STANDIN_NODE_RANKS=1");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.profiler.kernels_dropped, 0u);
  EXPECT_EQ(ring.profiler.proxies_dropped, 0u);
  EXPECT_EQ(ring.profiler.stale, 0u);
  EXPECT_EQ(ring.profiler.unmatched, 0u);
  EXPECT_GT(ring.kernels.size(), 900u);
  EXPECT_LT(ring.kernels.size(), 1024u);
}

TEST_F(ProfilerTest, ThePluginMayBeClosedAndOpenedAgain) {
  const Outcome outcome = Run(std::string(kStaticJob) + "again", kPlugin);
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot ring = OnlyRing();  // the process has one ring
  ASSERT_THAT(ring.comms, SizeIs(6));
  for (const CommSnapshot& comm : ring.comms) EXPECT_EQ(comm.issued_seq, 1u);
}

TEST_F(ProfilerTest, AnOpenGroupShowsWithoutTheCpuCalls) {
  const auto open = [](const Snapshot& ring) {
    return !ring.threads.empty() && ring.threads[0].group_depth == 1 && ring.ops.back().stage == ring::OpStage::kQueued;
  };
  const Snapshot ring = RunUntil(std::string(kStaticJob) + "open-group", kPlugin, open);
  EXPECT_TRUE(open(ring));
}

// Which plugin NCCL gets.

TEST_F(ProfilerTest, IsFoundByNameAndAsTheInstalledPlugin) {
  std::filesystem::create_symlink(LOCKSTEP_LIBRARY, folder_ + "/libnccl-profiler-lockstep.so");
  std::filesystem::create_symlink(LOCKSTEP_LIBRARY, folder_ + "/libnccl-profiler.so");
  for (const char* plugin : {"NCCL_PROFILER_PLUGIN=lockstep ", ""}) {
    std::filesystem::remove_all(rings_);
    const Outcome outcome = Run(std::string(kStaticJob) + "network", "LD_LIBRARY_PATH='" + folder_ + "' " + plugin);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_TRUE(OnlyRing().comms.at(0).from_profiler) << plugin;
  }
}

TEST_F(ProfilerTest, NothingHappensUnlessRequested) {
  for (const char* environment : {"", "NCCL_PROFILER_PLUGIN=none ", "NCCL_PROFILER_PLUGIN=STATIC_PLUGIN "}) {
    const Outcome outcome = Run(std::string(kStaticJob) + "network", kPreload + std::string(environment));
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(Rings(), IsEmpty()) << environment;
  }
  const Outcome outcome = Run(std::string(kJob) + "network", std::string(kPreload) + "LOCKSTEP_GPU=done");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Snapshot ring = OnlyRing();
  EXPECT_EQ(ring.profiler.interface_version, 0u);
  EXPECT_THAT(ring.kernels, IsEmpty());
}

TEST_F(ProfilerTest, ThePreloadedLibraryServesAStaticPlugin) {
  const Outcome outcome = Run(std::string(kStaticJob) + "network",
                              std::string(kPreload) + "NCCL_PROFILER_PLUGIN=static_plugin LOCKSTEP_GPU=profiler ");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(OnlyRing().comms.at(0).from_profiler);
}

TEST_F(ProfilerTest, SwitchedOffThePluginDoesNothing) {
  const Outcome outcome =
      Run(std::string(kStaticJob) + "network", std::string(kPlugin) + "LOCKSTEP=0 NCCL_DEBUG=WARN ");
  ASSERT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(Rings(), IsEmpty());
}

TEST_F(ProfilerTest, AUsersPluginIsKept) {
  std::filesystem::create_symlink(LOCKSTEP_OTHER_PROFILER, folder_ + "/libnccl-profiler.so");
  std::ofstream(folder_ + "/conf") << "# a comment\nNCCL_PROFILER_PLUGIN=" LOCKSTEP_OTHER_PROFILER "\n";
  const std::string ways[] = {"NCCL_PROFILER_PLUGIN='" LOCKSTEP_OTHER_PROFILER "' ",
                              "LD_LIBRARY_PATH='" + folder_ + "' "};
  for (const std::string& way : ways) {
    std::filesystem::remove_all(rings_);
    const Outcome outcome = Run(std::string(kJob) + "network", std::string(kPreload) + "LOCKSTEP_GPU=profiler " + way);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("the other plugin is used")) << way;
    const Snapshot ring = OnlyRing();
    EXPECT_THAT(ring.process.note, HasSubstr("not replaced; using done")) << way;
    EXPECT_EQ(ring.process.gpu_marks, ring::GpuMarks::kDone);
    EXPECT_EQ(ring.profiler.interface_version, 0u);
  }
  // The stand-in does not read nccl.conf. It matters only that the recorder does not name itself.
  std::filesystem::remove_all(rings_);
  const Outcome outcome = Run(std::string(kJob) + "network",
                              std::string(kPreload) + "LOCKSTEP_GPU=profiler NCCL_CONF_FILE='" + folder_ + "/conf' ");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(OnlyRing().process.note, HasSubstr("nccl.conf"));
  EXPECT_EQ(OnlyRing().profiler.interface_version, 0u);
}

TEST_F(ProfilerTest, AUsersStaticPluginIsNotHidden) {
  const Outcome outcome =
      Run(std::string(kStaticJob) + "network",
          "LD_PRELOAD='" LOCKSTEP_OTHER_PROFILER ":" LOCKSTEP_LIBRARY "' NCCL_PROFILER_PLUGIN=STATIC_PLUGIN ");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the other plugin is used"));
  EXPECT_THAT(Rings(), IsEmpty());
}

// Calls the plugin with arbitrary values, as a faulty NCCL might.

[[noreturn]] void FeedNonsense(const std::string& rings) {
  using namespace recorder::profiler;
  setenv("LOCKSTEP_DIR", rings.c_str(), 1);
  unsetenv("NCCL_PROFILER_PLUGIN");
  void* library = dlopen(LOCKSTEP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  auto* table = static_cast<TableV5*>(dlsym(library, "ncclProfiler_v6"));
  if (table == nullptr) _exit(2);
  void* context = nullptr;
  int mask = 0;
  table->init(nullptr, 1, &mask, "x", 1, 2, 0, nullptr);
  table->init(&context, 1, nullptr, "x", 1, 2, 0, nullptr);
  if (table->init(&context, 77, &mask, nullptr, 1, 2, 0, nullptr) != 0 || context == nullptr || mask == 0) _exit(3);
  std::mt19937_64 random(7);
  std::vector<void*> handles = {nullptr, context, reinterpret_cast<void*>(uintptr_t{8}), &context};
  for (int n = 0; n < 200000; ++n) {
    DescriptorV6 d;
    memset(static_cast<void*>(&d), 0, sizeof(d));
    d.type = n % 3 == 0 ? uint64_t{1} << random() % 16 : random() % 64;
    d.parent = handles[random() % handles.size()];
    d.rank = static_cast<int>(random() % 5) - 2;
    if (d.type == kEventColl || d.type == kEventCollApi) d.coll.func = d.coll.datatype = nullptr;
    if (d.type == kEventProxyOp)
      d.proxy_op = {static_cast<int>(random() % 2 ? getpid() : 5),
                    static_cast<uint8_t>(random()),
                    -7,
                    static_cast<int>(random() % 9) - 3,
                    0,
                    1};
    if (d.type == kEventProxyStep) d.proxy_step.step = static_cast<int>(random());
    if (d.type == kEventKernelCh) d.kernel_ch = {static_cast<uint8_t>(random()), random()};
    void* handle = nullptr;
    table->start_event(random() % 4 ? context : handles[random() % handles.size()], &handle, &d);
    if (handle != nullptr && handles.size() < 300) handles.push_back(handle);
    StateArguments arguments{random()};
    table->record_event_state(handles[random() % handles.size()], static_cast<int>(random() % 40) - 3,
                              random() % 3 ? &arguments : nullptr);
    if (random() % 2) table->stop_event(handles[random() % handles.size()]);
    if (random() % 8 == 0) table->stop_event(reinterpret_cast<void*>(random()));
    if (random() % 4096 == 0)
      table->init(&context, random() % 9, &mask, "y", 1, 4, static_cast<int>(random() % 4), nullptr);
    if (random() % 4096 == 0) table->finalize(random() % 2 ? context : reinterpret_cast<void*>(random()));
  }
  table->start_event(context, nullptr, nullptr);
  void* handle = nullptr;
  table->start_event(context, &handle, nullptr);
  table->finalize(context);
  table->finalize(context);
  table->finalize(nullptr);
  dlclose(library);
  _exit(0);
}

TEST_F(ProfilerTest, NonsenseIsCountedAndHarmless) {
  ASSERT_EXIT(FeedNonsense(rings_), ::testing::ExitedWithCode(0), "");
  std::vector<Snapshot> rings = Rings();
  ASSERT_THAT(rings, SizeIs(1));
  EXPECT_GT(rings[0].profiler.stale, 0u);
  for (const KernelSnapshot& kernel : rings[0].kernels) EXPECT_NE(kernel.comm, UINT32_MAX);
}

TEST_F(ProfilerTest, ThereIsOneInstanceHoweverNcclOpensIt) {
  // NCCL's loader finds the plugin by its path next to the preloaded library, and in the whole program.
  const Outcome outcome = Run("'" LOCKSTEP_FIND_PROFILER_PROGRAM "' '" LOCKSTEP_LIBRARY "' '" LOCKSTEP_REAL_NCCL "'",
                              std::string(kPreload) + "LOCKSTEP_GPU=profiler ");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("same instance"));
}

}  // namespace
}  // namespace lockstep
