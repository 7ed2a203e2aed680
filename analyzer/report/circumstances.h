// Times and versions of a verdict: start of the hang, time of the data, tool, framework, NCCL.
#ifndef LOCKSTEP_ANALYZER_REPORT_CIRCUMSTANCES_H_
#define LOCKSTEP_ANALYZER_REPORT_CIRCUMSTANCES_H_

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// The verdict with facts from the bundle: hung_since_real_ns, captured_real_ns, tool_version, job_step, framework,
// nccl_version. Findings of a job without GPUs mention none.
Verdict WithCircumstances(const Verdict& verdict, const Bundle& bundle);

// How long the job has been stuck: "18 s"; empty: unknown, or not stuck.
std::string LastedText(const Verdict& verdict);

// "train-39557", "hung since 2026-11-25 09:14:02 UTC", "1,024 of 1,024 ranks read", ...; unknown facts are left out.
// For a verdict that has its circumstances.
std::vector<std::string> CircumstanceTexts(const Verdict& verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_CIRCUMSTANCES_H_
