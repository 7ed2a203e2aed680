#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/testing/read_lsd.h"
#include "recorder/ring/layout.h"
#include "tests/support/files.h"
#include "tests/support/page_bytes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LsdTest : public support::FolderTest {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
};

absl::Status Load(const std::string& path, Bundle* bundle, DumpHeader* header = nullptr) {
  const int fd = open(path.c_str(), O_RDONLY);
  BundleBuilder builder;
  const absl::Status status = ReadLsd(fd, path, &builder, header);
  close(fd);
  if (status.ok()) *bundle = builder.Finish();
  return status;
}

std::string TextAt(const std::vector<std::string>& texts, uint32_t index) {
  return index < texts.size() ? "\"" + texts[index] + "\"" : "none";
}

// Returns the fields of a rank that must survive writing and reading, as text.
std::string Describe(const Bundle& bundle, const Rank& rank) {
  std::ostringstream out;
  out << rank.rank << ' ' << rank.world_size << ' ' << rank.local_rank << ' ' << rank.host << ' ' << rank.boot_id << ' '
      << rank.job << ' ' << rank.restart_count << ' ' << rank.pid << ' ' << rank.gpu_index << ' ' << rank.gpu_uuid
      << ' ' << rank.gpu_pci << ' ' << rank.nccl_version << ' ' << rank.cuda_version << ' '
      << static_cast<int>(rank.recorder_state) << ' ' << rank.stop_reason << ' ' << rank.stopped_ns << ' '
      << static_cast<int>(rank.gpu_marks) << ' ' << rank.host_waits << ' ' << rank.ring_bytes << ' '
      << rank.wanted_ring_bytes << ' ' << static_cast<int>(rank.ring_place) << ' ' << rank.captured_ns << ' '
      << rank.real_minus_mono_ns << ' ' << rank.records_lost << ' ' << rank.damaged << rank.only_active
      << rank.start_recorded << '\n';
  const Process& p = rank.process;
  out << "process " << static_cast<int>(p.life) << ' ' << p.exit_code << ' ' << p.signal << ' ' << p.state << ' '
      << p.ended_mono_ns << ' ' << p.cpu_ns_between_samples << ' ' << p.io_bytes_between_samples << ' '
      << p.sample_gap_ns << ' ' << p.wchan << ' ' << p.stack_refused << ' ' << p.consequence;
  for (const std::string& frame : p.stack) out << " <" << frame;
  for (const std::string& frame : p.python_stack) out << " p<" << frame;
  for (const std::string& frame : p.stack_later) out << " l<" << frame;
  for (const std::string& file : p.written_files) out << " w<" << file;
  for (const std::string& mount : p.written_mounts) out << " m<" << mount;
  out << ' ' << p.threads_in_d;
  for (const Membership& m : rank.memberships) {
    const Communicator& c = bundle.comms.at(m.comm);
    out << "\ncomm " << c.id << ' ' << c.name << ' ' << c.size << ' ' << c.parent_id << ' ' << c.ordinal << ' '
        << c.color << ' ' << static_cast<int>(c.origin) << ' ' << c.members_inferred << " members";
    for (int32_t member : c.members) out << ' ' << member;
    out << "\n  " << m.member_rank << ' ' << static_cast<int>(m.state) << ' ' << m.issued << ' ' << m.launched << ' '
        << m.started << ' ' << m.completed << ' ' << m.first_seq << ' ' << m.issued_ns << ' ' << m.created_ns << ' '
        << m.ready_ns << ' ' << m.ended_ns << ' ' << static_cast<int>(m.origin) << ' ' << m.signature_hash << ' '
        << m.lost_records << ' ' << m.async_error << ' ' << m.color << ' ' << m.key << ' ' << m.ring_index << ' '
        << m.local_name;
    for (const HashCheckpoint& h : m.checkpoints) out << " h" << h.seq << ':' << h.hash;
    for (const PeerCount& peer : m.peers) out << " p" << peer.peer << ':' << peer.sends << ':' << peer.recvs;
    const ring::CommSnapshot& r = *m.recorded;
    out << "\n  ring " << r.index << ' ' << r.id << ' ' << r.generation << ' ' << static_cast<int>(r.state) << ' '
        << static_cast<int>(r.origin) << ' ' << r.name << ' ' << r.member_rank << ' ' << r.size << ' ' << r.parent_id
        << ' ' << r.ordinal << ' ' << r.color << ' ' << r.key << ' ' << r.excluded_total << ' ' << r.device << ' '
        << r.blocking << ' ' << r.created_ns << ' ' << r.ready_ns << ' ' << r.ended_ns << ' ' << r.issued_seq << ' '
        << r.issued_ns << ' ' << r.launched_seq << ' ' << r.signature_hash << ' ' << r.peers_lost << ' '
        << r.lost_records << ' ' << r.async_error << ' ' << r.async_error_ns;
    for (int32_t e : r.excluded) out << " x" << e;
    for (const auto& h : r.checkpoints) out << " h" << h.seq << ':' << h.hash;
    for (const auto& peer : r.peers)
      out << " p" << peer.peer << ':' << peer.sends << ':' << peer.recvs << ':' << peer.last_send_ns << ':'
          << peer.last_recv_ns;
  }
  for (const ring::ThreadSnapshot& t : rank.threads) {
    out << "\nthread " << t.index << ' ' << t.tid << ' ' << t.name << ' ' << static_cast<int>(t.call) << ' ' << t.comm
        << ' ' << t.seq << ' ' << t.since_ns << ' ' << t.group_depth << ' ' << t.group_since_ns << ' '
        << static_cast<int>(t.wait) << ' ' << t.wait_stream << ' ' << t.wait_ticket << ' ' << t.wait_since_ns << ' '
        << t.last_call_ns << ' ' << t.calls << ' ' << t.overwritten << ' ' << t.waits_elsewhere;
  }
  for (const ring::StreamSnapshot& s : rank.streams) {
    out << "\nstream " << s.index << ' ' << s.handle << ' ' << s.device << ' ' << s.marked << ' ' << s.issued << ' '
        << s.started << ' ' << s.completed << ' ' << s.late_started << ' ' << s.late_completed << ' ' << s.first_error
        << ' ' << s.timed_every << s.starts_marked;
    for (const auto& d : s.depends_on) out << " d" << d.stream << ':' << d.ticket << ':' << d.after;
  }
  for (const Op& o : rank.ops) {
    const OpAddresses at = o.addresses == kNoIndex ? OpAddresses() : rank.addresses.at(o.addresses);
    out << "\nop " << o.membership << ' ' << static_cast<int>(o.kind) << ' ' << static_cast<int>(o.state) << ' '
        << o.in_batch << o.batch_end << o.retired << o.recent_only << ' ' << int{o.datatype} << ' ' << int{o.reduction}
        << ' ' << o.root_or_peer << ' ' << o.seq << ' ' << o.count << ' ' << o.thread << ' ' << o.index << ' '
        << o.group << ' ' << o.stream << ' ' << o.ticket << ' ' << o.enter_ns << ' ' << o.return_ns << ' '
        << o.started_ns << ' ' << o.completed_ns << ' ' << o.result << ' ' << o.caller << ' ' << o.caller_object << ' '
        << o.graph << ' ' << at.send << ' ' << at.recv << ' ' << TextAt(bundle.shapes, o.input_shape) << ' '
        << TextAt(bundle.shapes, o.output_shape) << ' ' << o.input_elements << ' ' << o.output_elements << ' '
        << TextAt(bundle.strings, o.dtypes) << ' ' << TextAt(bundle.strings, o.name) << ' '
        << TextAt(bundle.strings, o.call_site) << ' ' << o.record_id;
  }
  return out.str();
}

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

