#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "analyzer/testing/timed_job.h"
#include "tests/jobmodel/step.h"

namespace lockstep::testing {
namespace {

using jobmodel::Family;
using ring::CallKind;

struct Comm {
  std::string name;
  std::vector<int> members;
};

struct Timed {  // one operation of a rank's program
  int comm = 0;
  CallKind kind = CallKind::kAllReduce;
  int peer = -1;         // peer's member rank
  bool compute = false;  // a computation comes before the operation
};

class Player {
 public:
  explicit Player(const TimedJob& job) : job_(job) {
    jobmodel::Layout layout;
    layout.tp = job.tp, layout.pp = job.pp, layout.dp = job.dp;
    of_rank_.resize(layout.Ranks());
    for (Family family : {Family::kTp, Family::kDp, Family::kPp}) {
      for (const jobmodel::Group& group : jobmodel::Groups(layout, family)) {
        if (group.size < 2) continue;
        for (int r : group.Members()) of_rank_[r][jobmodel::FamilyName(family)] = static_cast<int>(comms_.size());
        comms_.push_back({group.Name(), group.Members()});
      }
    }
    // Two layers, each with one operation after its computation.
    jobmodel::Step step;
    step.micro_batches = job.micro_batches;
    step.forward = step.backward = {{Family::kTp, CallKind::kAllReduce}, {Family::kTp, CallKind::kAllReduce}};
    step.end = {{Family::kDp, CallKind::kAllReduce}};
    for (int stage = 0; stage < job.pp; ++stage) calls_.push_back(jobmodel::CallsOf(step, stage, job.pp));
  }

  Bundle Play(std::vector<int64_t>* step_ends) {
    const int n = job_.Ranks();
    Bundle b;
    b.ranks_expected = n;
    for (const Comm& c : comms_) {
      Communicator comm;
      comm.id = c.name;
      comm.name = c.name;
      comm.size = static_cast<int32_t>(c.members.size());
      comm.members.assign(c.members.begin(), c.members.end());
      b.comms.push_back(comm);
    }
    b.ranks.resize(n);
    std::vector<std::map<int, uint32_t>> membership(n);
    for (int r = 0; r < n; ++r) {
      Rank& rank = b.ranks[r];
      rank.rank = r;
      rank.world_size = n;
      rank.host = "node" + std::to_string(Host(r));
      rank.gpu_index = r % job_.gpus_per_host;
      rank.source = Source::kDump;
      rank.gpu_marks = ring::GpuMarks::kFull;
      rank.start_recorded = job_.record_started;
      rank.time_source = job_.source;
      for (const auto& [prefix, c] : of_rank_[r]) {
        Membership m;
        m.comm = static_cast<uint32_t>(c);
        m.member_rank = MemberOf(c, r);
        m.state = ring::CommState::kReady;
        membership[r][c] = static_cast<uint32_t>(rank.memberships.size());
        rank.memberships.push_back(m);
      }
    }
    std::vector<int64_t> now(n, 1'000'000'000), host_now(n, 1'000'000'000);
    std::map<std::pair<int, int>, int64_t> issued;     // (communicator, rank) -> operations issued
    std::map<std::tuple<int, int, int>, int64_t> p2p;  // (communicator, sender, receiver) -> number of sends
    std::vector<uint64_t> random(n);
    for (int r = 0; r < n; ++r) random[r] = job_.seed * 7919 + static_cast<uint64_t>(r) * 104729 + 12345;
    for (int step = 0; step < job_.steps; ++step) {
      std::vector<std::deque<Timed>> todo(n);
      std::vector<int> nth(n, 0);
      std::vector<int64_t> arrived(n, 0);
      for (int r = 0; r < n; ++r) todo[r] = Program(r);
      const std::vector<int64_t> step_begin = now;
      for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < n; ++r) {
          if (todo[r].empty() || arrived[r] != 0) continue;
          const Timed& s = todo[r].front();
          int64_t t = now[r];
          if (s.compute) {
            const double factor = job_.compute_factor ? job_.compute_factor(r, step) : 1;
            t += static_cast<int64_t>(static_cast<double>(job_.compute_ns) * factor *
                                      (1 + job_.jitter * Random(&random[r])));
          }
          if (job_.delay_ns) t += job_.delay_ns(r, step, nth[r]);
          arrived[r] = std::max<int64_t>(t, 1);
          moved = true;
        }
        for (int r = 0; r < n; ++r) {
          if (todo[r].empty()) continue;
          const Timed s = todo[r].front();
          std::vector<int> in;
          if (s.kind == CallKind::kSend || s.kind == CallKind::kRecv) {
            in = {r, comms_[s.comm].members[s.peer]};
          } else {
            in = comms_[s.comm].members;
          }
          const bool all = std::all_of(in.begin(), in.end(), [&](int m) {
            return !todo[m].empty() && arrived[m] != 0 && todo[m].front().comm == s.comm &&
                   (todo[m].front().peer < 0 || m == r || comms_[s.comm].members[todo[m].front().peer] == r);
          });
          if (!all) continue;
          int64_t begin = 0;
          for (int m : in) begin = std::max(begin, arrived[m]);
          const double factor = job_.transfer_factor ? job_.transfer_factor(in, step) : 1;
          const int64_t end = begin + static_cast<int64_t>(static_cast<double>(job_.transfer_ns) * factor);
          for (int m : in) {
            Record(&b.ranks[m], m, todo[m].front(), membership[m][s.comm], &issued, &p2p, step_begin[m], arrived[m],
                   end);
            now[m] = end;
            arrived[m] = 0;
            ++nth[m];
            todo[m].pop_front();
          }
          moved = true;
        }
      }
      step_ends->push_back(*std::max_element(now.begin(), now.end()));
    }
    for (int r = 0; r < n; ++r) {
      Rank& rank = b.ranks[r];
      rank.captured_ns = Show(Host(r), *std::max_element(now.begin(), now.end()) + 1'000'000);
      for (Membership& m : rank.memberships) {
        const auto it = issued.find({static_cast<int>(m.comm), r});
        m.issued = m.launched = it == issued.end() ? kNone : it->second;
        m.completed = job_.record_completed ? m.issued : kUnknown;
        for (const auto& [key, count] : p2p) {
          if (std::get<0>(key) != static_cast<int>(m.comm)) continue;
          const int sender = std::get<1>(key), receiver = std::get<2>(key);
          if (sender == m.member_rank) m.peers.push_back({receiver, count, 0});
          if (receiver == m.member_rank) m.peers.push_back({sender, 0, count});
        }
      }
    }
    return b;
  }

