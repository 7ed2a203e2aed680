#include "analyzer/formats/fr/file_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/formats/fr/loader.h"
#include "analyzer/formats/fr/packed.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::LoadFiles;
using fr_test::ToJson;
using fr_test::ToPickle;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kNamed = 8;

// Returns a dump with 10 + `rank` calls, from a job of eight ranks in pairs.
FrDump DumpNamed(int rank, bool pairs = true) {
  FrDump dump;
  dump.groups[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const int pair = rank / 2 * 2;
  if (pairs) {
    dump.groups.push_back(
        {.name = std::to_string(1 + rank / 2), .desc = "PAIR", .ranks = {pair, pair + 1}, .pg_id = 1});
  }
  for (int seq = 1; seq <= 10 + rank; seq++) dump.entries.push_back({.seq = seq});
  return dump;
}

// Loads the dumps, with the file name that `name` gives each rank.
template <typename Name>
Bundle LoadAs(Name name, bool pairs = true) {
  DumpFolder folder;
  std::vector<std::string> paths;
  for (int rank = 0; rank < kNamed; rank++) {
    const std::string path = name(rank);
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + path).parent_path());
    paths.push_back(folder.Write(path, ToPickle(DumpNamed(rank, pairs))));
  }
  return LoadFiles(paths);
}

void ExpectEverybody(const Bundle& bundle) {
  ASSERT_THAT(bundle.ranks, SizeIs(kNamed));
  for (int rank = 0; rank < kNamed; rank++) {
    EXPECT_EQ(bundle.ranks[rank].rank, rank);
    EXPECT_THAT(bundle.ranks[rank].ops, SizeIs(10 + rank));
  }
}

TEST(FrFileNames, TheRankIsInTheNameOfASingleFile) {
  struct Case {
    const char* path;
    int rank;
    const char* host;
  };
  for (const Case& one : std::vector<Case>{
           {"/x/nccl_trace_rank_0", 0, ""},
           {"comm_lib_trace_rank_123", 123, ""},
           {"_dump_15", 15, ""},
           {"/a9/b/rank_7.json", 7, ""},
           {"trace12.pickle", 12, ""},
           {"trace12.PKL", 12, ""},
           {"rank_3.pt", 3, ""},
           {"nccl_trace_rank_container-node02_5", 5, "container-node02"},
           {"nccl_trace_rank_gpu-a.example.org-0012", 12, "gpu-a.example.org"},
           {"node7_dump_3", 3, "node7"},
           {"5", 5, ""},
           {"nccl_trace_rank_", -1, ""},
           {"fault_injection.log", -1, ""},
           {"dump_1758610505592849034", -1, ""},
           {"dump_99999999", -1, ""},
           {"", -1, ""},
           {"rank_0_node-0.pkl", 0, "node-0"},
           {"rank_3_final.pkl", 3, ""},
           {"fr_rank3.pid4003.pickle", 3, ""},
           {"rank3_20260101T101500", 3, ""},
           {"nccl_trace_rank_3_1764000123", 3, ""},
           {"local_rank_2_rank_10.json.gz", 10, ""},
           {"/x/rank_3/nccl_trace.pkl", 3, ""},
           {"/run7/nccl_trace.pkl", -1, ""},
       }) {
    EXPECT_EQ(fr::RankInName(one.path), one.rank) << one.path;
    std::string host;
    for (const fr::NamedNumber& number : fr::ParseFileName(one.path, 0).numbers) {
      if (number.value != one.rank) continue;
      host = fr::HostInName(one.path, number);
      break;
    }
    EXPECT_EQ(host, one.host) << one.path;
  }
}

