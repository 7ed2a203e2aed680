// lockstep-serve: shows incidents to a browser.
#include <google/protobuf/stubs/logging.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/browser/serve/site.h"
#include "analyzer/browser/serve/tls.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/http/server.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/system.h"

namespace lockstep::serve {
namespace {

constexpr int kFailed = 3;

int Fail(absl::string_view text) { return settings::Complain("serve", text, kFailed); }

int AddReader(const std::string& file, const std::string& name) {
  const absl::StatusOr<std::string> key = Readers::Add(file, name);
  if (!key.ok()) return Fail(key.status().message());
  printf("%s\nThis is the key of %s. It is stored nowhere. To revoke it, remove the line from %s.\n", key->c_str(),
         name.c_str(), Printable(file, 300).c_str());
  return fflush(stdout) != 0 || ferror(stdout) != 0 ? Fail("cannot write to standard output") : 0;
}

int Run(const settings::ParsedOptions& options) {
  const auto usage = [&](absl::string_view text) {
    return settings::UsageError("serve", options.Wrong(std::string(text)));
  };
  const std::string readers_file = options.Text("readers");
  if (options.Given("add-reader")) return AddReader(readers_file, options.Text("add-reader"));
  if (options.operands().empty()) return usage("no FOLDER given");
  const std::string listen = options.Given("listen") ? options.Text("listen") : "127.0.0.1";
  const std::optional<http::Address> address = http::ParseAddress(listen);
  if (!address) return usage(absl::StrCat("--listen ", listen, ": not an IP address of this host, nor localhost"));
  const int secured = options.Given("tls-cert") + options.Given("tls-key") + options.Given("readers");
  if (secured == 0 && !address->loopback) {
    return usage(absl::StrCat("--listen ", listen,
                              ": other hosts can connect to it, so it needs --tls-cert, --tls-key and --readers. "
                              "Without them, use ssh -L PORT:127.0.0.1:PORT ",
                              HostName()));
  }
  if (secured != 0 && secured != 3) return usage("--tls-cert, --tls-key and --readers must be used together");
  const std::string token = MakeToken();
  if (token.empty()) return Fail("the system did not provide random numbers");
  std::unique_ptr<Tls> tls;
  std::unique_ptr<Readers> readers;
  if (secured != 0) {
    absl::StatusOr<std::unique_ptr<Tls>> loaded = Tls::Load(options.Text("tls-cert"), options.Text("tls-key"));
    if (!loaded.ok()) return Fail(loaded.status().message());
    tls = *std::move(loaded);
    readers = std::make_unique<Readers>(readers_file);
    if (const absl::Status status = readers->Check(); !status.ok())
      return Fail(absl::StrCat(status.message(), ". To add a reader: lockstep serve --readers FILE --add-reader NAME"));
  }
  std::unique_ptr<LiveJobs> live;
  if (options.Given("live")) {
    const std::string endpoint = options.Text("live");
    live = std::make_unique<LiveJobs>(OwnFolder() + "lockstep-top", endpoint == "any" ? "" : endpoint);
  }
  const auto site =
      tls == nullptr ? std::make_unique<Site>(options.operands(), token, std::move(live))
                     : std::make_unique<Site>(options.operands(), std::move(readers), tls->secret(), std::move(live));
  absl::StatusOr<Roofline> roofline = ReadRoofline(options.Number("line-rate"), options.List("nccl-tests"));
  if (!roofline.ok()) return usage(roofline.status().message());
  site->SetRoofline(*std::move(roofline));
  if (const absl::Status status = site->listing().Check(); !status.ok()) return Fail(status.message());
  // Signals are blocked before the other threads start, because this thread handles them.
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  http::Server::Encrypt encrypt;
  if (tls != nullptr) encrypt = [&tls](int fd) { return tls->Accept(fd); };
  const auto server = http::Server::Start(
      *address, static_cast<uint16_t>(options.Number("port")),
      [&site](const http::Request& request) { return site->Answer(request); }, std::move(encrypt));
  if (!server.ok()) return Fail(server.status().message());
  const int port = (*server)->port();
  std::string name = address->any ? Printable(HostName(), 100) : listen == "localhost" ? "127.0.0.1" : listen;
  if (name.find(':') != std::string::npos) name = absl::StrCat("[", name, "]");
  printf("%s://%s:%d/%s\n", tls != nullptr ? "https" : "http", name.c_str(), port,
         tls != nullptr ? "" : absl::StrCat(token, "/").c_str());
  if (address->loopback) {
    printf("From another machine first: ssh -L %d:%s:%d %s\n", port, name.c_str(), port,
           Printable(HostName(), 100).c_str());
  } else {
    printf("The browser asks for a name, which can be anything, and for a password, which is a reader's key.\n");
  }
  // Without the address, nobody can open the pages.
  if (fflush(stdout) != 0 || ferror(stdout) != 0) return Fail("cannot write to standard output");
  int number = 0;
  sigwait(&ends, &number);
  // Exits at once, even while a page is being created.
  _exit(0);
}

}  // namespace
}  // namespace lockstep::serve

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);
  return lockstep::settings::RunVerb("serve", argc, argv, lockstep::serve::Run);
}
