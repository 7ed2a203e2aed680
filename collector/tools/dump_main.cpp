// The dump verb: requests an incident of a job from the collector, waits for it, and prints the verdict.
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "analyzer/settings/options.h"
#include "collector/common/say.h"
#include "collector/wire/tool_client.h"
#include "proto/wire.pb.h"

namespace lockstep {
namespace {

constexpr int kFailed = 3;

int Dump(const settings::ParsedOptions& options, const CollectorAddress& address) {
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  request.set_job(options.operand());
  request.set_everything(options.Flag("everything"));
  std::optional<Incident> incident;
  const absl::Status status =
      AskCollector(address, request, options.Nanoseconds("timeout"), [&](const ClientReply& reply) {
        if (reply.has_incident()) incident = reply.incident();
      });
  if (!status.ok() || !incident) {
    Say(status.ok() ? "the collector produced no verdict" : std::string(status.message()));
    return kFailed;
  }
  const std::string text = options.Flag("json") ? ReportJson(incident->verdict()) : CleanLines(incident->text());
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
  if (!incident->path().empty()) Say(absl::StrCat("incident in ", incident->path(), " on the collector's host"));
  return ExitStatus(incident->verdict());
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
  return Dump(*parsed, *address);
}
