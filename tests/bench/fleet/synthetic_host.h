// One simulated host with eight ranks of a SyntheticJob, as a source for AgentSession (collector/agent/source.h). The
// agent's real code makes digests, evidence and files from synthetic rings.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/agent/source.h"
#include "tests/bench/fleet/synthetic_job.h"

namespace lockstep::fleet {

// Keeps chunks in memory. Evidence goes first, then the order is that of creation.
class MemoryStore : public ChunkStore {
 public:
  void Put(Chunk chunk, bool evidence) {
    bytes += chunk.data().size();
    (evidence ? evidence_ : everything_).push_back(std::move(chunk));
  }
  bool Next(Chunk* out) override {
    for (std::deque<Chunk>* queue : {&evidence_, &everything_}) {
      if (queue->empty()) continue;
      *out = queue->front();
      out_[queue->front().id()] = {std::move(queue->front()), queue == &evidence_};
      queue->pop_front();
      return true;
    }
    return false;
  }
  void Acked(const std::string& id) override { acked += out_.erase(id); }
  void Refused(const std::string& id, const std::string& why) override {
    if (out_.erase(id) != 0 && refused++ == 0) fprintf(stderr, "fleet_agents: a chunk was refused: %s\n", why.c_str());
  }
  void Return(const std::string& id) override {
    for (auto at = out_.begin(); at != out_.end();) {
      if (id.empty() || at->first == id) {
        (at->second.second ? evidence_ : everything_).push_front(std::move(at->second.first));
        at = out_.erase(at);
      } else {
        ++at;
      }
    }
  }
  size_t held() const override { return evidence_.size() + everything_.size() + out_.size(); }
  uint64_t bytes = 0, acked = 0, refused = 0;

 private:
  std::deque<Chunk> evidence_, everything_;
  std::map<std::string, std::pair<Chunk, bool>> out_;
};

struct SyntheticHostOptions {
  size_t records = 256;              // records of each rank's ring
  std::string scratch = "/dev/shm";  // the folder for temporary files
};

// The eight ranks of one host.
class SyntheticHost : public AgentSource {
 public:
  // Keeps references to all arguments, which must outlive the host.
  SyntheticHost(const SyntheticHostOptions& options, const SyntheticJob& job, int host, MemoryStore* store);

  // Starts over, after the job was restarted.
  void Restart();

  void Look(int64_t mono_ns) override;
  size_t jobs() const override { return 1; }
  const JobIdentity& job(size_t) const override { return identity_; }
  absl::Span<const RankSight> ranks(size_t) const override { return sights_; }
  bool NextEnded(ProcessEnded*) override { return false; }
  void TellAgain() override {}
  void FillDigest(const CollectRequest& request, Digest* out) override;
  void Gather(const CollectRequest& request) override;
  bool NextEvidence(HostEvidence* out) override;

 private:
  int First() const { return host_ * kRanksPerHost; }
  Bundle BundleAt(int64_t mono_ns, size_t ops);
  void Prepare();
  void PutFile(const CollectRequest& request);

  const SyntheticHostOptions& options_;
  const SyntheticJob& job_;
  const int host_;
  MemoryStore* const store_;
  JobIdentity identity_;
  std::vector<ring::Snapshot> snapshots_;
  std::vector<RankSight> sights_;
  std::deque<HostEvidence> evidence_;
  std::set<std::pair<uint64_t, int>> done_;
  // The digest of all ranks of a hung job, made before the request arrives. It takes about a millisecond, and the bench
  // has two cores for thousands of hosts.
  std::string standing_;
  int looks_ = 0;  // heartbeats since the start of this run
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace lockstep::fleet