class RandomBundle {
 public:
  explicit RandomBundle(uint32_t seed) : random_(seed) {}

  Bundle Make() {
    Bundle b;
    b.job = "train";
    const int world = Number(1, 12);
    b.ranks_expected = world;
    for (int i = 0; i < 5; ++i) b.strings.push_back(absl::StrCat("text ", i, " \xc3\xa9"));
    for (int i = 0; i < 4; ++i) b.shapes.push_back(absl::StrCat("[[", i, ",4]]"));
    const int comms = Number(1, 4);
    for (int i = 0; i < comms; ++i) {
      Communicator c;
      c.id = absl::StrCat(i == 0 ? "00000000000000a" : i == 1 ? "1/00000000000000" : "00000000000000b", i);
      c.name = absl::StrCat("comm_", i);
      c.size = world;
      c.parent_id = Coin() ? "" : "00000000000000ff";
      c.ordinal = static_cast<uint32_t>(Number(1, 9));
      c.color = Number(-3, 3);
      c.origin = Coin() ? ring::CallKind::kCommSplit : ring::CallKind::kCommInitRank;
      c.members_inferred = Coin();
      c.members.resize(static_cast<size_t>(world));
      for (int k = 0; k < world; ++k) c.members[static_cast<size_t>(k)] = i % 2 == 0 ? k : world - 1 - k;
      b.comms.push_back(c);
    }
    for (int r = 0; r < world; ++r) b.ranks.push_back(MakeRank(b, r, world));
    return b;
  }

 private:
  bool Coin() { return Number(0, 1) == 1; }
  int Number(int low, int high) { return static_cast<int>(std::uniform_int_distribution<int64_t>(low, high)(random_)); }
  int64_t Big() { return std::uniform_int_distribution<int64_t>(0, int64_t{1} << Number(1, 60))(random_); }

