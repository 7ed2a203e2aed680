#include "tests/bench/fleet/synthetic_host.h"

#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/ring/loader.h"
#include "analyzer/model/rank_set.h"
#include "collector/agent/encode_digest.h"
#include "collector/incident/incident.h"
#include "collector/wire/frame.h"

namespace lockstep::fleet {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kPrepareAt = 3;  // number of heartbeats after which the host prepares its digest

int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

}  // namespace

SyntheticHost::SyntheticHost(const SyntheticHostOptions& options, const SyntheticJob& job, int host, MemoryStore* store)
    : options_(options), job_(job), host_(host), store_(store), snapshots_(kRanksPerHost), sights_(kRanksPerHost) {
  Restart();
}

void SyntheticHost::Restart() {
  identity_.set_job("fleet");
  identity_.set_restart_count(job_.restart_count());
  identity_.set_uid(1000);
  for (int i = 0; i < kRanksPerHost; i++) job_.Fill(First() + i, &snapshots_[static_cast<size_t>(i)]);
  done_.clear();
  standing_.clear();
  looks_ = 0;
}

void SyntheticHost::Prepare() {
  Digest digest;
  EncodeDigest(BundleAt(job_.fault_ns() + 5 * kSecond, 0), {}, &digest);
  standing_ = digest.SerializeAsString();
}

void SyntheticHost::Look(int64_t mono_ns) {
  // Spreads the hosts' preparations over time.
  if (job_.will_stand() && ++looks_ == kPrepareAt + host_ % (job_.ranks() > 32768 ? 24 : 10)) Prepare();
  job_.Move(First(), kRanksPerHost, mono_ns, snapshots_.data());
  for (int i = 0; i < kRanksPerHost; i++) {
    ring::Snapshot& snapshot = snapshots_[static_cast<size_t>(i)];
    RankSight& sight = sights_[static_cast<size_t>(i)];
    sight.view = ViewOf(snapshot);
    sight.view.slot = static_cast<int32_t>(job_.restart_count()) * kRanksPerHost + i;
    sight.view.alive = true;
    sight.rank = First() + i;
    sight.state = 'S';
    sight.digest = &snapshot;
  }
}

void SyntheticHost::FillDigest(const CollectRequest& request, Digest* out) {
  if (request.job().SerializeAsString() != identity_.SerializeAsString()) {
    out->set_refused("no rank of this job is here");
    return;
  }
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
  const int64_t now = Now(CLOCK_MONOTONIC);
  bool all = wanted.ok();
  for (int i = 0; all && !wanted->empty() && i < kRanksPerHost; i++) all = wanted->Contains(First() + i);
  if (!all || !job_.Stalled(now) || standing_.empty() || !out->ParseFromString(standing_)) {
    EncodeDigest(BundleAt(now, 0), wanted.ok() ? wanted->List() : std::vector<int32_t>(), out);
  }
  for (RankDigest& digest : *out->mutable_ranks()) {
    digest.set_progress_age_ns(job_.Stalled(now) ? now - job_.fault_ns() : 1'000'000);
    digest.set_activity_age_ns(digest.progress_age_ns());
    // A real agent's samples set this value after some time without movement.
    if (job_.Stalled(now)) digest.set_idle_ns(std::max<int64_t>(0, now - job_.fault_ns() - 3 * kSecond));
  }
}

void SyntheticHost::Gather(const CollectRequest& request) {
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
  if (request.phase() == CollectRequest::EVIDENCE) {
    Ranks asked = wanted.ok() ? *wanted : Ranks();
    if (const absl::StatusOr<Ranks> merged = Ranks::From(request.merged()); merged.ok()) asked.Unite(*merged);
    HostEvidence evidence;
    *evidence.mutable_job() = identity_;
    evidence.set_host(job_.HostOf(host_));
    evidence.set_request(request.request());
    evidence.set_last(true);
    for (int i = 0; i < kRanksPerHost; i++) {
      const int rank = First() + i;
      if (!asked.empty() && !asked.Contains(rank)) continue;
      EvidenceReport* report = evidence.add_reports();
      report->set_rank(rank);
      report->set_pid(10000 + i);
      ProcessState* state = report->mutable_process();
      state->set_life(ProcessState::RUNNING);
      state->set_state("S");
      state->set_cpu_ns_between_samples(0);
      state->set_io_bytes_between_samples(0);
      state->set_sample_gap_ns(kSecond);
      ThreadStack* thread = state->mutable_evidence()->add_threads();
      for (const char* frame : {"__futex_wait", "pthread_cond_wait", "train_step", "main"}) {
        state->add_stack(frame);
        thread->add_frames()->set_function(frame);
      }
    }
    evidence_.push_back(std::move(evidence));
  }
  const bool stacks_alone = request.phase() == CollectRequest::EVIDENCE && request.ranks().first().empty() &&
                            !request.merged().first().empty();
  if (stacks_alone || !done_.insert({request.request(), request.phase()}).second) return;
  PutFile(request);
}

