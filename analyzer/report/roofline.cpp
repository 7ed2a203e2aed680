#include "analyzer/report/roofline.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "analyzer/model/topology.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/paths.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

using Words = std::vector<absl::string_view>;

constexpr size_t kMostPoints = 256, kMostCurves = 64, kMostTestOutput = size_t{64} << 20;
constexpr double kMostBytesPerS = 1e15;

// The names in nccl-tests. Longer ones come first, because "reduce" is part of others.
constexpr std::pair<absl::string_view, const char*> kTests[] = {
    {"reduce_scatter", "ReduceScatter"}, {"all_reduce", "AllReduce"}, {"all_gather", "AllGather"},
    {"broadcast", "Broadcast"},          {"alltoall", "AlltoAll"},    {"reduce", "Reduce"},
};

const char* OperationIn(absl::string_view text) {
  for (const auto& [test, operation] : kTests) {
    if (absl::StrContains(text, test)) return operation;
  }
  return nullptr;
}

// Returns the line without the prefixes of mpirun ("[1,0]<stdout>:") and srun ("0: ").
absl::string_view WithoutLabel(absl::string_view line) {
  if (const size_t at = line.find("<stdout>:"); at < 16) line.remove_prefix(at + 9);
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  if (digits > 0 && line.substr(digits, 2) == ": ") line.remove_prefix(digits + 2);
  return line;
}

// One test run while it is being parsed.
struct TestRun {
  const char* operation = nullptr;
  std::set<std::string> ranks, hosts;
  bool apart = false;  // a rank number appears twice: processes without MPI ran separate tests
  std::vector<size_t> busbw;
  size_t columns = 0;
  std::vector<std::pair<int64_t, double>> points;
};

// "#  Rank  0 Group  0 Pid 123 on node-a device  0 [0000:1b:00] NVIDIA H100"
void TakeRank(const Words& words, TestRun* run) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "Rank") run->apart |= !run->ranks.insert(std::string(words[i + 1])).second;
    if (words[i] == "on") run->hosts.insert(std::string(words[i + 1]));
  }
}

void TakeHeader(const Words& words, TestRun* run) {
  run->columns = words.size();
  run->busbw.clear();
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "busbw") run->busbw.push_back(i);
  }
}

void TakeResult(const Words& words, TestRun* run) {
  int64_t bytes = 0;
  if (words.size() != run->columns || !absl::SimpleAtoi(words[0], &bytes) || bytes <= 0) return;
  double best = 0;
  for (const size_t column : run->busbw) {
    double gigabytes = 0;
    if (absl::SimpleAtod(words[column], &gigabytes) && gigabytes > 0 && gigabytes * 1e9 < kMostBytesPerS)
      best = std::max(best, gigabytes * 1e9);
  }
  if (best > 0 && run->points.size() < kMostPoints) run->points.emplace_back(bytes, best);
}

absl::Status TakeRun(const std::string& name, TestRun* run, std::vector<RooflineCurve>* curves) {
  TestRun done;
  std::swap(done, *run);
  if (done.points.empty() || curves->size() == kMostCurves) return absl::OkStatus();
  if (done.operation == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(name, " does not report which collective it measured"));
  if (done.ranks.empty() || done.apart) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, done.apart ? " has results of separate processes: build nccl-tests with MPI=1"
                                      : " does not list its ranks (\"#  Rank  0 ... on HOST\")"));
  }
  RooflineCurve& curve = curves->emplace_back();
  curve.operation = done.operation;
  curve.ranks = static_cast<int32_t>(done.ranks.size());
  curve.hosts = static_cast<int32_t>(done.hosts.size());
  curve.points = std::move(done.points);
  std::sort(curve.points.begin(), curve.points.end());
  curve.name = absl::StrCat(name, ", ", CountText(curve.ranks), " ranks on ", CountText(curve.hosts),
                            curve.hosts == 1 ? " host" : " hosts");
  return absl::OkStatus();
}

