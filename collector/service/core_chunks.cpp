// The part of CollectorCore that requests the rings of every host, a few hosts at a time, and acknowledges data on
// disk.
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr int64_t kActiveFor = 2'000'000'000;  // a host that sends nothing for this long does not delay others

}  // namespace

void CollectorCore::StartEverything(Gathering* incident) {
  incident->phase = Gathering::Phase::kEverything;
  incident->phase_ns = now_;
  for (const auto& [host, ranks] : incident->state.hosts) incident->everything[host].ranks = ranks;
  for (const std::string& host : incident->whole) {
    if (const auto entry = incident->everything.find(host); entry != incident->everything.end())
      entry->second.done = true;
  }
}

void CollectorCore::AskForEverything(Gathering* incident, const std::string& host, HostGathering* gathering) {
  Job* job = Find(incident->job);
  if (job == nullptr) return;
  CollectRequest request;
  request.set_request(incident->state.everything_request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::EVERYTHING);
  request.set_incident(incident->state.name);
  if (!incident->state.desync.text.empty()) gathering->ranks.To(request.mutable_ranks());
  const auto known = job->hosts.find(host);
  const bool again = gathering->asked;
  if (known != job->hosts.end() && known->second.address.peer != 0 && !known->second.silent) {
    gathering->asked_at = known->second.address;
    request.mutable_job()->set_life(known->second.life);
    Send(gathering->asked_at, wire::Type::kCollect, request);
  }
  if (known == job->hosts.end() || !known->second.direct) {
    // The host is behind a relay, perhaps another one now, or behind the same one over another connection. The route of
    // its digest does not lead there.
    gathering->ranks.To(request.mutable_ranks());
    for (const auto& [at, relay] : job->relays) {
      const bool may = !relay.silent && (relay.seen.All().Intersects(gathering->ranks));
      request.mutable_job()->set_life(at.life);
      if (may && (again || at.peer != gathering->asked_at.peer)) Send({at.peer, {}}, wire::Type::kCollect, request);
    }
  }
  if (!gathering->asked) gathering->heard_ns = now_;
  gathering->asked = true;
  gathering->asked_ns = now_;
}

void CollectorCore::OnChunk(const wire::Received& received) {
  auto chunk = std::make_shared<Chunk>();
  if (!Decode(received.message, chunk.get())) return;
  const Address from{received.peer, received.message.header.route};
  ++counters_.chunks;
  counters_.chunk_bytes += chunk->data().size();
  const auto refuse = [&](const std::string& why) {
    ++counters_.chunks_refused;
    ChunkAck ack;
    ack.add_id(chunk->id());
    ack.set_refused(why);
    Send(from, wire::Type::kAck, ack);
  };
  const auto found = incidents_.find(chunk->incident());
  if (found == incidents_.end()) return refuse("this collector is not gathering this incident");
  Gathering* incident = found->second.get();
  if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone) {
    return refuse("the incident is closed");
  }
  if (gathered_bytes_ + chunk->raw_bytes() > options_.quota) {
    SayOnce(incident, absl::StrCat("the quota of ", options_.quota, " bytes is reached: further data is refused"));
    return refuse("the collector's quota is reached");
  }
  if (!incident->ready || waiting_chunk_bytes_ + chunk->data().size() > options_.most_waiting_chunk_bytes) {
    ++counters_.chunks_put_off;  // the agent sends the chunk again
    return;
  }
  for (auto* hosts : {&incident->evidence, &incident->everything}) {
    auto host = hosts->find(chunk->host());
    if (host == hosts->end()) host = hosts->find("");
    if (host != hosts->end()) host->second.heard_ns = now_;
  }
  const size_t bytes = chunk->data().size();
  waiting_chunk_bytes_ += bytes;
  const std::string name = incident->state.name;
  const auto store = incident->store;
  struct Result {
    IncidentStore::Put put = IncidentStore::Put::kLater;
    std::string why;
  };
  auto result = std::make_shared<Result>();
  Work(
      CoreTask::Lane::kDisk, [store, chunk, result] { result->put = (*store)->Take(*chunk, &result->why); },
      [this, name, chunk, result, from, bytes] {
        waiting_chunk_bytes_ -= bytes;
        const auto found = incidents_.find(name);
        if (found == incidents_.end()) return;
        ChunkAck ack;
        ack.add_id(chunk->id());
        switch (result->put) {
          case IncidentStore::Put::kTaken:
            gathered_bytes_ += chunk->raw_bytes();
            found->second->unacknowledged[chunk->id()] = from;
            return;
          case IncidentStore::Put::kDuplicate: return Send(from, wire::Type::kAck, ack);
          case IncidentStore::Put::kRefused:
            ++counters_.chunks_refused;
            ack.set_refused(result->why);
            return Send(from, wire::Type::kAck, ack);
          case IncidentStore::Put::kLater:
            ++counters_.chunks_put_off;
            if (result->why != "it is being written")
              SayOnce(found->second.get(), result->why + "; chunks stay at the agents");
            return;
        }
      });
}

