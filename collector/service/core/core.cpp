#include "collector/service/core/core.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

// A gap longer than this between two ticks means that the collector itself was stopped. No rank is then blamed for the
// gap.
constexpr int64_t kAbsence = 3 * kSecond;
constexpr int64_t kSweepEvery = 10 * kSecond;

}  // namespace

CollectorCore::CollectorCore(const CoreOptions& options, CoreActions* actions)
    : shared_(options, actions),
      jobs_(&shared_, this),
      clients_(&shared_, &jobs_),
      incidents_(&shared_, &jobs_, &clients_),
      rounds_(&shared_, &jobs_, &clients_, &incidents_) {}

void CollectorCore::Receive(int64_t mono_ns, const wire::Received& received) {
  shared_.now = std::max(shared_.now, mono_ns);
  jobs_.Heard(received.peer);
  switch (received.message.header.type) {
    case wire::Type::kHello: return jobs_.OnHello(received);
    case wire::Type::kHeartbeat: return jobs_.OnHeartbeat(received);
    case wire::Type::kLate: return jobs_.OnLate(received);
    case wire::Type::kEnded: return jobs_.OnEnded(received);
    case wire::Type::kBye: return jobs_.OnBye(received);
    case wire::Type::kDigest: return rounds_.OnDigest(received);
    case wire::Type::kEvidence:
      if (clients_.examination().Take(received)) return;
      return incidents_.evidence().OnEvidence(received);
    case wire::Type::kStacks: return OnStacks(received);
    case wire::Type::kChunk: return incidents_.rings().OnChunk(received);
    case wire::Type::kClientRequest: return clients_.OnRequest(received);
    default: return;
  }
}

// Handles stacks, which were requested by a user or for an incident.
void CollectorCore::OnStacks(const wire::Received& received) {
  auto report = std::make_shared<StackReport>();
  if (!shared_.Decode(received.message, report.get()) || clients_.fresh().Take(*report)) return;
  incidents_.evidence().OnStacks(report);
}

void CollectorCore::Tick(int64_t mono_ns, int64_t real_ns) {
  const int64_t absent = shared_.Tick(mono_ns, real_ns);
  if (absent > kAbsence) {
    shared_.Say(
        absl::StrCat("the collector was not running for ", DurationText(absent), "; no rank is blamed for that time"));
    jobs_.Rebase();
  }
  const int64_t now = shared_.now;
  if (now / kSecond != (now - std::max<int64_t>(absent, 1)) / kSecond) jobs_.LookForSilence();
  for (const auto& [key, job] : jobs_.jobs()) rounds_.Tick(job.get());
  incidents_.Tick();
  clients_.Tick();
  if (now - swept_ns_ < kSweepEvery) return;
  swept_ns_ = now;
  jobs_.Sweep(kSweepEvery);
  incidents_.book().Sweep();
}

std::vector<JobState> CollectorCore::States() const {
  static constexpr absl::string_view kWorstFirst[] = {"hung", "late", "moving", "ended"};
  std::vector<JobState> states;
  for (const absl::string_view word : kWorstFirst) {
    for (const auto& [key, job] : jobs_.jobs()) {
      if (JobState state = StateOf(*job); state.state == word) states.push_back(std::move(state));
    }
  }
  return states;
}

JobStatus CollectorCore::StatusOf(const std::string& job) const {
  JobStatus status;
  for (const auto& [key, candidate] : jobs_.jobs()) {
    if (candidate->name == job || candidate->identity.job() == job) {
      FillStatus(*candidate, shared_.now, &status);
      break;
    }
  }
  return status;
}

}  // namespace lockstep
