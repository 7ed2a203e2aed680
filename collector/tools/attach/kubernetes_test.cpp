#include "collector/tools/attach/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string List(const std::string& items) {
  return absl::StrCat(R"({"apiVersion": "v1", "kind": "List", "items": [)", items, "]}");
}

std::string Item(const std::string& name, const std::string& container = "main", const std::string& more = "") {
  return absl::StrCat(
      R"({"metadata": {"name": ")", name, R"(", "namespace": "ml")", more,
      R"(}, "spec": {"nodeName": "n1", "containers": [{"name": ")", container,
      R"(", "image": "torch:2"}, {"name": "side", "image": "log:1"}]}, "status": {"phase": "Running"}})");
}

TEST(Kubernetes, PodsAndTheirContainersAreListed) {
  const std::string marked = R"(, "annotations": {"kubectl.kubernetes.io/default-container": "side"})";
  const absl::StatusOr<std::vector<Pod>> pods =
      ParsePods(List(Item("train-0") + "," + Item("train-1", "main", marked)), {});
  ASSERT_TRUE(pods.ok()) << pods.status();
  ASSERT_THAT(*pods, SizeIs(2));
  const Pod& first = pods->front();
  EXPECT_EQ(first.name, "train-0");
  EXPECT_EQ(first.pod_namespace, "ml");
  EXPECT_EQ(first.container, "main");
  EXPECT_EQ(first.image, "torch:2");
  EXPECT_EQ(first.node, "n1");
  EXPECT_EQ(pods->back().container, "side");
  EXPECT_EQ(pods->back().image, "log:1");

  PodQuery query;
  query.kubectl = {"kubectl", "--context", "x"};
  query.container = "side";
  EXPECT_EQ(ParsePods(List(Item("train-0")), query)->front().image, "log:1");
  Target target = TargetOf(first, query);
  EXPECT_EQ(target.name, "train-0");
  EXPECT_THAT(target.command, ElementsAre("/usr/bin/env", "kubectl", "--context", "x", "exec", "--namespace=ml",
                                          "train-0", "--container=main", "--"));
  EXPECT_EQ(target.refused, "");
  EXPECT_THAT(target.without, HasSubstr("image torch:2 has no lockstep"));
  EXPECT_THAT(target.without, HasSubstr("--namespace=ml cp lockstep train-0:/tmp/lockstep --container=main"));
  std::string pending = Item("train-0");
  pending.replace(pending.find("Running"), 7, "Pending");
  EXPECT_EQ(TargetOf(ParsePods(List(pending), query)->front(), query).refused, "the pod is pending");
}

TEST(Kubernetes, TheDefaultContainerMustExistInThePod) {
  for (const char* marked : {"other", "", "-x", "$(x)"}) {
    const std::string more =
        absl::StrCat(R"(, "annotations": {"kubectl.kubernetes.io/default-container": ")", marked, R"("})");
    const absl::StatusOr<std::vector<Pod>> pods = ParsePods(List(Item("a", "main", more)), {});
    ASSERT_TRUE(pods.ok()) << pods.status();
    EXPECT_EQ(pods->front().container, "main");
    EXPECT_EQ(pods->front().image, "torch:2");
    EXPECT_EQ(pods->front().refused, "");
  }
}

std::string WhyRefused(const std::string& item) {
  const absl::StatusOr<std::vector<Pod>> pods = ParsePods(List(item + "," + Item("good")), {});
  EXPECT_THAT(*pods, SizeIs(2));
  EXPECT_EQ(pods->back().refused, "");
  const Target target = TargetOf(pods->front(), {});
  EXPECT_THAT(target.command, IsEmpty());
  EXPECT_NE(target.name, "");
  return target.refused;
}

// An invalid name removes only its own pod from the list.
TEST(Kubernetes, InvalidNamesAreRefused) {
  for (const char* name : {"", "-oProxyCommand=x", "a b", "$(x)", "a/b", "A", "a-", "\\u001b[2J"}) {
    EXPECT_THAT(WhyRefused(Item(name)), HasSubstr("is not a valid name of a pod")) << name;
    EXPECT_THAT(WhyRefused(Item("a", absl::StrCat(name, "."))), HasSubstr("is not a valid name of a container"))
        << name;
  }
  EXPECT_EQ(WhyRefused(Item("a;b")), "'a;b' is not a valid name of a pod");
  EXPECT_THAT(WhyRefused(Item(std::string(254, 'a'))), HasSubstr("is not a valid name"));
  EXPECT_THAT(WhyRefused(Item("a", std::string(64, 'a'))), HasSubstr("is not a valid name"));
  for (const char* item : {"3", "{}"}) EXPECT_EQ(WhyRefused(item), "'' is not a valid name of a pod");
}

TEST(Kubernetes, InvalidListsAreErrors) {
  for (const char* text : {"", "[]", "error", "{\"items\": ["})
    EXPECT_EQ(ParsePods(text, {}).status().code(), absl::StatusCode::kUnavailable) << text;
  EXPECT_THAT(*ParsePods("{\"items\": 3}", {}), IsEmpty());
  EXPECT_FALSE(ParsePods(List(std::string(1'000'000, '[')), {}).ok());
  // Objects nested deeper than in any pod are dropped.
  const std::string deep = absl::StrCat(R"(, "x": )", std::string(1000, '['), std::string(1000, ']'));
  EXPECT_TRUE(ParsePods(List(Item("a", "main", deep)), {}).ok());
  EXPECT_THAT(*ParsePods(List(""), {}), IsEmpty());
}

}  // namespace
}  // namespace lockstep