 private:
  int Host(int r) const { return r / job_.gpus_per_host; }
  int64_t Show(int host, int64_t t) const { return job_.clock ? job_.clock(host, t) : t; }
  int MemberOf(int c, int r) const {
    const auto& m = comms_[c].members;
    return static_cast<int>(std::find(m.begin(), m.end(), r) - m.begin());
  }
  static double Random(uint64_t* state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(*state >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
  }

  std::deque<Timed> Program(int r) const {
    std::deque<Timed> timed;
    for (const jobmodel::Call& call : calls_[r / (job_.tp * job_.dp)]) {
      const auto comm = of_rank_[r].find(jobmodel::FamilyName(call.family));
      if (comm == of_rank_[r].end()) continue;
      const bool computes = call.kind == CallKind::kAllReduce || (call.kind == CallKind::kSend && job_.tp == 1);
      timed.push_back({comm->second, call.kind, call.root_or_peer, computes});
    }
    return timed;
  }

  void Record(Rank* rank, int r, const Timed& s, uint32_t membership, std::map<std::pair<int, int>, int64_t>* issued,
              std::map<std::tuple<int, int, int>, int64_t>* p2p, int64_t step_begin, int64_t arrived,
              int64_t end) const {
    Op op;
    op.membership = membership;
    op.kind = s.kind;
    op.datatype = 7;
    op.count = 1 << 20;
    op.root_or_peer = s.peer;
    op.thread = 0;
    op.index = static_cast<int64_t>(rank->ops.size());
    const int host = Host(r);
    // A CPU thread that runs ahead issues all calls of a step in a burst at the step's beginning.
    const int64_t entered = job_.host_runs_ahead
                                ? std::min(arrived - 10'000, step_begin + 10'000 * (op.index % 1000 + 1))
                                : arrived - 10'000;
    op.enter_ns = Show(host, entered);
    op.return_ns = Show(host, entered + 5'000);
    if (s.peer >= 0) {
      const bool send = s.kind == CallKind::kSend;
      const int own = rank->memberships[membership].member_rank;
      op.seq = ++(*p2p)[{s.comm, send ? own : s.peer, send ? s.peer : own}];
      // Receives have their own counter; this restores the number of sends.
      if (!send) op.seq = ++p2p_received_[{s.comm, s.peer, own}], --(*p2p)[{s.comm, s.peer, own}];
    } else {
      op.seq = ++(*issued)[{s.comm, r}];
    }
    op.state = OpState::kCompleted;
    auto seen = [&](int64_t t) {
      return job_.sampled_every_ns > 0 ? (t / job_.sampled_every_ns + 1) * job_.sampled_every_ns : t;
    };
    if (job_.record_started) op.started_ns = Show(host, seen(arrived));
    if (job_.record_completed) op.completed_ns = Show(host, seen(end));
    if (!job_.record_completed) op.state = OpState::kUnknown;
    rank->ops.push_back(op);
  }

  const TimedJob& job_;
  std::vector<Comm> comms_;
  std::vector<std::vector<jobmodel::Call>> calls_;  // calls of one step, by stage
  std::vector<std::map<std::string, int>> of_rank_;
  mutable std::map<std::tuple<int, int, int>, int64_t> p2p_received_;
};

}  // namespace

Bundle TimedJob::Run() const {
  true_step_ends.clear();
  return Player(*this).Play(&true_step_ends);
}

namespace {

TEST(TimedJob, AStragglerLengthensEveryStepAndWaitsLeast) {
  TimedJob job;
  job.Run();
  const std::vector<int64_t> healthy = job.true_step_ends;
  job.compute_factor = [](int rank, int) { return rank == 3 ? 1.5 : 1.0; };
  const Bundle bundle = job.Run();
  ASSERT_EQ(job.true_step_ends.size(), 8u);
  // A step has nine computations of 5 ms, and each of rank 3's takes half as long again.
  EXPECT_NEAR(static_cast<double>(job.true_step_ends.back() - healthy.back()), 8 * 9 * 2.5e6, 8 * 9 * 0.3e6);
  std::vector<int64_t> in_operations;
  for (const Rank& rank : bundle.ranks) {
    in_operations.push_back(0);
    for (const Op& op : rank.ops) in_operations.back() += op.completed_ns - op.started_ns;
  }
  EXPECT_EQ(std::min_element(in_operations.begin(), in_operations.end()) - in_operations.begin(), 3);
}

TEST(TimedJob, PipelinesDrainAndNumberTheirMessages) {
  TimedJob job;
  job.tp = 2, job.pp = 2, job.dp = 2, job.steps = 3;
  const Bundle bundle = job.Run();
  for (const Rank& rank : bundle.ranks) EXPECT_EQ(rank.ops.size(), 3u * (4 + 4 + 4 + 1)) << rank.rank;
}

}  // namespace
}  // namespace lockstep::testing