  Rank MakeRank(const Bundle& b, int r, int world) {
    Rank rank;
    rank.rank = r;
    rank.world_size = world;
    rank.local_rank = r % 8;
    rank.host = absl::StrCat("host", r / 8);
    rank.boot_id = "1234-5678";
    rank.job = "train";
    rank.restart_count = 3;
    rank.pid = Number(1, 1 << 22);
    rank.gpu_index = Number(-1, 7);
    rank.gpu_uuid = "GPU-1";
    rank.gpu_pci = "0000:1b:00.0";
    rank.nccl_version = 22809;
    rank.cuda_version = 13000;
    rank.recorder_state = static_cast<ring::RecorderState>(Number(0, 4));
    rank.stop_reason = Coin() ? "over budget" : "";
    rank.stopped_ns = Coin() ? Number(1, 1000000000) : 0;
    rank.gpu_marks = static_cast<ring::GpuMarks>(Number(0, 2));
    rank.host_waits = Coin();
    rank.ring_bytes = static_cast<uint64_t>(Number(0, 1 << 26));
    rank.wanted_ring_bytes = static_cast<uint64_t>(Number(0, 1 << 26));
    rank.ring_place = Coin() ? ring::RingPlace::kMemory : ring::RingPlace::kFolder;
    rank.process.life = static_cast<Life>(Number(0, 4));
    rank.process.exit_code = Number(-1, 255);
    rank.process.signal = Number(0, 15);
    rank.process.state = Coin() ? "S" : "";
    rank.process.ended_mono_ns = Big();
    rank.process.cpu_ns_between_samples = Coin() ? -1 : Big();
    rank.process.io_bytes_between_samples = Coin() ? -1 : Big();
    rank.process.sample_gap_ns = Big();
    rank.process.wchan = "futex_wait";
    if (Coin()) rank.process.stack = {"read", "load_batch (data.py:3)"};
    rank.process.stack_refused = Coin() ? "ptrace refused" : "";
    if (Coin()) rank.process.python_stack = {"forward (model.py:9)", "train (train.py:1)"};
    if (Coin()) rank.process.stack_later = {"read"};
    if (Coin()) rank.process.written_files = {"/ckpt/step10/rank0.pt"};
    if (Coin()) rank.process.written_mounts = {"/ckpt (lustre)"};
    rank.process.threads_in_d = static_cast<uint32_t>(Number(0, 3));
    rank.process.consequence = Coin();
    rank.captured_ns = Big();
    rank.real_minus_mono_ns = Big();
    rank.records_lost = static_cast<uint64_t>(Big());
    rank.source = Coin() ? Source::kRing : Source::kDump;
    rank.damaged = Coin();
    rank.only_active = Coin();
    rank.start_recorded = Coin();
    for (uint32_t i = 0; i < b.comms.size(); ++i) rank.memberships.push_back(MakeMembership(b, i, r));
    const int threads = Number(1, 3), streams = Number(1, 3);
    for (int i = 0; i < threads; ++i) {
      ring::ThreadSnapshot t;
      t.index = static_cast<uint32_t>(i);
      t.tid = Number(1, 1 << 22);
      t.name = "pt_main";
      t.call = static_cast<ring::CallKind>(Number(0, 9));
      t.comm = Coin() ? UINT32_MAX : static_cast<uint32_t>(Number(0, static_cast<int>(b.comms.size()) - 1));
      t.seq = static_cast<uint64_t>(Big());
      t.since_ns = Big();
      t.group_depth = static_cast<uint32_t>(Number(0, 3));
      t.group_since_ns = Big();
      t.wait = Coin() ? ring::CallKind::kNone : ring::CallKind::kStreamSynchronize;
      t.wait_stream = Coin() ? UINT32_MAX : static_cast<uint32_t>(Number(0, streams - 1));
      t.wait_ticket = static_cast<uint64_t>(Big());
      t.wait_since_ns = Big();
      t.last_call_ns = Big();
      t.calls = static_cast<uint64_t>(Big());
      t.overwritten = static_cast<uint64_t>(Big());
      t.waits_elsewhere = Coin();
      rank.threads.push_back(t);
    }
    for (int i = 0; i < streams; ++i) {
      ring::StreamSnapshot s;
      s.index = static_cast<uint32_t>(i);
      s.handle = static_cast<uint64_t>(Big());
      s.device = Number(-1, 7);
      s.marked = Coin();
      s.issued = static_cast<uint64_t>(Big());
      s.started = static_cast<uint64_t>(Big());
      s.completed = static_cast<uint64_t>(Big());
      s.late_started = s.started / 2;
      s.late_completed = s.completed / 3;
      s.first_error = Number(0, 700);
      s.starts_marked = Coin();
      if (Coin())
        s.depends_on.push_back({static_cast<uint32_t>(Number(0, streams - 1)), static_cast<uint64_t>(Big()),
                                static_cast<uint64_t>(Big())});
      if (Coin()) s.depends_on.push_back({static_cast<uint32_t>(Number(0, streams - 1)), static_cast<uint64_t>(Big())});
      rank.streams.push_back(s);
    }
    const int ops = Number(0, 3) == 0 ? 9000 : Number(0, 50);
    for (int i = 0; i < ops; ++i) rank.ops.push_back(MakeOp(rank));
    return rank;
  }

