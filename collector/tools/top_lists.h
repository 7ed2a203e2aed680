// The lists of `lockstep top`: all jobs, or the parts of one job.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "collector/tools/top_view.h"
#include "proto/wire.pb.h"

namespace lockstep::top {

using Lines = std::vector<TopLine>;

// Adds a line unless there are too many, because an answer may be hostile or damaged.
void Add(Lines* lines, TopStyle style, std::string text);

TopStyle StateStyle(const std::string& state);

// Returns the ranks that other ranks wait for; if the job moves, the ranks that the last verdict found slow. nullopt if
// unknown.
std::optional<Ranks> SlowestRanks(const JobStatus& job);
std::string SlowestText(const JobStatus& job);
// Returns the number, or "unknown".
std::string RateText(double calls_a_second);
// Adds the first line of the last verdict, if there is one.
void AddVerdict(const JobStatus& job, Lines* lines);

// Adds a line for each job, with its last verdict below. Marks the job at index state.job.
void AddJobs(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, Lines* lines);
// Adds the list of one job that state.group selects.
void AddGroup(const JobStatus& job, const TopState& state, size_t width, Lines* lines);

}  // namespace lockstep::top
