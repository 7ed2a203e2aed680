#include "recorder/testing/torn.h"

#include <algorithm>

namespace lockstep::recorder::torn {

using ring::CallKind;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;

void Checker::Expect(bool good, const std::string& what, uint64_t seq) {
  if (!good && wrong_.size() < 20) wrong_.push_back(what + " at " + std::to_string(seq));
}

void Checker::Op(const OpSnapshot& op, const Snapshot& snapshot, bool recent) {
  const char* where = recent ? "recent " : "";
  ++records_;
  const bool returned = op.return_ns != 0;
  if (!returned) ++unfinished_;
  const auto say = [&](const char* what) { return std::string(where) + ring::CallName(op.kind) + ": " + what; };
  if (op.kind == CallKind::kGroup) {
    Expect(op.stage == (returned ? OpStage::kLaunched : OpStage::kEntered), say("stage"), op.group);
    Expect(op.count == (returned ? GroupCount(op.group) : 0), say("count"), op.group);
    return;
  }
  if (op.kind == CallKind::kGetUniqueId) {  // any call that is not an operation
    const uint64_t key = Key(255, 0, op.count);
    Expect(op.root_or_peer == Root(key) && op.send_address == SendAddress(key), say("arguments"), op.count);
    Expect(op.caller == Caller(key), say("caller"), op.count);
    Expect(op.stage == (returned ? OpStage::kLaunched : OpStage::kEntered), say("stage"), op.count);
    Expect(op.result == (returned ? Result(key) : 0), say("result"), op.count);
    return;
  }
  if (op.comm == UINT32_MAX) return Expect(false, say("no communicator"), op.seq);
  const bool p2p = ring::IsPointToPoint(op.kind);
  const uint64_t key = Key(op.comm, p2p ? Channel(op.kind == CallKind::kRecv, op.root_or_peer) : 0, op.seq);
  if (p2p) {
    Expect(op.root_or_peer >= 0 && op.root_or_peer < kPeers, say("peer"), op.seq);
  } else {
    Expect(op.kind == CollectiveKind(key), say("kind"), op.seq);
    Expect(op.root_or_peer == Root(key), say("root"), op.seq);
    Expect(op.reduction == Reduction(key), say("reduction"), op.seq);
  }
  Expect(op.datatype == Datatype(key), say("datatype"), op.seq);
  Expect(op.count == Count(key), say("count"), op.seq);
  if (op.stream != UINT32_MAX) Expect(handles_[op.stream] == StreamHandle(key), say("stream"), op.seq);
  if (recent) {
    Expect(op.caller == Caller(key), say("caller"), op.seq);
  } else {
    const bool receive = op.kind == CallKind::kRecv, send = op.kind == CallKind::kSend;
    if (!receive) Expect(op.send_address == SendAddress(key), say("send address"), op.seq);
    if (!send) Expect(op.recv_address == RecvAddress(key), say("receive address"), op.seq);
    const auto is_own = [&](const ring::ThreadSnapshot& thread) { return thread.index == op.thread; };
    Expect(std::any_of(snapshot.threads.begin(), snapshot.threads.end(), is_own), say("thread"), op.seq);
    if (op.group == 0) Expect(op.caller == Caller(key), say("caller"), op.seq);
  }
  if (returned) {
    Expect(op.stage == OpStage::kLaunched || op.stage == OpStage::kQueued, say("stage of a returned call"), op.seq);
    // In a group, every call returns plain success.
    const bool plain = op.result == 0 && (op.group != 0 || recent);
    Expect(plain || op.result == Result(key), say("result"), op.seq);
    Expect(op.return_ns >= op.enter_ns, say("times"), op.seq);
  } else {
    Expect(op.stage == OpStage::kEntered, say("stage of a call that has not returned"), op.seq);
    Expect(op.result == 0, say("result of a call that has not returned"), op.seq);
  }
}

void Checker::Comms(const Snapshot& snapshot) {
  for (const ring::CommSnapshot& comm : snapshot.comms) {
    const auto before = last_.find(comm.index);
    if (before != last_.end()) {
      Expect(comm.issued_seq >= before->second.issued_seq, "progress went back", comm.issued_seq);
      Expect(comm.launched_seq <= comm.issued_seq, "launched before it was issued", comm.issued_seq);
      Expect(comm.id == before->second.id && comm.name == before->second.name, "identity", comm.issued_seq);
    }
    last_[comm.index] = comm;
    // The hash at a sequence number never changes, so progress line and checkpoints must always agree.
    const auto agrees = [&](uint64_t seq, uint64_t hash, const char* what) {
      const auto [place, fresh] = hashes_.try_emplace({comm.index, seq}, hash);
      Expect(fresh || place->second == hash, what, seq);
    };
    if (comm.signature_hash != 0) agrees(comm.issued_seq, comm.signature_hash, "hash of the progress line");
    for (const ring::HashCheckpoint& checkpoint : comm.checkpoints) {
      Expect(checkpoint.seq % ring::kCheckpointEvery == 0, "checkpoint's number", checkpoint.seq);
      agrees(checkpoint.seq, checkpoint.hash, "hash of a checkpoint");
    }
    for (const ring::PeerProgress& peer : comm.peers) {
      Expect(peer.peer >= 0 && peer.peer < kPeers, "peer", comm.issued_seq);
      Expect(peer.sends == 0 || peer.last_send_ns > 0, "time of a send", peer.sends);
    }
  }
}

void Checker::Threads(const Snapshot& snapshot) {
  for (const ring::ThreadSnapshot& thread : snapshot.threads) {
    if (ring::IsCollective(thread.call)) {
      Expect((thread.seq > kSecond) == (thread.comm % 2 == 1), "thread's communicator", thread.seq);
      Expect(thread.call == CollectiveKind(Key(thread.comm, 0, thread.seq)), "thread's call", thread.seq);
    } else if (thread.call != CallKind::kNone) {
      Expect(ring::IsPointToPoint(thread.call) || thread.call == CallKind::kGroupEnd ||
                 thread.call == CallKind::kGetUniqueId,
             "thread's call", thread.seq);
    }
    if (thread.wait != CallKind::kNone) {
      const uint64_t key = Key(254, thread.index, thread.wait_ticket);
      Expect(thread.wait == WaitKind(key), "thread's wait", thread.wait_ticket);
      Expect(thread.wait_stream == key % kStreams, "thread's wait's stream", thread.wait_ticket);
    }
  }
  for (const ring::StreamSnapshot& stream : snapshot.streams) {
    for (const auto& dependency : stream.depends_on) {
      Expect(dependency.ticket >> 32 == dependency.stream, "stream's dependency", dependency.ticket);
    }
  }
}

void Checker::Look(const Snapshot& snapshot) {
  for (const ring::StreamSnapshot& stream : snapshot.streams) handles_[stream.index] = stream.handle;
  Comms(snapshot);
  Threads(snapshot);
  std::map<uint32_t, uint64_t> index;
  for (const OpSnapshot& op : snapshot.ops) {
    Op(op, snapshot, false);
    const auto [place, fresh] = index.try_emplace(op.thread, op.index);
    Expect(fresh || op.index > place->second, "program order", op.index);
    place->second = op.index;
  }
  for (const OpSnapshot& op : snapshot.recent) Op(op, snapshot, true);
  for (const std::string& problem : snapshot.problems) {
    // This report is correct if a writer was stopped while it changed a communicator's identity.
    if (problem.find("was changing") == std::string::npos) Expect(false, problem, 0);
  }
}

}  // namespace lockstep::recorder::torn