  Membership MakeMembership(const Bundle& b, uint32_t comm, int rank) {
    const Communicator& c = b.comms[comm];
    Membership m;
    m.comm = comm;
    m.member_rank = static_cast<int32_t>(std::find(c.members.begin(), c.members.end(), rank) - c.members.begin());
    m.state = static_cast<ring::CommState>(Number(0, 8));
    m.issued = Number(-2, 5000);
    m.launched = Number(-2, 5000);
    m.started = Number(-2, 5000);
    m.completed = Number(-2, 5000);
    m.first_seq = Number(0, 1);
    m.issued_ns = Big();
    m.created_ns = Big();
    m.ready_ns = Big();
    m.ended_ns = Big();
    m.origin = c.origin;
    m.signature_hash = static_cast<uint64_t>(Big());
    if (Coin()) m.checkpoints = {{kNone, 4}, {64, static_cast<uint64_t>(Big())}};
    if (Coin()) m.peers = {{1, Number(0, 9), Number(0, 9)}};
    m.lost_records = Number(0, 100);
    m.async_error = Number(0, 7);
    m.color = c.color;
    m.key = Number(-5, 5);
    m.ring_index = Coin() ? kNoIndex : comm + 7;
    m.local_name = Coin() ? "" : "pg 3";
    if (Coin()) {
      ring::CommSnapshot& r = m.recorded.Mutable();
      r.index = comm + 7;
      r.id = 0xa0 + comm;
      r.generation = 2;
      r.state = m.state;
      r.origin = m.origin;
      r.name = c.name;
      r.member_rank = m.member_rank;
      r.size = c.size;
      r.parent_id = Coin() ? 0 : 0xff;
      r.excluded = {1, 2};
      r.excluded_total = 5;
      r.device = 3;
      r.blocking = Coin();
      r.issued_seq = m.issued < 0 ? 0 : static_cast<uint64_t>(m.issued);
      r.checkpoints = {{0, 4}, {64, 77}};
      r.peers = {{1, 2, 3, Big(), Big()}};
      r.peers_lost = 1;
      r.async_error_ns = Big();
    }
    return m;
  }

  Op MakeOp(Rank& rank) {
    Op o;
    o.membership =
        Number(0, 9) == 0 ? kNoIndex : static_cast<uint32_t>(Number(0, static_cast<int>(rank.memberships.size()) - 1));
    o.kind = static_cast<ring::CallKind>(Number(1, 17));
    o.state = static_cast<OpState>(Number(0, 8));
    o.in_batch = Coin();
    o.batch_end = Coin();
    o.retired = Coin();
    o.recent_only = Coin();
    o.datatype = static_cast<uint8_t>(Number(0, 255));
    o.reduction = static_cast<uint8_t>(Number(0, 255));
    o.root_or_peer = Number(-1, 11);
    o.seq = Number(-2, 100000);
    o.count = Coin() ? -1 : Big();
    o.thread = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, static_cast<int>(rank.threads.size()) - 1));
    o.index =
        rank.ops.empty() ? Number(0, 9) : rank.ops.back().index + Number(0, 1 << 20);  // program order, as for any rank
    o.group = static_cast<uint32_t>(Number(0, 3));
    o.stream = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, static_cast<int>(rank.streams.size()) - 1));
    o.ticket = Big();
    o.enter_ns = Big();
    o.return_ns = Coin() ? 0 : o.enter_ns + Number(0, 1 << 30);
    o.started_ns = Coin() ? 0 : Big();
    o.completed_ns = Coin() ? 0 : Big();
    o.result = static_cast<int16_t>(Number(0, 7));
    o.caller = static_cast<uint64_t>(Big());
    o.caller_object = static_cast<uint32_t>(Big());
    o.graph = static_cast<uint64_t>(Number(0, 2));
    if (Coin()) {
      o.addresses = static_cast<uint32_t>(rank.addresses.size());
      rank.addresses.push_back({static_cast<uint64_t>(Big()), ~static_cast<uint64_t>(Big())});
    }
    o.input_shape = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, 3));
    o.output_shape = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, 3));
    o.input_elements = Number(-1, 1000);
    o.output_elements = Number(-1, 1000);
    o.dtypes = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, 4));
    o.name = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, 4));
    o.call_site = Coin() ? kNoIndex : static_cast<uint32_t>(Number(0, 4));
    o.record_id = Number(-2, 1000);
    return o;
  }

  std::mt19937 random_;
};

std::vector<size_t> AllRanks(const Bundle& bundle) {
  std::vector<size_t> all(bundle.ranks.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

std::string Framed(const DumpRecord& record) {
  std::string bytes = record.SerializeAsString();
  const uint32_t crc = Crc32c(bytes);
  bytes.push_back(static_cast<char>(kLsdCrcTag));
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(crc >> shift));
  std::string out;
  for (size_t left = bytes.size();; left >>= 7) {
    out.push_back(static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
    if (left <= 0x7f) break;
  }
  return out + bytes;
}

std::vector<size_t> MessageOffsets(const std::string& file) {
  std::vector<size_t> offsets;
  for (size_t at = kLsdMagic.size(); at < file.size();) {
    offsets.push_back(at);
    size_t length = 0, shift = 0;
    while (static_cast<unsigned char>(file[at]) & 0x80)
      length |= static_cast<size_t>(file[at++] & 0x7f) << shift, shift += 7;
    length |= static_cast<size_t>(file[at++]) << shift;
    at += length;
  }
  return offsets;
}

TEST_F(LsdTest, TheChecksumIsCastagnolis) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(Crc32c(bytes), Crc32cPortable(bytes)) << i;
    bytes.push_back(static_cast<char>(i * 37 + i / 7));
  }
}

