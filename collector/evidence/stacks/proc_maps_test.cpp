#include "collector/evidence/stacks/proc_maps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

namespace lockstep {
namespace {

TEST(ProcMaps, FilesAreConsecutiveMappings) {
  const std::vector<Mapping> maps = ParseMaps(
      "55d000000000-55d000001000 r--p 00000000 fe:00 11 /opt/my app/bin\n"
      "55d000001000-55d000002000 r-xp 00001000 fe:00 11 /opt/my app/bin\n"
      "55d000002000-55d000003000 rw-p 00000000 00:00 0 \n"
      "7f0000000000-7f0000001000 r--p 00000000 fe:00 12 /lib/a.so (deleted)\n"
      "7f0000001000-7f0000002000 r-xp 00001000 fe:00 12 /lib/a.so (deleted)\n"
      "7f0000002000-7f0000003000 rw-p 00002000 fe:00 12 /lib/a.so (deleted)\n"
      "7f0000003000-7f0000004000 r--p 00000000 fe:00 12 /lib/a.so (deleted)\n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n"
      "7ffc00030000-7ffc00032000 r-xp 00000000 00:00 0 [vdso]\n"
      "nonsense\n7-3 r 0 0 0\n");
  ASSERT_EQ(maps.size(), 9u);
  EXPECT_EQ(maps[0].path, "/opt/my app/bin");
  const std::vector<MappedFile> files = MappedFiles(maps);
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].end, 0x55d000002000u);
  EXPECT_TRUE(files[0].executable);
  EXPECT_EQ(files[1].path, "/lib/a.so");
  EXPECT_TRUE(files[1].deleted);
  EXPECT_EQ(files[1].end, 0x7f0000003000u) << "a second mapping of the file must be separate";
  EXPECT_EQ(files[3].path, "[vdso]");
  EXPECT_EQ(FindMapping(maps, 0x7ffc00000010)->path, "[stack]");
  EXPECT_EQ(FindMapping(maps, 0x7ffc00021000), nullptr);
  EXPECT_EQ(FindMapping(maps, 0), nullptr);
  EXPECT_FALSE(ReadMaps(getpid()).empty());
}

TEST(ProcMaps, CodeInTheFirstPageBelongsToTheFile) {
  const std::vector<MappedFile> files = MappedFiles(ParseMaps(
      "559d70ac5000-559d70ac6000 r--p 00000000 fe:00 5 /small\n559d70ac6000-559d70ac8000 r-xp 00000000 fe:00 5 /small\n"
      "559d70ac8000-559d70ac9000 r--p 00001000 fe:00 5 /small\n"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(files[0].executable);
  EXPECT_EQ(files[0].end, 0x559d70ac9000u);
}

TEST(ProcMaps, HostileTextIsHarmless) {
  const std::string good =
      "55d000000000-55d000001000 r--p 00000000 fe:00 11 /opt/a\n55d000001000-55d000002000 r-xp 00001000 fe:00 11 "
      "/opt/a\n";
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 1 + i % 5; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    for (const MappedFile& file : MappedFiles(ParseMaps(bad))) ASSERT_LT(file.start, file.end);
  }
}

}  // namespace
}  // namespace lockstep
