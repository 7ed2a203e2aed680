// Runs the life-cycle programs with and without the recorder, and reads the rings that they left or copied.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/support/preload.h"

namespace lockstep {

class LivesRuns : public support::PreloadRuns {
 protected:
  // The outcome's text contains both output streams.
  support::Outcome Run(const std::string& program, const std::string& environment) const {
    return Shell(environment + " timeout 100 " + program + " 2>&1");
  }
  std::string Recorded() const {
    return "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR='" + rings_ + "' LIVES_COPIES='" + folder_ +
           "/copies' LD_PRELOAD='" LOCKSTEP_LIBRARY "' ";
  }
  // Checks that both runs succeed and print the same; returns their output.
  std::string RunBoth(const std::string& mode, const std::string& environment = "", const std::string& nccl = kNccl,
                      const std::string& runtime = kCudart, const std::string& prefix = "cuda") const {
    const std::string program = "'" LIVES_HOST "' " + mode + " '" + nccl + "' '" + runtime + "' " + prefix;
    const std::string more = environment + " LIVES_NCCL='" + nccl + "' ";
    const support::Outcome plain = Run(program, more);
    const support::Outcome recorded = Run(program, more + Recorded());
    ExpectEqual(plain, recorded);
    return recorded.out;
  }
  ring::Snapshot AtEnd() const { return OnlyRing(); }
  ring::Snapshot Copied(const std::string& name) const { return OnlyRing(folder_ + "/copies/" + name); }

  static constexpr const char* kNccl = LIVES_STANDIN "/lib/libnccl.so.2";
  static constexpr const char* kCudart = LIVES_STANDIN "/lib/libcudart.so.13";
};

}  // namespace lockstep