// docs/dump-file.md shows a file byte by byte.
TEST_F(LsdTest, TheExampleOnThePageIsWhatIsWritten) {
  Bundle bundle;
  bundle.job = "train";
  bundle.ranks_expected = 2;
  Communicator comm;
  comm.id = "2dbe4be26d7136be";
  comm.name = "world";
  comm.size = 2;
  comm.members = {0, 1};
  bundle.comms.push_back(comm);
  Rank rank;
  rank.rank = 1;
  rank.world_size = 2;
  rank.local_rank = rank.gpu_index = 1;
  rank.pid = 4711;
  rank.captured_ns = 5'000'000'000;
  rank.process.cpu_ns_between_samples = rank.process.io_bytes_between_samples = 0;
  Membership membership;
  membership.comm = 0;
  membership.member_rank = 1;
  membership.issued = membership.launched = membership.started = 7;
  membership.completed = 6;
  rank.memberships.push_back(membership);
  bundle.ranks.push_back(rank);
  DumpHeader header;
  header.set_host("n0");
  ASSERT_TRUE(WriteLsd(bundle, {0}, header, Path("node.lsd")).ok());
  std::string page;
  for (const auto& [offset, bytes] : BytesInPage(LOCKSTEP_SOURCE "/docs/dump-file.md")) {
    EXPECT_EQ(offset, page.size());
    page += bytes;
  }
  EXPECT_EQ(absl::BytesToHexString(support::ReadFile(Path("node.lsd"))), absl::BytesToHexString(page));
}

TEST_F(LsdTest, OperationsAreReadInProgramOrderWhateverTheFilesOrder) {
  Bundle b = RandomBundle(6).Make();
  std::vector<Op>& ops = b.ranks[0].ops;
  ASSERT_GT(ops.size(), 2u);
  for (Op& op : ops) op.recent_only = false, op.thread = 0;
  std::reverse(ops.begin(), ops.end());
  ASSERT_TRUE(WriteLsd(b, {0}, {}, Path("node.lsd")).ok());
  Bundle read;
  ASSERT_TRUE(Load(Path("node.lsd"), &read).ok());
  ASSERT_EQ(read.ranks[0].ops.size(), ops.size());
  EXPECT_TRUE(std::is_sorted(read.ranks[0].ops.begin(), read.ranks[0].ops.end(),
                             [](const Op& x, const Op& y) { return x.index < y.index; }));
}

