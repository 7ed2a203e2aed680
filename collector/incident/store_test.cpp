#include "collector/incident/store.h"
#include "tests/support/files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

namespace lockstep {
namespace {

std::string Packed(const std::string& raw) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

Chunk Piece(int id, const std::string& host, uint64_t offset, const std::string& raw, bool last, uint64_t request = 1) {
  Chunk chunk;
  std::string bytes = std::to_string(id);
  bytes.resize(16, 'x');
  chunk.set_id(bytes);
  chunk.set_host(host);
  chunk.set_file(host + ".lsd");
  chunk.set_offset(offset);
  chunk.set_data(Packed(raw));
  chunk.set_raw_bytes(static_cast<uint32_t>(raw.size()));
  chunk.set_last(last);
  chunk.set_request(request);
  return chunk;
}

class IncidentStoreTest : public support::FolderTest {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto store = IncidentStore::Open(folder_, limits_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(*store);
  }
  IncidentStore::Put Take(const Chunk& chunk) { return store_->Take(chunk, &why_); }
  size_t Commit() {
    auto ids = store_->Commit();
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? ids->size() : 0;
  }
  std::string why_;
  StoreLimits limits_;
  std::unique_ptr<IncidentStore> store_;
};

using Put = IncidentStore::Put;

TEST_F(IncidentStoreTest, AFileGetsItsNameWhenAllOfItIsOnDisk) {
  EXPECT_EQ(Take(Piece(2, "a", 3, "def", true)), Put::kTaken);
  EXPECT_EQ(Commit(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a.lsd"));
  EXPECT_EQ(Take(Piece(1, "a", 0, "abc", false)), Put::kTaken);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a.lsd")) << "the file must not exist before the commit";
  EXPECT_EQ(Commit(), 1u);
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "abcdef");
  EXPECT_EQ(Take(Piece(1, "a", 0, "abc", false)), Put::kDuplicate);
  EXPECT_EQ(store_->ids(), 2u);
}

TEST_F(IncidentStoreTest, CommittedChunksSurviveAKillAndOthersAreSentAgain) {
  Take(Piece(1, "a", 0, "abc", false));
  Commit();
  Take(Piece(2, "a", 3, "def", true));
  Reopen();  // as after a kill before the commit
  EXPECT_EQ(Take(Piece(1, "a", 0, "abc", false)), Put::kDuplicate);
  EXPECT_EQ(Take(Piece(2, "a", 3, "def", true)), Put::kTaken);
  EXPECT_EQ(Commit(), 1u);
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "abcdef");
  Reopen();
  ASSERT_EQ(store_->Files().size(), 1u);
  EXPECT_TRUE(store_->Files()[0].whole);
  EXPECT_EQ(Take(Piece(3, "a", 0, "xyz", true)), Put::kRefused) << "a complete file must not be overwritten";
}

// The host's full file has replaced its evidence file. The next process finds the ledger but not the evidence file.
TEST_F(IncidentStoreTest, AReplacedFileDoesNotPreventResumingTheRest) {
  Take(Piece(1, "a.evidence", 0, "abc", true));
  Take(Piece(2, "b", 0, "def", false));
  EXPECT_EQ(Commit(), 2u);
  std::filesystem::remove(folder_ + "/a.evidence.lsd");
  Reopen();
  EXPECT_EQ(Take(Piece(1, "a.evidence", 0, "abc", true)), Put::kDuplicate);
  EXPECT_EQ(Take(Piece(3, "b", 3, "ghi", true)), Put::kTaken);
  EXPECT_EQ(Commit(), 1u);
  EXPECT_EQ(support::ReadFile(folder_ + "/b.lsd"), "defghi");
}

TEST_F(IncidentStoreTest, ATornLedgerLosesOnlyItsLastLine) {
  Take(Piece(1, "a", 0, "abc", false));
  Commit();
  Take(Piece(2, "a", 3, "def", false));
  Commit();
  store_.reset();
  const std::string whole = support::ReadFile(folder_ + "/.ledger");
  for (size_t cut = 1; cut < 40; cut += 7) {
    std::ofstream(folder_ + "/.ledger", std::ios::trunc | std::ios::binary) << whole.substr(0, whole.size() - cut);
    Reopen();
    EXPECT_EQ(store_->ids(), 1u) << cut;
    EXPECT_EQ(Take(Piece(1, "a", 0, "abc", false)), Put::kDuplicate);
    EXPECT_EQ(Take(Piece(2, "a", 3, "def", false)), Put::kTaken);
    EXPECT_EQ(Commit(), 1u);
    EXPECT_EQ(support::ReadFile(folder_ + "/.ledger"), whole);
  }
}

TEST_F(IncidentStoreTest, ADamagedLedgerLineLosesOnlyItsOwnChunks) {
  Take(Piece(1, "a", 0, "abc", false));
  Commit();
  Take(Piece(2, "a", 3, "def", false));
  Commit();
  Take(Piece(3, "b", 0, "ghi", false));
  Commit();
  store_.reset();
  const std::string whole = support::ReadFile(folder_ + "/.ledger");
  std::vector<size_t> lines = {0};
  while (lines.size() < 5) lines.push_back(whole.find('\n', lines.back()) + 1);
  // The first line describes file a, the next two its chunks, then file b and its chunk.
  const std::vector<std::set<int>> kept = {{3}, {2, 3}, {1, 3}, {1, 2}, {1, 2}};
  for (size_t damaged = 0; damaged < lines.size(); ++damaged) {
    std::string text = whole;
    text[lines[damaged]] ^= 1;
    std::ofstream(folder_ + "/.ledger", std::ios::trunc | std::ios::binary) << text;
    Reopen();
    EXPECT_EQ(store_->ids(), kept[damaged].size()) << damaged;
    for (const int id : kept[damaged]) {
      EXPECT_EQ(Take(Piece(id, id == 3 ? "b" : "a", id == 2 ? 3 : 0, "xyz", false)), Put::kDuplicate) << damaged;
    }
    // A new file does not take over another file's chunks at the next start.
    EXPECT_EQ(Take(Piece(4, "c", 0, "new", true)), Put::kTaken);
    EXPECT_EQ(Commit(), 1u);
    Reopen();
    EXPECT_EQ(store_->ids(), kept[damaged].size() + 1) << damaged;
    for (const IncidentStore::File& file : store_->Files()) EXPECT_EQ(file.whole, file.host == "c") << damaged;
    EXPECT_EQ(support::ReadFile(folder_ + "/c.lsd"), "new");
    std::filesystem::remove(folder_ + "/c.lsd");
  }
}

TEST_F(IncidentStoreTest, HostileChunksAreRefused) {
  limits_.host = 1000;
  limits_.incident = 1500;
  Reopen();
  for (const std::string& name :
       {std::string(".."), std::string("../x.lsd"), std::string("/etc/x.lsd"), std::string(".x.lsd"),
        std::string("verdict.json"), std::string("digests.lsd"), std::string("a b.lsd"), std::string(".lsd"),
        std::string(200, 'a') + ".lsd", std::string("x\0.lsd", 6)}) {
    Chunk chunk = Piece(1, "a", 0, "abc", true);
    chunk.set_file(name);
    EXPECT_EQ(Take(chunk), Put::kRefused) << name;
  }
  Chunk chunk = Piece(1, "a", 0, "abc", true);
  chunk.set_id("short");
  EXPECT_EQ(Take(chunk), Put::kRefused);
  chunk = Piece(1, "a", UINT64_MAX - 1, "abc", true);
  EXPECT_EQ(Take(chunk), Put::kRefused);
  chunk = Piece(1, "a", 0, "abc", true);
  chunk.set_raw_bytes(2);
  EXPECT_EQ(Take(chunk), Put::kRefused);
  chunk.set_raw_bytes(UINT32_MAX);
  EXPECT_EQ(Take(chunk), Put::kRefused);
  chunk = Piece(1, "a", 0, "abc", true);
  chunk.mutable_data()->back() ^= 1;
  EXPECT_EQ(Take(chunk), Put::kRefused) << "the checksum is wrong";
  EXPECT_EQ(Take(Piece(1, "a", 0, std::string(600, 'a'), false)), Put::kTaken);
  EXPECT_EQ(Take(Piece(2, "a", 600, std::string(600, 'a'), false)), Put::kRefused) << "larger than a host may send";
  EXPECT_EQ(Take(Piece(3, "b", 0, std::string(800, 'a'), false)), Put::kTaken);
  EXPECT_EQ(Take(Piece(4, "c", 0, std::string(200, 'a'), false)), Put::kRefused) << "larger than an incident may be";
  EXPECT_EQ(Commit(), 2u);
}

TEST_F(IncidentStoreTest, HostsWithEqualFileNamesKeepOneFileEach) {
  Take(Piece(1, "a", 0, "first", true));
  Chunk other = Piece(2, "b", 0, "second", true);
  other.set_file("a.lsd");
  Take(other);
  EXPECT_EQ(Commit(), 2u);
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "first");
  EXPECT_EQ(support::ReadFile(folder_ + "/2-a.lsd"), "second");
}

TEST_F(IncidentStoreTest, AnAgentThatLostItsSpoolMayRestartAFile) {
  Take(Piece(1, "a", 0, "abc", false));
  Commit();
  EXPECT_EQ(Take(Piece(11, "a", 0, "uvw", false)), Put::kTaken);
  EXPECT_EQ(Take(Piece(12, "a", 3, "xyz", true)), Put::kTaken);
  EXPECT_EQ(Commit(), 2u);
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "uvwxyz");
  Reopen();
  EXPECT_EQ(store_->ids(), 3u);
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "uvwxyz");
}

