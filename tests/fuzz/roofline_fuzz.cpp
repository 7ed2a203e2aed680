// Reads the output of nccl-tests.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/report/roofline.h"
#include "tests/fuzz/accepted.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto curves = ParseNcclTests({reinterpret_cast<const char*>(data), size}, "FILE");
  if (!curves.ok()) {
    if (curves.status().message().empty() || curves.status().message().find('\n') != absl::string_view::npos)
      std::abort();
    return 0;
  }
  ++fuzz_accepted;
  Roofline roofline;
  roofline.measured = *curves;
  for (const RooflineCurve& curve : *curves) {
    if (curve.ranks <= 0 || curve.hosts < 0 || curve.points.empty() ||
        !std::is_sorted(curve.points.begin(), curve.points.end()))
      std::abort();
    Verdict verdict;
    Speed* speed = verdict.add_speeds();
    speed->set_operation(curve.operation);
    speed->set_ranks(curve.ranks);
    speed->set_hosts(curve.hosts);
    for (const int64_t bytes : {int64_t{1}, curve.points[0].first, INT64_MAX}) {
      speed->set_bytes(bytes);
      speed->set_roofline_bus_bytes_per_s(0);
      SetRooflines(roofline, &verdict);
      const double most = speed->roofline_bus_bytes_per_s();
      if (!(most >= 0 && most < 1e16)) std::abort();
    }
  }
  return 0;
}
