#include "collector/agent/session.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/heartbeat_facts.h"
#include "collector/detect/progress.h"

namespace lockstep {
namespace {

constexpr int64_t kHelloAgain = 5 * kSecond;
// Maximum size of the answers that are queued while there is no connection.
constexpr size_t kMostQueuedBytes = size_t{64} << 20;
constexpr size_t kMostQueued = 65536;
// Size of a part of a digest, before compression.
constexpr size_t kDigestPartBytes = size_t{1} << 20;
constexpr size_t kHeartbeatBytesPerRank = 512;
constexpr size_t kChunksOut = 4;             // maximum number of chunks in transit
constexpr int64_t kAckAfter = 30 * kSecond;  // a chunk is sent again after this time without an acknowledgment
constexpr size_t kMostCheckpoints = 8;
constexpr size_t kMostStacks = 16;  // maximum number of requests whose stacks are being merged
constexpr int kMostBlind = 4;
constexpr size_t kMostIdsLine = 1024;  // in characters
// A gap of this length between two scans means that this process itself was stopped. No rank is then blamed for the
// gap.
constexpr int64_t kAbsence = 3 * kSecond;

enum Order { kPushed = 0, kDigestAnswer = 1, kEvidenceAnswer = 2 };

// Merges a beat that was not sent yet with a newer one for the same communicator.
void MergeBeats(CommunicatorBeat* held, CommunicatorBeat newer) {
  if (newer.members().first().empty() && !held->members().first().empty())
    newer.mutable_members()->Swap(held->mutable_members());
  if (newer.name().empty()) newer.set_name(held->name());
  if (held->checkpoint_size() > 0) {
    CommunicatorBeat joined = *held;
    for (int i = 0; i < newer.checkpoint_size(); ++i) {
      if (joined.checkpoint_size() > 0 && newer.checkpoint(i) <= joined.checkpoint(joined.checkpoint_size() - 1))
        continue;
      joined.add_checkpoint(newer.checkpoint(i));
      joined.add_checkpoint_hash(newer.checkpoint_hash(i));
    }
    newer.clear_checkpoint();
    newer.clear_checkpoint_hash();
    for (int i = std::max(0, joined.checkpoint_size() - static_cast<int>(kMostCheckpoints));
         i < joined.checkpoint_size(); ++i) {
      newer.add_checkpoint(joined.checkpoint(i));
      newer.add_checkpoint_hash(joined.checkpoint_hash(i));
    }
  }
  for (HashDeviant& deviant : *held->mutable_deviant()) {
    if (newer.deviant_size() < static_cast<int>(kMostCheckpoints)) newer.add_deviant()->Swap(&deviant);
  }
  held->Swap(&newer);
}

std::string JobText(const JobIdentity& job) {
  return absl::StrCat(job.job(), job.step().empty() ? "" : absl::StrCat("/", job.step()), " (restart ",
                      job.restart_count(), ")");
}

const char* ModeName(ring::GpuMarks mode) {
  switch (mode) {
    case ring::GpuMarks::kOff: return "off";
    case ring::GpuMarks::kDone: return "done";
    case ring::GpuMarks::kFull: return "full";
    case ring::GpuMarks::kEvents: return "events";
    case ring::GpuMarks::kProfiler: return "profiler";
  }
  return "";
}

}  // namespace

struct AgentSession::Job {
  explicit Job(int64_t late_after_ns) : lateness(late_after_ns) {}
  JobIdentity identity;
  Lateness lateness;
  QuietRanks quiet;
  HostProgress progress;
  std::vector<CommunicatorBeat> held;             // beats that were not sent yet, in order
  absl::flat_hash_map<uint64_t, size_t> held_at;  // communicator -> index in `held`
  bool tell_everything = true;
  bool looked = false;  // the job was examined after the last heartbeat
  uint64_t look = 0;    // number of the last scan that saw the job
};

AgentSession::AgentSession(const AgentSessionOptions& options, AgentSource* source, ChunkStore* store,
                           SendFunction send)
    : options_(options), source_(source), store_(store), send_(std::move(send)) {}

AgentSession::~AgentSession() = default;

void AgentSession::Log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

size_t AgentSession::late() const {
  size_t late = 0;
  for (const auto& [key, job] : jobs_) late += job->lateness.Current(looked_ns_).size();
  return late;
}

void AgentSession::Connected(int64_t mono_ns) {
  connected_ = true;
  welcome_ = false;
  // Data in transit may have been lost with the old connection.
  out_.clear();
  store_->Return("");
  SayHello(mono_ns);
}

void AgentSession::SayHello(int64_t mono_ns) {
  hello_ns_ = mono_ns;
  Hello hello = wire::MakeHello(Hello::AGENT, options_.instance);
  hello.set_host(options_.host);
  hello.set_boot_id(options_.boot_id);
  absl::StatusOr<wire::Message> message = wire::Encode(wire::Type::kHello, hello);
  if (message.ok()) (void)send_(*message);  // repeated if no Welcome arrives
}

void AgentSession::Receive(const wire::Message& message, int64_t mono_ns) {
  const auto decode = [&](google::protobuf::MessageLite* into) {
    const bool good = wire::DecodeBody(message, into).ok();
    if (!good) ++counters_.malformed;
    return good;
  };
  switch (message.header.type) {
    case wire::Type::kWelcome:
      if (Welcome welcome; decode(&welcome)) OnWelcome(welcome, mono_ns);
      break;
    case wire::Type::kCollect:
      if (CollectRequest request; decode(&request)) OnRequest(request, mono_ns);
      break;
    case wire::Type::kAck:
      if (ChunkAck ack; decode(&ack)) OnAck(ack);
      break;
    case wire::Type::kPing:
    case wire::Type::kPong: break;  // handled by the transport
    default: ++counters_.malformed;
  }
  Flush();
  SendChunks(mono_ns);
}

void AgentSession::OnWelcome(const Welcome& welcome, int64_t mono_ns) {
  if (!welcome.refused().empty()) {
    if (refused_ != welcome.refused()) Log(absl::StrCat("the collector refuses this agent: ", welcome.refused()));
    refused_ = welcome.refused();
    welcome_ = false;
    return;
  }
  refused_.clear();
  if (collector_instance_ != welcome.instance()) {
    // The new collector instance sends its own requests, so these answers are obsolete.
    for (auto queued = queue_.begin(); queued != queue_.end();) {
      if (queued->request == 0) {
        ++queued;
        continue;
      }
      queued_bytes_ -= queued->message.body.size();
      ++counters_.dropped;
      queued = queue_.erase(queued);
    }
    Log(absl::StrCat(
        collector_instance_ == 0 ? "connected to a collector" : "connected to a restarted or different collector",
        ", version ", welcome.version()));
  }
  collector_instance_ = welcome.instance();
  welcome_ = true;
  // Reports that nobody requested are not acknowledged, so they are repeated after a reconnection. Any of them may
  // arrive twice.
  source_->TellAgain();
  for (auto& [key, job] : jobs_) job->tell_everything = true;
  for (size_t i = 0; i < source_->jobs(); ++i) {
    const auto found = jobs_.find(source_->job(i).SerializeAsString());
    if (found == jobs_.end()) continue;
    for (const LateEvent& event : found->second->lateness.Current(mono_ns))
      TellLate(*found->second, source_->ranks(i), event);
  }
  next_heartbeat_ = next_ = mono_ns;
}

void AgentSession::OnRequest(const CollectRequest& request, int64_t mono_ns) {
  ++counters_.requests;
  if (!Ranks::From(request.ranks()).ok()) {
    ++counters_.malformed;
    return;
  }
  switch (request.phase()) {
    case CollectRequest::DIGEST: SendDigest(request, mono_ns); break;
    case CollectRequest::EVIDENCE: {
      const absl::StatusOr<Ranks> merged = Ranks::From(request.merged());
      while (stacks_.size() >= kMostStacks) stacks_.erase(stacks_.begin());
      if (merged.ok()) stacks_[request.request()].merged = *merged;
      source_->Gather(request);
      break;
    }
    case CollectRequest::EXAMINE:
      Log(absl::StrCat("examining the processes of job '", Printable(request.job().job(), 256), "'",
                       request.slurm().empty() ? "" : ", Slurm ", Printable(request.slurm(), 256),
                       ", because an operator requested it"));
      source_->Gather(request);
      break;
    case CollectRequest::EVERYTHING: source_->Gather(request); break;
    default: ++counters_.malformed;
  }
}

void AgentSession::OnAck(const ChunkAck& ack) {
  if (!ack.refused().empty()) {
    // Logged before the chunks are removed. A search of the log for a chunk then shows why it was never acknowledged.
    std::string ids;
    for (const std::string& id : ack.id()) {
      absl::StrAppend(&ids, ids.empty() ? "" : " ", absl::BytesToHexString(id.substr(0, 16)));
      if (ids.size() < kMostIdsLine && &id != &ack.id(ack.id_size() - 1)) continue;
      Log(absl::StrCat("the collector does not accept chunks ", ids, ": ", CleanUtf8(ack.refused(), 256)));
      ids.clear();
    }
  }
  for (const std::string& id : ack.id()) {
    out_.erase(id);
    if (ack.refused().empty()) {
      ++counters_.chunks_acked;
      store_->Acked(id);
    } else {
      ++counters_.chunks_refused;
      store_->Refused(id, ack.refused());
    }
  }
}

// Adds how long ago each rank last made progress and was active, as repeated reads of its ring showed.
void AgentSession::AddAges(const CollectRequest& request, int64_t mono_ns, Digest* digest) const {
  const auto job = jobs_.find(request.job().SerializeAsString());
  if (job == jobs_.end()) return;
  absl::flat_hash_map<int32_t, int32_t> slots;
  for (size_t i = 0; i < source_->jobs(); ++i) {
    if (source_->job(i).SerializeAsString() != job->first) continue;
    for (const RankSight& sight : source_->ranks(i)) slots[sight.rank] = sight.view.slot;
  }
  const Lateness& lateness = job->second->lateness;
  for (RankDigest& rank : *digest->mutable_ranks()) {
    const auto slot = slots.find(rank.rank().rank());
    if (slot == slots.end() || rank.progress_age_ns() != 0) continue;
    const int64_t progress = lateness.ProgressOf(slot->second), activity = lateness.ActivityOf(slot->second);
    if (progress > 0) rank.set_progress_age_ns(std::max<int64_t>(1, mono_ns - progress));
    if (activity > 0) rank.set_activity_age_ns(std::max<int64_t>(1, mono_ns - activity));
  }
}

// Merges the stacks of all ranks into one tree, which relays merge further. Ranks that the request names individually
// also send their reports.
void AgentSession::SendEvidence(HostEvidence evidence) {
  evidence.set_host(options_.host);
  const uint64_t request = evidence.request();
  const bool last = evidence.last();
  if (const auto found = stacks_.find(request); found != stacks_.end()) {
    Stacks& stacks = found->second;
    *stacks.report.mutable_job() = evidence.job();
    google::protobuf::RepeatedPtrField<EvidenceReport> reports;
    reports.Swap(evidence.mutable_reports());
    for (EvidenceReport& report : reports) {
      stacks.tree.Add(report);
      stacks.ranks.Add(report.rank());
      const std::string& why = report.process().evidence().stacks_refused();
      if (!why.empty() && stacks.report.refused_size() < 8)
        stacks.report.add_refused(absl::StrCat(options_.host, ": ", why));
      if (!stacks.merged.Contains(report.rank())) evidence.add_reports()->Swap(&report);
    }
    if (last) {
      stacks.report.set_request(request);
      *stacks.report.mutable_tree() = stacks.tree.ToMessage();
      stacks.ranks.To(stacks.report.mutable_ranks());
      Queue(wire::Type::kStacks, stacks.report, request, kEvidenceAnswer);
      stacks_.erase(found);
    }
    if (!last && evidence.reports().empty() && evidence.problem().empty()) return;
  }
  ++counters_.evidence;
  Queue(wire::Type::kEvidence, evidence, request, kEvidenceAnswer);
}

void AgentSession::SendDigest(const CollectRequest& request, int64_t mono_ns) {
  Digest whole;
  source_->FillDigest(request, &whole);
  AddAges(request, mono_ns, &whole);
  *whole.mutable_job() = request.job();
  whole.set_host(options_.host);
  whole.set_boot_id(options_.boot_id);
  whole.set_rack(options_.rack);
  whole.set_leaf_switch(options_.leaf_switch);
  whole.set_request(request.request());
  std::vector<std::pair<int, int>> parts;  // ranks [first, end) of each part
  size_t bytes = 0;
  for (int i = 0; i < whole.ranks_size(); ++i) {
    const size_t size = whole.ranks(i).ByteSizeLong();
    if (parts.empty() || bytes + size > kDigestPartBytes) {
      parts.emplace_back(i, i);
      bytes = 0;
    }
    parts.back().second = i + 1;
    bytes += size;
  }
  if (parts.empty()) parts.emplace_back(0, 0);
  google::protobuf::RepeatedPtrField<RankDigest> ranks;
  ranks.Swap(whole.mutable_ranks());
  whole.set_parts(static_cast<uint32_t>(parts.size()));
  for (const auto& [first, end] : parts) {
    whole.clear_ranks();
    for (int i = first; i < end; ++i) whole.add_ranks()->Swap(ranks.Mutable(i));
    Queue(wire::Type::kDigest, whole, request.request(), kDigestAnswer);
    whole.clear_communicators();  // only the first part carries them
  }
  ++counters_.digests;
}

void AgentSession::Queue(wire::Type type, const google::protobuf::MessageLite& message, uint64_t request, int order) {
  absl::StatusOr<wire::Message> encoded = wire::Encode(type, message);
  if (!encoded.ok() || queue_.size() >= kMostQueued || queued_bytes_ + encoded->body.size() > kMostQueuedBytes) {
    ++counters_.dropped;
    Log(absl::StrCat("dropping an answer: ",
                     encoded.ok() ? "too much data is queued for the collector" : encoded.status().message()));
    return;
  }
  if (type == wire::Type::kDigest) counters_.digest_bytes += encoded->body.size();
  queued_bytes_ += encoded->body.size();
  const auto after =
      std::find_if(queue_.begin(), queue_.end(), [order](const Queued& queued) { return queued.order > order; });
  queue_.insert(after, Queued{std::move(*encoded), request, order});
}

void AgentSession::Flush() {
  while (welcome_ && !queue_.empty()) {
    if (!send_(queue_.front().message).ok()) return;
    queued_bytes_ -= queue_.front().message.body.size();
    queue_.pop_front();
  }
}

void AgentSession::TellLate(const Job& job, absl::Span<const RankSight> ranks, const LateEvent& event) {
  LateReport report;
  *report.mutable_job() = job.identity;
  report.set_host(options_.host);
  report.set_communicator(event.comm);
  report.set_sequence(event.sequence);
  report.set_in_flight_ns(event.in_flight_ns);
  report.set_limit_ns(event.limit_ns);
  report.set_p99_gap_ns(event.p99_gap_ns);
  report.set_gaps(event.gaps);
  report.set_doing(event.doing);
  report.set_over(event.over);
  const auto ranks_of = [&](const std::vector<int32_t>& slots) {
    std::vector<int32_t> numbers;
    for (const RankSight& sight : ranks) {
      if (std::binary_search(slots.begin(), slots.end(), sight.view.slot)) numbers.push_back(sight.rank);
    }
    return Ranks::Of(std::move(numbers));
  };
  const Ranks waiting = ranks_of(event.waiting), missing = ranks_of(event.missing);
  waiting.To(report.mutable_waiting());
  missing.To(report.mutable_missing());
  Log(absl::StrCat(event.over ? "over: " : "late: ", JobText(job.identity), ": ranks ", waiting.Text(),
                   event.doing.empty() ? "" : " in ", event.doing, " of communicator ", absl::Hex(event.comm),
                   ", in flight ", DurationText(event.in_flight_ns), ", limit ", DurationText(event.limit_ns),
                   " = max(", DurationText(options_.late_after_ns), ", 8 x ", DurationText(event.p99_gap_ns), " of ",
                   event.gaps, " gaps)",
                   missing.empty() ? "" : ", missing here: ", missing.empty() ? "" : missing.Text()));
  if (!event.over) ++counters_.late;
  // Without a collector, nothing is queued. The late ranks are reported when one connects.
  if (welcome_) Queue(wire::Type::kLate, report, 0, kPushed);
}

void AgentSession::TellEnded() {
  if (!welcome_) return;
  ProcessEnded ended;
  while (source_->NextEnded(&ended)) {
    ended.set_host(options_.host);
    ++counters_.ended;
    Queue(wire::Type::kEnded, ended, 0, kPushed);
    ended.Clear();
  }
}

void AgentSession::LookAtJob(int64_t mono_ns, size_t index, Job* job) {
  const absl::Span<const RankSight> ranks = source_->ranks(index);
  std::vector<DigestView> views;
  std::vector<RingView> rings;
  views.reserve(ranks.size());
  rings.reserve(ranks.size());
  for (const RankSight& sight : ranks) {
    views.push_back(sight.view);
    if (sight.digest != nullptr) rings.push_back({sight.rank, sight.digest});
    if (sight.process != nullptr) job->quiet.AddWait(sight.digest->threads, *sight.process, &views.back());
  }
  for (const LateEvent& event : job->lateness.Observe(mono_ns, views)) TellLate(*job, ranks, event);
  job->progress.Observe(rings);
  source_->Inspect(index, job->quiet.Due(mono_ns, views, job->lateness));
}

void AgentSession::Look(int64_t mono_ns) {
  source_->Look(mono_ns);
  ++look_;
  const bool absent = looked_ns_ != 0 && mono_ns - looked_ns_ > kAbsence;
  looked_ns_ = mono_ns;
  next_look_ = mono_ns + options_.look_ns;
  for (size_t i = 0; i < source_->jobs(); ++i) {
    std::unique_ptr<Job>& job = jobs_[source_->job(i).SerializeAsString()];
    if (job == nullptr) {
      job = std::make_unique<Job>(options_.late_after_ns);
      job->identity = source_->job(i);
    }
    if (absent) job->lateness.Rebase(mono_ns);
    job->look = look_;
    UserShare& share = shares_[job->identity.uid()];
    if (!share.LookIsDue(mono_ns) || !share.MayContinueLook()) continue;
    share.Look([&] { LookAtJob(mono_ns, i, job.get()); });
    job->looked = true;
    next_look_ = std::min(next_look_, std::max(job->lateness.NextLimit(), mono_ns + kSecond / 100));
  }
  for (auto& [uid, share] : shares_) share.EndLook(mono_ns);
  std::erase_if(jobs_, [this](const auto& entry) {
    if (entry.second->look == look_) return false;
    TellOver(entry.second->identity);
    return true;
  });
}

// If this message is lost, receivers notice only later that no agent reports the job.
void AgentSession::TellOver(const JobIdentity& job) {
  if (!welcome_) return;
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = job;
  heartbeat.set_host(options_.host);
  heartbeat.set_over(true);
  if (const absl::StatusOr<wire::Message> message = wire::Encode(wire::Type::kHeartbeat, heartbeat); message.ok())
    (void)send_(*message);
}

void AgentSession::TellCost(int64_t mono_ns) {
  constexpr int64_t kOver = 10'000'000'000;
  if (!options_.cpu_ns || (cost_at_ns_ != 0 && mono_ns - cost_at_ns_ < kOver)) return;
  const int64_t now = options_.cpu_ns();
  if (cost_at_ns_ != 0) {
    const int64_t permille = 1000 * (now - cost_ns_) / (mono_ns - cost_at_ns_);
    // A tiny share counts as 1, to distinguish it from zero.
    cpu_permille_ = static_cast<uint32_t>(std::clamp<int64_t>(permille, now > cost_ns_ ? 1 : 0, 1'000'000));
  }
  cost_ns_ = now;
  cost_at_ns_ = mono_ns;
}

void AgentSession::TakeBeats(int64_t mono_ns, Job* job) {
  for (const CommBeat& beat : job->progress.Take(mono_ns, job->lateness, job->tell_everything)) {
    CommunicatorBeat message;
    BeatToProto(beat, &message);
    const auto [at, added] = job->held_at.try_emplace(beat.comm, job->held.size());
    if (added) {
      job->held.push_back(std::move(message));
    } else {
      MergeBeats(&job->held[at->second], std::move(message));
    }
  }
  job->tell_everything = job->looked = false;
}

void AgentSession::SendHeartbeat(int64_t mono_ns, int64_t real_ns, size_t index, Job* job) {
  if (job->looked || job->tell_everything) {
    UserShare& share = shares_[job->identity.uid()];
    share.Look([&] { TakeBeats(mono_ns, job); });
    share.EndLook(mono_ns);
  }
  if (!welcome_) return;
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = job->identity;
  heartbeat.set_host(options_.host);
  heartbeat.set_hosts(1);
  heartbeat.set_mono_ns(mono_ns);
  heartbeat.set_real_ns(real_ns);
  const absl::Span<const RankSight> ranks = source_->ranks(index);
  std::vector<int32_t> alive, stopped, in_d, ended;
  HeardFacts recorders;
  uint64_t lost = 0;
  for (const RankSight& sight : ranks) {
    if (sight.digest != nullptr) lost += sight.digest->records_lost;
    if (sight.rank < 0) continue;
    (sight.view.alive ? alive : ended).push_back(sight.rank);
    if (sight.state == 'T' || sight.state == 't') stopped.push_back(sight.rank);
    if (sight.state == 'D') in_d.push_back(sight.rank);
    if (!sight.view.alive) continue;
    const ring::ProcessInfo& process = sight.digest->process;
    recorders.Add(process.recorder_version, ModeName(process.gpu_marks), Ranks::Of({sight.rank}), process.own_call_ns,
                  process.ring_bytes);
  }
  // If a rank was restarted on this host, its earlier process is not reported.
  Ranks gone = Ranks::Of(std::move(ended));
  const Ranks living = Ranks::Of(std::move(alive));
  gone.Subtract(living);
  living.To(heartbeat.mutable_alive());
  gone.To(heartbeat.mutable_ended());
  Ranks::Of(std::move(stopped)).To(heartbeat.mutable_stopped());
  Ranks::Of(std::move(in_d)).To(heartbeat.mutable_in_d());
  heartbeat.set_records_lost(lost);
  recorders.To(&heartbeat);
  heartbeat.add_agent_version(options_.version);
  TellCost(mono_ns);
  heartbeat.set_agent_cpu_permille(cpu_permille_);
  for (const std::string& line : options_.blind ? options_.blind() : std::vector<std::string>()) {
    if (heartbeat.blind_size() < kMostBlind)
      heartbeat.add_blind(CleanUtf8(absl::StrCat(options_.host, ": ", line), 400));
  }
  const size_t room = kHeartbeatBytesPerRank * std::max<size_t>(ranks.size(), 1);
  size_t bytes = heartbeat.ByteSizeLong(), taken = 0;
  for (; taken < job->held.size(); ++taken) {
    const size_t size = job->held[taken].ByteSizeLong() + 4;
    if (taken > 0 && bytes + size > room) break;
    bytes += size;
    *heartbeat.add_moved() = job->held[taken];
  }
  absl::StatusOr<wire::Message> message = wire::Encode(wire::Type::kHeartbeat, heartbeat);
  if (!message.ok() || !send_(*message).ok()) {
    ++counters_.heartbeats_dropped;  // keeps the changes for the next heartbeat
    return;
  }
  ++counters_.heartbeats;
  counters_.heartbeat_bytes += message->body.size();
  counters_.beats_put_off += job->held.size() - taken;
  job->held.erase(job->held.begin(), job->held.begin() + static_cast<std::ptrdiff_t>(taken));
  job->held_at.clear();
  for (size_t i = 0; i < job->held.size(); ++i) job->held_at[job->held[i].id()] = i;
}

void AgentSession::SendChunks(int64_t mono_ns) {
  if (!welcome_) return;
  for (auto out = out_.begin(); out != out_.end();) {
    if (mono_ns - out->second < kAckAfter) {
      ++out;
      continue;
    }
    store_->Return(out->first);
    ++counters_.chunks_sent_again;
    out = out_.erase(out);
  }
  if (credited_ns_ != 0)
    chunk_credit_ += options_.chunk_bytes_per_second * static_cast<double>(mono_ns - credited_ns_) / 1e9;
  chunk_credit_ = std::min(chunk_credit_, std::max(options_.chunk_bytes_per_second / 4, 1e6));
  credited_ns_ = mono_ns;
  while (chunk_credit_ > 0 && out_.size() < kChunksOut) {
    Chunk chunk;
    if (!store_->Next(&chunk)) return;
    const std::string id = chunk.id();
    absl::StatusOr<wire::Message> message = wire::Encode(wire::Type::kChunk, chunk);
    if (!message.ok()) {
      store_->Refused(id, std::string(message.status().message()));
      continue;
    }
    if (!send_(*message).ok()) {
      store_->Return(id);
      return;
    }
    out_[id] = mono_ns;
    chunk_credit_ -= static_cast<double>(message->body.size());
    ++counters_.chunks_sent;
    counters_.chunk_bytes += message->body.size();
  }
}

void AgentSession::Leave(int64_t mono_ns, int64_t real_ns) {
  next_heartbeat_ = mono_ns;
  Tick(mono_ns, real_ns);
}

void AgentSession::Tick(int64_t mono_ns, int64_t real_ns) {
  if (connected_ && !welcome_ && mono_ns - hello_ns_ >= kHelloAgain) SayHello(mono_ns);
  const bool beat = mono_ns >= next_heartbeat_;
  if (beat || mono_ns >= next_look_) Look(mono_ns);
  TellEnded();
  HostEvidence evidence;
  while (source_->NextEvidence(&evidence)) {
    SendEvidence(std::move(evidence));
    evidence.Clear();
  }
  Flush();
  if (beat) {
    for (size_t i = 0; i < source_->jobs(); ++i) {
      const auto job = jobs_.find(source_->job(i).SerializeAsString());
      if (job != jobs_.end()) SendHeartbeat(mono_ns, real_ns, i, job->second.get());
    }
    // The next heartbeat stays on schedule, unless this process was delayed.
    next_heartbeat_ = std::max(next_heartbeat_ + options_.heartbeat_ns, mono_ns + options_.heartbeat_ns / 2);
  }
  SendChunks(mono_ns);
  next_ = std::min(next_heartbeat_, next_look_);
  if (chunk_credit_ <= 0 && store_->held() > out_.size()) {
    next_ =
        std::min(next_, mono_ns + static_cast<int64_t>(1e9 * (1 - chunk_credit_) / options_.chunk_bytes_per_second));
  }
}

}  // namespace lockstep