TEST_F(LsdTest, CommunicatorsInAnyOrderKeepTheirOperations) {
  Bundle b;
  b.ranks_expected = 1;
  b.ranks.emplace_back();
  Rank& rank = b.ranks[0];
  rank.rank = 0;
  rank.threads.emplace_back();
  for (uint32_t c = 0; c < 4; ++c) {
    Communicator comm;
    comm.id = absl::StrCat("00000000000000a", c);
    comm.size = 1;
    comm.members = {0};
    b.comms.push_back(comm);
    Membership m;
    m.comm = c;
    m.member_rank = 0;
    rank.memberships.push_back(m);
    Op op;
    op.membership = c;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = 100 + c;
    op.thread = 0;
    op.index = c;
    rank.ops.push_back(op);
    NetworkOp network;
    network.membership = c;
    network.seq = op.seq;
    rank.network.push_back(network);
  }
  rank.network.emplace_back().membership = 7;  // no communicator
  ASSERT_TRUE(WriteLsd(b, {0}, {}, Path("node.lsd")).ok());
  const std::string file = support::ReadFile(Path("node.lsd"));
  std::vector<std::string> others, entries;
  std::vector<size_t> offsets = MessageOffsets(file);
  const std::string head = file.substr(0, offsets[0]);
  offsets.push_back(file.size());
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::string message = file.substr(offsets[i], offsets[i + 1] - offsets[i]);
    DumpRecord record;
    const size_t length_bytes = message.size() - 1 < 0x80 ? 1 : 2;
    const bool entry = record.ParseFromString(message.substr(length_bytes)) && record.has_communicator();
    (entry ? entries : others).push_back(message);
  }
  ASSERT_EQ(entries.size(), 4u);
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::string shuffled = head + others[0] + others[1];
    for (int i : order) shuffled += entries[static_cast<size_t>(i)];
    for (size_t i = 2; i < others.size(); ++i) shuffled += others[i];
    support::WriteFile(Path("node.lsd"), shuffled);
    Bundle read;
    ASSERT_TRUE(Load(Path("node.lsd"), &read).ok());
    ASSERT_EQ(read.ranks.size(), 1u);
    ASSERT_EQ(read.ranks[0].ops.size(), 4u) << order[0] << order[1] << order[2] << order[3];
    for (const Op& op : read.ranks[0].ops) {
      EXPECT_EQ(read.comms[read.ranks[0].memberships[op.membership].comm].id,
                absl::StrCat("00000000000000a", op.seq - 100));
    }
    ASSERT_EQ(read.ranks[0].network.size(), 5u);
    for (const NetworkOp& op : read.ranks[0].network) {
      if (op.seq == kUnknown) {
        EXPECT_EQ(op.membership, kNoIndex);
      } else {
        ASSERT_LT(op.membership, 4u);
        EXPECT_EQ(read.comms[read.ranks[0].memberships[op.membership].comm].id,
                  absl::StrCat("00000000000000a", op.seq - 100));
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(LsdTest, RandomBundlesAreReadBackEqual) {
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    const Bundle before = RandomBundle(seed).Make();
    const std::string path = Path("node.lsd");
    ASSERT_TRUE(WriteLsd(before, AllRanks(before), {}, path).ok());
    Bundle after;
    const absl::Status status = Load(path, &after);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(after.problems.empty()) << after.problems[0].text;
    ASSERT_EQ(after.ranks.size(), before.ranks.size());
    EXPECT_EQ(after.job, before.job);
    EXPECT_EQ(after.ranks_expected, before.ranks_expected);
    for (size_t i = 0; i < before.ranks.size(); ++i) {
      const auto got = Lines(Describe(after, after.ranks[i])), want = Lines(Describe(before, before.ranks[i]));
      ASSERT_EQ(got.size(), want.size()) << "seed " << seed << " rank " << i;
      for (size_t k = 0; k < want.size(); ++k) ASSERT_EQ(got[k], want[k]) << "seed " << seed << " rank " << i;
      EXPECT_EQ(after.ranks[i].path, path);
      EXPECT_EQ(after.ranks[i].source, Source::kDump);
    }
  }
}

TEST_F(LsdTest, MembersOfOtherNodesAreKept) {
  const Bundle before = RandomBundle(3).Make();
  ASSERT_GT(before.ranks.size(), 1u);
  ASSERT_TRUE(WriteLsd(before, {0}, {}, Path("node.lsd")).ok());
  Bundle after;
  ASSERT_TRUE(Load(Path("node.lsd"), &after).ok());
  ASSERT_EQ(after.ranks.size(), 1u);
  EXPECT_EQ(after.comms[after.ranks[0].memberships[0].comm].members,
            before.comms[before.ranks[0].memberships[0].comm].members);
}

TEST_F(LsdTest, ProblemsAreStoredWithTheirRanks) {
  Bundle before = RandomBundle(4).Make();
  before.problems.push_back({"/a/ring", 77, "torn slot", 0});
  before.problems.push_back({"/b/ring", -1, "cannot be opened", -1});
  before.problems.push_back({"", -1, "only a note", 0, true});
  ASSERT_TRUE(WriteLsd(before, {0}, {}, Path("node.lsd")).ok());
  Bundle after;
  ASSERT_TRUE(Load(Path("node.lsd"), &after).ok());
  ASSERT_EQ(after.problems.size(), 2u);
  EXPECT_EQ(after.problems[0].text, "/b/ring: cannot be opened");
  EXPECT_EQ(after.problems[1].text, "/a/ring at byte 77: torn slot");
  EXPECT_EQ(after.problems[1].rank, 0);
}

TEST_F(LsdTest, AFileThatNeedsANewerReaderNamesBothVersions) {
  const Bundle bundle = RandomBundle(5).Make();
  DumpHeader header;
  header.set_format_version(9);
  header.set_min_reader_version(7);
  ASSERT_TRUE(WriteLsd(bundle, {0}, header, Path("new.lsd")).ok());
  Bundle after;
  const absl::Status status = Load(Path("new.lsd"), &after);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs a reader of version 7"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to version 1"));
}

TEST_F(LsdTest, UnknownMessagesOfANewerFormatAreSkipped) {
  const Bundle before = RandomBundle(6).Make();
  DumpHeader header;
  header.set_format_version(2);
  header.set_min_reader_version(1);
  ASSERT_TRUE(WriteLsd(before, AllRanks(before), header, Path("new.lsd")).ok());
  std::string file = support::ReadFile(Path("new.lsd"));
  // A message of a future kind: field 12, three bytes.
  DumpRecord unknown;
  ASSERT_TRUE(unknown.ParseFromString(std::string("\x62\x03xyz", 5)));
  file.insert(MessageOffsets(file)[1], Framed(unknown));
  support::WriteFile(Path("new.lsd"), file);
  Bundle after;
  ASSERT_TRUE(Load(Path("new.lsd"), &after).ok());
  EXPECT_TRUE(after.problems.empty());
  EXPECT_EQ(after.ranks.size(), before.ranks.size());
}

