// Lists the pods of a job with kubectl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/tools/attach/hosts.h"

namespace lockstep {

struct PodQuery {
  std::vector<std::string> kubectl;  // command for kubectl
  std::string selector;              // label selector
  std::string pod_namespace;         // empty: kubectl's default
  std::string container;             // empty: the pod's default container
};

struct Pod {
  std::string name, pod_namespace, container;
  std::string image, node;  // empty if unknown
  std::string phase;        // "Running"
  std::string refused;      // if not empty: why no command runs in the pod, for example because of an invalid name
};

// Parses the output of `kubectl get pods -o json`. Checks names, because they become words of commands. Unavailable if
// the text has another form.
absl::StatusOr<std::vector<Pod>> ParsePods(const std::string& text, const PodQuery& query);

// Runs kubectl. Unavailable with kubectl's message if it fails; NotFound if no pod is running; InvalidArgument if a
// namespace or container name is invalid.
absl::StatusOr<std::vector<Pod>> FindPods(const PodQuery& query, int64_t limit_ns);

// Returns the target that runs commands in the pod's container.
Target TargetOf(const Pod& pod, const PodQuery& query);

}  // namespace lockstep
