#include "collector/service/core/ring_gathering.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

constexpr size_t kMostWaitingChunkBytes = size_t{64} << 20;
constexpr int64_t kActiveFor = 2'000'000'000;  // a host that sends nothing for this long does not delay others

}  // namespace

void RingGathering::Start(Gathering* incident) {
  incident->phase = Gathering::Phase::kEverything;
  incident->phase_ns = shared_.now;
  for (const auto& [host, ranks] : incident->state.hosts) incident->everything[host].ranks = ranks;
  for (const std::string& host : incident->whole) {
    if (const auto entry = incident->everything.find(host); entry != incident->everything.end())
      entry->second.done = true;
  }
}

void RingGathering::RequestRings(Gathering* incident, const std::string& host, HostGathering* gathering) {
  Job* job = jobs_.Find(incident->job);
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
    shared_.Send(gathering->asked_at, wire::Type::kCollect, request);
  }
  if (known == job->hosts.end() || !known->second.direct) {
    // The host is behind a relay. The route of its digest may be outdated, so every relay with its ranks is asked.
    gathering->ranks.To(request.mutable_ranks());
    for (const auto& [at, relay] : job->relays) {
      const bool may = !relay.silent && (relay.seen.All().Intersects(gathering->ranks));
      request.mutable_job()->set_life(at.life);
      if (may && (again || at.peer != gathering->asked_at.peer))
        shared_.Send({at.peer, {}}, wire::Type::kCollect, request);
    }
  }
  if (!gathering->asked) gathering->heard_ns = shared_.now;
  gathering->asked = true;
  gathering->asked_ns = shared_.now;
}

void RingGathering::OnChunk(const wire::Received& received) {
  auto chunk = std::make_shared<Chunk>();
  if (!shared_.Decode(received.message, chunk.get())) return;
  const Address from{received.peer, received.message.header.route};
  ++shared_.counters.chunks;
  shared_.counters.chunk_bytes += chunk->data().size();
  const auto refuse = [&](const std::string& why) {
    ++shared_.counters.chunks_refused;
    ChunkAck ack;
    ack.add_id(chunk->id());
    ack.set_refused(why);
    shared_.Send(from, wire::Type::kAck, ack);
  };
  Gathering* incident = book_.Find(chunk->incident());
  if (incident == nullptr) return refuse("this collector is not gathering this incident");
  if (incident->dead || incident->phase == Gathering::Phase::kFinal || incident->phase == Gathering::Phase::kDone) {
    return refuse("the incident is closed");
  }
  if (gathered_bytes_ + chunk->raw_bytes() > shared_.options.quota) {
    book_.SayOnce(incident, absl::StrCat("reached the quota of ", shared_.options.quota, " bytes; refusing more data"));
    return refuse("the collector has reached its quota");
  }
  if (!incident->ready || waiting_chunk_bytes_ + chunk->data().size() > kMostWaitingChunkBytes) {
    ++shared_.counters.chunks_put_off;  // the agent sends the chunk again
    return;
  }
  for (auto* hosts : {&incident->evidence, &incident->everything}) {
    auto host = hosts->find(chunk->host());
    if (host == hosts->end()) host = hosts->find("");
    if (host != hosts->end()) host->second.heard_ns = shared_.now;
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
  shared_.Work(
      CoreTask::Lane::kDisk, [store, chunk, result] { result->put = (*store)->Take(*chunk, &result->why); },
      [this, name, chunk, result, from, bytes] {
        waiting_chunk_bytes_ -= bytes;
        Gathering* incident = book_.Find(name);
        if (incident == nullptr) return;
        ChunkAck ack;
        ack.add_id(chunk->id());
        switch (result->put) {
          case IncidentStore::Put::kTaken:
            gathered_bytes_ += chunk->raw_bytes();
            incident->unacknowledged[chunk->id()] = from;
            return;
          case IncidentStore::Put::kDuplicate: return shared_.Send(from, wire::Type::kAck, ack);
          case IncidentStore::Put::kRefused:
            ++shared_.counters.chunks_refused;
            ack.set_refused(result->why);
            return shared_.Send(from, wire::Type::kAck, ack);
          case IncidentStore::Put::kLater:
            ++shared_.counters.chunks_put_off;
            if (!result->why.empty()) book_.SayOnce(incident, result->why + "; agents keep their chunks and retry");
            return;
        }
      });
}

void RingGathering::Commit(Gathering* incident) {
  incident->committing = true;
  struct Result {
    absl::StatusOr<std::vector<std::string>> ids;
    std::vector<IncidentStore::File> files;
  };
  auto result = std::make_shared<Result>();
  const auto store = incident->store;
  book_.WorkFor(
      incident, CoreTask::Lane::kDisk,
      [store, result] {
        result->ids = (*store)->Commit();
        result->files = (*store)->Files();
      },
      [this, result](Gathering* incident) {
        incident->committing = false;
        if (!result->ids.ok()) {
          book_.SayOnce(incident, absl::StrCat(result->ids.status().message(), "; agents keep their chunks and retry"));
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
        for (const auto& [address, ack] : acks) shared_.Send(address, wire::Type::kAck, ack);
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

bool RingGathering::Tick(Gathering* incident) {
  Job* job = jobs_.Find(incident->job);
  size_t active = 0, left = 0;
  for (auto& [host, gathering] : incident->everything) {
    if (gathering.done || gathering.given_up) continue;
    ++left;
    if (!gathering.asked) continue;
    if (host.empty() && !incident->whole.empty() && shared_.now - gathering.heard_ns > kAskAgain / 2) {
      gathering.done = true;  // ranks on unknown hosts; some have sent rings, and nothing more arrives
      --left;
      continue;
    }
    if (shared_.now - gathering.heard_ns > shared_.options.give_up_ns) {
      gathering.given_up = true;
      --left;
      book_.SayOnce(incident, absl::StrCat("received nothing more from ", host, " for ",
                                           DurationText(shared_.options.give_up_ns), ": continuing without it"));
      continue;
    }
    const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
    const bool elsewhere = job != nullptr && known != job->hosts.end() && !known->second.silent &&
                           known->second.address.peer != 0 && !(known->second.address == gathering.asked_at);
    if (elsewhere || (shared_.now - gathering.asked_ns > kAskAgain && shared_.now - gathering.heard_ns > kAskAgain)) {
      RequestRings(incident, host, &gathering);
    }
    if (shared_.now - gathering.heard_ns <= kActiveFor) ++active;
  }
  for (auto& [host, gathering] : incident->everything) {
    if (active >= shared_.options.everything_hosts) break;
    if (gathering.asked || gathering.done || gathering.given_up) continue;
    const auto known = job == nullptr ? std::map<std::string, JobHost>::iterator() : job->hosts.find(host);
    if (job == nullptr || known == job->hosts.end() || known->second.silent) {
      // The agent may reconnect, or may still have to connect after a restart of the collector.
      if (shared_.now - incident->phase_ns > shared_.options.give_up_ns) gathering.given_up = true;
      continue;
    }
    RequestRings(incident, host, &gathering);
    ++active;
  }
  return left == 0 && incident->unacknowledged.empty() && !incident->committing;
}

}  // namespace lockstep