// Interpolates between measured sizes. Above them, returns the value of the largest; below them, 0.
double At(const RooflineCurve& curve, int64_t bytes) {
  const auto above = std::lower_bound(curve.points.begin(), curve.points.end(), std::pair(bytes, 0.0));
  if (above == curve.points.end()) return curve.points.back().second;
  if (above->first == bytes) return above->second;
  if (above == curve.points.begin()) return 0;
  const auto below = above - 1;
  const double part = std::log(static_cast<double>(bytes) / static_cast<double>(below->first)) /
                      std::log(static_cast<double>(above->first) / static_cast<double>(below->first));
  return below->second + part * (above->second - below->second);
}

// The operation's curve with the same number of ranks per host and the closest number of hosts.
const RooflineCurve* CurveFor(const Roofline& roofline, const Speed& speed) {
  const RooflineCurve* best = nullptr;
  const auto distance = [&](const RooflineCurve& curve) {
    return std::abs(std::log(static_cast<double>(curve.hosts) / speed.hosts()));
  };
  for (const RooflineCurve& curve : roofline.measured) {
    if (curve.operation != speed.operation() || speed.hosts() <= 0 || curve.hosts <= 0 ||
        (curve.hosts > 1) != (speed.hosts() > 1) ||
        int64_t{curve.ranks} * speed.hosts() != int64_t{speed.ranks()} * curve.hosts)
      continue;
    if (best == nullptr || distance(curve) < distance(*best)) best = &curve;
  }
  return best;
}

// Returns the bus bandwidth at which the operation saturates its hosts' network; 0 if the line rate does not bound it.
// In a ring or tree, the payload leaves each host once, spread over the ports of all members on that host. In an
// AlltoAll, each member sends its own data through its own port.
double LineBound(const Speed& speed, double line_bits_per_s) {
  if (speed.hosts() < 2 || speed.ranks() < speed.hosts()) return 0;
  const double line = line_bits_per_s / 8, ranks = speed.ranks(), local = ranks / speed.hosts();
  if (speed.operation() == "Send") return line;
  if (speed.operation() == "AlltoAll") return line * (ranks - 1) / (ranks - local);
  for (const char* ring : {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"}) {
    if (speed.operation() == ring) return line * local;
  }
  return 0;
}

std::string DetectedText(const LineRate& rate) {
  std::string text = absl::StrFormat("line rate %.4g Gbit/s for each GPU, detected", rate.bits_per_s() / 1e9);
  if (!rate.lowest_host().empty())
    absl::StrAppend(
        &text, absl::StrFormat(" (%.4g on %s)", rate.lowest_bits_per_s() / 1e9, Printable(rate.lowest_host(), 40)));
  return text;
}

// `bus_bytes_per_s` as a share of the roofline; negative if the roofline is unknown.
double ShareOf(const Speed& speed, double bus_bytes_per_s) {
  return speed.roofline_bus_bytes_per_s() > 0 ? bus_bytes_per_s / speed.roofline_bus_bytes_per_s() : -1;
}

std::string ShareRange(const Speed& speed, double low, double high) {
  return absl::StrFormat("%.0f to %.0f %%", 100 * ShareOf(speed, low), 100 * ShareOf(speed, high));
}

std::string Bar(double share) {
  constexpr int kCells = 20;
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kCells));
  return absl::StrCat("[", std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(kCells - full), '.'), "]");
}

// "AllReduce of 1 GiB, 512 ranks on 64 hosts".
std::string SpeedName(const Speed& speed) {
  return absl::StrCat(Printable(speed.operation(), 40), " of ", BytesText(speed.bytes()), ", ",
                      CountText(speed.ranks()), " ranks",
                      speed.hosts() == 0   ? ""
                      : speed.hosts() == 1 ? " on one host"
                                           : absl::StrCat(" on ", CountText(speed.hosts()), " hosts"));
}

}  // namespace