// Returns a bundle of one rank with this many equal calls.
Bundle OneRank(size_t calls) {
  Bundle bundle = RandomBundle(7).Make();
  bundle.ranks.resize(1);
  bundle.ranks[0].damaged = false;
  Op op;
  op.kind = ring::CallKind::kAllReduce;
  op.membership = 0;
  bundle.ranks[0].ops.assign(calls, op);
  return bundle;
}

TEST_F(LsdTest, DamagedChunkIsSkippedAndCounted) {
  const Bundle before = OneRank(3 * kLsdChunkOps);
  ASSERT_TRUE(WriteLsd(before, {0}, {}, Path("node.lsd")).ok());
  std::string file = support::ReadFile(Path("node.lsd"));
  const std::vector<size_t> offsets = MessageOffsets(file);
  const size_t second_chunk = offsets[offsets.size() - 3];  // three chunks and the end
  file[second_chunk + 20] ^= 1;
  support::WriteFile(Path("node.lsd"), file);
  Bundle after;
  ASSERT_TRUE(Load(Path("node.lsd"), &after).ok());
  EXPECT_EQ(after.ranks[0].ops.size(), 2 * kLsdChunkOps);
  EXPECT_TRUE(after.ranks[0].damaged);
  ASSERT_EQ(after.problems.size(), 2u);
  EXPECT_THAT(after.problems[0].text, HasSubstr(absl::StrCat(kLsdChunkOps, " of ", 3 * kLsdChunkOps, " operations")));
  EXPECT_EQ(after.problems[0].rank, 0);
  EXPECT_EQ(after.problems[1].offset, static_cast<int64_t>(second_chunk));
  EXPECT_EQ(after.problems[1].path, Path("node.lsd"));
}

TEST_F(LsdTest, CallsOfDifferentThreadsStayApartWithoutTheRanksEntry) {
  Bundle before = OneRank(20);
  for (uint32_t i = 0; i < 20; ++i) before.ranks[0].ops[i].thread = i % 2;
  ASSERT_TRUE(WriteLsd(before, {0}, {}, Path("node.lsd")).ok());
  const std::string file = support::ReadFile(Path("node.lsd"));
  bool lost = false;
  for (const size_t at : MessageOffsets(file)) {
    std::string damaged = file;
    damaged[at + 3] ^= 1;
    support::WriteFile(Path("node.lsd"), damaged);
    Bundle after;
    if (!Load(Path("node.lsd"), &after).ok() || after.ranks[0].ops.empty()) continue;
    lost |= after.ranks[0].threads.empty();
    for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(after.ranks[0].ops[i].thread, i % 2);
  }
  EXPECT_TRUE(lost);
}

TEST_F(LsdTest, ATruncatedFileKeepsEverythingBeforeTheCut) {
  Bundle before = RandomBundle(8).Make();
  for (Rank& rank : before.ranks) rank.ops.resize(std::min<size_t>(rank.ops.size(), 20));
  ASSERT_TRUE(WriteLsd(before, AllRanks(before), {}, Path("node.lsd")).ok());
  const std::string file = support::ReadFile(Path("node.lsd"));
  size_t most = 0;
  for (size_t size = 0; size < file.size(); size += 1 + size / 40) {
    support::WriteFile(Path("cut.lsd"), file.substr(0, size));
    Bundle after;
    const absl::Status status = Load(Path("cut.lsd"), &after);
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("cut.lsd"));
      EXPECT_EQ(most, 0u);
      continue;
    }
    EXPECT_GE(after.ranks.size(), most);
    most = after.ranks.size();
    ASSERT_FALSE(after.problems.empty());
    bool cut_said = false;
    for (const Problem& problem : after.problems) cut_said |= absl::StrContains(problem.text, "truncated");
    EXPECT_TRUE(cut_said) << size;
  }
  EXPECT_GE(most, before.ranks.size() - 1);
}

