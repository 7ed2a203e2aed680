// Tests an NCCL with functions that the recorder does not support. Every verdict names the functions that the job may
// have called unrecorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::Job;
using ::testing::Not;

Bundle JobWith(int32_t version, uint32_t unwrapped, const std::string& names, bool hangs) {
  Job job(2, 2, 2, 6);
  if (hangs) {
    auto& program = job.ranks[3].program;
    program.resize(job.Find(3, "tp", 4));
  }
  Bundle bundle = job.Run();
  for (Rank& rank : bundle.ranks) {
    rank.nccl_version = version;
    rank.newest_nccl = 23203;
    rank.unwrapped = unwrapped;
    rank.unwrapped_names = names;
  }
  return bundle;
}

TEST(Unwrapped, FunctionsOfANewerNcclAreNamedInEveryVerdict) {
  for (const bool hangs : {false, true}) {
    const Verdict v = Analyze(JobWith(23301, 9, "ncclFoo ncclBar", hangs));
    EXPECT_EQ(v.findings_size() > 0, hangs);
    EXPECT_THAT(v.blind(),
                Contains("NCCL 2.33.1 on ranks 0-7 is newer than the recorder, which supports NCCL up to 2.32.3: "
                         "calls to ncclFoo, ncclBar and 7 more are not recorded"));
  }
}

TEST(Unwrapped, ANewerNcclWithoutNewFunctionsIsReportedToo) {
  EXPECT_THAT(Analyze(JobWith(23301, 0, "", false)).blind(),
              Contains("NCCL 2.33.1 on ranks 0-7 is newer than the recorder, which supports NCCL up to 2.32.3: the "
                       "recorder supports all functions of this version, but not new fields in their arguments"));
}

TEST(Unwrapped, AForkOfAKnownVersionHasOtherFunctions) {
  EXPECT_THAT(Analyze(JobWith(22707, 1, "ncclForked", false)).blind(),
              Contains("NCCL 2.27.7 on ranks 0-7 has functions that the recorder does not support: calls to ncclForked "
                       "are not recorded"));
}

TEST(Unwrapped, KnownVersionsAndOldRecordsAreNotReported) {
  EXPECT_THAT(Analyze(JobWith(23203, 0, "", false)).blind(), Not(Contains(HasSubstr("recorder"))));
  Bundle old = JobWith(23301, 0, "", false);
  for (Rank& rank : old.ranks) rank.newest_nccl = 0;
  EXPECT_THAT(Analyze(old).blind(), Not(Contains(HasSubstr("recorder"))));
}

}  // namespace
}  // namespace lockstep