absl::StatusOr<std::vector<RooflineCurve>> ParseNcclTests(absl::string_view text, const std::string& name) {
  std::vector<RooflineCurve> curves;
  TestRun run;
  const std::string shown(BaseName(Printable(name, 200)));
  for (const absl::string_view whole : absl::StrSplit(text, '\n')) {
    const absl::string_view line = WithoutLabel(whole.substr(0, 1024));
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos) continue;
    const bool comment = line[begin] == '#';
    const Words words =
        absl::StrSplit(line.substr(begin + (comment ? 1 : 0)), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (!comment) {
      TakeResult(words, &run);
    } else if (absl::StrContains(line, "starting:")) {
      if (absl::Status status = TakeRun(shown, &run, &curves); !status.ok()) return status;
      run.operation = OperationIn(words.back());
    } else if (words[0] == "Rank") {
      TakeRank(words, &run);
    } else if (words[0] == "size") {
      TakeHeader(words, &run);
    }
  }
  // Before nccl-tests 2.14, only the file name shows the collective.
  if (run.operation == nullptr && curves.empty()) run.operation = OperationIn(absl::AsciiStrToLower(shown));
  if (absl::Status status = TakeRun(shown, &run, &curves); !status.ok()) return status;
  if (curves.empty()) return absl::InvalidArgumentError(absl::StrCat(shown, " has no results of nccl-tests"));
  return curves;
}

absl::StatusOr<Roofline> ReadRoofline(int64_t line_gbits, const std::vector<std::string>& files) {
  Roofline roofline;
  roofline.line_bits_per_s = static_cast<double>(line_gbits) * 1e9;
  for (const std::string& path : files) {
    const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostTestOutput);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::vector<RooflineCurve>> curves = ParseNcclTests(*text, path);
    if (!curves.ok()) return curves.status();
    for (RooflineCurve& curve : *curves) roofline.measured.push_back(std::move(curve));
  }
  return roofline;
}

void SetRooflines(const Roofline& roofline, Verdict* verdict) {
  for (Speed& speed : *verdict->mutable_speeds()) {
    if (speed.roofline_bus_bytes_per_s() > 0 && !speed.roofline_detected()) continue;
    speed.set_roofline_detected(false);
    double most = 0;
    if (const RooflineCurve* curve = CurveFor(roofline, speed); curve != nullptr && !curve->points.empty()) {
      most = At(*curve, speed.bytes());
      speed.set_roofline(curve->name);
    }
    if (!(most > 0) && roofline.line_bits_per_s > 0) {
      most = LineBound(speed, roofline.line_bits_per_s);
      speed.set_roofline(absl::StrFormat("line rate %.4g Gbit/s for each GPU", roofline.line_bits_per_s / 1e9));
    }
    if (!(most > 0) && verdict->has_line_rate()) {
      most = LineBound(speed, verdict->line_rate().bits_per_s());
      speed.set_roofline(DetectedText(verdict->line_rate()));
      speed.set_roofline_detected(most > 0);
    }
    for (const BestEver& best : roofline.archive) {
      if (most > 0 || best.operation != speed.operation() || best.ranks != speed.ranks() ||
          best.hosts != speed.hosts() || best.size_class != std::bit_floor(static_cast<uint64_t>(speed.bytes())))
        continue;
      most = std::max(best.bus_bytes_per_s, speed.bus_bytes_per_s());
      speed.set_roofline(
          most > best.bus_bytes_per_s
              ? absl::StrCat("this incident itself, faster than ", CountText(best.incidents), " in the archive")
              : absl::StrCat("best of ", CountText(best.incidents), " in the archive"));
    }
    speed.set_roofline_bus_bytes_per_s(most);
    if (!(most > 0)) speed.clear_roofline();
  }
}

void SetLineRate(const Bundle& bundle, Verdict* verdict) {
  std::map<std::string, int64_t> ranks_on;
  for (const Rank& rank : bundle.ranks) {
    if (!rank.host.empty()) ++ranks_on[rank.host];
  }
  LineRate found;
  std::string lowest;
  for (const auto& [host, ranks] : ranks_on) {
    const HostPlace* place = FindPlace(bundle, host);
    if (place == nullptr || place->network.ports == 0) continue;
    const HostNetwork& network = place->network;
    const double rate = 1e6 * network.port_mbits * network.ports /
                        (network.gpus > 0 ? static_cast<double>(network.gpus) : static_cast<double>(ranks));
    found.set_hosts(found.hosts() + 1);
    found.set_bits_per_s(std::max(found.bits_per_s(), rate));
    if (!lowest.empty() && rate >= found.lowest_bits_per_s()) continue;
    found.set_lowest_bits_per_s(rate);
    lowest = host;
  }
  if (found.hosts() == 0) return;
  if (found.lowest_bits_per_s() < found.bits_per_s()) found.set_lowest_host(lowest);
  *verdict->mutable_line_rate() = std::move(found);
}

