#include "analyzer/report/code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kScript[] = "/job/train.py";

// Eight ranks on two hosts, all running the same code.
Bundle SameCode() {
  Bundle bundle;
  for (int r = 0; r < 8; ++r) {
    Rank& rank = bundle.ranks.emplace_back();
    rank.rank = r;
    rank.host = r < 4 ? "n1" : "n2";
    rank.nccl_version = 22803;
    auto evidence = std::make_shared<ProcessEvidence>();
    evidence->set_python_version("3.11");
    for (const auto& [path, id] :
         {std::pair("/opt/lib/libnccl.so.2.28.3", "aa11"), {"/opt/libtorch.so", "bb22"}, {kScript, "sha256:cc33"}}) {
      StackModule* module = evidence->add_modules();
      module->set_path(path);
      module->set_build_id(id);
    }
    rank.process.evidence = std::move(evidence);
  }
  return bundle;
}

void Change(Rank* rank, int module, const std::string& path, const std::string& id) {
  auto evidence = std::make_shared<ProcessEvidence>(*rank->process.evidence);
  if (module == evidence->modules_size()) evidence->add_modules();
  evidence->mutable_modules(module)->set_path(path);
  evidence->mutable_modules(module)->set_build_id(id);
  rank->process.evidence = std::move(evidence);
}

std::vector<std::string> Lines(const Bundle& bundle) {
  Verdict verdict;
  SetCodeDifferences(bundle, &verdict);
  return CodeLines(verdict);
}

TEST(Code, RanksThatRunTheSameAreNotMentioned) { EXPECT_TRUE(Lines(SameCode()).empty()); }

TEST(Code, AnotherNcclIsNamedByVersionAndByBuild) {
  Bundle bundle = SameCode();
  bundle.ranks[6].nccl_version = 22703;
  EXPECT_THAT(Lines(bundle), ElementsAre("NCCL 2.27.3 on rank 6 (n2), 2.28.3 on the 7 others"));
  bundle = SameCode();
  // The version in the library's name, and its folder, may differ.
  Change(&bundle.ranks[6], 0, "/usr/lib/libnccl.so.2", "dd44dd44dd44dd44");
  EXPECT_THAT(Lines(bundle),
              ElementsAre("libnccl.so differs: build dd44dd44dd44 on rank 6 (n2), build aa11 on the 7 others"));
}

TEST(Code, AnotherScriptIsNamedAndUnknownRanksAreCounted) {
  Bundle bundle = SameCode();
  Change(&bundle.ranks[5], 2, kScript, "sha256:ee55");
  Change(&bundle.ranks[1], 2, kScript, "");
  bundle.ranks[2].process.evidence = nullptr;
  EXPECT_THAT(Lines(bundle),
              ElementsAre("/job/train.py differs: sha256:ee55 on rank 5 (n2), sha256:cc33 on the 5 others; "
                          "unknown for 2 ranks"));
  // Other files, and files replaced on disk, are not compared.
  bundle = SameCode();
  Change(&bundle.ranks[5], 2, "/job/b/train.py", "sha256:ee55");
  Change(&bundle.ranks[4], 1, "/opt/libtorch.so (deleted)", "99");
  EXPECT_TRUE(Lines(bundle).empty());
}

TEST(Code, AProcessWithTwoFilesOfOneNameIsSkipped) {
  Bundle bundle = SameCode();
  Change(&bundle.ranks[3], 3, "/other/libnccl.so.2", "ff66");
  EXPECT_TRUE(Lines(bundle).empty());
}

TEST(Code, ManyDifferencesAreBounded) {
  Bundle bundle = SameCode();
  for (size_t r = 0; r < 8; ++r) {
    for (int i = 3; i < 200; ++i) Change(&bundle.ranks[r], i, absl::StrCat("/", i), absl::StrCat("id", r));
  }
  Verdict verdict;
  SetCodeDifferences(bundle, &verdict);
  EXPECT_EQ(verdict.code_size(), 64);
  EXPECT_THAT(CodeLines(verdict)[0], HasSubstr("and 5 more contents"));
}

}  // namespace
}  // namespace lockstep
