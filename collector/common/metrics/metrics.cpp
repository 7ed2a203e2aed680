#include "collector/common/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collector/common/loopback.h"

namespace lockstep {
namespace {

class Page final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    std::lock_guard lock(mutex_);
    for (const MetricSet::Metric& metric : set_.metrics()) {
      const bool counter = metric.kind == MetricSet::Kind::kCounter;
      prometheus::MetricFamily family;
      family.name = absl::StrCat("lockstep_", metric.name, counter ? "_total" : "");
      family.help = metric.help;
      family.type = counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
      for (const MetricSet::Series& series : metric.series) {
        prometheus::ClientMetric value;
        for (const auto& [label, of] : series.labels) value.label.push_back({label, of});
        (counter ? value.counter.value : value.gauge.value) = series.value;
        family.metric.push_back(std::move(value));
      }
      families.push_back(std::move(family));
    }
    return families;
  }

  void Set(MetricSet set) {
    std::lock_guard lock(mutex_);
    set_ = std::move(set);
  }

 private:
  mutable std::mutex mutex_;
  MetricSet set_;
};

class Server final : public MetricsServer {
 public:
  Server(const std::string& address) : page_(std::make_shared<Page>()), exposer_(address, 1) {
    exposer_.RegisterCollectable(page_);
  }
  void Publish(MetricSet metrics) override { page_->Set(std::move(metrics)); }
  int port() const override {
    const std::vector<int> ports = exposer_.GetListeningPorts();
    return ports.empty() ? 0 : ports[0];
  }

 private:
  const std::shared_ptr<Page> page_;
  prometheus::Exposer exposer_;
};

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
  try {
    return std::make_unique<Server>(absl::StrCat(host, ":", port));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", host, ":", port, ": ", error.what(), " (in use?)"));
  }
}

}  // namespace lockstep
