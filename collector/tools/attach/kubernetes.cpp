#include "collector/tools/attach/kubernetes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/start_child.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostList = 128 << 20, kMostPods = 16384;
constexpr char kDefaultContainer[] = "kubectl.kubernetes.io/default-container";

// Returns whether the name is a DNS label (RFC 1123), or several with dots between them.
bool IsDnsName(const std::string& name, size_t longest, bool dots) {
  const auto plain = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) || absl::ascii_isdigit(static_cast<unsigned char>(c));
  };
  return !name.empty() && name.size() <= longest && plain(name.front()) && plain(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || (dots && c == '.'); });
}

bool IsLabel(const std::string& name) { return IsDnsName(name, 63, false); }

std::string WhyNoName(const char* what, const std::string& name) {
  return absl::StrCat("'", Printable(name, 80), "' is not a valid name of a ", what);
}

// Uses the query's container, otherwise the default container in the annotation, otherwise the first one.
Pod ParsePod(const Json& item, const PodQuery& query) {
  Pod pod;
  const Json &metadata = JsonMember(item, "metadata"), &spec = JsonMember(item, "spec");
  pod.name = JsonText(metadata, "name");
  pod.pod_namespace = JsonText(metadata, "namespace");
  pod.node = Printable(JsonText(spec, "nodeName"), 253);
  pod.phase = Printable(JsonText(JsonMember(item, "status"), "phase"), 40);
  const std::string wanted =
      query.container.empty() ? JsonText(JsonMember(metadata, "annotations"), kDefaultContainer) : query.container;
  pod.container = query.container;
  for (const Json& container : JsonList(spec, "containers")) {
    const std::string name = JsonText(container, "name");
    if (name != wanted && !pod.container.empty()) continue;
    pod.container = name;
    pod.image = Printable(JsonText(container, "image"), 200);
    if (name == wanted) break;
  }
  if (!IsDnsName(pod.name, 253, true)) {
    pod.refused = WhyNoName("pod", pod.name);
  } else if (!IsLabel(pod.pod_namespace)) {
    pod.refused = WhyNoName("namespace", pod.pod_namespace);
  } else if (!IsLabel(pod.container)) {
    pod.refused = WhyNoName("container", pod.container);
  } else if (pod.phase != "Running") {
    pod.refused = absl::StrCat("the pod is ", absl::AsciiStrToLower(pod.phase));
  }
  return pod;
}

}  // namespace

absl::StatusOr<std::vector<Pod>> ParsePods(const std::string& text, const PodQuery& query) {
  const Json list = ParseJson(text);
  if (!list.is_object() || !list.contains("items"))
    return absl::UnavailableError("kubectl did not print a complete list of pods");
  std::vector<Pod> pods;
  for (const Json& item : JsonList(list, "items")) {
    if (pods.size() >= kMostPods) return absl::UnavailableError(absl::StrCat("more than ", kMostPods, " pods"));
    pods.push_back(ParsePod(item, query));
  }
  return pods;
}

absl::StatusOr<std::vector<Pod>> FindPods(const PodQuery& query, int64_t limit_ns) {
  if (!query.pod_namespace.empty() && !IsLabel(query.pod_namespace))
    return absl::InvalidArgumentError(WhyNoName("namespace", query.pod_namespace));
  if (!query.container.empty() && !IsLabel(query.container))
    return absl::InvalidArgumentError(WhyNoName("container", query.container));
  std::vector<std::string> words = {"/usr/bin/env"};
  words.insert(words.end(), query.kubectl.begin(), query.kubectl.end());
  words.insert(words.end(), {"get", "pods", "--output=json", absl::StrCat("--selector=", query.selector)});
  if (!query.pod_namespace.empty()) words.push_back(absl::StrCat("--namespace=", query.pod_namespace));
  ChildRun run;
  run.output = run.errors = ChildStream::kKeep;
  run.most_output = kMostList;
  run.limit_ns = limit_ns;
  const absl::StatusOr<ChildResult> result = RunChild(words, run);
  const std::string command = absl::StrJoin(query.kubectl, " ");
  if (!result.ok()) return absl::UnavailableError(absl::StrCat(command, ": ", result.status().message()));
  if (const absl::Status ended = result->Ended(); !ended.ok()) {
    std::string errors = CleanUtf8(result->errors, 500);
    absl::StripAsciiWhitespace(&errors);
    return absl::UnavailableError(absl::StrCat(command, ": ", ended.message(), ": ", errors));
  }
  absl::StatusOr<std::vector<Pod>> pods = ParsePods(result->output, query);
  if (!pods.ok()) return pods.status();
  if (std::none_of(pods->begin(), pods->end(), [](const Pod& pod) { return pod.phase == "Running"; })) {
    return absl::NotFoundError(absl::StrCat(pods->empty() ? "no pod" : "no running pod", " has the labels ",
                                            query.selector, query.pod_namespace.empty() ? "" : " in namespace ",
                                            query.pod_namespace));
  }
  return pods;
}

Target TargetOf(const Pod& pod, const PodQuery& query) {
  Target target;
  target.name = pod.name.empty() ? "a pod" : Printable(pod.name, 253);
  target.refused = pod.refused;
  if (!target.refused.empty()) return target;
  target.command = {"/usr/bin/env"};
  target.command.insert(target.command.end(), query.kubectl.begin(), query.kubectl.end());
  target.command.insert(target.command.end(), {"exec", absl::StrCat("--namespace=", pod.pod_namespace), pod.name,
                                               absl::StrCat("--container=", pod.container), "--"});
  target.without = absl::StrCat(
      "image ", pod.image.empty() ? "of the container" : pod.image, " has no lockstep. Copy the static build in, ",
      absl::StrJoin(query.kubectl, " "), " --namespace=", pod.pod_namespace, " cp lockstep ", pod.name,
      ":/tmp/lockstep --container=", pod.container,
      ", and retry with --remote /tmp/lockstep; or start a debug container with kubectl debug "
      "--target=",
      pod.container, " and an image that has lockstep, and pass its name to --container");
  return target;
}

}  // namespace lockstep
