// For the static program, because Debian has no static library of prometheus-cpp.
#include "collector/common/metrics/metrics.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address) {
  return absl::UnimplementedError(
      "--metrics " + address +
      ": this program was built without shared libraries and serves no metrics; use the distribution's package");
}

}  // namespace lockstep
