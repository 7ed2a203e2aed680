// Prints measurements with their goals, one per line.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {

inline double ProcessorMs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

class Goals {
 public:
  // `processor` is the CPU time of this program, because wall time includes other load; negative if not measured.
  void Print(const std::string& what, double value, double goal, const char* unit, double processor = -1) {
    const bool met = value <= goal;
    std::printf("%-58s %9.1f %-4s goal %6.0f %-4s %s", what.c_str(), value, unit, goal, unit, met ? "met" : "MISSED");
    if (processor >= 0) std::printf("   (processor %.1f %s)", processor, unit);
    std::printf("\n");
    std::fflush(stdout);
    missed_ += met ? 0 : 1;
    far_ |= value > 2 * goal && (processor < 0 || processor > 2 * goal);
  }
  int missed() const { return missed_; }
  // Returns whether a value is more than twice its goal, which load of the machine does not explain.
  bool far() const { return far_; }

 private:
  int missed_ = 0;
  bool far_ = false;
};

inline double Share(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace lockstep