// Besides the rank, a name may contain a node, a process, a time or an attempt. The unique number that fits the
// groups is the rank.
TEST(FrFileNames, TheNumberThatFitsTheGroupsIsTheRank) {
  using std::to_string;
  const std::vector<std::pair<const char*, std::string (*)(int)>> rules = {
      {"time", [](int r) { return "nccl_trace_rank_" + to_string(r) + "_" + to_string(1764000123 + r / 3); }},
      {"short time", [](int r) { return "trace_" + to_string(r) + "_101" + to_string(500 + r / 4); }},
      {"node", [](int r) { return "rank_" + to_string(r) + "_node-" + to_string(r / 4) + ".pkl"; }},
      {"node first", [](int r) { return "node" + to_string(r / 4) + "." + to_string(r) + ".pkl"; }},
      {"process", [](int r) { return "fr_rank" + to_string(r) + ".pid" + to_string(4000 + 7 * r) + ".pickle"; }},
      {"no word", [](int r) { return to_string(r) + "." + to_string(40000 + 7 * r); }},
      {"folder", [](int r) { return "rank_" + to_string(r) + "/nccl_trace.pkl"; }},
      {"folder without a word", [](int r) { return to_string(r) + "/trace0"; }},
      {"local rank",
       [](int r) { return "node" + to_string(r / 4) + "/local_rank_" + to_string(r % 4) + "_" + to_string(r); }},
  };
  for (const auto& [what, name] : rules) {
    SCOPED_TRACE(what);
    const Bundle bundle = LoadAs(name);
    ExpectEverybody(bundle);
    EXPECT_THAT(bundle.problems, IsEmpty());
  }
}

TEST(FrFileNames, GroupsAloneMayIdentifyTheRank) {
  const auto letters = [](int rank) { return std::string(1, static_cast<char>('a' + rank)) + ".pkl"; };
  const Bundle world = LoadAs(letters, false);
  EXPECT_THAT(world.ranks, IsEmpty());
  ASSERT_THAT(world.problems, SizeIs(kNamed));
  EXPECT_THAT(world.problems[0].text, HasSubstr("its name contains no rank"));

  DumpFolder folder;
  std::vector<std::string> paths;
  for (int rank = 0; rank < kNamed; rank++) {
    FrDump dump = DumpNamed(rank);
    std::vector<int32_t> parity;
    for (int r = rank % 2; r < kNamed; r += 2) parity.push_back(r);
    dump.groups.push_back({.name = std::to_string(5 + rank % 2), .desc = "PARITY", .ranks = parity, .pg_id = 2});
    paths.push_back(folder.Write(letters(rank), ToPickle(dump)));
  }
  ExpectEverybody(LoadFiles(paths));
}

// Each host numbers its files from 0, so the host's number is a part of the rank.
TEST(FrFileNames, ANumberInsideAHostIsCombinedWithTheHost) {
  for (const bool pairs : {true, false}) {
    ExpectEverybody(LoadAs(
        [](int rank) { return "node-" + std::to_string(rank / 4) + "/trace_" + std::to_string(rank % 4) + ".pkl"; },
        pairs));
  }
}

TEST(FrFileNames, OneFileMayHaveAllRanks) {
  std::string all = "{";
  for (int rank = 0; rank < kNamed; rank++)
    all += (rank > 0 ? ", \"" : "\"") + std::to_string(rank) + "\": " + ToJson(DumpNamed(rank));
  DumpFolder folder;
  const Bundle bundle = LoadFiles({folder.Write("all.json", all + "}")});
  ExpectEverybody(bundle);
  EXPECT_THAT(bundle.problems, IsEmpty());
}

TEST(FrFileNames, ABareListOfEntriesIsRead) {
  std::string text = ToJson(DumpNamed(3));
  text = text.substr(text.find("\"entries\":") + 10);
  text.pop_back();
  DumpFolder folder;
  const Bundle bundle = LoadFiles({folder.WriteRank(3, text)});
  ASSERT_THAT(bundle.ranks, SizeIs(1));
  EXPECT_EQ(bundle.ranks[0].rank, 3);
  EXPECT_THAT(bundle.ranks[0].ops, SizeIs(13));
}

