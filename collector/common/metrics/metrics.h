// Prometheus metrics of agent, relay and collector, served on loopback. A metric has at most kMostSeries series,
// because job names are label values. Beyond that, CounterOf adds values to the label value "other", and GaugeOf drops
// them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/util/http/server.h"

namespace lockstep {

class MetricSet {
 public:
  static constexpr size_t kMostSeries = 64;
  enum class Kind { kGauge, kCounter };
  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Series {
    Labels labels;
    double value = 0;
  };
  struct Metric {
    std::string name, help;
    Kind kind = Kind::kGauge;
    std::vector<Series> series;
  };

  // `name` without "lockstep_"; counters get "_total". Values with equal name and label are added up.
  void Gauge(const std::string& name, const std::string& help, double value) {
    Add(Kind::kGauge, name, help, {}, value);
  }
  void Counter(const std::string& name, const std::string& help, double value) {
    Add(Kind::kCounter, name, help, {}, value);
  }
  void CounterOf(const std::string& name, const std::string& help, const std::string& label,
                 const std::string& value_of, double value) {
    Add(Kind::kCounter, name, help, {{label, value_of}}, value);
  }
  void GaugeOf(const std::string& name, const std::string& help, Labels labels, double value) {
    Add(Kind::kGauge, name, help, std::move(labels), value);
  }
  const std::vector<Metric>& metrics() const { return metrics_; }

 private:
  void Add(Kind kind, const std::string& name, const std::string& help, Labels labels, double value);
  std::vector<Metric> metrics_;
};

// GET /metrics returns the last published values. Has its own threads; Publish() never waits for a client.
class MetricsServer {
 public:
  // Accepts "ADDRESS:PORT", ":PORT" or "PORT" (then on 127.0.0.1; port 0 means any free port). Refuses addresses
  // outside loopback, because there is no password: use the node's own exporter or a proxy.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& address);
  void Publish(MetricSet metrics) {
    const std::lock_guard lock(mutex_);
    set_ = std::move(metrics);
  }
  int port() const { return server_->port(); }

 private:
  std::mutex mutex_;
  MetricSet set_;                         // guarded by mutex_
  std::unique_ptr<http::Server> server_;  // uses the members above, so it is destroyed first
};

}  // namespace lockstep
