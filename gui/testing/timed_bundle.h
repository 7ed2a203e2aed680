// A small job with times, for tests of the timeline.
#pragma once

#include <string>
#include <utility>

#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep::gui::testing {

constexpr int64_t kTimedMs = 1'000'000;
constexpr int64_t kTimedZero = 100'000 * kTimedMs;

// `ranks` ranks, four per host. Each step of 10 ms has a Send from each even rank to the next rank on stream 1, and an
// AllReduce of all ranks on stream 0. In the last step, rank `missing` makes no calls; the others are in the AllReduce.
inline Bundle TimedBundle(int ranks, int steps, int missing) {
  Bundle bundle;
  for (const char* name : {"dp", "pp"}) {
    Communicator comm;
    comm.id = name;
    comm.name = name;
    comm.size = ranks;
    for (int r = 0; r < ranks; ++r) comm.members.push_back(r);
    bundle.comms.push_back(comm);
  }
  for (int r = 0; r < ranks; ++r) {
    Rank rank;
    rank.rank = r;
    rank.world_size = ranks;
    rank.gpu_index = r % 4;
    rank.host = "node" + std::to_string(100 + r / 4);
    rank.captured_ns = kTimedZero + (steps * 10 + 60) * kTimedMs;
    rank.streams.resize(2);
    for (uint32_t c = 0; c < 2; ++c) {
      Membership m;
      m.comm = c;
      m.member_rank = r;
      m.issued = c == 0 ? (r == missing ? steps - 1 : steps) : kUnknown;
      m.completed = c == 0 ? steps - 1 : kUnknown;
      rank.memberships.push_back(m);
    }
    for (int s = 0; s < steps; ++s) {
      const bool last = s + 1 == steps;
      if (last && r == missing) break;
      const int64_t at = kTimedZero + s * 10 * kTimedMs;
      Op send;
      send.membership = 1;
      send.kind = r % 2 == 0 ? ring::CallKind::kSend : ring::CallKind::kRecv;
      send.root_or_peer = r ^ 1;
      send.seq = s + 1;
      send.stream = 1;
      send.state = OpState::kCompleted;
      send.enter_ns = at + 100'000;
      send.return_ns = at + 150'000;
      send.started_ns = at + 300'000 + r % 2 * 200'000;
      send.completed_ns = at + 900'000;
      rank.ops.push_back(send);
      Op reduce;
      reduce.membership = 0;
      reduce.kind = ring::CallKind::kAllReduce;
      reduce.seq = s + 1;
      reduce.stream = 0;
      reduce.enter_ns = at + 1'000'000 + r % 7 * 300'000;
      reduce.return_ns = reduce.enter_ns + 400'000;
      reduce.started_ns = reduce.return_ns + 800'000;
      reduce.completed_ns = last ? 0 : at + 8'000'000;
      reduce.state = last ? OpState::kStarted : OpState::kCompleted;
      rank.ops.push_back(reduce);
    }
    bundle.ranks.push_back(std::move(rank));
  }
  return bundle;
}

inline ViewFacts TimedFacts(const Bundle& bundle, int64_t uncertainty_ns) {
  ViewFacts facts;
  for (const Rank& rank : bundle.ranks) {
    RankFacts* out = facts.add_ranks();
    out->set_rank(rank.rank);
    out->set_stage(-1);
    out->set_clock_uncertainty_ns(uncertainty_ns);
    out->set_gpu_recorded(true);
    out->add_streams(7);
    out->add_streams(13);
  }
  return facts;
}

}  // namespace lockstep::gui::testing