std::string Gzip(const std::string& bytes) {
  std::string out(compressBound(bytes.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Little(uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; i++) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return out;
}

// Creates a zip archive like zip(1). Every second file is stored; the others are deflated.
std::string Zip(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out, table;
  for (size_t i = 0; i < files.size(); i++) {
    const auto& [name, bytes] = files[i];
    std::string data = bytes;
    if (i % 2 == 0) {
      data = Gzip(bytes);
      data = data.substr(10, data.size() - 18);  // without gzip's own header and checksums
    }
    const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    const std::string common = Little(20, 2) + Little(0, 2) + Little(i % 2 == 0 ? 8 : 0, 2) + Little(0, 4) +
                               Little(sum, 4) + Little(data.size(), 4) + Little(bytes.size(), 4) +
                               Little(name.size(), 2) + Little(0, 2);
    table += "PK\x01\x02" + Little(20, 2) + common + Little(0, 10) + Little(out.size(), 4) + name;
    out += "PK\x03\x04" + common + name + data;
  }
  const std::string end = std::string("PK\x05\x06") + Little(0, 4) + Little(files.size(), 2) + Little(files.size(), 2) +
                          Little(table.size(), 4) + Little(out.size(), 4) + Little(0, 2);
  return out + table + end;
}

TEST(FrPacked, GzipFilesAreDumps) {
  DumpFolder folder;
  std::vector<std::string> paths;
  for (int rank = 0; rank < kNamed; rank++) {
    const std::string bytes = rank % 2 == 0 ? ToPickle(DumpNamed(rank)) : ToJson(DumpNamed(rank));
    paths.push_back(folder.Write("rank_" + std::to_string(rank) + ".gz", Gzip(bytes)));
  }
  const Bundle bundle = LoadFiles(paths);
  ExpectEverybody(bundle);
  EXPECT_THAT(bundle.problems, IsEmpty());
}

TEST(FrPacked, TheCompletePartOfATruncatedFileIsUsed) {
  DumpFolder folder;
  std::string packed = Gzip(ToPickle(DumpNamed(3)));
  packed.resize(packed.size() * 3 / 4);
  const Bundle bundle = LoadFiles({folder.Write("rank_3.gz", packed)});
  ASSERT_THAT(bundle.ranks, SizeIs(1));
  EXPECT_THAT(bundle.ranks[0].ops, SizeIs(::testing::AllOf(::testing::Ge(1), ::testing::Lt(13))));
  EXPECT_THAT(bundle.problems, Contains(Field(&Problem::text, HasSubstr("ends early"))));
}

TEST(FrPacked, AZipArchiveContainsDumpsOfAllRanks) {
  std::vector<std::pair<std::string, std::string>> files = {{"traces/", ""}};
  for (int rank = 0; rank < kNamed; rank++)
    files.push_back({"traces/nccl_trace_rank_" + std::to_string(rank), ToPickle(DumpNamed(rank))});
  const std::string whole = Zip(files);
  DumpFolder folder;
  const Bundle bundle = LoadFiles({folder.Write("traces.zip", whole)});
  ExpectEverybody(bundle);
  EXPECT_THAT(bundle.problems, IsEmpty());
  // Damage anywhere, and truncation at any point, is reported as a problem and has no other effect.
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    std::string bytes = whole;
    if (round % 3 == 0) bytes.resize(4 + random() % (bytes.size() - 4));
    for (int i = 0; i < 4; i++) bytes[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
    EXPECT_LE(LoadFiles({folder.Write("damaged.zip", bytes)}).ranks.size(), size_t{kNamed});
  }
}

// Creates a tar archive as GNU tar does: a name of more than 100 bytes is in an entry of its own, before the file's
// entry.
std::string Tar(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out;
  const auto add = [&](const std::string& name, const std::string& bytes, char type) {
    std::string header(512, '\0');
    char size[12];
    snprintf(size, sizeof(size), "%011zo", bytes.size());
    header.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
    header.replace(124, 11, size);
    header[156] = type;
    header.replace(257, 7, "ustar  ");
    out += header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  };
  for (const auto& [name, bytes] : files) {
    if (name.size() > 100) add("././@LongLink", name + '\0', 'L');
    add(name, bytes, '0');
  }
  return out + std::string(1024, '\0');
}

TEST(FrPacked, ATarArchiveContainsDumpsOfAllRanks) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int rank = 0; rank < kNamed; rank++)
    files.push_back({std::string(rank % 2 == 0 ? 3 : 120, 'd') + "/nccl_trace_rank_" + std::to_string(rank),
                     ToPickle(DumpNamed(rank))});
  const std::string whole = Tar(files);
  DumpFolder folder;
  for (const std::string& path : {folder.Write("traces.tar", whole), folder.Write("traces.tar.gz", Gzip(whole))}) {
    const Bundle bundle = LoadFiles({path});
    ExpectEverybody(bundle);
    EXPECT_THAT(bundle.problems, IsEmpty());
  }
  const std::string half = whole.substr(0, whole.size() / 2);
  for (const std::string& path : {folder.Write("half.tar", half), folder.Write("half.tar.gz", Gzip(half))}) {
    const Bundle bundle = LoadFiles({path});
    EXPECT_THAT(bundle.ranks, SizeIs(::testing::AllOf(::testing::Ge(1), ::testing::Lt(kNamed))));
    EXPECT_THAT(bundle.problems, Contains(Field(&Problem::text, HasSubstr("the tar archive is damaged, or ends"))));
  }
  std::string wrong_sum = Gzip(whole);
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  const Bundle doubtful = LoadFiles({folder.Write("wrong.tar.gz", wrong_sum)});
  ExpectEverybody(doubtful);
  EXPECT_THAT(doubtful.problems, Contains(Field(&Problem::text, HasSubstr("the packed data is damaged"))));
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    std::string bytes = whole;
    if (round % 3 == 0) bytes.resize(512 + random() % (bytes.size() - 512));
    for (int i = 0; i < 4; i++) bytes[random() % bytes.size()] = static_cast<char>(random());
    EXPECT_LE(LoadFiles({folder.Write("damaged.tar", bytes)}).ranks.size(), size_t{kNamed});
  }
}

