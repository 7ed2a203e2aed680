// The most that an operation can reach: what Speed::roofline_bus_bytes_per_s is compared with. It is absolute, so that
// a cluster that is slow as a whole looks slow.
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

// Bus bandwidth over message size, for one operation on one number of ranks.
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
  int64_t incidents = 0;  // how many were compared
};

struct Roofline {
  double line_bits_per_s = 0;           // of the network, for each GPU; 0: not given
  std::vector<RooflineCurve> measured;  // by nccl-tests
  std::vector<BestEver> archive;
};

// The output of a program of nccl-tests, or of several in one file. `name` is the file's. InvalidArgument if it has no
// result, or does not report operation and ranks.
absl::StatusOr<std::vector<RooflineCurve>> ParseNcclTests(absl::string_view text, const std::string& name);

// The line rate in Gbit/s (0: not given), and files with the output of nccl-tests.
absl::StatusOr<Roofline> ReadRoofline(int64_t line_gbits, const std::vector<std::string>& files);

// Sets the roofline of each speed that has none yet. A curve of nccl-tests comes first, then the line rate, then
// the archive. An operation that none of them bounds stays without one.
void SetRooflines(const Roofline& roofline, Verdict* verdict);

// Sets Verdict::line_rate: what the hosts of the ranks reported about their networks. SetRooflines uses it if no line
// rate is given.
void SetLineRate(const Bundle& bundle, Verdict* verdict);

// The share of the roofline that `bus_bytes_per_s` is; negative if the roofline is unknown.
double ShareOf(const Speed& speed, double bus_bytes_per_s);

// "AllReduce of 1 GiB, 512 ranks on 64 hosts".
std::string SpeedName(const Speed& speed);

// A sentence for each of the speeds that took the most time, for those with a roofline; at most `most`.
std::vector<std::string> SpeedLines(const Verdict& verdict, size_t most);

// `lockstep analyze --speed`: a table of all speeds, and the slowest hosts. At most 120 columns, printable characters.
std::string SpeedReport(const Verdict& verdict);

}  // namespace lockstep
