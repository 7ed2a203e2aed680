// Times and versions of a verdict: start of the hang, time of the data, tool, framework, NCCL.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns the verdict with facts from the bundle added: hung_since_real_ns, captured_real_ns, tool_version, job_step,
// framework, nccl_version, code, line_rate, rooflines. If the job uses no GPU, removes GPU wording from the findings.
Verdict WithCircumstances(const Verdict& verdict, const Bundle& bundle);

// Returns how long the job has been stuck: "18 s"; empty if unknown or not stuck.
std::string LastedText(const Verdict& verdict);

// "train-39557", "hung since 2026-11-25 09:14:02 UTC", "1,024 of 1,024 ranks read", ...; skips unknown facts. The
// verdict must have its circumstances.
std::vector<std::string> CircumstanceTexts(const Verdict& verdict);

}  // namespace lockstep