// All entries refer to the first file's data, so a small archive would be unpacked thousands of times.
TEST(FrPacked, AnArchiveThatNamesTheSameBytesTwiceIsRefused) {
  std::vector<std::pair<std::string, std::string>> files = {{"nccl_trace_rank_0", ToPickle(DumpNamed(0))}};
  for (int rank = 1; rank < 64; rank++) files.push_back({"nccl_trace_rank_" + std::to_string(rank), ""});
  std::string bytes = Zip(files);
  const size_t first = bytes.find("PK\x01\x02");
  for (size_t at = bytes.find("PK\x01\x02", first + 4); at != std::string::npos;
       at = bytes.find("PK\x01\x02", at + 4)) {
    for (const auto& [field, size] : {std::pair<size_t, size_t>{10, 2}, {20, 4}, {42, 4}})
      bytes.replace(at + field, size, bytes.substr(first + field, size));
  }
  DumpFolder folder;
  const Bundle bundle = LoadFiles({folder.Write("traces.zip", bytes)});
  EXPECT_THAT(bundle.ranks, IsEmpty());
  EXPECT_THAT(bundle.problems, Contains(Field(&Problem::text, HasSubstr("overlap"))));
}

// Here `cat` has joined several gzip files into one.
TEST(FrPacked, AFileThatUnpacksTooLargeIsRefused) {
  const std::string part = Gzip(std::string(32u << 20, '\0'));
  std::string whole;
  for (int i = 0; i < 9; i++) whole += part;
  DumpFolder folder;
  const Bundle bundle = LoadFiles({folder.Write("rank_0.gz", whole)});
  EXPECT_THAT(bundle.ranks, IsEmpty());
  EXPECT_THAT(bundle.problems, Contains(Field(&Problem::text, HasSubstr("more than 256 MiB"))));
}

TEST(FrPacked, UnpackingUsesNoMoreMemoryThanItsLimit) {
  const std::string packed = Gzip(std::string(40u << 20, '\0'));
  std::string out;
  int64_t written_ns = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(fr::Gunzip(packed, 33u << 20, &out, &written_ns)));
  EXPECT_LE(out.capacity(), 34u << 20);
  const std::string stored(3u << 20, 'x');
  EXPECT_TRUE(absl::IsResourceExhausted(fr::Unzip({.name = "rank_0", .data = stored}, 2u << 20, &out)));
  EXPECT_EQ(out.size(), 2u << 20);
}

}  // namespace
}  // namespace lockstep
