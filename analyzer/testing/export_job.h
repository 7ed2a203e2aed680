// A small job for the export's tests: three hosts with two ranks each. It has everything that a source may record or
// omit, and names that try to escape from every output format.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/model/bundle.h"
#include "analyzer/report/phrases.h"
#include "proto/verdict.pb.h"

namespace lockstep {

constexpr char kEvilName[] = "dp \"x\",\\ </script>\x1b[31m=1+1\n\xff";

// Rank 3 never reaches AllReduce #9 of world. Host 0 records the GPU's starts and ends, host 1 only ends, host 2
// neither. Each host's own clock has a different zero; host 1's wall clock is 5 s ahead.
inline Bundle MakeExportJob() {
  constexpr int64_t kSecond = 1'000'000'000;
  Bundle bundle;
  bundle.job = "export";
  bundle.ranks_expected = 6;
  bundle.known_stalled = true;
  bundle.stalled_ns = 30 * kSecond;
  Communicator world;
  world.id = "00000000000000aa";
  world.name = "world";
  world.size = 6;
  world.members = {0, 1, 2, 3, 4, 5};
  bundle.comms.push_back(world);
  Communicator pair;
  pair.id = "00000000000000bb";
  pair.name = Printable(kEvilName);
  pair.size = 2;
  pair.members = {0, 1};
  bundle.comms.push_back(pair);
  for (int r = 0; r < 6; ++r) {
    const int host = r / 2;
    const int64_t zero = (host + 1) * 1000 * kSecond;  // zero of the host's own clock
    Rank rank;
    rank.rank = r;
    rank.world_size = 6;
    rank.local_rank = r % 2;
    rank.host = host == 2 ? "" : absl::StrCat("node", host);
    rank.pid = 100 + r;
    rank.gpu_index = r % 2;
    rank.gpu_marks = ring::GpuMarks::kFull;
    rank.host_waits = true;
    rank.job = "export";
    rank.captured_ns = zero + 60 * kSecond;
    rank.real_minus_mono_ns = 1'700'000'000 * kSecond - zero + (host == 1 ? 5 * kSecond : 0);
    ring::ThreadSnapshot thread;
    thread.tid = 1000 + r;
    thread.name = r == 0 ? Printable(kEvilName, 15) : "main";
    thread.last_call_ns = zero + 20 * kSecond;
    rank.threads.push_back(thread);
    ring::StreamSnapshot stream;
    stream.marked = true;
    const int64_t last = r == 3 ? 8 : 9;
    stream.issued = stream.started = static_cast<uint64_t>(last);
    stream.completed = 8;
    rank.streams.push_back(stream);
    Membership membership;
    membership.comm = 0;
    membership.member_rank = r;
    membership.state = ring::CommState::kReady;
    membership.issued = membership.launched = membership.started = last;
    membership.completed = 8;
    rank.memberships.push_back(membership);
    for (int64_t seq = 1; seq <= last; ++seq) {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = op.ticket = seq;
      op.index = seq - 1;
      op.count = 1024;
      op.datatype = 7;
      op.reduction = 0;
      op.thread = op.stream = 0;
      op.enter_ns = zero + seq * kSecond + r * 1000;
      op.return_ns = op.enter_ns + 20'000;
      op.state = seq <= 8 ? OpState::kCompleted : OpState::kStarted;
      if (host == 0) op.started_ns = op.enter_ns + 100'000;
      if (seq <= 8 && host < 2) op.completed_ns = zero + seq * kSecond + 5'000'000;
      rank.ops.push_back(op);
    }
    if (host == 0) {
      Membership second;
      second.comm = 1;
      second.member_rank = r;
      second.state = ring::CommState::kReady;
      second.issued = second.launched = second.completed = 0;
      second.peers.push_back({1 - r, 2, 2});
      rank.memberships.push_back(second);
      // Two sends and two receives in one group, with times that overlap without nesting.
      for (int i = 0; i < 4; ++i) {
        Op op;
        op.membership = 1;
        op.kind = i % 2 == 0 ? ring::CallKind::kSend : ring::CallKind::kRecv;
        op.root_or_peer = 1 - r;
        op.seq = i / 2 + 1;
        op.count = 64;
        op.datatype = 7;
        op.thread = 0;
        op.index = 9 + i;
        op.group = 5;
        op.state = OpState::kCompleted;
        op.enter_ns = zero + 15 * kSecond + i * 1000;
        op.return_ns = op.enter_ns + 5000;
        op.started_ns = op.enter_ns + 10'000;
        op.completed_ns = op.started_ns + 1500 * (i + 1);
        rank.ops.push_back(op);
      }
    }
    if (r == 5) {
      Op op;  // an operation without a time
      op.membership = 0;
      op.kind = ring::CallKind::kBroadcast;
      op.thread = 0;
      op.index = 9;
      op.state = OpState::kFailed;
      op.seq = 10;
      rank.ops.push_back(op);
    }
    rank.threads[0].calls = rank.ops.size();
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

inline Verdict MakeExportVerdict() {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HUNG);
  verdict.set_ranks_read(6);
  verdict.set_ranks_expected(6);
  Finding* finding = verdict.add_findings();
  finding->set_kind(HOST_STALL);
  finding->add_culprit_ranks(3);
  finding->add_culprits()->set_rank(3);
  finding->set_summary("never called AllReduce #9 on world");
  ChainLink* link = finding->add_chain();
  for (int rank : {0, 1, 2, 4, 5}) link->add_ranks(rank);
  link->add_waits_for(3);
  link->set_operation("AllReduce #9");
  link->mutable_communicator()->set_name("world");
  // The offset from a host's own clock to the first host's clock: the zeros are 1000 s apart.
  for (int host = 0; host < 2; ++host) {
    ClockOffset* clock = verdict.add_clocks();
    clock->set_host(absl::StrCat("node", host));
    clock->set_offset_ns(host * -1'000'000'000'000);
    clock->set_uncertainty_ns(10'000);
  }
  return verdict;
}

}  // namespace lockstep