bool SyntheticHost::NextEvidence(HostEvidence* out) {
  if (evidence_.empty()) return false;
  *out = std::move(evidence_.front());
  evidence_.pop_front();
  return true;
}

Bundle SyntheticHost::BundleAt(int64_t now, size_t ops) {
  std::vector<RingInput> inputs;
  job_.Move(First(), kRanksPerHost, now, snapshots_.data());
  for (int i = 0; i < kRanksPerHost; i++) {
    RingInput input;
    input.snapshot = snapshots_[static_cast<size_t>(i)];
    job_.AddRecent(First() + i, &input.snapshot);
    if (ops > 0) job_.AddOps(First() + i, ops, &input.snapshot);
    input.path = absl::StrCat("ring.", First() + i);
    input.process.life = Life::kRunning;
    input.process.state = "S";
    input.process.cpu_ns_between_samples = job_.Stalled(now) ? 0 : 900'000'000;
    input.process.io_bytes_between_samples = 0;
    input.process.sample_gap_ns = kSecond;
    inputs.push_back(std::move(input));
  }
  return BundleFromRings(std::move(inputs));
}

void SyntheticHost::PutFile(const CollectRequest& request) {
  const bool evidence = request.phase() == CollectRequest::EVIDENCE;
  const Bundle bundle = BundleAt(Now(CLOCK_MONOTONIC), options_.records);
  const absl::StatusOr<Ranks> wanted = Ranks::From(request.ranks());
  std::vector<size_t> ranks;
  for (size_t i = 0; i < bundle.ranks.size(); i++) {
    if (!evidence || !wanted.ok() || wanted->empty() || wanted->Contains(bundle.ranks[i].rank)) ranks.push_back(i);
  }
  DumpHeader header;
  header.set_host(job_.HostOf(host_));
  header.set_job("fleet");
  header.set_restart_count(job_.restart_count());
  header.set_captured_real_ns(Now(CLOCK_REALTIME));
  header.set_ranks_expected(job_.ranks());
  const std::string path = absl::StrCat(options_.scratch, "/fleet.", getpid(), ".lsd");
  if (const absl::Status status = WriteLsd(bundle, ranks, header, path); !status.ok()) {
    fprintf(stderr, "fleet_agents: %s\n", std::string(status.message()).c_str());
    return;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  unlink(path.c_str());
  std::string name = DumpFileName(header.host());
  if (evidence) name.insert(name.size() - 4, ".evidence");
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  for (size_t at = 0; at < bytes.size(); at += wire::kMostChunkBytes) {
    const size_t size = std::min(wire::kMostChunkBytes, bytes.size() - at);
    Chunk chunk;
    std::string id(16, '\0');
    for (char& c : id) c = static_cast<char>(random_());
    chunk.set_id(id);
    *chunk.mutable_job() = identity_;
    chunk.set_host(header.host());
    chunk.set_incident(request.incident());
    chunk.set_file(name);
    chunk.set_offset(at);
    chunk.set_raw_bytes(static_cast<uint32_t>(size));
    chunk.set_last(at + size == bytes.size());
    chunk.set_request(request.request());
    std::string packed(ZSTD_compressBound(size), '\0');
    packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), bytes.data() + at, size));
    chunk.set_data(packed);
    store_->Put(std::move(chunk), evidence);
  }
  ZSTD_freeCCtx(context);
}

}  // namespace lockstep::fleet
