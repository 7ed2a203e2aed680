// lockstep-serve: shows incidents to a browser.
#include <google/protobuf/stubs/logging.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/serve/server.h"
#include "analyzer/serve/site.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/system.h"

namespace lockstep::serve {
namespace {

constexpr int kFailed = 3;

int Fail(absl::string_view text) { return settings::Complain("serve", text, kFailed); }

int Run(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<settings::ParsedOptions> options = settings::Parse("serve", argc, argv);
  if (const std::optional<int> done = settings::Finished("serve", options)) return *done;
  const std::string listen = options->Given("listen") ? options->Text("listen") : "127.0.0.1";
  const std::optional<uint32_t> address = LoopbackAddress(listen);
  if (!address) {
    return settings::UsageError(
        "serve",
        options->Wrong(absl::StrCat(
            "--listen ", listen,
            ": it has no TLS yet, so it listens only on this host. From another machine: ssh -L PORT:127.0.0.1:PORT ",
            HostName())));
  }
  const std::string token = MakeToken();
  if (token.empty()) return Fail("the system provides no random numbers");
  std::unique_ptr<LiveJobs> live;
  if (options->Given("live")) {
    const std::string endpoint = options->Text("live");
    live = std::make_unique<LiveJobs>(OwnFolder() + "lockstep-top", endpoint == "any" ? "" : endpoint);
  }
  Site site(options->operands(), token, std::move(live));
  if (const absl::Status status = site.listing().Check(); !status.ok()) return Fail(status.message());
  // Signals are blocked before the threads start, because this thread handles them.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const auto server = Server::Start(*address, static_cast<uint16_t>(options->Number("port")),
                                    [&site](const Request& request) { return site.Answer(request); });
  if (!server.ok()) return Fail(server.status().message());
  const int port = (*server)->port();
  const std::string name = listen == "localhost" ? "127.0.0.1" : listen;
  printf("http://%s:%d/%s/\n", name.c_str(), port, token.c_str());
  printf("From another machine first: ssh -L %d:%s:%d %s\n", port, name.c_str(), port,
         Printable(HostName(), 100).c_str());
  // Nobody can open the pages without knowing the address.
  if (fflush(stdout) != 0 || ferror(stdout) != 0) return Fail("cannot write to standard output");
  int number = 0;
  sigwait(&ends, &number);
  // Making a page may take long; the program does not wait for it.
  _exit(0);
}

}  // namespace
}  // namespace lockstep::serve

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);
  try {
    return lockstep::serve::Run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs("lockstep serve: out of memory\n", stderr);
    return lockstep::serve::kFailed;
  }
}
