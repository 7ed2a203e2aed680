// The lists of `lockstep top`: all jobs, or the parts of one job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/tools/top_view.h"
#include "proto/wire.pb.h"

namespace lockstep::top {

using Lines = std::vector<TopLine>;

// Adds a line unless there are already too many: a hostile or damaged answer is cut.
void Add(Lines* lines, TopStyle style, std::string text);

TopStyle StateStyle(const std::string& state);

// A line for each job, with its last verdict below. The job state.job is marked.
void AddJobs(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, Lines* lines);
// The list of one job that state.group names.
void AddGroup(const JobStatus& job, const TopState& state, size_t width, Lines* lines);

}  // namespace lockstep::top
