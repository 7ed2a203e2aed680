#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/formats/lsi/writer.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class IndexTest : public support::FolderTest {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
};

void WriteIndexFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Returns a job of random operations. Fields that the index does not keep have their default value, so that the test
// can compare every field.
Bundle RandomBundle(uint32_t seed) {
  std::mt19937 random(seed);
  auto number = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  Bundle b;
  const int world = static_cast<int>(number(1, 9));
  for (int c = 0; c < 3; ++c) {
    Communicator comm;
    comm.id = absl::StrCat("id", c);
    comm.name = absl::StrCat("name ", c);
    comm.size = world;
    if (c != 1) {
      for (int m = 0; m < world; ++m) comm.members.push_back(m);
    }
    b.comms.push_back(comm);
  }
  for (int r = 0; r < world; ++r) {
    if (world > 1 && number(0, 5) == 0) continue;  // this rank has no dump
    Rank rank;
    rank.rank = r;
    rank.host = absl::StrCat("host", r / 4);
    rank.gpu_index = r % 4;
    rank.pid = 100 + r;
    rank.captured_ns = number(1, int64_t{1} << 50);
    for (uint32_t c = 0; c < 3; ++c) {
      Membership m;
      m.comm = c;
      m.member_rank = r;
      const int64_t recorded = number(0, 40), lost = number(0, 100);
      m.issued = recorded + lost;
      m.completed = m.issued - number(0, 2);
      m.lost_records = lost;
      for (int64_t i = 1; i <= recorded; ++i) {
        Op op;
        op.membership = c;
        op.kind = static_cast<ring::CallKind>(number(1, 8));
        op.state = static_cast<OpState>(number(0, 8));
        op.seq = lost + i;
        op.datatype = static_cast<uint8_t>(number(0, 12));
        op.count = number(-1, 1 << 20);
        op.enter_ns = 1'000'000 + number(0, 1'000'000) * 1000;
        op.return_ns = number(0, 3) == 0 ? 0 : op.enter_ns + number(0, 60'000) * 1000;
        op.stream = number(0, 3) == 0 ? kNoIndex : static_cast<uint32_t>(number(0, 300));
        op.root_or_peer = number(0, 2) == 0 ? static_cast<int32_t>(number(0, 9)) : -1;
        op.started_ns = number(0, 1) * (op.enter_ns + 5000);
        op.completed_ns = op.started_ns == 0 ? 0 : op.started_ns + 7000;
        rank.ops.push_back(op);
      }
      if (recorded + lost == 0) m.issued = kNone;
      rank.memberships.push_back(m);
    }
    Op alone;
    alone.kind = ring::CallKind::kGetUniqueId;
    alone.enter_ns = 1'000'000;
    rank.ops.push_back(alone);
    b.ranks.push_back(std::move(rank));
  }
  return b;
}

int64_t PayloadBytes(const Op& op) {
  static const std::map<int, int> bytes = {{0, 1}, {1, 1}, {2, 4}, {3, 4}, {4, 8},  {5, 8},
                                           {6, 2}, {7, 4}, {8, 8}, {9, 2}, {10, 1}, {11, 1}};
  const auto it = bytes.find(op.datatype);
  return it == bytes.end() || op.count <= 0 ? 0 : op.count * it->second;
}

TEST_F(IndexTest, KeepsEveryOperationAndCell) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const Bundle b = RandomBundle(seed);
    const std::string facts(seed * 7, static_cast<char>(seed));
    ASSERT_TRUE(WriteIndex(b, seed, Path("index.lsi"), facts).ok());
    auto opened = IndexReader::Open(Path("index.lsi"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    const IndexReader& index = **opened;
    EXPECT_EQ(index.source(), seed);
    EXPECT_EQ(std::string(index.facts().begin(), index.facts().end()), facts);
    ASSERT_EQ(index.ranks().size(), b.ranks.size());
    ASSERT_EQ(index.comms().size(), b.comms.size());
    for (size_t c = 0; c < b.comms.size(); ++c) {
      EXPECT_EQ(index.text(index.comms()[c].id), b.comms[c].id);
      EXPECT_EQ(index.text(index.comms()[c].name), b.comms[c].name);
      const auto members = index.members(index.comms()[c]);
      EXPECT_EQ(std::vector<int32_t>(members.begin(), members.end()), b.comms[c].members);
    }
    for (size_t r = 0; r < b.ranks.size(); ++r) {
      const Rank& rank = b.ranks[r];
      const IndexRank& ir = index.ranks()[r];
      EXPECT_EQ(ir.rank, rank.rank);
      EXPECT_EQ(index.text(ir.host), rank.host);
      ASSERT_EQ(ir.ops, rank.ops.size());
      for (size_t i = 0; i < rank.ops.size(); ++i) {
        const Op& want = rank.ops[i];
        const IndexOp got = index.op(r, ir.first_op + i);
        EXPECT_EQ(got.kind, want.kind);
        EXPECT_EQ(got.state, want.state);
        EXPECT_EQ(got.membership.has_value(), want.membership != kNoIndex);
        if (got.membership) {
          EXPECT_EQ(*got.membership - ir.first_membership, want.membership);
        }
        EXPECT_EQ(got.seq, want.seq);
        EXPECT_EQ(got.stream, want.stream < kIndexNoStream ? want.stream : kIndexNoStream);
        EXPECT_EQ(got.peer, want.root_or_peer);
        EXPECT_EQ(index.columns(r).kind[i], static_cast<uint8_t>(want.kind));
        EXPECT_EQ(index.columns(r).peer[i], static_cast<uint32_t>(want.root_or_peer + 1));
        EXPECT_EQ(got.enter_ns, want.enter_ns);
        EXPECT_EQ(got.return_ns, want.return_ns);
        EXPECT_EQ(got.started_ns, want.started_ns);
        EXPECT_EQ(got.completed_ns, want.completed_ns);
        EXPECT_EQ(got.bytes_at_least, std::bit_floor(static_cast<uint64_t>(PayloadBytes(want))));
      }
    }
    // Compares every cell with the operations.
    for (size_t c = 0; c < b.comms.size(); ++c) {
      for (int m = 0; m < b.comms[c].size; ++m) {
        const Rank* rank = nullptr;
        const IndexMembership* place = nullptr;
        for (size_t r = 0; r < b.ranks.size(); ++r) {
          if (b.ranks[r].rank == m) {
            rank = &b.ranks[r];
            place = &index.memberships()[index.ranks()[r].first_membership + c];
          }
        }
        for (int64_t seq = 1; seq <= 150; ++seq) {
          IndexCell want = IndexCell::kNoData;
          if (rank != nullptr) {
            want = seq <= rank->memberships[c].issued ? IndexCell::kOverwritten : IndexCell::kNotEnqueued;
            for (const Op& op : rank->ops) {
              if (op.membership == c && op.seq == seq) want = static_cast<IndexCell>(4 + static_cast<int>(op.state));
            }
          }
          const IndexComm& comm = index.comms()[c];
          const IndexCell got = index.CellAt(comm, m, seq, place);
          // Cells older than the newest columns are not kept.
          if (seq >= comm.first_seq) {
            EXPECT_EQ(static_cast<int>(got), static_cast<int>(want)) << c << ' ' << m << ' ' << seq;
          }
        }
      }
    }
  }
}

TEST_F(IndexTest, TimesOlderThanTheNewestHourAreUnknown) {
  Bundle b;
  b.ranks.resize(1);
  Op op;
  op.enter_ns = 1'000'000;
  op.return_ns = 2'000'000;
  b.ranks[0].ops = {op, op};
  b.ranks[0].ops[1].enter_ns = 7'200'000'000'000;
  b.ranks[0].ops[1].return_ns = 7'200'000'001'000;
  ASSERT_TRUE(WriteIndex(b, 0, Path("index.lsi")).ok());
  auto index = IndexReader::Open(Path("index.lsi"));
  ASSERT_TRUE(index.ok());
  EXPECT_EQ((*index)->op(0, 0).enter_ns, 0);
  EXPECT_EQ((*index)->op(0, 1).enter_ns, 7'200'000'000'000);
  EXPECT_EQ((*index)->op(0, 1).return_ns, 7'200'000'001'000);
}

// Reads everything in an index, to provoke crashes.
uint64_t ReadThrough(const IndexReader& index) {
  uint64_t sum = 0;
  for (size_t r = 0; r < index.ranks().size(); ++r) {
    const IndexRank& rank = index.ranks()[r];
    sum += index.text(rank.host).size();
    for (uint64_t i = 0; i < rank.ops; ++i) sum += static_cast<uint64_t>(index.op(r, rank.first_op + i).seq);
  }
  for (const IndexComm& comm : index.comms()) {
    for (const int32_t rank : index.members(comm)) sum += static_cast<uint64_t>(rank);
    for (int32_t m = 0; m < comm.size; ++m) {
      for (const uint8_t cell : index.cells(comm, m)) sum += cell;
      sum += static_cast<uint64_t>(index.CellAt(comm, m, INT64_MAX, nullptr));
    }
  }
  return sum;
}

TEST_F(IndexTest, DamageIsReportedOrHarmless) {
  const Bundle b = RandomBundle(7);
  ASSERT_TRUE(WriteIndex(b, 1, Path("index.lsi")).ok());
  const std::string good = support::ReadFile(Path("index.lsi"));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    const size_t at = i < 200 ? static_cast<size_t>(i) * 2 : random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    WriteIndexFile(Path("bad.lsi"), bad);
    auto index = IndexReader::Open(Path("bad.lsi"));
    if (!index.ok()) {
      EXPECT_THAT(std::string(index.status().message()), HasSubstr("bad.lsi"));
      ++refused;
    } else {
      ReadThrough(**index);
    }
  }
  EXPECT_GE(refused, 200);  // every bit of the header matters
  for (const size_t size : {size_t{0}, size_t{7}, sizeof(IndexHeader), good.size() / 2, good.size() - 1}) {
    WriteIndexFile(Path("bad.lsi"), good.substr(0, size));
    EXPECT_EQ(IndexReader::Open(Path("bad.lsi")).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(IndexTest, AFileTruncatedWhileOpenReadsAsZeros) {
  ASSERT_TRUE(WriteIndex(RandomBundle(7), 1, Path("index.lsi")).ok());
  const auto size = fs::file_size(Path("index.lsi"));
  for (const uintmax_t left : {size / 2, uintmax_t{1}, uintmax_t{0}}) {
    ASSERT_TRUE(WriteIndex(RandomBundle(7), 1, Path("index.lsi")).ok());
    auto index = IndexReader::Open(Path("index.lsi"));
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_TRUE((*index)->Unchanged().ok()) << (*index)->Unchanged();
    fs::resize_file(Path("index.lsi"), left);
    ReadThrough(**index);
    EXPECT_THAT(std::string((*index)->Unchanged().message()), HasSubstr("changed or was truncated while it was open"));
  }
}

TEST_F(IndexTest, AFileChangedWhileOpenIsHarmless) {
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(WriteIndex(RandomBundle(7), 1, Path("index.lsi")).ok());
    auto index = IndexReader::Open(Path("index.lsi"));
    ASSERT_TRUE(index.ok()) << index.status();
    std::string other(fs::file_size(Path("index.lsi")), '\0');
    for (char& byte : other) byte = static_cast<char>(i == 0 ? 255 : random());
    WriteIndexFile(Path("index.lsi"), other);
    ReadThrough(**index);
    EXPECT_FALSE((*index)->Unchanged().ok());
  }
}

// Tensor-parallel ranks have no peers, so the column of peers must not cost them space.
TEST_F(IndexTest, MissingPeersTakeNoSpace) {
  Bundle b;
  b.ranks.resize(1);
  b.ranks[0].ops.resize(1 << 20);
  ASSERT_TRUE(WriteIndex(b, 0, Path("none.lsi")).ok());
  b.ranks[0].ops.back().root_or_peer = 3;
  ASSERT_TRUE(WriteIndex(b, 0, Path("one.lsi")).ok());
  auto blocks = [&](const char* name) {
    struct stat st = {};
    EXPECT_EQ(stat(Path(name).c_str(), &st), 0);
    return st.st_blocks * 512;
  };
  EXPECT_LT(blocks("none.lsi"), int64_t{25} << 20);
  EXPECT_LT(blocks("one.lsi"), blocks("none.lsi") + (64 << 10));
  auto index = IndexReader::Open(Path("one.lsi"));
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ((*index)->op(0, (1 << 20) - 1).peer, 3);
  EXPECT_EQ((*index)->op(0, 0).peer, -1);
}

// Operations in flight can be read without all columns. The table and the columns must agree.
TEST_F(IndexTest, OperationsInFlightAreInASeparateTable) {
  size_t found = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    const Bundle bundle = RandomBundle(seed);
    ASSERT_TRUE(WriteIndex(bundle, 1, Path("open.lsi")).ok());
    const auto index = IndexReader::Open(Path("open.lsi"));
    ASSERT_TRUE(index.ok()) << index.status();
    for (size_t r = 0; r < (*index)->ranks().size(); ++r) {
      const IndexRank& rank = (*index)->ranks()[r];
      (*index)->WillNeed(r);  // this only reads ahead and changes nothing
      std::vector<uint64_t> expected, told;
      for (uint64_t i = rank.first_op; i < rank.first_op + rank.ops; ++i) {
        const IndexOp op = (*index)->op(r, i);
        if (InFlight(op.kind, op.state, op.seq,
                     op.membership.has_value() ? &(*index)->memberships()[*op.membership] : nullptr))
          expected.push_back(i);
      }
      const IndexColumns columns = (*index)->columns(r);
      for (const IndexOpen& open : (*index)->OpenOps(r)) {
        told.push_back(open.op);
        const size_t at = static_cast<size_t>(open.op - rank.first_op);
        EXPECT_TRUE(open.kind == columns.kind[at] && open.state == columns.state[at] &&
                    open.membership == columns.membership[at] && open.seq == columns.seq[at] &&
                    open.enter == columns.enter[at]);
      }
      EXPECT_EQ(told, expected) << "seed " << seed << ", rank " << rank.rank;
      found += told.size();
    }
    EXPECT_TRUE((*index)->OpenOps((*index)->ranks().size()).empty());
    (*index)->WillNeed((*index)->ranks().size());
  }
  EXPECT_GT(found, 100u);
}

TEST_F(IndexTest, AnIndexOfAnOlderVersionIsReplaced) {
  ASSERT_TRUE(WriteIndex(RandomBundle(1), 1, Path("index.lsi")).ok());
  std::string bytes = support::ReadFile(Path("index.lsi"));
  bytes[8] = bytes[12] = 1;
  WriteIndexFile(Path("index.lsi"), bytes);
  const absl::Status status = IndexReader::Open(Path("index.lsi")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("re-creates it"));
}

TEST_F(IndexTest, RefusesMissingFiles) {
  EXPECT_EQ(IndexReader::Open(Path("none.lsi")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(IndexReader::Open(folder_).ok());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(IndexReader::Open(Path("pipe")).ok());
}

TEST_F(IndexTest, AnUnfinishedIndexLeavesNothing) {
  const Bundle b = RandomBundle(3);
  WriteIndexFile(Path("index.lsi"), "older");
  std::vector<uint64_t> operations;
  for (const Rank& rank : b.ranks) operations.push_back(rank.ops.size());
  {
    auto writer = IndexWriter::Create(b, operations, 0, Path("index.lsi"));
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddRank(0, b.ranks[0].ops).ok());
    EXPECT_THAT(std::string((*writer)->AddRank(0, b.ranks[0].ops).message()), HasSubstr("was added before"));
    EXPECT_THAT(std::string((*writer)->AddRank(b.ranks.size(), {}).message()), HasSubstr("no rank at index"));
    if (b.ranks.size() > 1) {
      EXPECT_FALSE((*writer)->Commit().ok());
    }
  }
  EXPECT_EQ(support::ReadFile(Path("index.lsi")), "older");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1);
  EXPECT_FALSE(WriteIndex(b, 0, Path("no/such/folder/index.lsi")).ok());
}

TEST_F(IndexTest, TheFingerprintDependsOnTheDumps) {
  WriteIndexFile(Path("a.lsd"), "one");
  const uint64_t first = FingerprintSources({folder_});
  WriteIndexFile(Path("index.lsi"), "derived");
  WriteIndexFile(Path("verdict.json"), "derived");
  WriteIndexFile(Path("explore.html"), "derived");
  EXPECT_EQ(FingerprintSources({folder_}), first);
  fs::create_directory_symlink("/", Path("everything"));
  EXPECT_EQ(FingerprintSources({folder_}), first);
  WriteIndexFile(Path("b.lsd"), "two");
  EXPECT_NE(FingerprintSources({folder_}), first);
  fs::remove(Path("b.lsd"));
  EXPECT_EQ(FingerprintSources({folder_}), first);
  WriteIndexFile(Path("rank0.log"), "a log, which may show how a rank ended");
  EXPECT_NE(FingerprintSources({folder_}), first);
  fs::remove(Path("rank0.log"));
  EXPECT_EQ(FingerprintSources({folder_}), first);
  WriteIndexFile(Path("a.lsd"), "longer");
  EXPECT_NE(FingerprintSources({folder_}), first);
}

}  // namespace
}  // namespace lockstep
