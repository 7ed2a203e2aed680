// What a rank's CPU thread does in a training run: creates communicators, then runs steps, as Megatron-LM, FSDP and DDP
// do.
#pragma once

#include <cstdint>
#include <string>

#include "tests/corpus/job.h"

namespace lockstep::corpus {

// Ranks of one class run the same program.
int64_t ProgramClass(const Job& job, int32_t rank);
Program MakeProgram(const Job& job, int32_t rank);

// Locations in the training code. Instr::site is an index into them. The innermost function comes first.
struct Site {
  const char* function;
  const char* file;
  int line;
};
enum SiteNumber : uint32_t {
  kSiteInit,
  kSiteData,
  kSiteForwardAttention,
  kSiteForwardMlp,
  kSiteBackwardAttention,
  kSiteBackwardMlp,
  kSiteDispatch,
  kSiteCombine,
  kSiteBackwardDispatch,
  kSiteBackwardCombine,
  kSiteRing,
  kSiteSendForward,
  kSiteRecvForward,
  kSiteSendBackward,
  kSiteRecvBackward,
  kSiteGrads,
  kSiteNorm,
  kSiteParams,
  kSiteEmbedding,
  kSiteLoss,
  kSiteBarrier,
  kSiteUnshard,
  kSiteReshard,
  kSiteReplica,
  kSiteExtra,
  kSiteTeardown,
  kSiteAux,
  kSites
};
const Site& SiteAt(uint32_t number);

}  // namespace lockstep::corpus
