// For the static program, because Debian has no static library of prometheus-cpp.
#include "collector/common/metrics/metrics.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  return absl::UnimplementedError("--metrics " + address +
                                  ": this static build cannot serve metrics; use the distribution's package");
}

}  // namespace lockstep
