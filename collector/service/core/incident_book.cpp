#include "collector/service/core/incident_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collector/incident/incident.h"

namespace lockstep {
namespace {

constexpr size_t kMostSaid = 64;  // maximum number of texts per incident

}  // namespace

Gathering* IncidentBook::Add(const Job& job, const std::string& suffix) {
  auto made = std::make_unique<Gathering>();
  std::string plain = DumpFileName(job.identity.job());
  plain.resize(plain.size() - 4);
  const std::string folder = DefaultIncidentFolder(plain.substr(0, 80), shared_.RealNow()) + suffix;
  IncidentState& state = made->state;
  state.name = folder;
  for (int extra = 2; incidents_.contains(state.name); ++extra) state.name = absl::StrCat(folder, "-", extra);
  state.folder = absl::StrCat(shared_.options.out, "/", state.name);
  state.identity = job.identity;
  state.comms = CommunicatorsOf(job);
  state.job_name = job.name;
  state.everything_request = shared_.NextRequest();
  state.captured_real_ns = shared_.RealNow();
  made->job = job.key;
  made->phase_ns = shared_.now;
  *made->incident.mutable_job() = job.identity;
  made->incident.set_path(state.folder);
  return (incidents_[state.name] = std::move(made)).get();
}

Gathering* IncidentBook::Add(const IncidentState& state) {
  auto made = std::make_unique<Gathering>();
  made->state = state;
  made->resumed = true;
  if (state.job_name.empty()) made->state.job_name = state.identity.job();
  *made->incident.mutable_job() = state.identity;
  made->incident.set_path(state.folder);
  made->phase_ns = shared_.now;
  return (incidents_[state.name] = std::move(made)).get();
}

Gathering* IncidentBook::Find(const std::string& name) {
  const auto found = incidents_.find(name);
  return found == incidents_.end() ? nullptr : found->second.get();
}

std::vector<Gathering*> IncidentBook::All() {
  std::vector<Gathering*> all;
  for (const auto& [name, incident] : incidents_) all.push_back(incident.get());
  return all;
}

bool IncidentBook::gathering() const {
  return std::any_of(incidents_.begin(), incidents_.end(), [](const auto& incident) {
    return incident.second->phase != Gathering::Phase::kDone && !incident.second->dead;
  });
}

void IncidentBook::Sweep() {
  std::erase_if(incidents_, [this](const auto& incident) {
    const Gathering& g = *incident.second;
    return (g.phase == Gathering::Phase::kDone || g.dead) && !g.working && shared_.now - g.done_ns > kForgetAfter;
  });
}

void IncidentBook::WorkFor(Gathering* incident, CoreTask::Lane lane, std::function<void()> run,
                           std::function<void(Gathering*)> done) {
  shared_.Work(lane, std::move(run), [this, name = incident->state.name, done = std::move(done)] {
    if (Gathering* found = Find(name)) done(found);
  });
}

void IncidentBook::SayOnce(Gathering* incident, const std::string& text) {
  if (incident->said.size() > kMostSaid || !incident->said.insert(text).second) return;
  shared_.Say(absl::StrCat("incident ", incident->state.name, ": ", text));
}

void IncidentBook::Tell(Gathering* incident, const std::string& progress, bool done) {
  Job* job = jobs_.Find(incident->job);
  if (job != nullptr && job->incident == incident->state.name)
    job->last_incident = std::make_shared<Incident>(incident->incident);
  for (const auto& [address, request] : incident->asking) {
    ClientReply reply;
    reply.set_request(request);
    reply.set_progress(progress);
    *reply.mutable_incident() = incident->incident;
    reply.set_done(done);
    shared_.Send(address, wire::Type::kClientReply, reply);
  }
  if (done) incident->asking.clear();
  clients_.Tell(incident->job, &incident->incident);
}

void IncidentBook::TellProgram(Gathering* incident) {
  if ((!incident->state.declared && !incident->state.desync.confirmed) || incident->json.empty()) return;
  shared_.actions->OnVerdict(incident->state.job_name, incident->json, incident->dead ? "" : incident->state.folder);
}

void IncidentBook::Close(Gathering* incident) {
  incident->dead = true;
  incident->done_ns = shared_.now;
}

}  // namespace lockstep
