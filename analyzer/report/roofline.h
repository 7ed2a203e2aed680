// The highest bandwidth that an operation can reach (Speed::roofline_bus_bytes_per_s). The limit is absolute, so a
// cluster that is slow as a whole also looks slow.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Bus bandwidth by message size, for one operation on one number of ranks.
struct RooflineCurve {
  std::string operation;
  int32_t ranks = 0, hosts = 0;
  std::vector<std::pair<int64_t, double>> points;  // bytes and bytes per second, ascending by bytes
  std::string name;                                // "all_reduce.txt, 512 ranks on 64 hosts"
};

// The best bus bandwidth of earlier incidents.
struct BestEver {
  std::string operation;
  uint64_t size_class = 0;  // bytes, rounded down to a power of two
  int32_t ranks = 0, hosts = 0;
  double bus_bytes_per_s = 0;
  int64_t incidents = 0;  // number of incidents compared
};

struct Roofline {
  double line_bits_per_s = 0;           // network rate for each GPU; 0 if unknown
  std::vector<RooflineCurve> measured;  // with nccl-tests
  std::vector<BestEver> archive;
};

// Parses the output of one or several nccl-tests programs. `name` is the file's name. Returns InvalidArgument if
// there is no result, or if the operation or the ranks are missing.
absl::StatusOr<std::vector<RooflineCurve>> ParseNcclTests(absl::string_view text, const std::string& name);

// The line rate in Gbit/s (0: unknown), and files with the output of nccl-tests.
absl::StatusOr<Roofline> ReadRoofline(int64_t line_gbits, const std::vector<std::string>& files);

// Sets the roofline of each speed that has none, or only a detected line rate. An nccl-tests curve takes precedence,
// then the given line rate, the detected one, and the archive. Otherwise the operation has no roofline.
void SetRooflines(const Roofline& roofline, Verdict* verdict);

// Sets Verdict::line_rate from what the ranks' hosts reported about their networks. SetRooflines uses it if no line
// rate is given.
void SetLineRate(const Bundle& bundle, Verdict* verdict);

// One sentence for each of the speeds that took the most time and have a roofline; at most `most`.
std::vector<std::string> SpeedLines(const Verdict& verdict, size_t most);

// `lockstep analyze --speed`: a table of all speeds, and the slowest hosts. At most 120 columns, only printable
// characters.
std::string SpeedReport(const Verdict& verdict);

}  // namespace lockstep