std::vector<std::string> SpeedLines(const Verdict& verdict, size_t most) {
  std::vector<std::string> lines;
  for (const Speed& speed : verdict.speeds()) {
    if (lines.size() == most) break;
    if (ShareOf(speed, 0) < 0) continue;
    lines.push_back(absl::StrFormat("%s: %.0f %% of the possible speed (%s of %s, %s), 10 to 90 %%: %s",
                                    SpeedName(speed), 100 * ShareOf(speed, speed.bus_bytes_per_s()),
                                    RateText(speed.bus_bytes_per_s()), RateText(speed.roofline_bus_bytes_per_s()),
                                    Printable(speed.roofline(), 80),
                                    ShareRange(speed, speed.low_bus_bytes_per_s(), speed.high_bus_bytes_per_s())));
  }
  return lines;
}

std::string SpeedReport(const Verdict& verdict) {
  constexpr int kMostRows = 40, kMostHosts = 8, kMostHostRows = 24;
  if (verdict.speeds().empty()) return "SPEED     not measured: the data has no times of the operations themselves\n";
  std::string out = absl::StrFormat("%-22s %9s %6s %6s %7s %9s %9s %6s  %-22s %s\n", "SPEED of", "payload", "ranks",
                                    "hosts", "calls", "bus GB/s", "possible", "share", "", "10 to 90 %");
  const auto rates = [](const Speed& speed, const auto& row) {
    const double share = ShareOf(speed, row.bus_bytes_per_s());
    std::string text = absl::StrFormat("%7d %9.3f ", row.operations(), row.bus_bytes_per_s() / 1e9);
    if (share < 0) return absl::StrCat(text, "not known      ?\n");
    return absl::StrCat(
        text, absl::StrFormat("%9.3f %4.0f %%  %s %s\n", speed.roofline_bus_bytes_per_s() / 1e9, 100 * share,
                              Bar(share), ShareRange(speed, row.low_bus_bytes_per_s(), row.high_bus_bytes_per_s())));
  };
  std::set<std::string> rooflines;
  for (int i = 0; i < std::min(verdict.speeds_size(), kMostRows); ++i) {
    const Speed& speed = verdict.speeds(i);
    absl::StrAppend(&out,
                    absl::StrFormat("%-22s %9s %6d %6s ", Printable(speed.operation(), 22), BytesText(speed.bytes()),
                                    speed.ranks(), speed.hosts() > 0 ? absl::StrCat(speed.hosts()) : "?"),
                    rates(speed, speed));
    if (!speed.roofline().empty()) rooflines.insert(Printable(speed.roofline(), 80));
  }
  if (verdict.speeds_size() > kMostRows) absl::StrAppend(&out, "and ", verdict.speeds_size() - kMostRows, " more\n");
  for (const std::string& roofline : rooflines) absl::StrAppend(&out, "possible by: ", roofline, "\n");
  int rows = 0;
  for (const Speed& speed : verdict.speeds()) {
    if (speed.by_host_size() == 0 || rows >= kMostHostRows) continue;
    absl::StrAppend(&out, "\nslowest of ", CountText(speed.hosts_measured()), " hosts in ", SpeedName(speed), "\n");
    for (int i = 0; i < std::min(speed.by_host_size(), kMostHosts); ++i, ++rows) {
      const HostSpeed& host = speed.by_host(i);
      absl::StrAppend(&out, absl::StrFormat("  %-44s ", Printable(host.host(), 44)), rates(speed, host));
    }
  }
  return out;
}

}  // namespace lockstep
