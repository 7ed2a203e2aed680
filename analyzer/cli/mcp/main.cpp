// lockstep-mcp: answers an assistant's requests on standard input and output.

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "analyzer/cli/mcp/incident_list.h"
#include "analyzer/cli/mcp/protocol.h"
#include "analyzer/cli/mcp/tools.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/system.h"

namespace lockstep {
namespace {

constexpr int kFailed = 3;

bool Say(const std::string& answer) {
  return fwrite((answer + "\n").data(), 1, answer.size() + 1, stdout) == answer.size() + 1 && fflush(stdout) == 0;
}

int Serve(const McpServer& server) {
  std::string line;
  bool too_long = false;
  for (int c = getc(stdin); c != EOF; c = getc(stdin)) {
    if (c != '\n') {
      too_long |= line.size() >= McpServer::kLongestLine;
      if (!too_long) line.push_back(static_cast<char>(c));
      continue;
    }
    const std::string answer = too_long ? McpServer::TooLong() : line.empty() ? "" : server.Answer(line);
    line.clear();
    too_long = false;
    if (!answer.empty() && !Say(answer)) return kFailed;
  }
  return 0;
}

int Run(const settings::ParsedOptions& options) {
  const absl::StatusOr<Redactor> redactor = MakeRedactor(ParseRedactLevel(options.Text("redact")).value());
  if (!redactor.ok()) return settings::UsageError("mcp", redactor.status());
  IncidentList incidents(options.operands(), *redactor);
  return Serve(McpServer(IncidentTools(&incidents), absl::StrFormat("%016x", RandomInstance())));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::settings::RunVerb("mcp", argc, argv, lockstep::Run); }
