// The dump verb: has the collector take an incident of a job now, waits for it, and prints the verdict.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "analyzer/settings/merge.h"
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

constexpr int kUsage = 2, kFailed = 3;
constexpr int64_t kUnreached = 3 * kSecond;  // then it is said

struct DumpOptions {
  std::string job;
  bool everything = false, json = false, help = false, version = false;
  int64_t timeout_ns = 600 * kSecond;
};

void Help() {
  printf(
      "Usage: lockstep dump [OPTIONS] [JOB]\n\n"
      "Has the collector take an incident of a running job now: digests of all ranks, the verdict, stacks and rings of "
      "the\n"
      "suspects. Prints the verdict and where the files are. JOB is a name, or NAME/STEP/RESTART; it may be left out "
      "where\n"
      "only one job runs.\n\n%s"
      "  --everything          whole rings of all ranks, not of the suspects alone\n"
      "  --json                print the verdict as JSON\n"
      "  --timeout SECONDS     give up after so long, also where the collector does not answer, which is said after 3 "
      "s\n"
      "                        (default 600)\n"
      "  -h, --help            this text\n"
      "  -V, --version         the version\n\n"
      "Exit status as lockstep analyze: 0 healthy, 1 findings or incomplete data, 2 wrong arguments, 3 no verdict.\n",
      kToolOptionsHelp);
}

absl::StatusOr<DumpOptions> Parse(const std::vector<std::string>& words) {
  DumpOptions options;
  const auto usage = [](const std::string& text) {
    return absl::InvalidArgumentError(absl::StrCat(text, " (lockstep dump --help shows the options)"));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "-V" || word == "--version") {
      options.version = true;
    } else if (word == "--everything") {
      options.everything = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--timeout" || word.compare(0, 10, "--timeout=") == 0) {
      if (word == "--timeout" && i + 1 >= words.size()) return usage("--timeout takes a value");
      const std::string value = word == "--timeout" ? words[++i] : word.substr(10);
      double seconds = 0;
      if (!absl::SimpleAtod(value, &seconds) || !(seconds > 0) || seconds > 1e6) {
        return usage(absl::StrCat("--timeout takes a number of seconds above 0, not '", value, "'"));
      }
      options.timeout_ns = static_cast<int64_t>(seconds * 1e9);
    } else if (word.size() > 1 && word[0] == '-') {
      return usage(absl::StrCat("unknown option '", word, "'"));
    } else if (!options.job.empty()) {
      return usage(absl::StrCat("one job at a time: '", options.job, "' or '", word, "'"));
    } else {
      options.job = word;
    }
  }
  return options;
}

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
      Say(absl::StrCat("no answer within ", DurationText(options.timeout_ns),
                       (*client)->last_error().empty() ? "" : ": " + (*client)->last_error()));
      return kFailed;
    }
    if (!welcome && !unreached_said && now - began > kUnreached) {
      unreached_said = true;
      const std::string why = (*client)->last_error();
      Say(absl::StrCat("no word from the collector at ", address.endpoint, " (from ", address.found, ")",
                       why.empty() ? "" : ": ", why, "; this goes on trying for ",
                       DurationText(options.timeout_ns - (now - began)),
                       " (--timeout). Does it run there? lockstep doctor checks"));
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
          Say(absl::StrCat("the collector refuses: ", answer.refused()));
          return kFailed;
        }
        if (welcome) continue;
        welcome = true;
        // Again after a reconnection: the collector knows the request by its number.
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
        Say("the collector made no verdict");
        return kFailed;
      }
      const std::string text = options.json ? ReportJson(incident.verdict()) : incident.text();
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
  absl::StatusOr<settings::Merged> merged = settings::Merge("dump", {argv + 1, argv + argc});
  if (!merged.ok()) return Say(merged.status().message()), kUsage;
  settings::Tell(*merged);
  std::vector<std::string> words = std::move(merged->words);
  const absl::StatusOr<ToolOptions> tool = TakeToolOptions(&words);
  const absl::StatusOr<DumpOptions> options = Parse(words);
  if (!options.ok() || !tool.ok()) {
    Say(merged->Explain(std::string(options.ok() ? tool.status().message() : options.status().message())));
    return kUsage;
  }
  if (options->help) {
    Help();
    return 0;
  }
  if (options->version) {
    puts("lockstep-dump " LOCKSTEP_VERSION);
    return 0;
  }
  const absl::StatusOr<CollectorAddress> address = FindCollector(*tool);
  if (!address.ok()) {
    Say(address.status().message());
    return kFailed;
  }
  return Dump(*options, *address);
}