void CollectorCore::Commit(Gathering* incident) {
  incident->committing = true;
  struct Result {
    absl::StatusOr<std::vector<std::string>> ids;
    std::vector<IncidentStore::File> files;
  };
  auto result = std::make_shared<Result>();
  const auto store = incident->store;
  WorkFor(
      incident, CoreTask::Lane::kDisk,
      [store, result] {
        result->ids = (*store)->Commit();
        result->files = (*store)->Files();
      },
      [this, result](Gathering* incident) {
        incident->committing = false;
        if (!result->ids.ok()) {
          SayOnce(incident, absl::StrCat(result->ids.status().message(), "; chunks stay at the agents"));
          incident->unacknowledged.clear();
          return;
        }
        std::map<Address, ChunkAck> acks;
        for (const std::string& id : *result->ids) {
          const auto sender = incident->unacknowledged.find(id);
          if (sender == incident->unacknowledged.end()) continue;
          acks[sender->second].add_id(id);
          incident->unacknowledged.erase(sender);
        }
        for (const auto& [address, ack] : acks) Send(address, wire::Type::kAck, ack);
        for (const IncidentStore::File& file : result->files) {
          if (!file.whole || absl::EndsWith(file.name, ".evidence.lsd")) continue;
          if (const auto host = incident->everything.find(file.host); host != incident->everything.end()) {
            host->second.done = true;
          } else {
            incident->whole.insert(file.host);
          }
        }
      });
}

void CollectorCore::TickEverything(Gathering* incident) {
  Job* job = Find(incident->job);
  size_t active = 0, left = 0;
  for (auto& [host, gathering] : incident->everything) {
    if (gathering.done || gathering.given_up) continue;
    ++left;
    if (!gathering.asked) continue;
    if (host.empty() && !incident->whole.empty() && now_ - gathering.heard_ns > options_.ask_again_ns / 2) {
      gathering.done = true;  // ranks whose hosts are unknown; all hosts that have some have sent them
      --left;
      continue;
    }
    if (now_ - gathering.heard_ns > options_.give_up_ns) {
      gathering.given_up = true;
      --left;
      SayOnce(incident, absl::StrCat("nothing more arrived from ", host, " for ", DurationText(options_.give_up_ns),
                                     ": continuing without it"));
      continue;
    }
    const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
    const bool elsewhere = job != nullptr && known != job->hosts.end() && !known->second.silent &&
                           known->second.address.peer != 0 && !(known->second.address == gathering.asked_at);
    if (elsewhere ||
        (now_ - gathering.asked_ns > options_.ask_again_ns && now_ - gathering.heard_ns > options_.ask_again_ns)) {
      AskForEverything(incident, host, &gathering);
    }
    if (now_ - gathering.heard_ns <= kActiveFor) ++active;
  }
  for (auto& [host, gathering] : incident->everything) {
    if (active >= options_.everything_hosts) break;
    if (gathering.asked || gathering.done || gathering.given_up) continue;
    const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
    if (job == nullptr || known == job->hosts.end() || known->second.silent) {
      // The agent may connect again, or may still have to connect after a restart of the collector.
      if (now_ - incident->phase_ns > options_.give_up_ns) gathering.given_up = true;
      continue;
    }
    AskForEverything(incident, host, &gathering);
    ++active;
  }
  if (left != 0 || !incident->unacknowledged.empty() || incident->committing) return;
  if (!incident->state.desync.text.empty() && !incident->state.desync.confirmed && !incident->resumed) {
    if (now_ - incident->phase_ns > options_.desync_confirm_ns) AbandonDesync(incident);
    return;
  }
  StartFinal(incident);
}

}  // namespace lockstep
