#include "collector/common/metrics/metrics.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace lockstep {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = colon == std::string::npos ? "" : absl::string_view(address).substr(0, colon);
  const std::string port_text = colon == std::string::npos ? address : address.substr(colon + 1);
  int port = -1;
  if (!absl::SimpleAtoi(port_text, &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics takes ADDRESS:PORT or PORT, not '", address, "'"));
  }
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const std::optional<http::Address> at = http::ParseAddress(host.empty() ? "127.0.0.1" : std::string(host));
  if (!at || !at->loopback) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metrics have no password, so they are served only on loopback, not on '", host, "': use 127.0.0.1:", port));
  }
  http::ServerLimits limits;
  limits.connections = 16;
  limits.answers = 1;
  std::unique_ptr<MetricsServer> metrics(new MetricsServer);
  const auto answer = [of = metrics.get()](const http::Request& request) {
    if (request.path != "/metrics") return http::TextResponse(404, "only GET /metrics is answered\n");
    const std::lock_guard lock(of->mutex_);
    http::Response response = http::TextResponse(200, Page(of->set_));
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  };
  auto server = http::Server::Start(*at, static_cast<uint16_t>(port), answer, nullptr, limits);
  if (!server.ok())
    return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", address, ": ", server.status().message()));
  metrics->server_ = *std::move(server);
  return metrics;
}

}  // namespace lockstep
