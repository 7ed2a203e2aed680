#include "analyzer/formats/fr/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/json.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep::fr {
namespace {

using fr_test::FrDump;
using fr_test::Json;
using fr_test::LoadBytes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using namespace std::string_literals;

FrDump SomeDump(int entries) {
  FrDump dump;
  dump.groups[0].enqueued = entries;
  dump.groups[0].completed = entries - 1;
  for (int i = 1; i <= entries; i++) {
    dump.entries.push_back({.seq = i,
                            .state = i < entries ? "completed" : "scheduled",
                            .retired = i < entries,
                            .frames = {{"step", "/app/train.py", i % 3}}});
  }
  return dump;
}

std::string Le32(uint32_t number) { return std::string(reinterpret_cast<const char*>(&number), 4); }
std::string Le64(uint64_t number) { return std::string(reinterpret_cast<const char*>(&number), 8); }

Value Parsed(const std::string& bytes, Document* document) {
  ParseError error = ParsePickle(bytes, document);
  EXPECT_EQ(error.text, "");
  return document->root;
}

TEST(FrPickle, ScalarsOfEveryFormAreRead) {
  Document document;
  EXPECT_EQ(Parsed("\x80\x02K\xff."s, &document).integer, 255);
  EXPECT_EQ(Parsed("\x80\x02M\x01\x02."s, &document).integer, 0x201);
  EXPECT_EQ(Parsed("\x80\x02J\xfe\xff\xff\xff."s, &document).integer, -2);
  EXPECT_EQ(Parsed("\x80\x02\x8a\x00."s, &document).integer, 0);
  EXPECT_EQ(Parsed("\x80\x02\x8a\x01\xff."s, &document).integer, -1);
  EXPECT_EQ(Parsed("\x80\x02\x8a\x08"s + Le64(1758610505592849034) + ".", &document).integer, 1758610505592849034);
  EXPECT_EQ(Parsed("\x80\x02\x8a\x09"s + Le64(0) + "\x01.", &document).type, Type::kBigInt);
  EXPECT_EQ(Parsed("\x80\x02\x8b"s + Le32(2) + "\x00\x80."s, &document).integer, -32768);
  EXPECT_EQ(Parsed("\x80\x02G\x3f\xf8\0\0\0\0\0\0."s, &document).real, 1.5);
  EXPECT_EQ(Parsed("\x80\x02\x88."s, &document).integer, 1);
  EXPECT_EQ(Parsed("\x80\x02N."s, &document).type, Type::kNone);
  for (const std::string& text : {"X"s + Le32(3), "\x8c\x03"s, "\x8d"s + Le64(3), "T"s + Le32(3), "U\x03"s}) {
    std::string bytes = "\x80\x05"s + text + "abc.";  // the document's texts point into this string
    Value value = Parsed(bytes, &document);
    EXPECT_EQ(document.Text(value), "abc");
  }
}

TEST(FrPickle, TheMemoReturnsTheSameObject) {
  Document document;
  // [d, d], where d is one dictionary that is filled after it was stored.
  Value list = Parsed(
      "\x80\x02](}q\x01X\x01\0\0\0aK\x07sh\x01"s
      "e."s,
      &document);
  ASSERT_EQ(document.Size(list), 2u);
  std::vector<uint32_t> items;
  document.ForEach(list, [&](const Value& item) {
    items.push_back(item.index);
    EXPECT_EQ(document.Size(item), 2u);
    return true;
  });
  EXPECT_EQ(items[0], items[1]);
  // MEMOIZE has its own counter; a distant number works, too.
  EXPECT_EQ(Parsed("\x80\x04K\x05\x94K\x06\x94\x30\x30h\x01."s, &document).integer, 6);
  EXPECT_EQ(Parsed("\x80\x02K\x05r\xff\xff\xff\xff\x30j\xff\xff\xff\xff."s, &document).integer, 5);
}

TEST(FrPickle, CodeIsRefusedByNameAndPlace) {
  struct Case {
    std::string opcode, name;
  };
  const Case cases[] = {{"cos\nsystem\n", "GLOBAL"},
                        {"\x93", "STACK_GLOBAL"},
                        {"R", "REDUCE"},
                        {"ios\nsystem\n", "INST"},
                        {"o", "OBJ"},
                        {"\x81", "NEWOBJ"},
                        {"\x92", "NEWOBJ_EX"},
                        {"b", "BUILD"},
                        {"Pid\n", "PERSID"},
                        {"Q", "BINPERSID"},
                        {"\x82\x01", "EXT1"},
                        {"\x83\x01\x01", "EXT2"},
                        {"\x84\x01\x01\x01\x01", "EXT4"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    // The code comes after complete entries. Nothing in the file is used.
    std::string bytes = fr_test::ToPickle(SomeDump(3));
    size_t offset = bytes.size() - 1;
    bytes = bytes.substr(0, offset) + one.opcode + ".";
    Bundle bundle = LoadBytes(bytes);
    EXPECT_THAT(bundle.ranks, IsEmpty());
    ASSERT_THAT(bundle.problems, SizeIs(1));
    EXPECT_THAT(bundle.problems[0].text, HasSubstr("refused: pickle opcode " + one.name + " at offset"));
    EXPECT_EQ(bundle.problems[0].offset, static_cast<int64_t>(offset));
    EXPECT_THAT(bundle.problems[0].path, HasSubstr("nccl_trace_rank_0"));
  }
}

// Checks that the complete data before the end stays, wherever the file is truncated.
void CutEverywhere(const std::string& bytes) {
  size_t most = 0;
  for (size_t size = 0; size < bytes.size(); size++) {
    Bundle bundle = LoadBytes(bytes.substr(0, size));
    ASSERT_FALSE(bundle.problems.empty()) << size;
    EXPECT_LE(bundle.problems[0].offset, static_cast<int64_t>(size));
    if (bundle.ranks.empty()) continue;
    const Rank& rank = bundle.ranks[0];
    EXPECT_TRUE(rank.damaged) << size;
    EXPECT_GE(rank.ops.size(), most) << size;
    most = rank.ops.size();
    for (size_t i = 0; i < rank.ops.size(); i++) {
      EXPECT_EQ(rank.ops[i].seq, static_cast<int64_t>(i) + 1) << size;
      EXPECT_EQ(rank.ops[i].state, i < 4 ? OpState::kCompleted : OpState::kIncomplete) << size;
    }
    EXPECT_THAT(bundle.problems[0].text,
                HasSubstr("the " + std::to_string(rank.ops.size()) + " entries before that are used"));
  }
  EXPECT_EQ(most, 5u);
}

TEST(FrPickle, ATruncatedFileKeepsItsCompleteEntries) { CutEverywhere(fr_test::ToPickle(SomeDump(5))); }
TEST(FrPickle, ATruncatedFileOfProtocolFourKeepsItsCompleteEntries) {
  CutEverywhere(fr_test::ToPickle(SomeDump(5), 4));
}
TEST(FrJson, ATruncatedFileKeepsItsCompleteEntries) { CutEverywhere(fr_test::ToJson(SomeDump(5))); }

TEST(FrPickle, EmptyAndForeignFilesAreProblems) {
  for (const std::string& bytes :
       {""s, "\n"s, "hello"s, "PK\x03\x04"s, "\x80\x02"s, "\x80\x02N."s, "\x80\x02]."s, "\x80\x02}."s, "{}"s,
        "{\"verdict\": \"HUNG\"}"s, "\x80\x09N."s, "\x80\x02."s, std::string(1 << 16, '\0')}) {
    Bundle bundle = LoadBytes(bytes);
    EXPECT_THAT(bundle.ranks, IsEmpty());
    ASSERT_THAT(bundle.problems, SizeIs(1));
    EXPECT_EQ(bundle.problems[0].rank, 0);
    EXPECT_FALSE(bundle.problems[0].text.empty());
  }
}

TEST(FrPickle, LengthsBeyondTheFileAllocateNothing) {
  for (const std::string& item :
       {"X"s + Le32(0xffffffff), "\x8d"s + Le64(UINT64_MAX), "\x8e"s + Le64(1ull << 62), "\x8b"s + Le32(0x7fffffff),
        "\x8a\xff"s, "B"s + Le32(0xfffffff0), "\x96"s + Le64(INT64_MAX)}) {
    Document document;
    ParseError error = ParsePickle("\x80\x05"s + item + "abc", &document);
    EXPECT_FALSE(error.refused);
    EXPECT_EQ(error.offset, 2);
    EXPECT_THAT(error.text, HasSubstr("ends inside"));
  }
}

TEST(FrPickle, NestingCyclesAndManyContainersTakeLinearTime) {
  const size_t kDeep = 1'000'000;
  std::string head = "\x80\x02}(X\x07\0\0\0entries"s;
  // Nested lists, closed and open; nested tuples; only marks.
  std::string lists;
  for (size_t i = 0; i < kDeep; i++) lists += "](";
  EXPECT_THAT(LoadBytes(head + lists).ranks, SizeIs(1));
  EXPECT_TRUE(LoadBytes(head + lists).ranks[0].damaged);
  EXPECT_THAT(LoadBytes(head + lists + std::string(kDeep, 'e') + "u.").ranks, SizeIs(1));
  EXPECT_THAT(LoadBytes(head + ")" + std::string(kDeep, '\x85') + "u.").ranks, SizeIs(1));
  EXPECT_THAT(LoadBytes(head + std::string(kDeep, '(')).problems, SizeIs(1));
  std::string json = "{\"entries\":" + std::string(kDeep, '[');
  EXPECT_TRUE(LoadBytes(json).ranks[0].damaged);
  json.clear();
  for (size_t i = 0; i < kDeep; i++) json += "{\"entries\":";
  EXPECT_TRUE(LoadBytes(json).ranks[0].damaged);

  // Entries and parts of an entry may be a list that contains itself, or a dictionary that contains itself.
  EXPECT_THAT(LoadBytes(head + "]q\x01(h\x01h\x01"s
                               "eu."s)
                  .ranks[0]
                  .ops,
              IsEmpty());
  std::string self = "\x80\x02}q\x01(X\x07\0\0\0entriesh\x01X\x09\0\0\0pg_configh\x01X\x09\0\0\0pg_statush\x01u."s;
  EXPECT_THAT(LoadBytes(self).ranks, SizeIs(1));
  EXPECT_FALSE(LoadBytes(self).problems.empty());

  // A file with more values than any real one is refused without using memory.
  Document document;
  EXPECT_TRUE(ParsePickle("\x80\x02]("s + std::string(kMaxValues + 2, 'N'), &document).refused);
  EXPECT_TRUE(ParsePickle("\x80\x02"s + std::string(2 * kMaxContainers, ']'), &document).refused);
  std::string popped = "\x80\x02"s;
  for (size_t i = 0; i <= kMaxContainers; i++) popped += "]0";
  EXPECT_TRUE(ParsePickle(popped, &document).refused);
}

TEST(FrPickle, AnEntryReferredToRepeatedlyIsOneEntry) {
  std::string bytes =
      "\x80\x02}(X\x07\0\0\0entries](}q\x01(X\x0e\0\0\0profiling_nameX\x0f\0\0\0nccl:all_reduceX\x05\0\0\0pg_idK\0"
      "X\x11\0\0\0collective_seq_idK\x01u"s;
  for (int i = 0; i < 200'000; i++) bytes += "h\x01";
  bytes += "eu.";
  Bundle bundle = LoadBytes(bytes);
  ASSERT_THAT(bundle.ranks, SizeIs(1));
  EXPECT_THAT(bundle.ranks[0].ops, SizeIs(1));
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("199999 more"));
}

TEST(FrPickle, SharedDimensionsAreNotWalkedAgain) {
  // 20,000 entries share a list of 20,000 dimensions. Walking it for each entry would take 4e8 visits.
  std::string bytes = "\x80\x02}(X\x01\0\0\0x](]("s;
  for (int i = 0; i < 20'000; i++) bytes += "K\x01"s;
  bytes += "eeq\x01X\x07\0\0\0entries]("s;
  for (int i = 0; i < 20'000; i++) {
    bytes +=
        "}(X\x0e\0\0\0profiling_nameX\x0f\0\0\0nccl:all_reduceX\x05\0\0\0pg_idK\0X\x11\0\0\0collective_seq_idK\x01"
        "X\x0b\0\0\0input_sizesh\x01u"s;
  }
  bytes += "eu.";
  Bundle bundle = LoadBytes(bytes);
  ASSERT_THAT(bundle.ranks, SizeIs(1));
  EXPECT_TRUE(bundle.ranks[0].damaged);
  EXPECT_LT(bundle.ranks[0].ops.size(), 2'000u);
  ASSERT_FALSE(bundle.problems.empty());
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("too often"));
}

// Replaces every value of a valid dump, one at a time, by values of other types.
void Replace(Json* value, const std::function<void()>& check) {
  if (!value->is_structured()) return;
  for (Json& item : *value) {
    const Json original = item;
    for (const Json& other : {Json(), Json(-1), Json(INT64_MIN), Json(INT64_MAX), Json("text"), Json(""),
                              Json("[0, 0]"), Json("[1"), Json("[4294967296]"), Json(true), Json(1e300), Json::array(),
                              Json::parse(R"([[null], -5, "text"])"), Json::parse(R"({"name": 1, "desc": []})")}) {
      item = other;
      check();
    }
    item = original;
    Replace(&item, check);
  }
}

TEST(FrPickle, ValuesOfWrongTypesAreHarmless) {
  FrDump dump = SomeDump(2);
  dump.entries.push_back({.op = "nccl:send 0->1", .is_p2p = true, .p2p_seq = 1});
  Json value = fr_test::ToValue(dump);
  size_t loaded = 0, tried = 0;
  Replace(&value, [&] {
    tried++;
    for (const std::string& form : {fr_test::PickleWriter().Write(value), value.dump()})
      loaded += LoadBytes(form).ranks.size();
  });
  EXPECT_GT(tried, 500u);
  EXPECT_EQ(loaded, 2 * tried);
}

TEST(FrPickle, MissingKeysAreHarmless) {
  const Json value = fr_test::ToValue(SomeDump(2));
  for (const auto& [key, item] : value["entries"][0].items()) {
    Json cut = value;
    cut["entries"][0].erase(key);
    Bundle bundle = LoadBytes(fr_test::PickleWriter().Write(cut));
    ASSERT_THAT(bundle.ranks, SizeIs(1)) << key;
    EXPECT_EQ(bundle.ranks[0].ops.size(), key == "profiling_name" || key == "collective_seq_id" ? 1u : 2u) << key;
  }
  for (const auto& [key, item] : value.items()) {
    Json cut = value;
    cut.erase(key);
    EXPECT_THAT(LoadBytes(fr_test::PickleWriter().Write(cut)).ranks, SizeIs(1)) << key;
  }
}

// A small fuzzer with a fixed seed: changes bytes, removes runs, repeats runs, adds random bytes.
TEST(FrPickle, ChangedBytesAreHarmless) {
  std::mt19937 random(20240607);
  const std::string seeds[] = {fr_test::ToPickle(SomeDump(4)), fr_test::ToPickle(SomeDump(4), 4),
                               fr_test::ToJson(SomeDump(4))};
  Document space;
  MemberLists lists;
  size_t usable = 0;
  for (int round = 0; round < 20'000; round++) {
    std::string bytes = seeds[random() % 3];
    for (uint32_t change = random() % 6; change > 0; change--) {
      size_t at = random() % bytes.size();
      size_t length = 1 + random() % 16;
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, std::min(length, bytes.size() - at - 1)); break;
        case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), length)); break;
        default: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
      }
    }
    if (round % 50 == 0) {
      for (char& c : bytes) c = static_cast<char>(random());
      bytes[0] = '\x80';
      bytes[1] = '\x02';
    }
    const FileData data = ReadFile(bytes, "file_0", &space, &lists)[0];
    if (data.usable) usable++;
    EXPECT_TRUE(data.usable || !data.problems.empty());
    for (const Op& op : data.rank.ops) ASSERT_LT(op.membership, data.used.size());
  }
  EXPECT_GT(usable, 5'000u);
}

}  // namespace
}  // namespace lockstep::fr
