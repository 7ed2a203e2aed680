// The dump verb: requests an incident of a job from the collector, waits for it, and prints the verdict.
#include <poll.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "collector/wire/client.h"
#include "collector/wire/tool_client.h"
#include "proto/wire.pb.h"

namespace lockstep {
namespace {

constexpr int kFailed = 3;
constexpr int64_t kUnreached = 3 * kSecond;  // a missing answer is reported after this time

struct DumpOptions {
  std::string job;
  bool everything = false, json = false;
  int64_t timeout_ns = 0;
};

int Dump(const DumpOptions& options, const CollectorAddress& address) {
  wire::ClientOptions connection;
  connection.endpoints = {address.endpoint};
  connection.security = address.security;
  absl::StatusOr<std::unique_ptr<wire::Client>> client = wire::Client::Connect(connection);
  if (!client.ok()) {
    Say(client.status().message());
    return kFailed;
  }
  const uint64_t instance = RandomInstance();
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  request.set_job(options.job);
  request.set_request(instance | 1);
  request.set_everything(options.everything);
  const int64_t began = MonotonicNs();
  bool welcome = false, unreached_said = false;
  Incident incident;
  bool have = false;
  for (;;) {
    const int64_t now = MonotonicNs();
    if (now - began > options.timeout_ns) {
      Say(absl::StrCat("no response within ", DurationText(options.timeout_ns),
                       (*client)->last_error().empty() ? "" : ": " + (*client)->last_error()));
      return kFailed;
    }
    if (!welcome && !unreached_said && now - began > kUnreached) {
      unreached_said = true;
      const std::string why = (*client)->last_error();
      Say(absl::StrCat("no response from the collector at ", address.endpoint, " (from ", address.found, ")",
                       why.empty() ? "" : ": ", why, "; retrying for ",
                       DurationText(options.timeout_ns - (now - began)),
                       " (--timeout). Is it running there? lockstep doctor checks this"));
    }
    if ((*client)->Tick(now)) {
      Hello hello;
      hello.set_role(Hello::OPERATOR);
      hello.set_version(LOCKSTEP_VERSION);
      hello.set_instance(instance);
      hello.set_protocol(wire::kProtocol);
      hello.set_min_protocol(1);
      if (const auto message = wire::Encode(wire::Type::kHello, hello); message.ok())
        (*client)->Send(*message).IgnoreError();
      welcome = false;
    }
    while (const std::optional<wire::Message> message = (*client)->Receive()) {
      if (message->header.type == wire::Type::kWelcome) {
        Welcome answer;
        if (!wire::DecodeBody(*message, &answer).ok()) continue;
        if (!answer.refused().empty()) {
          Say(absl::StrCat("the collector refuses this client: ", answer.refused()));
          return kFailed;
        }
        if (welcome) continue;
        welcome = true;
        // The request is sent again after a reconnection. The collector recognizes it by its number.
        if (const auto asked = wire::Encode(wire::Type::kClientRequest, request); asked.ok())
          (*client)->Send(*asked).IgnoreError();
      }
      if (message->header.type != wire::Type::kClientReply) continue;
      ClientReply reply;
      if (!wire::DecodeBody(*message, &reply).ok() || reply.request() != request.request()) continue;
      if (!reply.error().empty()) {
        Say(reply.error());
        return kFailed;
      }
      if (!reply.progress().empty()) Say(reply.progress());
      if (reply.has_incident()) {
        incident = reply.incident();
        have = true;
      }
      if (!reply.done()) continue;
      if (!have) {
        Say("the collector produced no verdict");
        return kFailed;
      }
      const std::string text = options.json ? ReportJson(incident.verdict()) : CleanLines(incident.text());
      fwrite(text.data(), 1, text.size(), stdout);
      fflush(stdout);
      if (!incident.path().empty()) Say(absl::StrCat("incident in ", incident.path(), " on the collector's host"));
      return ExitStatus(incident.verdict());
    }
    pollfd polled{(*client)->fd(), POLLIN, 0};
    poll(&polled, 1, 200);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  SilenceLibraries();
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("dump", argc, argv);
  if (const std::optional<int> status = settings::Finished("dump", parsed)) return *status;
  const absl::StatusOr<CollectorAddress> address = FindCollector(MakeToolOptions(*parsed));
  if (!address.ok()) {
    Say(address.status().message());
    return kFailed;
  }
  return Dump({parsed->operand(), parsed->Flag("everything"), parsed->Flag("json"), parsed->Nanoseconds("timeout")},
              *address);
}
