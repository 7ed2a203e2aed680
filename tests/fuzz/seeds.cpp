// Writes the initial inputs for fuzzing and replay. `seeds FOLDER` creates a subfolder for each target.
#include <sys/stat.h>
#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/viewdata/facts.h"
#include "proto/dump.pb.h"
#include "proto/wire.pb.h"

namespace {

using namespace lockstep;

std::string folder;
int failures = 0;

void Write(const std::string& target, const std::string& name, const std::string& bytes) {
  mkdir((folder + "/" + target).c_str(), 0777);
  std::ofstream out(folder + "/" + target + "/" + name, std::ios::binary);
  out << bytes;
  if (!out.flush()) failures++;
}

fr_test::FrDump Dump(int steps) {
  using fr_test::FrEntry;
  fr_test::FrDump dump;
  dump.groups.push_back({.name = "7", .desc = "pp", .ranks = {0, 1, 4}, .pg_id = 1, .enqueued = 3, .completed = 2});
  for (int i = 1; i <= steps; i++) {
    const std::string state = i < steps ? "completed" : "scheduled";
    dump.entries.push_back({.seq = i, .state = state, .frames = {{"step", "/job/m.py", 3}, {"train", "/job/t.py", 8}}});
    dump.entries.push_back(
        {.op = "nccl:_all_gather_base", .seq = i, .output = {{8, 4}}, .state = state, .retired = true});
    for (const char* op : {"nccl:send 0->1", "nccl:recv 0<-1", "nccl:coalesced"}) {
      dump.entries.push_back({.op = op, .pg = "7", .desc = "pp", .pg_id = 1, .is_p2p = true, .p2p_seq = i});
    }
  }
  return dump;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns an .lsd file with uncompressed chunks and without checksums, as lsd_fuzz expects.
std::string Loosen(std::string_view file) {
  std::string out(kLsdMagic);
  file.remove_prefix(kLsdMagic.size());
  const auto varint = [&](uint64_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>((number & 0x7f) | 0x80);
    out += static_cast<char>(number);
  };
  while (!file.empty()) {
    uint64_t length = 0;
    for (int shift = 0; !file.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(file.front());
      file.remove_prefix(1);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    DumpRecord record;
    if (!record.ParseFromArray(file.data(), static_cast<int>(length))) failures++;
    file.remove_prefix(length);
    record.clear_crc();
    if (record.has_ops()) {
      std::string raw(record.ops().raw_bytes(), '\0');
      const std::string& packed = record.ops().zstd();
      if (ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size()) != raw.size()) failures++;
      record.mutable_ops()->set_zstd(raw);
    }
    const std::string body = record.SerializeAsString();
    varint(body.size());
    out += body;
  }
  return out;
}

void WriteDumps() {
  for (int steps : {0, 1, 4}) {
    const std::string name = std::to_string(steps) + "_steps";
    Write("pickle", name, ToPickle(Dump(steps), 2));
    Write("pickle", name + "_python", ToPickle(Dump(steps), 4));
    Write("json", name, ToJson(Dump(steps)));
    Write("load", name, ToPickle(Dump(steps), 2));
    Write("load", name + "_json", ToJson(Dump(steps)));
  }
  fr_test::FrDump old = Dump(2);
  old.AsVersion("1.5");
  Write("pickle", "old", ToPickle(old));
  Write("json", "old", ToJson(old));
}

// Returns a bundle of two ranks with different last calls.
Bundle OwnBundle() {
  Bundle bundle;
  bundle.job = "train";
  bundle.strings = {"_all_gather_base", "train.py:8 step"};
  bundle.shapes = {"[[4,4]]"};
  Communicator comm;
  comm.id = "00000000000000a1";
  comm.name = "dp";
  comm.size = 2;
  comm.members = {0, 1};
  comm.origin = ring::CallKind::kCommInitRank;
  bundle.comms.push_back(comm);
  for (int32_t r = 0; r < 2; r++) {
    Rank rank;
    rank.rank = r;
    rank.world_size = 2;
    rank.host = "node0";
    rank.job = "train";
    rank.pid = 100 + r;
    rank.captured_ns = 90'000'000'000;
    rank.process.life = Life::kRunning;
    rank.process.stack = {"poll", "main"};
    Membership member;
    member.comm = 0;
    member.member_rank = r;
    member.state = ring::CommState::kReady;
    member.issued = 20 - r;
    member.checkpoints = {{16, 7}};
    member.peers = {{1 - r, 3, 3}};
    rank.memberships.push_back(member);
    rank.threads.emplace_back();
    rank.streams.emplace_back();
    for (int64_t i = 1; i <= 20 - r; i++) {
      Op op;
      op.membership = 0;
      op.kind = i % 3 == 0 ? ring::CallKind::kAllGather : ring::CallKind::kAllReduce;
      op.state = i < 19 ? OpState::kCompleted : OpState::kEnqueued;
      op.seq = op.index = op.ticket = i;
      op.count = 1 << (i % 10);
      op.datatype = 7;
      op.thread = op.stream = 0;
      op.enter_ns = i * 1'000'000;
      op.return_ns = op.enter_ns + 1000;
      if (i % 2 == 0) {
        op.name = 0;
        op.call_site = 1;
        op.input_shape = 0;
      }
      rank.ops.push_back(op);
    }
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

void WriteOwn() {
  const Bundle bundle = OwnBundle();
  const std::string path = folder + "/seed.lsd";
  std::vector<size_t> ranks;
  for (size_t i = 0; i < bundle.ranks.size(); i++) ranks.push_back(i);
  DumpHeader header;
  header.set_host("node0");
  if (!WriteLsd(bundle, ranks, header, path).ok()) failures++;
  const std::string file = ReadAll(path);
  remove(path.c_str());
  Write("lsd", "whole", file);
  Write("load", "lsd", file);
  Write(
      "load", "log",
      "world_size=4\n[rank1]:[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600029 "
      "milliseconds before timing out.\n[rank1]:[E1120 10:00:01.6 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID "
      "0(default_pg) Rank 1]  failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 7, "
      "last completed work: 6\nh:90:91 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x1 recvbuff 0x2 count 64 datatype "
      "7 op 0 root 0 comm 0x5 [nranks=1] stream 0x3\n[rank2]: Current thread 0x01 (most recent call first):\n[rank2]:  "
      " "
      "File \"train.py\", line 12 in step\n");
  Write("load", "native_log",
        "h1:40:49 [0] NCCL INFO ncclCommInitRankConfig comm 0x700 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
        "commId 0xfeed - Init COMPLETE\nh1:40:55 [1] misc/socket.cc:58 NCCL WARN Connection closed by h2<42>\n"
        "Thread 1 (Thread 0x7f02 (LWP 40)):\n#0  0x00007f in f<void (int)>(int) (x=1) from /lib/libcuda.so.1\n"
        "#1  main () at t.c:6\nPID 41 - process\nTID 41:\n#0  0x00007f read - /lib/libc.so.6\n"
        "Nov 20 10:11:12 h1 kernel: [1.5] Out of memory: Killed process 40 (python3) total-vm:123kB\n"
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=40, name=python3, GPU has fallen off the bus.\n"
        "srun: error: Node failure on h1\nName: h1\n Reason: OOMKilled\nslurm_script: line 28: 40 Killed python\n"
        "failed (exitcode: -9) local_rank: 3 (pid: 40) of binary\n");
  const std::string index = folder + "/seed.lsi";
  if (!WriteIndex(bundle, 1, index, BuildViewFacts(bundle, Analyze(bundle)).SerializeAsString()).ok()) failures++;
  Write("index", "whole", ReadAll(index));
  if (!WriteIndex(bundle, 1, index, "").ok()) failures++;
  Write("index", "without_facts", ReadAll(index));
  remove(index.c_str());
  Write("lsd", "loose", Loosen(file));
}

void WriteRest() {
  Write("manifest", "plain",
        R"({"format":1,"job":"train","ranks_expected":16,"known_stalled":true,"stalled_ns":5000000000})");
  Write("manifest", "odd", R"({"format":1,"job":7,"ranks_expected":-1,"known_stalled":"yes","hosts":[{"a":[1,2]}]})");
  Write("ring", "sound", std::string(1, '\0'));
  for (int place : {0, 8, 64, 256, 1024, 4096, 65536, 200'000}) {
    std::string input(1, static_cast<char>(place == 200'000));
    for (int i = 0; i < 3; i++) input += static_cast<char>(place >> (8 * i));
    input += '\x08';
    input += "\xff\xff\xff\x7f\x01\x02\x03\x04";
    Write("ring", "patch_" + std::to_string(place), input);
  }
  // Each fault at each rank with the culprit as the suspect; some also with an innocent suspect, without a rank's data,
  // or with changed fields.
  for (int fault = 0; fault < 8; fault++) {
    for (int rank = 0; rank < 8; rank++) {
      const std::string name = std::to_string(fault) + "_" + std::to_string(rank);
      const std::string start = {static_cast<char>(fault), static_cast<char>(rank), static_cast<char>(5 + fault)};
      Write("proof", name, start + std::string("\0\xff\0", 3));
      if (rank % 4 == 0) Write("proof", name + "_other", start + static_cast<char>(2 << rank) + "\xff");
      if (rank % 4 == 1) Write("proof", name + "_lost", start + '\0' + static_cast<char>(rank) + '\0');
      if (rank % 4 == 2) Write("proof", name + "_changed", start + std::string("\0\xff\1\1\2\3\4\5\6\x87\2", 11));
    }
  }
}

// Writes a message for wire_fuzz in both forms: a body that the fuzzer packs, and a complete frame.
void WriteFrame(const std::string& name, char type, const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  Write("wire", name, std::string("\1") + type + body);
  std::string header("LKSP\1", 5);
  header += type;
  header += std::string("\0\1", 2);
  for (int i = 0; i < 4; i++) header += static_cast<char>(body.size() >> (8 * i));
  header += "\1\2\3\4\5\6\7\10";
  Write("wire", name + "_frame", std::string(1, '\0') + static_cast<char>(header.size()) + header + body);
}

void WriteWire() {
  const auto set = [](RankSet* ranks) {
    for (int32_t first : {0, 9, 4096}) {
      ranks->add_first(first);
      ranks->add_last(first + 7);
    }
  };
  JobIdentity job;
  job.set_job("train");
  job.set_step("3");
  job.set_uid(1000);
  Hello hello;
  hello.set_role(Hello::AGENT);
  hello.set_host("node0");
  hello.set_instance(7);
  WriteFrame("hello", 1, hello);
  Welcome welcome;
  welcome.set_instance(9);
  welcome.add_fallback("tcp://10.0.0.1:7");
  WriteFrame("welcome", 2, welcome);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = job;
  set(heartbeat.mutable_alive());
  CommunicatorBeat* beat = heartbeat.add_moved();
  beat->set_id(0xa1);
  beat->set_size(16);
  beat->set_issued_max(41);
  set(beat->mutable_members());
  beat->add_checkpoint(32);
  beat->add_checkpoint_hash(5);
  beat->add_deviant()->set_rank(3);
  WriteFrame("heartbeat", 3, heartbeat);
  LateReport late;
  *late.mutable_job() = job;
  set(late.mutable_waiting());
  late.set_doing("in AllReduce #912");
  WriteFrame("late", 4, late);
  ProcessEnded ended;
  *ended.mutable_job() = job;
  ended.mutable_state()->set_signal(9);
  WriteFrame("ended", 5, ended);
  CollectRequest collect;
  *collect.mutable_job() = job;
  set(collect.mutable_ranks());
  WriteFrame("collect", 6, collect);
  Digest digest;
  *digest.mutable_job() = job;
  RankDigest* rank = digest.add_ranks();
  rank->mutable_rank()->add_threads()->set_name("main");
  rank->add_communicators()->add_members(1);
  rank->mutable_in_flight()->set_count(2);
  rank->mutable_in_flight()->add_kind(4);
  digest.add_communicators()->add_members()->set_count(8);
  WriteFrame("digest", 7, digest);
  HostEvidence evidence;
  *evidence.mutable_job() = job;
  evidence.add_reports()->mutable_process()->add_stack("poll");
  WriteFrame("evidence", 8, evidence);
  Chunk chunk;
  *chunk.mutable_job() = job;
  chunk.set_id("0123456789abcdef");
  chunk.set_file("node0.lsd");
  WriteFrame("chunk", 9, chunk);
  ChunkAck ack;
  ack.add_id("0123456789abcdef");
  WriteFrame("ack", 10, ack);
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  WriteFrame("request", 11, request);
  ClientReply reply;
  JobStatus* status = reply.add_jobs();
  *status->mutable_job() = job;
  set(status->add_communicators()->mutable_missing());
  reply.mutable_incident()->mutable_verdict()->add_findings()->add_culprit_ranks(5);
  WriteFrame("reply", 12, reply);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "seeds FOLDER\n");
    return 2;
  }
  folder = argv[1];
  mkdir(folder.c_str(), 0777);
  WriteDumps();
  WriteOwn();
  WriteRest();
  WriteWire();
  return failures == 0 ? 0 : 1;
}
