// Verdicts and bundles that the report tests share.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns a bundle of ranks on one host, with nothing to report.
inline Bundle MakeBundle(int ranks) {
  Bundle bundle;
  for (int i = 0; i < ranks; ++i) {
    Rank rank;
    rank.rank = i;
    rank.host = "node0";
    rank.gpu_index = i;
    rank.pid = 100 + i;
    rank.path = "/incident/node0.lsd";
    rank.gpu_marks = ring::GpuMarks::kDone;
    bundle.ranks.push_back(rank);
  }
  bundle.ranks_expected = ranks;
  return bundle;
}

// Returns the verdict for a job in which rank 5 of 8 never reached the AllReduce of dp_1.
inline Verdict MakeHung() {
  Verdict verdict;
  verdict.set_verdict(VERDICT_HUNG);
  verdict.set_job("train.0");
  verdict.set_ranks_read(8);
  verdict.set_ranks_expected(8);
  verdict.set_stalled_ns(31'000'000'000);
  NotTheCause* not_it = verdict.add_ruled_out();
  not_it->set_what(NotTheCause::NETWORK);
  not_it->set_why("no collective has all members inside");
  Finding* finding = verdict.add_findings();
  finding->set_kind(HOST_STALL);
  finding->add_culprit_ranks(5);
  Culprit* culprit = finding->add_culprits();
  culprit->set_rank(5);
  culprit->set_host("node0");
  culprit->set_gpu(5);
  culprit->set_pid(105);
  culprit->set_state("in no NCCL call and no GPU wait");
  finding->mutable_communicator()->set_id("00000000000000ab");
  finding->mutable_communicator()->set_name("dp_1");
  finding->mutable_communicator()->set_size(4);
  finding->set_operation("AllReduce");
  finding->set_sequence(41);
  finding->set_victim_count(7);
  ChainLink* link = finding->add_chain();
  for (int rank : {7, 1, 3}) link->add_ranks(rank);
  link->add_waits_for(5);
  link->set_operation("AllReduce #41");
  *link->mutable_communicator() = finding->communicator();
  link->set_text("ranks 1, 3, 7 wait in AllReduce #41 on dp_1 for rank 5");
  finding->set_confidence(0.93);
  Evidence* evidence = finding->add_evidence();
  evidence->set_text("3 of 4 members of dp_1 wait in AllReduce #41");
  evidence->set_source("rank 9's record");
  evidence->add_ranks(3);
  evidence->add_ranks(1);
  finding->set_advice("1. Look at the stacks.\n2. Restart.");
  finding->add_advice_steps("Look at the stacks.");
  finding->add_advice_steps("Restart.");
  finding->set_summary("never called AllReduce #41 on dp_1");
  finding->set_refuted_by("its own record of it");
  return verdict;
}

// Returns a verdict, and sets a bundle, in which every text from a file tries to escape from its markup.
inline Verdict MakeHostile(Bundle* out) {
  Verdict verdict = MakeHung();
  Bundle bundle = MakeBundle(8);
  const std::string evil = "</title><script>alert('x')</script>\"'&";
  verdict.set_job(evil);
  verdict.mutable_findings(0)->set_summary(evil);
  verdict.mutable_findings(0)->mutable_culprits(0)->set_host(evil);
  verdict.mutable_findings(0)->mutable_chain(0)->mutable_communicator()->set_name(evil);
  bundle.ranks[2].host = evil;
  Finding* hostile = verdict.mutable_findings(0);
  hostile->add_advice_steps(evil);
  hostile->set_refuted_by(evil);
  hostile->set_activity(evil);
  hostile->add_alternatives(evil);
  hostile->mutable_communicator()->set_name(evil);
  hostile->mutable_common_factor()->set_kind(evil);
  hostile->mutable_common_factor()->set_name(evil);
  hostile->mutable_chain(0)->set_operation(evil);
  hostile->mutable_chain(0)->set_text(evil);
  hostile->mutable_evidence(0)->set_text(evil);
  hostile->mutable_evidence(0)->set_source(evil);
  *verdict.add_findings() = *hostile;
  verdict.add_blind(evil);
  verdict.add_ruled_out()->set_why(evil);
  verdict.add_problems()->set_path(evil);
  verdict.add_clocks()->set_host(evil);
  verdict.add_clocks()->set_host(evil);
  verdict.mutable_start_up()->set_text(evil);
  verdict.mutable_start_up()->add_phases()->set_name(evil);
  verdict.mutable_start_up()->mutable_phases(0)->set_ranks(1);
  verdict.mutable_start_up()->add_ranks()->set_host(evil);
  verdict.mutable_start_up()->mutable_ranks(0)->set_last(1);
  Creation* creation = verdict.mutable_start_up()->add_creations();
  creation->set_call(evil);
  creation->mutable_communicator()->set_name(evil);
  Bandwidth* bandwidth = verdict.add_bandwidths();
  bandwidth->set_operation(evil);
  bandwidth->set_clock(evil);
  bandwidth->set_bus_bytes_per_s(1);
  bandwidth->mutable_communicator()->set_name(evil);
  bundle.strings.push_back(evil);
  Communicator comm;
  comm.id = "00000000000000ab";
  comm.name = evil;
  comm.size = 1;
  comm.members = {5};
  bundle.comms.push_back(comm);
  Rank& rank = bundle.ranks[5];
  rank.memberships.emplace_back();
  rank.memberships[0].comm = 0;
  rank.memberships[0].member_rank = 0;
  rank.memberships[0].issued = 3;
  rank.ops.emplace_back();
  rank.ops[0].membership = 0;
  rank.ops[0].name = rank.ops[0].call_site = 0;
  rank.ops[0].kind = ring::CallKind::kAllReduce;
  rank.ops[0].seq = 3;
  rank.path = evil;
  rank.process.stack = rank.process.python_stack = rank.process.stack_later = {evil, evil};
  rank.process.state = rank.process.wchan = evil;
  bundle.ranks[6].process.stack_refused = evil;
  *out = std::move(bundle);
  return verdict;
}

// Likewise for 24,576 ranks: every list has its maximum length, and no list of ranks becomes ranges.
inline Verdict MakeHuge(Bundle* out) {
  constexpr int kRanks = 24576;
  Bundle bundle = MakeBundle(kRanks);
  Communicator world;
  world.id = "00000000000000ab";
  world.name = "world";
  world.size = kRanks;
  Verdict verdict = MakeHung();
  verdict.set_ranks_expected(kRanks);
  verdict.set_ranks_read(kRanks);
  Finding* finding = verdict.mutable_findings(0);
  for (int i = 0; i < kRanks; ++i) {
    world.members.push_back(i);
    Rank& rank = bundle.ranks[i];
    rank.host = absl::StrCat("node", i / 8);
    Membership membership;
    membership.comm = 0;
    membership.member_rank = i;
    membership.issued = 20 + (i * 7) % 31;
    membership.completed = 15 + (i * 5) % 17;
    rank.memberships.push_back(membership);
    rank.process.state = "S";
    rank.process.wchan = absl::StrCat("wait_", i % 1000);
    rank.process.stack = {absl::StrCat("leaf_", i), absl::StrCat("middle_", i % 100), "main"};
    rank.process.python_stack = {absl::StrCat("train.py:", i), "train.py:1 main"};
    if (i % 3 == 0) {
      finding->add_culprit_ranks(i);
      Culprit* culprit = finding->add_culprits();
      culprit->set_rank(i);
      culprit->set_host(rank.host);
      culprit->set_state(absl::StrCat("state ", i));
    } else if (i % 3 == 1) {
      finding->mutable_chain(0)->add_ranks(i);
    }
    finding->add_evidence()->set_text(absl::StrCat("fact ", i));
    verdict.add_problems()->set_text(absl::StrCat("problem ", std::string(i % 50, 'x')));
    verdict.add_blind(absl::StrCat("blind ", i));
    verdict.add_clocks()->set_host(rank.host);
    verdict.mutable_clocks(i)->set_offset_ns(i);
    verdict.add_arrivals()->set_rank(i);
    verdict.add_bandwidths()->set_bus_bytes_per_s(1e9 + i);
    verdict.mutable_start_up()->add_creations()->set_end_ns(i + 1);
  }
  for (int i = 0; i < 500; ++i) {
    ChainLink* link = finding->add_chain();
    link->set_operation(absl::StrCat("AllReduce #", i));
    link->add_ranks(i);
    link->set_text(absl::StrCat("rank ", i, " waits in AllReduce #", i));
  }
  bundle.comms.push_back(world);
  for (int i = 0; i < 10; ++i) *verdict.add_findings() = *finding;
  *out = std::move(bundle);
  return verdict;
}

// Likewise for a small job with data for every section: states, stacks, figures, clocks, start-up.
inline Verdict MakeRich(Bundle* out) {
  Verdict verdict = MakeHung();
  Bundle bundle = MakeBundle(16);
  verdict.set_ranks_expected(18);
  verdict.set_ranks_read(16);
  Finding* finding = verdict.mutable_findings(0);
  finding->set_activity("checkpoint");
  finding->set_moving("not moving");
  finding->add_alternatives("the file system of node0 is slow for everybody");
  finding->set_tells_apart("the I/O of the other ranks that write");
  ChainLink* far = finding->add_chain();
  for (int rank : {0, 2, 4, 6}) far->add_ranks(rank);
  far->add_waits_for(7);
  far->set_operation("Recv #12 from rank 7");
  far->mutable_communicator()->set_name("pipeline_model_parallel_group_of_the_first_replica");
  far->set_text(
      "ranks 0-6 in steps of 2 wait in Recv #12 from rank 7 on pipeline_model_parallel_group_of_the_first_replica for "
      "rank 7");
  verdict.add_blind("GPU progress markers were off on ranks 8-15: what their GPUs did is not seen");
  verdict.add_not_measured("bandwidth of sends and receives: nothing times them");
  Communicator comm;
  comm.id = "00000000000000ab";
  comm.name = "dp_1";
  comm.size = 9;
  comm.members = {1, 3, 5, 7, 9, 11, 13, 15, 17};
  bundle.comms.push_back(comm);
  for (int i = 0; i < 8; ++i) {
    Rank& rank = bundle.ranks[2 * i + 1];
    Membership membership;
    membership.comm = 0;
    membership.member_rank = i;
    membership.issued = i == 2 ? 40 : 41 + i % 2;
    membership.completed = 40;
    rank.memberships.push_back(membership);
    for (int64_t seq = 30; seq <= membership.issued; ++seq) {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.seq = op.index = seq;
      op.enter_ns = seq * 1'000'000'000;
      op.return_ns = op.enter_ns + 1000;
      op.state = seq <= 40 ? OpState::kCompleted : i == 3 ? OpState::kEnqueued : OpState::kIncomplete;
      if (i != 5 || seq < 41) rank.ops.push_back(op);
    }
    rank.captured_ns = 80'000'000'000;
  }
  for (int i = 0; i < 16; ++i) {
    Process& process = bundle.ranks[i].process;
    process.state = i == 5 ? "D" : "S";
    process.stack = {"futex_wait", "__cudaStreamSynchronize_in_a_long_library_name_v12_4_127",
                     "torch::autograd::Engine::execute", "step", "main"};
    process.python_stack = {"torch/cuda/streams.py:96 synchronize", "train.py:412 step", "train.py:88 main"};
    if (i == 5) process.stack = {"[kernel] folio_wait_bit+0x13d/0x350", "write", "save", "main"};
    if (i == 5)
      process.python_stack = {"torch/serialization.py:850 save", "checkpoint.py:31 write", "train.py:88 main"};
  }
  for (int i = 0; i < 6; ++i) {
    Bandwidth* b = verdict.add_bandwidths();
    b->set_operation(i % 2 == 0 ? "AllReduce" : "ReduceScatter");
    b->mutable_communicator()->set_name(absl::StrCat("data_parallel_group_", i));
    b->set_bytes(int64_t{64} << 20);
    b->set_operations(400);
    if (i == 4) continue;
    b->set_bus_bytes_per_s(21e9 * (i + 1));
    b->set_best_bus_bytes_per_s(130e9);
    if (i != 3) b->set_peer_bus_bytes_per_s(60e9);
    b->set_clock("profiler");
    Arrival* arrival = verdict.add_arrivals();
    arrival->set_rank(i);
    arrival->set_operations(900);
    arrival->set_last(800 / (i + 1));
    arrival->set_lateness_ns(int64_t{3'200'000'000} / (i + 1));
    arrival->set_uncertainty_ns(12'000);
    ClockOffset* clock = verdict.add_clocks();
    clock->set_host(absl::StrCat("node", i));
    clock->set_offset_ns((i - 2) * int64_t{1'300'000});
    clock->set_uncertainty_ns(i == 5 ? -1 : 90'000 * i);
    clock->set_stepped(i == 3);
    Creation* creation = verdict.mutable_start_up()->add_creations();
    creation->set_call("CommSplit");
    *creation->mutable_communicator() = b->communicator();
    creation->mutable_communicator()->set_size(8);
    creation->set_begin_ns(i * int64_t{20'000'000'000});
    creation->set_end_ns(i == 5 ? 0 : creation->begin_ns() + 19'000'000'000);
    creation->set_median_ns(12'000'000'000);
    creation->set_longest_ns(19'000'000'000);
    creation->set_last_rank(7);
    creation->set_last_by_ns(4'000'000'000);
    creation->set_members_entered(i == 5 ? 7 : 8);
    creation->set_serial(i > 0);
  }
  for (const char* name : {"before", "waiting", "creating", "splitting", "between", "first operations"}) {
    StartUpPhase* phase = verdict.mutable_start_up()->add_phases();
    phase->set_name(name);
    phase->set_ranks(name[0] == 'f' ? 0 : 8);
    phase->set_median_ns(12'000'000'000);
    phase->set_longest_ns(51'000'000'000);
    phase->set_longest_rank(name[0] == 'f' ? -1 : 3);
    phase->set_last_rank(name[0] == 'c' ? 7 : -1);
    phase->set_last_by_ns(4'000'000'000);
  }
  for (int i = 0; i < 20; ++i) {
    StartUpRank* rank = verdict.mutable_start_up()->add_ranks();
    rank->set_rank(7 - i % 8);
    rank->set_host("node1");
    for (int phase = 0; phase < 6; ++phase) rank->add_phases_ns(phase == 5 ? -1 : 3'000'000'000 * phase);
    rank->set_creations(6);
    rank->set_last(i < 2 ? 2 - i : 0);
    rank->set_last_by_ns(i < 2 ? 4'000'000'000 : 0);
  }
  verdict.mutable_start_up()->set_text(
      "Making communicators took 2 min: splits of the same ranks ran one after the other.");
  *verdict.add_findings() = *finding;
  verdict.mutable_findings(1)->set_hypothesis(true);
  *out = std::move(bundle);
  return verdict;
}

}  // namespace lockstep
