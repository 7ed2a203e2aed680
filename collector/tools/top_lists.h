// The lists of `lockstep top`: all jobs, or the parts of one job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/common/rank_set.h"
#include "collector/tools/top_view.h"
#include "proto/wire.pb.h"

namespace lockstep::top {

using Lines = std::vector<TopLine>;

// Adds a line unless there are already too many: a hostile or damaged answer is cut.
void Add(Lines* lines, TopStyle style, std::string text);

TopStyle StateStyle(const std::string& state);

// The ranks that the others wait for, or that the last verdict found slow while the job moves; nothing if not known.
std::optional<Ranks> SlowestRanks(const JobStatus& job);
std::string SlowestText(const JobStatus& job);
// Calls a second, or "unknown".
std::string RateText(double calls_a_second);
// The headline of the last verdict, if there is one.
void AddVerdict(const JobStatus& job, Lines* lines);

// A line for each job, with its last verdict below. The job state.job is marked.
void AddJobs(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, Lines* lines);
// The list of one job that state.group names.
void AddGroup(const JobStatus& job, const TopState& state, size_t width, Lines* lines);

}  // namespace lockstep::top
