// The model of timed_job.h, and a test that it plays what it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "analyzer/testing/timed_job.h"

namespace lockstep::testing {
namespace {

using ring::CallKind;

struct Comm {
  std::string name;
  std::vector<int> members;
};

struct Step {  // one operation of a rank's program
  int comm = 0;
  CallKind kind = CallKind::kAllReduce;
  int peer = -1;         // member
  bool compute = false;  // computes before it
};

class Player {
 public:
  explicit Player(const TimedJob& job) : job_(job) {
    const int n = job.Ranks();
    auto rank_of = [&](int t, int d, int p) { return (p * job.dp + d) * job.tp + t; };
    of_rank_.resize(n);
    auto add = [&](const std::string& name, std::vector<int> members) {
      for (int r : members) of_rank_[r][name.substr(0, 2)] = static_cast<int>(comms_.size());
      comms_.push_back({name, std::move(members)});
    };
    for (int p = 0; p < job.pp; ++p) {
      for (int d = 0; d < job.dp && job.tp > 1; ++d) {
        std::vector<int> m;
        for (int t = 0; t < job.tp; ++t) m.push_back(rank_of(t, d, p));
        add("tp_" + std::to_string(p * job.dp + d), m);
      }
      for (int t = 0; t < job.tp && job.dp > 1; ++t) {
        std::vector<int> m;
        for (int d = 0; d < job.dp; ++d) m.push_back(rank_of(t, d, p));
        add("dp_" + std::to_string(p * job.tp + t), m);
      }
    }
    for (int d = 0; d < job.dp && job.pp > 1; ++d) {
      for (int t = 0; t < job.tp; ++t) {
        std::vector<int> m;
        for (int p = 0; p < job.pp; ++p) m.push_back(rank_of(t, d, p));
        add("pp_" + std::to_string(d * job.tp + t), m);
      }
    }
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
    std::map<std::pair<int, int>, int64_t> issued;     // comm, rank
    std::map<std::tuple<int, int, int>, int64_t> p2p;  // comm, sender, receiver
    std::vector<uint64_t> random(n);
    for (int r = 0; r < n; ++r) random[r] = job_.seed * 7919 + static_cast<uint64_t>(r) * 104729 + 12345;
    for (int step = 0; step < job_.steps; ++step) {
      std::vector<std::deque<Step>> todo(n);
      std::vector<int> nth(n, 0);
      std::vector<int64_t> arrived(n, 0);
      for (int r = 0; r < n; ++r) todo[r] = Program(r);
      const std::vector<int64_t> step_begin = now;
      for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < n; ++r) {
          if (todo[r].empty() || arrived[r] != 0) continue;
          const Step& s = todo[r].front();
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
          const Step s = todo[r].front();
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

  std::deque<Step> Program(int r) const {
    std::deque<Step> steps;
    auto comm = [&](const std::string& prefix) {
      const auto it = of_rank_[r].find(prefix);
      return it == of_rank_[r].end() ? -1 : it->second;
    };
    const int tp = comm("tp"), dp = comm("dp"), pp = comm("pp");
    const int stage = pp < 0 ? 0 : MemberOf(pp, r);
    for (int pass = 0; pass < 2; ++pass) {
      const int from = pass == 0 ? stage - 1 : stage + 1, to = pass == 0 ? stage + 1 : stage - 1;
      for (int m = 0; m < job_.micro_batches; ++m) {
        if (pp >= 0 && from >= 0 && from < job_.pp) steps.push_back({pp, CallKind::kRecv, from, false});
        for (int k = 0; k < 2; ++k) {
          if (tp >= 0) steps.push_back({tp, CallKind::kAllReduce, -1, true});
        }
        if (pp >= 0 && to >= 0 && to < job_.pp) steps.push_back({pp, CallKind::kSend, to, tp < 0});
      }
    }
    if (dp >= 0) steps.push_back({dp, CallKind::kAllReduce, -1, true});
    return steps;
  }

  void Record(Rank* rank, int r, const Step& s, uint32_t membership, std::map<std::pair<int, int>, int64_t>* issued,
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
    // A host that runs ahead issues a step's calls in a burst at its beginning.
    const int64_t entered = job_.host_runs_ahead
                                ? std::min(arrived - 10'000, step_begin + 10'000 * (op.index % 1000 + 1))
                                : arrived - 10'000;
    op.enter_ns = Show(host, entered);
    op.return_ns = Show(host, entered + 5'000);
    if (s.peer >= 0) {
      const bool send = s.kind == CallKind::kSend;
      const int own = rank->memberships[membership].member_rank;
      op.seq = ++(*p2p)[{s.comm, send ? own : s.peer, send ? s.peer : own}];
      // Counted on both sides; each side's record bumps its own half.
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
  // Nine computations of 5 ms a step, half longer.
  EXPECT_NEAR(static_cast<double>(job.true_step_ends.back() - healthy.back()), 8 * 9 * 2.5e6, 8 * 9 * 0.3e6);
  std::vector<int64_t> in_operations;
  for (const Rank& rank : bundle.ranks) {
    in_operations.push_back(0);
    for (const Op& op : rank.ops) in_operations.back() += op.completed_ns - op.started_ns;
  }
  EXPECT_EQ(std::min_element(in_operations.begin(), in_operations.end()) - in_operations.begin(), 3);
}

TEST(TimedJob, PipelinesAreDrainedAndNumbered) {
  TimedJob job;
  job.tp = 2, job.pp = 2, job.dp = 2, job.steps = 3;
  const Bundle bundle = job.Run();
  for (const Rank& rank : bundle.ranks) EXPECT_EQ(rank.ops.size(), 3u * (4 + 4 + 4 + 1)) << rank.rank;
}

}  // namespace
}  // namespace lockstep::testing
