#include "analyzer/model/topology.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lockstep {
namespace {

std::string Show(const std::vector<HostPlace>& places) {
  std::string text;
  for (const HostPlace& p : places) text += p.host + ":" + p.rack + ":" + p.leaf_switch + " ";
  return text;
}

std::string Parse(const std::string& text, size_t* problems = nullptr) {
  std::vector<Problem> found;
  const std::string shown = Show(ParseTopology(text, "topology", &found));
  if (problems != nullptr) *problems = found.size();
  return shown;
}

TEST(Topology, TablesMayHaveCommasBlanksAndComments) {
  EXPECT_EQ(Parse("# hosts\nnode2, r1, leaf1\nnode1 r1 leaf1 # spare\n\nnode3\t-\tleaf2\n"),
            "node1:r1:leaf1 node2:r1:leaf1 node3::leaf2 ");
  EXPECT_EQ(Parse("node1,r1\r\nnode2,,leaf2\r\n"), "node1:r1: node2::leaf2 ");
}

TEST(Topology, TheFirstLineMayNameTheColumns) {
  EXPECT_EQ(Parse("switch,comment,host,rack\nleaf9,x,node1,r7\n"), "node1:r7:leaf9 ");
  EXPECT_EQ(Parse("host rack\nnode1 r7\n"), "node1:r7: ");
}

TEST(Topology, SlurmTopologyIsRead) {
  EXPECT_EQ(Parse("SwitchName=leaf1 Nodes=gpu[01-02,7],login LinkSpeed=1\nswitchname=leaf2 nodes=gpu08\nSwitchName=top "
                  "Switches=leaf[1-2]\n"),
            "gpu01::leaf1 gpu02::leaf1 gpu08::leaf2 gpu7::leaf1 login::leaf1 ");
}

TEST(Topology, HostListsAreExpanded) {
  std::vector<std::string> hosts;
  EXPECT_TRUE(ExpandHostList("a[1-2]b[08-09],c", 100, &hosts));
  EXPECT_EQ(hosts, (std::vector<std::string>{"a1b08", "a2b08", "a1b09", "a2b09", "c"}));
  for (const char* wrong : {"a[1-", "a]", "a[2-1]", "a[x]", "a[1-99999999999]", "a[]", "a[[1]]"}) {
    hosts.clear();
    EXPECT_FALSE(ExpandHostList(wrong, 100, &hosts)) << wrong;
  }
  hosts.clear();
  EXPECT_FALSE(ExpandHostList("a[1-9999][1-9999][1-9999]", 1000, &hosts));
  EXPECT_LE(hosts.size(), 1000u);
  hosts.clear();
  EXPECT_FALSE(ExpandHostList("a[1-3],b", 2, &hosts)) << "the first element does not fit";
  EXPECT_EQ(hosts, std::vector<std::string>{"b"});
}

TEST(Topology, LinesThatAreNotUnderstoodAreReportedAndSkipped) {
  size_t problems = 0;
  EXPECT_EQ(Parse("node1 r1 l1\nnode2 r\x01 l1\nSwitchName= Nodes=x\nnode1 r2 l1\n", &problems), "node1:r1:l1 ");
  EXPECT_EQ(problems, 3u);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += std::string(300, 'x') + "\n";
  EXPECT_EQ(Parse(many, &problems), "");
  EXPECT_EQ(problems, 21u);
}

TEST(Topology, TheFileOverridesHeadersAndShortNamesMatch) {
  char path[] = "/tmp/lockstep-topology-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << "node1 r9 -\nnode2.a r2 l2\nnode3.a r3 l3\nnode3.b r3 l4\n";
  Bundle bundle;
  bundle.places = {{"node1", "r1", "l1"}};
  ASSERT_TRUE(AddTopology(path, &bundle).ok());
  EXPECT_EQ(Show(bundle.places), "node1:r9:l1 node2.a:r2:l2 node3.a:r3:l3 node3.b:r3:l4 ");
  ASSERT_NE(FindPlace(bundle, "node1.cluster"), nullptr);
  EXPECT_EQ(FindPlace(bundle, "node1.cluster")->rack, "r9");
  ASSERT_NE(FindPlace(bundle, "node2"), nullptr);
  EXPECT_EQ(FindPlace(bundle, "node2")->host, "node2.a");
  EXPECT_EQ(FindPlace(bundle, "node3"), nullptr);
  EXPECT_EQ(FindPlace(bundle, ""), nullptr);
  std::ofstream(path) << "# nothing\n";
  EXPECT_EQ(AddTopology(path, &bundle).code(), absl::StatusCode::kFailedPrecondition);
  unlink(path);
  EXPECT_EQ(AddTopology(path, &bundle).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AddTopology("/tmp", &bundle).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep
