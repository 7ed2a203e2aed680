// The one place that turns the grade of a finding into its confidence.
#ifndef LOCKSTEP_ANALYZER_ENGINE_CALIBRATION_CONFIDENCE_H_
#define LOCKSTEP_ANALYZER_ENGINE_CALIBRATION_CONFIDENCE_H_

#include "proto/verdict.pb.h"

namespace lockstep {

// How often, in labelled cases, findings with this grade and reason named the ranks at fault, or a set that holds them;
// above 0 and at most what the grade allows. `several`: the finding names more than one rank. `framework`: all records
// are a framework's, which show less than Lockstep's own. Where few cases had the same grade and reason, all of that
// grade count as well.
// Source: confidence_table.inc, made by tests/bench/accuracy/calibrate.py.
double ConfidenceOf(Grade grade, Reason reason, bool several, bool framework);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_CALIBRATION_CONFIDENCE_H_