TEST_F(LsdTest, ChangedFilesNeverCrashAndKeepTheirSize) {
  Bundle before = RandomBundle(9).Make();
  for (Rank& rank : before.ranks) rank.ops.resize(std::min<size_t>(rank.ops.size(), 100));
  ASSERT_TRUE(WriteLsd(before, AllRanks(before), {}, Path("node.lsd")).ok());
  const std::string file = support::ReadFile(Path("node.lsd"));
  const std::vector<size_t> offsets = MessageOffsets(file);
  std::mt19937 random(11);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = file;
    for (size_t i = 1 + below(4); i > 0; --i) bytes[below(bytes.size())] = static_cast<char>(random());
    if (round % 3 == 0) bytes.erase(below(bytes.size()), below(64));
    // Half of the changes have a valid checksum, so that they reach the code behind the check.
    if (round % 2 == 0) {
      bytes = file;
      const size_t which = below(offsets.size() - 1);
      size_t body = offsets[which];
      while (static_cast<unsigned char>(bytes[body]) & 0x80) ++body;
      ++body;
      const size_t end = offsets[which + 1] - kLsdCrcBytes;
      for (size_t i = 1 + below(3); i > 0; --i) bytes[body + below(end - body)] = static_cast<char>(random());
      const uint32_t crc = Crc32c(std::string_view(bytes).substr(body, end - body));
      for (size_t k = 0; k < 4; ++k) bytes[end + 1 + k] = static_cast<char>(crc >> (8 * k));
    }
    support::WriteFile(Path("bad.lsd"), bytes);
    Bundle after;
    const absl::Status status = Load(Path("bad.lsd"), &after);
    if (!status.ok()) continue;
    for (const Rank& rank : after.ranks) {
      for (const Op& op : rank.ops) {
        ASSERT_TRUE(op.membership == kNoIndex || op.membership < rank.memberships.size());
        ASSERT_TRUE(op.stream == kNoIndex || op.stream < rank.streams.size());
      }
      for (const Membership& m : rank.memberships) {
        ASSERT_LT(m.comm, after.comms.size());
        ASSERT_LT(m.member_rank, std::max(1, after.comms[m.comm].size));
      }
    }
    for (const Communicator& comm : after.comms) ASSERT_EQ(comm.members.size(), static_cast<size_t>(comm.size));
  }
}

TEST_F(LsdTest, UnpackedSizesAreBoundedBeforeUnpacking) {
  DumpRecord header, rank, chunk, end;
  header.mutable_header()->set_min_reader_version(1);
  rank.mutable_rank()->set_rank(2);
  const std::string zeros(32u << 20, '\0');
  std::string packed(ZSTD_compressBound(zeros.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), zeros.data(), zeros.size(), 3));
  chunk.mutable_ops()->set_rank(2);
  chunk.mutable_ops()->set_count(4);
  chunk.mutable_ops()->set_raw_bytes(static_cast<uint32_t>(zeros.size()));
  chunk.mutable_ops()->set_zstd(packed);
  end.mutable_end()->set_ranks(1);
  support::WriteFile(Path("bomb.lsd"),
                     std::string(kLsdMagic) + Framed(header) + Framed(rank) + Framed(chunk) + Framed(end));
  Bundle after;
  ASSERT_TRUE(Load(Path("bomb.lsd"), &after).ok());
  ASSERT_EQ(after.ranks.size(), 1u);
  EXPECT_TRUE(after.ranks[0].ops.empty());
  ASSERT_EQ(after.problems.size(), 1u);
  EXPECT_THAT(after.problems[0].text, HasSubstr("larger than a chunk can be"));
  // A correct size is also refused if the frame contains more.
  chunk.mutable_ops()->set_raw_bytes(100);
  support::WriteFile(Path("bomb.lsd"),
                     std::string(kLsdMagic) + Framed(header) + Framed(rank) + Framed(chunk) + Framed(end));
  ASSERT_TRUE(Load(Path("bomb.lsd"), &after).ok());
  EXPECT_TRUE(after.ranks[0].ops.empty());
  EXPECT_EQ(after.problems.size(), 1u);
}

TEST_F(LsdTest, TheLargestRingsOfANodeFitIntoAFile) {
  EXPECT_GE(kLsdMaxFileOps, 16 * ring::kMaxFileBytes / sizeof(ring::OpSlot));
}

TEST_F(LsdTest, AFileThatIsNotADumpIsAnError) {
  support::WriteFile(Path("x.lsd"), "LSDUMP2\nabc");
  Bundle after;
  EXPECT_THAT(std::string(Load(Path("x.lsd"), &after).message()), HasSubstr("not a Lockstep dump"));
}

TEST_F(LsdTest, UnwritableFolderIsAnError) {
  const Bundle bundle = RandomBundle(12).Make();
  const absl::Status status = WriteLsd(bundle, {0}, {}, Path("no/such/folder/x.lsd"));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
  EXPECT_FALSE(WriteLsd(bundle, {bundle.ranks.size()}, {}, Path("x.lsd")).ok());
  EXPECT_FALSE(fs::exists(Path("x.lsd")));
}

TEST_F(LsdTest, AFullDiskLeavesNothingAndKeepsTheOldFile) {
  const std::string disk = Path("disk");
  fs::create_directory(disk);
  if (mount("lockstep-test", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a small tmpfs: " << strerror(errno);
  Bundle bundle = RandomBundle(13).Make();
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    Op op;
    op.addresses = static_cast<uint32_t>(bundle.ranks[0].addresses.size());
    bundle.ranks[0].addresses.push_back({random(), 0});
    op.count = static_cast<int64_t>(random() >> 1);
    bundle.ranks[0].ops.push_back(op);
  }
  support::WriteFile(disk + "/node.lsd", "old");
  const absl::Status status = WriteLsd(bundle, {0}, {}, disk + "/node.lsd");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), {}), 1);
  EXPECT_EQ(support::ReadFile(disk + "/node.lsd"), "old");
  EXPECT_EQ(umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace lockstep
