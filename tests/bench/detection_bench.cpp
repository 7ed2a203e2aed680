// Measures the cost of detection in a collector. Every host sends one heartbeat per second to the merged progress, the
// desync watch and the detector. Then a stall makes every communicator late. Prints one line for each size.
//   detection_bench [RANKS...]     default 1024 8192 24576 98304
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collector/detect/desync_watch.h"
#include "collector/detect/detector.h"

namespace lockstep {
namespace {

constexpr int kRanksAHost = 8;
constexpr int kCommsARank = 20;
constexpr int64_t kSecond = 1'000'000'000;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double Mebibytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long size = 0, resident = 0;
  if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

struct Place {
  uint64_t comm = 0;
  int32_t size = 0;
  std::vector<int32_t> ranks;  // ranks of this host
};

// The communicators of a host's ranks: twelve inside the host, one with all ranks, and for each local rank a series
// with the same local rank of other hosts, over smaller and smaller parts of the cluster.
std::vector<Place> PlacesOf(int host, int hosts) {
  std::vector<Place> places;
  std::vector<int32_t> all;
  for (int i = 0; i < kRanksAHost; ++i) all.push_back(host * kRanksAHost + i);
  for (int i = 0; i < 12; ++i)
    places.push_back({1'000'000'000ull + static_cast<uint64_t>(host * 12 + i), kRanksAHost, all});
  places.push_back({1, hosts * kRanksAHost, all});
  for (int i = 0; i < kCommsARank - 13; ++i) {
    const int part = std::max(1, hosts >> i);  // hosts in this part of the cluster
    for (int local = 0; local < kRanksAHost; ++local) {
      const uint64_t id =
          (static_cast<uint64_t>(i) + 2) * 100'000'000 + static_cast<uint64_t>(host / part * kRanksAHost + local);
      places.push_back({id, std::min(part, hosts), {all[static_cast<size_t>(local)]}});
    }
  }
  return places;
}

void Bench(int ranks) {
  const int hosts = ranks / kRanksAHost;
  std::vector<std::vector<Place>> places;
  for (int host = 0; host < hosts; ++host) places.push_back(PlacesOf(host, hosts));
  const double memory_own = Mebibytes();
  Detector detector{DetectorLimits{}};
  DesyncWatch desync;
  int64_t now = 100 * kSecond;
  uint64_t issued = 0;
  size_t beats = 0, decisions = 0;
  double busiest_tick = 0;
  const auto second = [&](bool members, int stalled_host) {
    issued += stalled_host < 0 ? 64 : 0;
    for (int tenth = 0; tenth < 10; ++tenth) {
      now += kSecond / 10;
      for (int host = tenth; host < hosts; host += 10) {
        for (const Place& place : places[static_cast<size_t>(host)]) {
          CommBeat beat;
          beat.comm = place.comm;
          beat.size = place.size;
          beat.issued_min = beat.issued_max = beat.total_max = host == stalled_host ? issued - 64 : issued;
          beat.issue_age_ns = 1'000'000;
          if (members) beat.members = Ranks::Of(place.ranks);
          beat.p99_gap_ns = 20'000'000;
          beat.gaps = 256;
          for (uint64_t i = 0; i < 4; ++i) beat.hashes.push_back({issued - i * 16, issued * 7 + i + 1});
          detector.progress().Apply(static_cast<uint32_t>(host), now, beat);
          desync.Apply(static_cast<uint32_t>(host), beat);
          ++beats;
        }
      }
      const double before = CpuSeconds();
      decisions += detector.Tick(now).size();
      (void)detector.Wanted(now);
      busiest_tick = std::max(busiest_tick, CpuSeconds() - before);
    }
  };
  second(true, -1);
  beats = 0;
  busiest_tick = 0;
  constexpr int kSeconds = 10;
  const double start = CpuSeconds();
  for (int i = 0; i < kSeconds; ++i) second(false, -1);
  const double moving = (CpuSeconds() - start) / kSeconds;
  const size_t a_second = beats / kSeconds;
  const double memory = Mebibytes();
  // One host falls behind in all its communicators; then nothing moves.
  busiest_tick = 0;
  issued += 64;
  second(false, hosts / 2);
  const double stall = CpuSeconds();
  int passed = 0;
  while (detector.level() == Level::kMoving && passed < 100) {
    now += kSecond / 10;
    decisions += detector.Tick(now).size();
    ++passed;
  }
  const double seen = CpuSeconds() - stall;
  printf("%8d %10zu %12zu %14.3f %14.1f %12.0f %16.1f %14.1f %10s\n", ranks, detector.progress().size(), a_second,
         moving, moving * 1e9 / static_cast<double>(a_second), memory - memory_own, seen * 1e3, busiest_tick * 1e3,
         LevelName(detector.level()));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {1024, 8192, 24576, 98304};
  printf("%8s %10s %12s %14s %14s %12s %16s %14s %10s\n", "ranks", "comms", "beats/s", "CPU s/s moving", "ns a beat",
         "MiB", "ms until late", "ms worst tick", "level");
  for (int ranks : sizes) {
    if (ranks >= 64) lockstep::Bench(ranks);
  }
}
