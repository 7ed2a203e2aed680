#include "collector/testing/fleet.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/util/time_units.h"
#include "collector/evidence/stack_tree.h"
#include "collector/incident/incident.h"

namespace lockstep::testing {
namespace {

bool Finished(const Op& op) { return op.state == OpState::kCompleted || op.state == OpState::kFailed; }

std::string Compressed(const std::string& raw) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

}  // namespace

Fleet::Fleet(const Bundle& bundle, int per_host, const std::string& out, const std::string& job, uint64_t first_peer)
    : bundle_([&] {
        Bundle own = bundle;
        for (Rank& rank : own.ranks) rank.host = absl::StrCat("node", rank.rank / per_host);
        return own;
      }()),
      job_(job),
      chunk_ids_(first_peer * 1'000'000) {
  options.out = out;
  options.version = "test";
  for (const Rank& rank : bundle_.ranks) {
    const auto index = static_cast<size_t>(rank.rank / per_host);
    while (agents.size() <= index) {
      agents.emplace_back();
      agents.back().host = absl::StrCat("node", agents.size() - 1);
      agents.back().peer = first_peer + agents.size();
    }
    agents[index].ranks.push_back(rank.rank);
  }
}

JobIdentity Fleet::identity() const {
  JobIdentity identity;
  identity.set_job(job_);
  identity.set_uid(1000);
  return identity;
}

bool Fleet::Heard(const std::string& part) const {
  return std::any_of(said.begin(), said.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

void Fleet::Start(uint64_t instance) {
  options.instance = instance;
  core = std::make_unique<CollectorCore>(options, this);
  core->Tick(now, now + real_offset);
  std::vector<std::string> problems;
  for (const IncidentState& state : FindUnfinished(options.out, &problems)) core->Resume(state);
  for (DeclaredBefore& before : FindDeclared(options.out)) core->Remember(std::move(before));
  started_ns_ = now;
  EXPECT_TRUE(problems.empty());
  for (FleetAgent& agent : agents) {
    Hello hello;
    hello.set_role(agent.route.empty() ? Hello::AGENT : Hello::RELAY);
    hello.set_host(agent.host);
    hello.set_boot_id("boot-" + agent.host);
    hello.set_instance(agent.peer);
    hello.set_protocol(1);
    hello.set_min_protocol(1);
    if (agent.connected) Say(&agent, wire::Type::kHello, hello);
  }
}

void Fleet::Restart(uint64_t instance) {
  core.reset();
  tasks_.clear();
  disk_.clear();
  on_their_way_.clear();
  final_.clear();
  for (FleetAgent& agent : agents) agent.peer += 1000;
  Start(instance);
  for (FleetAgent& agent : agents) Resend(&agent);
}

void Fleet::Say(FleetAgent* agent, wire::Type type, const google::protobuf::MessageLite& message, wire::Role role) {
  wire::Received received;
  received.peer = agent->peer;
  received.role = agent->route.empty() ? role : wire::Role::kRelay;
  absl::StatusOr<wire::Message> encoded = wire::Encode(type, message);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  received.message = *std::move(encoded);
  if (type != wire::Type::kHello && type != wire::Type::kHeartbeat) received.message.header.route = agent->route;
  core->Receive(now, received);
}

void Fleet::Ask(uint64_t peer, wire::Role role, const ClientRequest& request) {
  FleetAgent person;
  person.peer = peer;
  Say(&person, wire::Type::kClientRequest, request, role);
}

void Fleet::Send(uint64_t peer, const wire::Message& message) {
  if (message.header.type == wire::Type::kClientReply) {
    ClientReply reply;
    ASSERT_TRUE(wire::DecodeBody(message, &reply).ok());
    replies.push_back(std::move(reply));
    return;
  }
  if (message.header.type == wire::Type::kWelcome) {
    ASSERT_TRUE(wire::DecodeBody(message, &welcomes[peer]).ok());
    return;
  }
  for (FleetAgent& agent : agents) {
    if (agent.peer != peer || !agent.connected) continue;
    // Sent over a connection that no longer exists.
    if (!message.header.route.empty() && message.header.route != agent.route) continue;
    // Not answered inside the core's call: the answer arrives when time passes.
    tasks_.push_back({CoreTask::Lane::kAnalysis, [] {},
                      [this, host = agent.host, message](int64_t) {
                        for (FleetAgent& at : agents) {
                          if (at.host == host && at.connected) Answer(&at, message);
                        }
                      }});
  }
}

std::string Fleet::Packed(int32_t number) const {
  const Rank& rank = bundle_.ranks[static_cast<size_t>(number)];
  RankDigest digest;
  *digest.mutable_rank() = EncodeRank(rank);
  std::vector<Op> flying;
  for (const Op& op : rank.ops) {
    if (!Finished(op)) flying.push_back(op);
  }
  std::vector<RankCommunicator> communicators;
  for (size_t i = 0; i < rank.memberships.size(); ++i) {
    *digest.add_communicators() = EncodeMembership(rank.memberships[i], bundle_.comms[rank.memberships[i].comm],
                                                   rank.rank, static_cast<uint32_t>(i));
  }
  *digest.mutable_in_flight() = EncodeOps(rank, flying, {});
  digest.mutable_rank()->set_operations(flying.size());
  const int64_t still = stop_ns < now ? now - stop_ns : 1;
  digest.set_progress_age_ns(still);
  digest.set_activity_age_ns(still);
  ProcessState* process = digest.mutable_rank()->mutable_process();
  if (process->life() == ProcessState::LIFE_UNKNOWN) process->set_life(ProcessState::RUNNING);
  if (process->life() == ProcessState::RUNNING) {
    if (process->state().empty()) process->set_state("S");
    process->set_sample_gap_ns(kSecond);
    process->set_cpu_ns_between_samples(0);
    process->set_io_bytes_between_samples(0);
  }
  if (amend) amend(number, &digest);
  return digest.SerializeAsString();
}

void Fleet::Deliver() {
  while (!on_their_way_.empty() && on_their_way_.begin()->first <= now) {
    const OnItsWay one = std::move(on_their_way_.begin()->second);
    on_their_way_.erase(on_their_way_.begin());
    for (FleetAgent& agent : agents) {
      if (agent.host == one.host && agent.connected) Say(&agent, wire::Type::kDigest, one.digest);
    }
  }
}

std::vector<uint64_t> Fleet::Reporters() const {
  std::set<uint64_t> peers;
  for (const FleetAgent& agent : agents) {
    if (agent.connected) peers.insert(agent.peer);
  }
  return {peers.begin(), peers.end()};
}

void Fleet::Answer(FleetAgent* agent, const wire::Message& message) {
  if (message.header.type == wire::Type::kAck) {
    ChunkAck ack;
    ASSERT_TRUE(wire::DecodeBody(message, &ack).ok());
    if (lose_acks) return;
    for (const std::string& id : ack.id()) {
      agent->unacknowledged.erase(id);
      (ack.refused().empty() ? agent->acknowledged : agent->refused).insert(id);
    }
    return;
  }
  if (message.header.type != wire::Type::kCollect) return;
  CollectRequest request;
  ASSERT_TRUE(wire::DecodeBody(message, &request).ok());
  const bool again = std::any_of(agent->requests.begin(), agent->requests.end(), [&](const CollectRequest& r) {
    return r.request() == request.request() && r.phase() == request.phase();
  });
  agent->requests.push_back(request);
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
  ASSERT_TRUE(wanted.ok());
  const auto asked = [&](int32_t rank) { return wanted->empty() || wanted->Contains(rank); };
  if (request.phase() == CollectRequest::DIGEST && agent->answers_digests) {
    DigestEnvelope digest;
    *digest.mutable_job() = identity();
    digest.set_host(agent->host);
    digest.set_boot_id("boot-" + agent->host);
    digest.set_request(request.request());
    std::vector<int32_t> ranks;
    for (int32_t rank : agent->ranks) {
      if (asked(rank)) ranks.push_back(rank);
    }
    const auto send = [&] {
      const int64_t delay = agent->digest_delay ? agent->digest_delay(request) : 0;
      if (delay == 0) return Say(agent, wire::Type::kDigest, digest);
      if (delay > 0) on_their_way_.insert({now + delay, {agent->host, digest}});
    };
    if (!agent->digests_in_parts) {
      for (int32_t rank : ranks) digest.add_ranks(Packed(rank));
      return send();
    }
    digest.set_parts(static_cast<uint32_t>(ranks.size()));
    for (int32_t rank : ranks) {
      digest.clear_ranks();
      digest.add_ranks(Packed(rank));
      send();
    }
  }
  if (request.phase() == CollectRequest::EXAMINE && agent->answers_evidence) {
    HostEvidence evidence;
    evidence.set_host(agent->host);
    evidence.set_request(request.request());
    evidence.set_dump("of " + agent->host);
    Say(agent, wire::Type::kEvidence, evidence);
    evidence.set_last(true);
    Say(agent, wire::Type::kEvidence, evidence);
    Say(agent, wire::Type::kEvidence, evidence);  // sent twice, counts once
  }
  if (request.phase() == CollectRequest::EVIDENCE && agent->answers_evidence) {
    HostEvidence evidence;
    *evidence.mutable_job() = identity();
    evidence.set_host(agent->host);
    evidence.set_request(request.request());
    StackTree tree;
    StackReport stacks;
    *stacks.mutable_job() = identity();
    stacks.set_request(request.request());
    const Ranks merged = *Ranks::From(request.merged());
    Ranks looked_at;
    for (int32_t rank : agent->ranks) {
      const bool named = wanted->Contains(rank) || (wanted->empty() && merged.empty());
      if (named) {
        EvidenceReport* report = evidence.add_reports();
        report->set_rank(rank);
        if (agent->found.ByteSizeLong() > 0) *report->mutable_process()->mutable_evidence() = agent->found;
      }
      if (!named && !merged.Contains(rank)) continue;
      looked_at.Add(rank);
      tree.Add({"wait", absl::StrCat("of_", agent->host), "main"}, rank);
    }
    *stacks.mutable_tree() = tree.ToMessage();
    looked_at.To(stacks.mutable_ranks());
    if (sends_stacks) Say(agent, wire::Type::kStacks, stacks);
    evidence.set_last(true);
    Say(agent, wire::Type::kEvidence, evidence);
  }
  if (request.phase() != CollectRequest::EVERYTHING) return;
  if (!agent->no_rings.empty()) {
    HostEvidence evidence;
    *evidence.mutable_job() = identity();
    evidence.set_host(agent->host);
    evidence.set_request(request.request());
    evidence.set_problem(agent->no_rings);
    return Say(agent, wire::Type::kEvidence, evidence);
  }
  if (agent->sends_files && !again) SendFile(agent, request);
}

void Fleet::SendFile(FleetAgent* agent, const CollectRequest& request) {
  const std::string path = absl::StrCat(options.out, "/spool-", agent->host);
  std::vector<size_t> ranks(agent->ranks.begin(), agent->ranks.end());
  DumpHeader header;
  header.set_host(agent->host);
  header.set_job(job_);
  header.set_ranks_expected(static_cast<int32_t>(bundle_.ranks.size()));
  ASSERT_TRUE(WriteLsd(bundle_, ranks, header, path).ok());
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const size_t piece = content.size() / 3 + 1;
  for (size_t at = 0; at < content.size(); at += piece) {
    const std::string raw = content.substr(at, piece);
    Chunk chunk;
    std::string id = absl::StrCat(++chunk_ids_);
    id.resize(16, '.');
    chunk.set_id(id);
    *chunk.mutable_job() = identity();
    chunk.set_host(agent->host);
    chunk.set_incident(request.incident());
    chunk.set_file(DumpFileName(agent->host));
    chunk.set_offset(at);
    chunk.set_data(Compressed(raw));
    chunk.set_raw_bytes(static_cast<uint32_t>(raw.size()));
    chunk.set_last(at + piece >= content.size());
    chunk.set_request(request.request());
    agent->unacknowledged[id] = chunk;
  }
  Resend(agent);
}

void Fleet::Resend(FleetAgent* agent) {
  const std::map<std::string, Chunk> chunks = agent->unacknowledged;
  for (const auto& [id, chunk] : chunks) Say(agent, wire::Type::kChunk, chunk);
}

void Fleet::Heartbeats() {
  ++beats_;
  for (FleetAgent& agent : agents) {
    if (!agent.connected) continue;
    Heartbeat heartbeat;
    *heartbeat.mutable_job() = identity();
    if (agent.route.empty()) heartbeat.set_host(agent.host);
    heartbeat.set_hosts(1);
    heartbeat.set_mono_ns(now);
    heartbeat.set_real_ns(now + real_offset);
    Ranks alive, ended;
    for (int32_t rank : agent.ranks) {
      const Process& process = bundle_.ranks[static_cast<size_t>(rank)].process;
      const bool over = now >= stop_ns && (process.life == Life::kExited || process.life == Life::kKilled);
      (over ? ended : alive).Add(rank);
    }
    alive.To(heartbeat.mutable_alive());
    ended.To(heartbeat.mutable_ended());
    const bool moving = now < stop_ns;
    std::map<uint32_t, Ranks> members;
    for (int32_t rank : agent.ranks) {
      for (const Membership& m : bundle_.ranks[static_cast<size_t>(rank)].memberships) members[m.comm].Add(rank);
    }
    for (const auto& [comm, ranks] : members) {
      if (!moving && beats_ % 30 != 0) continue;
      uint64_t id = 0;
      if (!absl::SimpleHexAtoi(bundle_.comms[comm].id, &id)) id = 1000 + comm;
      CommunicatorBeat* beat = heartbeat.add_moved();
      beat->set_id(id);
      beat->set_size(bundle_.comms[comm].size);
      beat->set_name(bundle_.comms[comm].name);
      const uint64_t issued = static_cast<uint64_t>(std::min(now, stop_ns) / (100 * kMs));
      beat->set_issued_min(issued);
      beat->set_issued_max(issued);
      beat->set_total_max(issued);
      beat->set_issue_age_ns(std::max<int64_t>(now - stop_ns, 0));
      ranks.To(beat->mutable_members());
      beat->set_p99_gap_ns(100 * kMs);
      beat->set_gaps(256);
    }
    Say(&agent, wire::Type::kHeartbeat, heartbeat);
    if (beats_ % 5 == 0) Resend(&agent);
    if (now < stop_ns) continue;
    for (int32_t rank : agent.ranks) {
      const Rank& of = bundle_.ranks[static_cast<size_t>(rank)];
      const bool waits = std::any_of(of.ops.begin(), of.ops.end(), [](const Op& op) { return !Finished(op); });
      const bool tells = now - stop_ns < 7 * kSecond || (now - started_ns_ < 3 * kSecond && started_ns_ > stop_ns);
      if (waits && now - stop_ns > 5 * kSecond && tells) {
        LateReport late;
        *late.mutable_job() = identity();
        uint64_t id = 0;
        for (const Op& op : of.ops) {
          if (Finished(op) || op.membership == kNoIndex) continue;
          const uint32_t comm = of.memberships[op.membership].comm;
          if (!absl::SimpleHexAtoi(bundle_.comms[comm].id, &id)) id = 1000 + comm;
          late.set_sequence(static_cast<uint64_t>(std::max<int64_t>(op.seq, 0)));
          break;
        }
        late.set_communicator(id);
        late.set_in_flight_ns(now - stop_ns);
        late.set_limit_ns(5 * kSecond);
        late.set_p99_gap_ns(100 * kMs);
        late.set_gaps(256);
        late.set_host(agent.host);
        late.mutable_waiting()->add_first(rank);
        late.mutable_waiting()->add_last(rank);
        Say(&agent, wire::Type::kLate, late);
      }
      if (of.process.life == Life::kKilled && now - stop_ns < 3 * kSecond) {
        ProcessEnded end;
        *end.mutable_job() = identity();
        end.set_rank(rank);
        end.set_host(agent.host);
        end.mutable_state()->set_life(ProcessState::KILLED);
        end.mutable_state()->set_signal(of.process.signal);
        Say(&agent, wire::Type::kEnded, end);
      }
    }
  }
}

void Fleet::Work(CoreTask task) {
  const bool final = task.lane == CoreTask::Lane::kFinal && hold_final;
  (final ? final_ : task.lane == CoreTask::Lane::kDisk ? disk_ : tasks_).push_back(std::move(task));
}

void Fleet::DoWork() {
  if (!hold_final) {
    tasks_.insert(tasks_.end(), std::make_move_iterator(final_.begin()), std::make_move_iterator(final_.end()));
    final_.clear();
  }
  for (int round = 0; round < 100000 && (!tasks_.empty() || (!hold_disk && !disk_.empty())); ++round) {
    std::deque<CoreTask>& lane = !disk_.empty() && !hold_disk ? disk_ : tasks_;
    CoreTask task = std::move(lane.front());
    lane.pop_front();
    task.run();
    task.done(now);
  }
}

// Like VerdictHook, reports each incident once and marks its folder.
void Fleet::OnVerdict(const std::string&, const std::string& json, const std::string& folder) {
  const std::string mark = folder.empty() ? "" : ToldMark(folder);
  if (!mark.empty() && std::ifstream(mark).good()) return;
  if (!mark.empty()) std::ofstream(mark).put('\n');
  verdicts.push_back(json);
}

absl::Status Fleet::Finalise(const std::string& folder, Incident* incident) {
  if (absl::Status status = FinaliseFolder(folder); !status.ok()) return status;
  return ReadFinal(folder, incident);
}

void Fleet::Pass(int64_t ns) {
  PassUntil(ns, [] { return false; });
}

bool Fleet::PassUntil(int64_t most_ns, const std::function<bool()>& condition) {
  const int64_t until = now + most_ns;
  while (now < until && !condition()) {
    now += 100 * kMs;
    if (now >= next_heartbeat_) {
      next_heartbeat_ = now + kSecond;
      Heartbeats();
    }
    Deliver();
    core->Tick(now, now + real_offset);
    DoWork();
  }
  return condition();
}

Bundle Hung(int tp, int pp, int dp, int culprit, HostFault fault) {
  Job job(tp, pp, dp, 4);
  job.ranks[static_cast<size_t>(culprit)].host_fault = fault;
  job.ranks[static_cast<size_t>(culprit)].host_fault_at = job.Find(culprit, "dp", 2);
  return job.Run();
}

std::vector<std::string> FleetTest::Incidents() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(out_)) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  return found;
}

Verdict FleetTest::Read(const std::string& folder) {
  const absl::StatusOr<Bundle> bundle = LoadPaths({folder});
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  return bundle.ok() ? Analyze(*bundle) : Verdict();
}

}  // namespace lockstep::testing
