#include "collector/common/metrics/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/unique_fd.h"
#include "collector/common/loopback.h"

namespace lockstep {
namespace {

constexpr size_t kMostRequest = 16 << 10;
constexpr int64_t kLimitNs = 2'000'000'000;  // for one client, because the others wait for it
constexpr int64_t kPauseNs = 100'000'000;    // if no connection can be accepted

// Prometheus's text format, version 0.0.4.
std::string Page(const MetricSet& set) {
  std::string page;
  for (const MetricSet::Metric& metric : set.metrics()) {
    const bool counter = metric.kind == MetricSet::Kind::kCounter;
    const std::string name = absl::StrCat("lockstep_", metric.name, counter ? "_total" : "");
    absl::StrAppend(&page, "# HELP ", name, " ", metric.help, "\n# TYPE ", name, counter ? " counter\n" : " gauge\n");
    for (const MetricSet::Series& series : metric.series) {
      page += name;
      for (size_t i = 0; i < series.labels.size(); ++i) {
        const auto& [label, of] = series.labels[i];
        absl::StrAppend(&page, i == 0 ? "{" : ",", label, "=\"",
                        absl::StrReplaceAll(of, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
      }
      absl::StrAppendFormat(&page, "%s %.16g\n", series.labels.empty() ? "" : "}", series.value);
    }
  }
  return page;
}

// One thread serves one client after the other.
class Server final : public MetricsServer {
 public:
  Server(UniqueFd listener, int port) : listener_(std::move(listener)), port_(port), thread_([this] { Serve(); }) {}
  ~Server() override {
    end_.Signal();
    thread_.join();
  }
  void Publish(MetricSet metrics) override {
    const std::lock_guard lock(mutex_);
    set_ = std::move(metrics);
  }
  int port() const override { return port_; }

 private:
  // False: the time is over, or the server ends. `until_ns` 0: no limit.
  bool Wait(int fd, short events, int64_t until_ns) const {
    const int64_t left = until_ns == 0 ? -1 : std::max<int64_t>(0, until_ns - MonotonicNs()) / 1'000'000;
    pollfd polled[] = {{end_.get(), POLLIN, 0}, {fd, events, 0}};
    while (poll(polled, 2, static_cast<int>(left)) < 0 && errno == EINTR) {
    }
    return polled[0].revents == 0 && polled[1].revents != 0;
  }

  void Serve() {
    while (Wait(listener_.get(), POLLIN, 0)) {
      const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.ok()) {
        Answer(client.get());
      } else {
        Wait(-1, 0, MonotonicNs() + kPauseNs);
      }
    }
  }

  void Answer(int client) {
    const int64_t until = MonotonicNs() + kLimitNs;
    std::string request;
    char buffer[4096];
    while (!absl::StrContains(request, "\r\n\r\n")) {
      if (request.size() > kMostRequest || !Wait(client, POLLIN, until)) return;
      const ssize_t got = recv(client, buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
      if (got > 0) request.append(buffer, static_cast<size_t>(got));
    }
    const bool known = absl::StartsWith(request, "GET /metrics ") || absl::StartsWith(request, "GET /metrics?");
    std::string body = "only GET /metrics is answered\n";
    if (known) {
      const std::lock_guard lock(mutex_);
      body = Page(set_);
    }
    const std::string answer =
        absl::StrCat("HTTP/1.1 ", known ? "200 OK" : "404 Not Found",
                     "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ", body.size(),
                     "\r\nConnection: close\r\n\r\n", body);
    for (std::string_view left = answer; !left.empty() && Wait(client, POLLOUT, until);) {
      const ssize_t sent = send(client, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
      left.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
  }

  const UniqueFd listener_;
  const int port_;
  const EventFd end_;
  std::mutex mutex_;
  MetricSet set_;       // guarded by mutex_
  std::thread thread_;  // uses the others, so it is the last
};

// Returns the bound port; -1 with errno set on failure. `host` is a loopback address.
int Listen(const std::string& host, int port, UniqueFd* listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<uint16_t>(port));
    size = sizeof four;
  } else {
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    six.sin6_port = htons(static_cast<uint16_t>(port));
    size = sizeof six;
  }
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  listener->reset(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener->get(), generic, size) != 0 || listen(listener->get(), SOMAXCONN) != 0 ||
      getsockname(listener->get(), generic, &size) != 0)
    return -1;
  return ntohs(address.ss_family == AF_INET ? four.sin_port : six.sin6_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  const std::string port_text = colon == std::string::npos ? address : address.substr(colon + 1);
  int port = -1;
  if (!absl::SimpleAtoi(port_text, &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics takes ADDRESS:PORT or PORT, not '", address, "'"));
  }
  if (host.empty()) host = "127.0.0.1";
  if (!IsLoopback(host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metrics have no password, so they are served only on loopback, not on '", host, "': use 127.0.0.1:", port));
  }
  UniqueFd listener;
  const int bound = Listen(host, port, &listener);
  if (bound < 0) {
    return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", host, ":", port, ": ", strerror(errno)));
  }
  return std::make_unique<Server>(std::move(listener), bound);
}

}  // namespace lockstep
