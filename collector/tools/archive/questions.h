// The archive's queries for users and for verdicts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/tools/archive/store.h"

namespace lockstep::archive {

struct QueryArguments {
  int days = 0;  // 0 for the query's default
  int limit = 100;
  std::string host, place, job, cluster;
};

// Returns names and purposes, such as "culprits": "Hosts and lines of code that ..", ordered by name.
std::vector<std::pair<std::string, std::string>> ReadyQueries();
// Returns the statement with its {arguments} filled in. NotFound lists the existing queries.
absl::StatusOr<std::string> ReadyQuery(const std::string& name, const QueryArguments& arguments);

// For users: aligned columns, at most `columns` wide (0: no limit), in plain characters. For programs: an array of
// objects.
std::string AsTable(const Answer& answer, size_t columns);
std::string AsJson(const Answer& answer);

// Return the query for a verdict's question (analyzer/report/before.h), and its answer: {"before": [..]} or
// {"error": ".."}. `cluster` limits the count to one cluster, because host names are unique only there; empty for all.
absl::StatusOr<std::string> BeforeStatement(const std::string& question, const std::string& cluster);
std::string BeforeAnswer(const std::string& question, const absl::StatusOr<Answer>& answer);

// Return the query for the best bus bandwidth of a verdict's operations, sizes and scales in earlier incidents, and its
// answer: {"best": [..]}.
absl::StatusOr<std::string> BestStatement(const std::string& question);
std::string BestAnswer(const absl::StatusOr<Answer>& answer);

}  // namespace lockstep::archive
