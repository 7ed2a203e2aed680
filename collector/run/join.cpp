#include "collector/run/join.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "absl/strings/str_cat.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_units.h"
#include "collector/common/own_programs.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr int kMostCommunicators = 64;
// Time for the agent to report the last exits.
constexpr int64_t kReportExits = 2 * kSecond;
// After an abnormal exit: time for the first verdict to arrive, and for the collector to receive everything.
constexpr int64_t kFirstVerdict = 15 * kSecond, kWholeIncident = 90 * kSecond;

}  // namespace

absl::StatusOr<std::unique_ptr<Join>> Join::Start(const JoinOptions& options) {
  std::unique_ptr<Join> join(new Join());
  join->options_ = options;
  join->instance_ = RandomInstance();
  if (!join->spool_->status().ok()) return join->spool_->status();
  std::vector<std::string> words = OwnProgram("agent");
  const std::string program = words[0];
  words.insert(words.end(),
               {"--collector", options.collector, "--rings", options.ring_folder, "--spool", join->spool_->path()});
  if (options.late_after_ns > 0) {
    words.push_back("--late-after");
    words.push_back(absl::StrCat(static_cast<double>(options.late_after_ns) / 1e9));
  }
  words.insert(words.end(), {"--redact", RedactLevelName(options.redact)});
  // Ctrl-C in a terminal ends the job, but the agent continues, to report the job's end.
  const absl::StatusOr<pid_t> agent = StartCompanion(words);
  if (!agent.ok()) return agent.status();
  join->agent_ = *agent;
  ToolOptions tool;
  tool.collector = options.collector;
  tool.server_key = EnvironmentValue("LOCKSTEP_SERVER_KEY");
  const absl::StatusOr<CollectorAddress> address = FindCollector(tool);
  absl::Status status = address.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<wire::Client>> client = ConnectTo(*address);
    status = client.status();
    if (client.ok()) join->client_ = std::move(*client);
  }
  if (!status.ok()) Say(absl::StrCat("cannot show the collector's verdicts for this job here: ", status.message()));
  return join;
}

Join::~Join() { EndAgent(); }

void Join::EndAgent() {
  if (agent_ > 0) EndCompanion(agent_, 10 * kSecond);
  agent_ = 0;
  spool_.reset();
}

void Join::Step(int64_t mono_ns) {
  if (client_ == nullptr) return;
  if (client_->Tick(mono_ns)) {
    welcome_ = false;
    client_->Send(wire::Type::kHello, wire::MakeHello(Hello::READER, instance_)).IgnoreError();
  }
  if (welcome_ && mono_ns - asked_ns_ > (known_ ? 20 * kSecond : kSecond)) {
    asked_ns_ = mono_ns;
    ClientRequest request;
    request.set_kind(ClientRequest::WATCH);
    request.set_job(options_.job);
    request.set_request(instance_ | 1);
    for (const uint64_t comm : options_.communicators()) {
      if (request.communicators_size() < kMostCommunicators) request.add_communicators(comm);
    }
    known_ |= request.communicators_size() > 0;
    client_->Send(wire::Type::kClientRequest, request).IgnoreError();
  }
  while (const std::optional<wire::Message> message = client_->Receive()) {
    if (message->header.type == wire::Type::kWelcome) {
      if (!welcome_) asked_ns_ = mono_ns - 60 * kSecond;
      welcome_ = true;
      continue;
    }
    ClientReply reply;
    if (message->header.type != wire::Type::kClientReply || !wire::DecodeBody(*message, &reply).ok()) continue;
    heard_ |= reply.jobs_size() > 0;
    // Another job may have the same name. Until this job has a communicator, none of its ranks can be late, so answers
    // are ignored.
    if (!known_ || reply.jobs_size() > 1) continue;
    const Incident* incident = reply.has_incident() ? &reply.incident() : nullptr;
    for (const JobStatus& job : reply.jobs()) {
      if (job.state() == "hung") {
        hung_ = true;
      } else if (job.state() == "moving" && hung_) {
        hung_ = false;
        Say("recovered: the collector reports that the job is moving again");
      }
      if (incident == nullptr && job.has_last_incident()) incident = &job.last_incident();
    }
    if (incident == nullptr) continue;
    whole_ = incident->whole();
    verdict_ = incident->verdict().verdict();
    if (incident->path() == told_ && !told_.empty()) continue;
    told_ = incident->path();
    SayBlock(incident->text());
    if (!told_.empty()) Say(absl::StrCat("incident in ", told_, " on the collector's host"));
  }
  // A Welcome has just arrived: sends the request at once.
  if (welcome_ && asked_ns_ < mono_ns - 50 * kSecond) Step(mono_ns);
}

void Join::Finish(bool badly) {
  const int64_t began = MonotonicNs();
  bool verdict = !told_.empty();
  for (;;) {
    const int64_t now = MonotonicNs();
    Step(now);
    verdict |= !told_.empty();
    const int64_t since = now - began;
    if (since >= kWholeIncident || (client_ == nullptr && since >= (badly ? kFirstVerdict : kReportExits))) break;
    if (!badly && !hung_ && since >= kReportExits) break;
    if (badly && since >= kFirstVerdict && (!verdict || !heard_)) break;
    if (verdict && whole_ && since >= kReportExits / 2) break;
    if (waitpid(agent_, nullptr, WNOHANG) == agent_) {
      agent_ = 0;
      break;
    }
    pollfd polled{fd(), POLLIN, 0};
    poll(&polled, 1, 100);
  }
  EndAgent();
}

}  // namespace lockstep
