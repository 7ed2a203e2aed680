// Tests hostile files: any field may contain any number that readers accept. Sanitizers watch the analysis.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/bounds.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using testing::HostFault;
using testing::Job;

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  void Change(std::initializer_list<int64_t*> fields) {
    constexpr int64_t kOdd[] = {INT64_MIN,        INT64_MIN + 1, -3,       kUnknown, kNone, 0, 1, int64_t{1} << 32,
                                int64_t{1} << 61, INT64_MAX - 1, INT64_MAX};
    for (int64_t* field : fields) {
      if (random_() % 8 == 0) *field = kOdd[random_() % std::size(kOdd)];
    }
  }

 private:
  std::mt19937 random_;
};

void Change(Numbers* numbers, Rank* rank) {
  numbers->Change({&rank->captured_ns, &rank->real_minus_mono_ns, &rank->stopped_ns, &rank->time_uncertainty_ns,
                   &rank->process.ended_mono_ns, &rank->process.sample_gap_ns, &rank->process.cpu_ns_between_samples,
                   &rank->process.io_bytes_between_samples});
  for (Membership& m : rank->memberships) {
    numbers->Change({&m.issued, &m.launched, &m.started, &m.completed, &m.p2p_issued, &m.p2p_started, &m.p2p_completed,
                     &m.first_seq, &m.issued_ns, &m.created_ns, &m.ready_ns, &m.ended_ns, &m.lost_records,
                     &m.not_loaded});
    for (PeerCount& peer : m.peers) numbers->Change({&peer.sends, &peer.recvs});
    for (HashCheckpoint& checkpoint : m.checkpoints) numbers->Change({&checkpoint.seq});
  }
  for (ring::ThreadSnapshot& thread : rank->threads)
    numbers->Change({&thread.since_ns, &thread.group_since_ns, &thread.wait_since_ns, &thread.last_call_ns});
  for (ring::StreamSnapshot& stream : rank->streams) {
    for (uint64_t* tickets : {&stream.issued, &stream.started, &stream.completed})
      numbers->Change({reinterpret_cast<int64_t*>(tickets)});
  }
  for (ring::GraphSnapshot& graph : rank->graphs)
    numbers->Change({&graph.captured_ns, &graph.last_launch_ns, &graph.ended_ns});
  for (Op& op : rank->ops) {
    numbers->Change({&op.seq, &op.count, &op.index, &op.ticket, &op.enter_ns, &op.return_ns, &op.started_ns,
                     &op.completed_ns, &op.record_id, &op.input_elements, &op.output_elements});
  }
}

TEST(Hostile, NumbersBeyondTheLimitsAreNotRecorded) {
  Rank rank;
  rank.streams.emplace_back().completed = UINT64_MAX;
  rank.graphs.emplace_back().captured_ns = INT64_MAX;
  rank.memberships.emplace_back().checkpoints = {{INT64_MIN, 1}};
  rank.process.cpu_ns_between_samples = INT64_MAX;
  BoundNumbers(&rank);
  EXPECT_EQ(rank.streams[0].completed, 0u);
  EXPECT_EQ(rank.graphs[0].captured_ns, 0);
  EXPECT_EQ(rank.memberships[0].checkpoints[0].seq, kNone);
  EXPECT_EQ(rank.process.cpu_ns_between_samples, -1);
}

TEST(Hostile, ArbitraryNumbersAreHarmless) {
  for (uint32_t round = 0; round < 64; ++round) {
    Job job(2, 2, 2, 3);
    if (round % 4 != 0) {
      job.ranks[5].host_fault_at = job.Find(5, "dp", 2);
      job.ranks[5].host_fault = round % 4 == 1   ? HostFault::kStall
                                : round % 4 == 2 ? HostFault::kDie
                                                 : HostFault::kStop;
    }
    Bundle bundle = job.Run();
    bundle.known_stalled = round / 4 % 2 == 1;
    Numbers numbers(round);
    numbers.Change({&bundle.stalled_ns});
    for (Rank& rank : bundle.ranks) {
      // In half of the rounds, only one rank is changed.
      if (round / 8 % 2 == 0 || rank.rank == static_cast<int32_t>(round % 8)) Change(&numbers, &rank);
      BoundNumbers(&rank);
    }
    Analyze(bundle);
  }
}

}  // namespace
}  // namespace lockstep