TEST_F(IncidentStoreTest, ALaterRequestReplacesAnEarlierOne) {
  Take(Piece(1, "a", 0, "evidence", true, 1));
  Commit();
  Take(Piece(2, "a", 0, "everything", true, 2));
  Commit();
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "everything");
  Take(Piece(3, "a", 0, "old", true, 0));
  Commit();
  EXPECT_EQ(support::ReadFile(folder_ + "/a.lsd"), "everything");
}

TEST_F(IncidentStoreTest, AFullDiskIsNotAcknowledgedAndMayBeRetried) {
  limits_.reserve = UINT64_MAX / 2;
  Reopen();
  EXPECT_EQ(Take(Piece(1, "a", 0, "abc", true)), Put::kLater);
  EXPECT_NE(why_.find("full"), std::string::npos);
  EXPECT_EQ(Commit(), 0u);
  limits_.reserve = 0;
  Reopen();
  EXPECT_EQ(Take(Piece(1, "a", 0, "abc", true)), Put::kTaken);
  EXPECT_EQ(Commit(), 1u);
}

// Chunks arrive in any order, some of them twice, and the store is reopened at any moment.
TEST_F(IncidentStoreTest, AnyOrderAndAnyRestartGivesTheSameFiles) {
  std::mt19937 random(7);
  std::map<std::string, std::string> want;
  std::vector<Chunk> chunks;
  int id = 0;
  for (int host = 0; host < 12; ++host) {
    const std::string name = "node" + std::to_string(host);
    const int pieces = 1 + static_cast<int>(random() % 6);
    for (int piece = 0; piece < pieces; ++piece) {
      const std::string raw(1 + random() % 5000, static_cast<char>('a' + (host + piece) % 26));
      chunks.push_back(Piece(++id, name, want[name].size(), raw, piece + 1 == pieces));
      want[name] += raw;
    }
  }
  std::set<std::string> acknowledged;
  for (int round = 0; acknowledged.size() < chunks.size(); ++round) {
    ASSERT_LT(round, 1000);
    std::shuffle(chunks.begin(), chunks.end(), random);
    for (size_t i = 0; i < chunks.size() / 3; ++i) {
      if (Take(chunks[i]) == Put::kDuplicate) {
        EXPECT_EQ(acknowledged.count(chunks[i].id()), 1u);
      }
    }
    if (random() % 2 == 0) {
      auto ids = store_->Commit();
      ASSERT_TRUE(ids.ok());
      for (const std::string& done : *ids) EXPECT_TRUE(acknowledged.insert(done).second);
    }
    if (random() % 3 == 0) Reopen();
    EXPECT_EQ(store_->ids(), acknowledged.size());
  }
  for (const auto& [host, content] : want) EXPECT_EQ(support::ReadFile(folder_ + "/" + host + ".lsd"), content) << host;
}

}  // namespace
}  // namespace lockstep
