#include "analyzer/formats/lsi/writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsi/format.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/wrap.h"

namespace lockstep {
namespace {

constexpr int64_t kLongestNs = int64_t{kIndexNoTime - 1} * kUs;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

constexpr int kDeepest = 8;  // as deep as the search for files

bool Derived(std::string_view name) {
  return name == "index.lsi" || name == "report.html" || name == "explore.html" || name.substr(0, 8) == "verdict." ||
         name.substr(0, 1) == "." || name.substr(0, 6) == "README" || name.ends_with(".notes.json");
}

uint64_t OneFile(std::string_view name, const struct stat& st) {
  uint64_t hash = 1;
  for (const char c : name) hash = Mix(hash, static_cast<unsigned char>(c));
  hash = Mix(hash, static_cast<uint64_t>(st.st_size));
  return Mix(Mix(hash, static_cast<uint64_t>(st.st_mtim.tv_sec)), static_cast<uint64_t>(st.st_mtim.tv_nsec));
}

// The sum does not depend on the order in which a folder lists its files. Names are relative to the given folder,
// because the folder may be moved.
uint64_t OneFolder(const std::string& path, const std::string& inside, int depth) {
  uint64_t sum = 0;
  for (const std::string& name : NamesIn(path, SIZE_MAX)) {
    struct stat st = {};
    const std::string child = absl::StrCat(path, "/", name);
    if (Derived(name) || lstat(child.c_str(), &st) != 0) continue;
    // Does not follow links to folders, because a link may lead to the whole file system.
    if (S_ISLNK(st.st_mode) && (stat(child.c_str(), &st) != 0 || S_ISDIR(st.st_mode))) continue;
    if (!S_ISDIR(st.st_mode))
      sum += OneFile(absl::StrCat(inside, name), st);
    else if (depth < kDeepest)
      sum += OneFolder(child, absl::StrCat(inside, name, "/"), depth + 1);
  }
  return sum;
}

uint32_t TimeAfter(int64_t base, int64_t ns) {
  if (ns == 0 || ns < base) return kIndexNoTime;
  const int64_t after = Minus(ns, base);
  return after < 0 || after > kLongestNs ? kIndexNoTime : static_cast<uint32_t>(after / kUs);
}

uint16_t HostTime(const Op& op) {
  if (op.return_ns == 0) return kIndexNotReturned;
  const int64_t in = Minus(op.return_ns, op.enter_ns);
  return static_cast<uint16_t>(std::clamp<int64_t>(in / kUs, 0, kIndexNotReturned - 1));
}

// 0 if unknown, otherwise 1 + log2 of the payload in bytes, rounded down.
uint8_t SizeCode(const Op& op) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // ncclDataType_t, nccl.h
  if (op.count <= 0 || op.datatype >= std::size(kBytes)) return 0;
  const uint64_t count = static_cast<uint64_t>(op.count);
  if (count > std::numeric_limits<uint64_t>::max() / 8) return 0;
  return static_cast<uint8_t>(std::bit_width(count * kBytes[op.datatype]));
}

constexpr int kFirstColumn = static_cast<int>(IndexSection::kKind);

}  // namespace

uint64_t FingerprintSources(const std::vector<std::string>& paths) {
  uint64_t sum = paths.size() + (uint64_t{kIndexRevision} << 32);
  for (const std::string& path : paths) {
    struct stat st = {};
    if (stat(path.c_str(), &st) != 0) continue;
    sum += S_ISDIR(st.st_mode) ? OneFolder(path, "", 0) : OneFile(path, st);
  }
  return sum;
}

struct IndexWriter::Impl {
  Impl(const Bundle& f, const std::string& path) : frame(f), file(path) {}

  const Bundle& frame;
  AtomicFile file;
  IndexHeader header;
  std::vector<IndexRank> ranks;
  std::vector<IndexComm> comms;
  std::vector<int32_t> members;
  std::vector<IndexMembership> memberships;
  std::vector<uint64_t> text_offsets{0};
  std::string texts, facts;
  absl::flat_hash_map<std::string, uint32_t> interned;
  std::vector<bool> added;
  std::vector<IndexOpen> open;
  bool too_many_open = false;

  uint32_t Text(const std::string& text) {
    auto [it, fresh] = interned.try_emplace(text, static_cast<uint32_t>(text_offsets.size() - 1));
    if (fresh) {
      texts += text;
      text_offsets.push_back(texts.size());
    }
    return it->second;
  }

  IndexSectionEntry& Entry(IndexSection s) { return header.sections[static_cast<int>(s)]; }

  void BuildComms(const std::vector<uint64_t>& operations);
  void BuildRanks(const std::vector<uint64_t>& operations);
  absl::Status PlaceColumns();
  template <typename T>
  absl::Status Column(IndexSection section, uint64_t first, const std::vector<T>& values) {
    return file.WriteAt(Entry(section).offset + first * sizeof(T), values.data(), values.size() * sizeof(T));
  }
  absl::Status SparseColumn(IndexSection section, uint64_t first, const std::vector<uint32_t>& values);
  absl::Status WriteColumns(const IndexRank& rank, const std::vector<Op>& ops);
  absl::Status WriteCells(const IndexRank& rank, const std::vector<Op>& ops);
  template <typename T>
  absl::Status Table(IndexSection section, const T* data, size_t count, uint64_t* offset);
};

void IndexWriter::Impl::BuildComms(const std::vector<uint64_t>& operations) {
  const size_t n = frame.comms.size();
  // The number of columns of a communicator's cells: never more than a member could have recorded.
  std::vector<int64_t> newest(n, kNone), first(n, 1), most(n, 0);
  for (size_t r = 0; r < frame.ranks.size(); ++r) {
    for (const Membership& m : frame.ranks[r].memberships) {
      if (m.comm >= n) continue;
      newest[m.comm] = std::max(newest[m.comm], std::min(m.issued, kHighestSeq));
      first[m.comm] = std::min(first[m.comm], std::clamp<int64_t>(m.first_seq, 0, 1));
      most[m.comm] =
          std::max<int64_t>(most[m.comm], static_cast<int64_t>(std::min<uint64_t>(operations[r], kIndexMaxColumns)));
    }
  }
  uint64_t cell = 0;
  for (size_t c = 0; c < n; ++c) {
    const Communicator& comm = frame.comms[c];
    IndexComm out;
    out.id = Text(comm.id);
    out.name = Text(comm.name);
    out.size = std::max(comm.size, 0);
    out.first_member = members.size();
    if (comm.members.size() == static_cast<size_t>(out.size)) {
      members.insert(members.end(), comm.members.begin(), comm.members.end());
      out.members_known = static_cast<uint32_t>(out.size);
    }
    if (newest[c] >= first[c]) {
      out.columns = static_cast<uint32_t>(std::min(newest[c] - first[c] + 1, std::max<int64_t>(most[c], 1)));
      out.first_seq = newest[c] - out.columns + 1;
    }
    out.first_cell = cell;
    cell += static_cast<uint64_t>(out.size) * out.columns;
    comms.push_back(out);
  }
  Entry(IndexSection::kCells).count = cell;
}

void IndexWriter::Impl::BuildRanks(const std::vector<uint64_t>& operations) {
  uint64_t op = 0;
  for (size_t r = 0; r < frame.ranks.size(); ++r) {
    const Rank& rank = frame.ranks[r];
    IndexRank out;
    out.rank = rank.rank;
    out.gpu = rank.gpu_index;
    out.pid = rank.pid;
    out.host = Text(rank.host);
    out.first_op = op;
    out.ops = operations[r];
    op += operations[r];
    out.first_membership = memberships.size();
    out.memberships = static_cast<uint32_t>(std::min<size_t>(rank.memberships.size(), kIndexNoMembership));
    out.life = static_cast<uint32_t>(rank.process.life);
    out.captured_ns = rank.captured_ns;
    for (size_t i = 0; i < out.memberships; ++i) {
      const Membership& m = rank.memberships[i];
      IndexMembership place;
      place.comm = m.comm;
      place.member_rank = m.member_rank;
      place.issued = m.issued;
      place.launched = m.launched;
      place.started = m.started;
      place.completed = m.completed;
      place.lost_records = static_cast<uint64_t>(std::max<int64_t>(m.lost_records, 0));
      memberships.push_back(place);
    }
    ranks.push_back(out);
  }
  for (int s = kFirstColumn; s < static_cast<int>(IndexSection::kCells); ++s) header.sections[s].count = op;
}

absl::Status IndexWriter::Impl::PlaceColumns() {
  uint64_t offset = (sizeof(IndexHeader) + kIndexAlign - 1) / kIndexAlign * kIndexAlign;
  for (int s = kFirstColumn; s < static_cast<int>(IndexSection::kCount); ++s) {
    IndexSectionEntry& entry = header.sections[s];
    entry.element_bytes = kIndexElementBytes[s];
    entry.offset = offset;
    offset += (entry.count * entry.element_bytes + kIndexAlign - 1) / kIndexAlign * kIndexAlign;
  }
  header.file_bytes = offset;
  return file.SetSize(offset);
}

// Does not write long runs of zeros, so the file system stores no blocks for them.
absl::Status IndexWriter::Impl::SparseColumn(IndexSection section, uint64_t first,
                                             const std::vector<uint32_t>& values) {
  constexpr uint64_t kPage = 4096 / sizeof(uint32_t);
  for (size_t begin = 0; begin < values.size();) {
    const size_t end = std::min<size_t>(values.size(), begin + kPage - (first + begin) % kPage);
    if (std::any_of(values.begin() + static_cast<ptrdiff_t>(begin), values.begin() + static_cast<ptrdiff_t>(end),
                    [](uint32_t v) { return v != 0; })) {
      const uint64_t at = Entry(section).offset + (first + begin) * sizeof(uint32_t);
      if (absl::Status status = file.WriteAt(at, values.data() + begin, (end - begin) * sizeof(uint32_t)); !status.ok())
        return status;
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status IndexWriter::Impl::WriteColumns(const IndexRank& rank, const std::vector<Op>& ops) {
  const size_t n = ops.size();
  std::vector<uint8_t> kind(n), state(n), size(n), stream(n);
  std::vector<uint16_t> membership(n), host(n);
  std::vector<uint32_t> seq(n), enter(n), start(n), end(n), peer(n, kIndexNoPeer);
  for (size_t i = 0; i < n; ++i) {
    const Op& op = ops[i];
    kind[i] = static_cast<uint8_t>(op.kind);
    state[i] = static_cast<uint8_t>(op.state);
    size[i] = SizeCode(op);
    stream[i] = op.stream < kIndexNoStream ? static_cast<uint8_t>(op.stream) : kIndexNoStream;
    if (op.root_or_peer >= 0) peer[i] = static_cast<uint32_t>(op.root_or_peer) + 1;
    membership[i] = kIndexNoMembership;
    seq[i] = kIndexNoSeq;
    if (op.membership < rank.memberships) {
      membership[i] = static_cast<uint16_t>(op.membership);
      const int64_t base = memberships[rank.first_membership + op.membership].seq_base;
      if (op.seq >= base && Minus(op.seq, base) < kIndexNoSeq) seq[i] = static_cast<uint32_t>(op.seq - base);
    }
    host[i] = HostTime(op);
    enter[i] = TimeAfter(rank.base_ns, op.enter_ns);
    start[i] = TimeAfter(rank.base_ns, op.started_ns);
    end[i] = TimeAfter(rank.base_ns, op.completed_ns);
  }
  const uint64_t first = rank.first_op;
  for (size_t i = 0; i < n && !too_many_open; ++i) {
    const IndexMembership* m =
        membership[i] < rank.memberships ? &memberships[rank.first_membership + membership[i]] : nullptr;
    if (!InFlight(ops[i].kind, ops[i].state, seq[i] == kIndexNoSeq ? -1 : ops[i].seq, m)) continue;
    open.push_back({first + i, seq[i], enter[i], membership[i], kind[i], state[i], 0});
    too_many_open = open.size() > kIndexMaxOpen;
  }
  for (const absl::Status& status :
       {Column(IndexSection::kKind, first, kind), Column(IndexSection::kState, first, state),
        Column(IndexSection::kMembership, first, membership), Column(IndexSection::kSeq, first, seq),
        Column(IndexSection::kEnter, first, enter), Column(IndexSection::kHost, first, host),
        Column(IndexSection::kStart, first, start), Column(IndexSection::kEnd, first, end),
        Column(IndexSection::kSize, first, size), Column(IndexSection::kStream, first, stream),
        SparseColumn(IndexSection::kPeer, first, peer)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status IndexWriter::Impl::WriteCells(const IndexRank& rank, const std::vector<Op>& ops) {
  std::vector<std::vector<uint8_t>> rows(rank.memberships);
  for (const Op& op : ops) {
    if (op.membership >= rank.memberships || !ring::IsCollective(op.kind)) continue;
    const IndexMembership& m = memberships[rank.first_membership + op.membership];
    const IndexComm& comm = comms[m.comm];
    if (op.seq < comm.first_seq || op.seq > comm.first_seq + comm.columns - 1) continue;
    std::vector<uint8_t>& row = rows[op.membership];
    if (row.empty()) row.assign(comm.columns, 0);
    row[static_cast<size_t>(op.seq - comm.first_seq)] =
        static_cast<uint8_t>(static_cast<int>(IndexCell::kUnknown) + static_cast<int>(op.state));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const IndexMembership& m = memberships[rank.first_membership + i];
    const IndexComm& comm = comms[m.comm];
    if (rows[i].empty() || m.member_rank < 0 || m.member_rank >= comm.size) continue;
    const uint64_t at = comm.first_cell + static_cast<uint64_t>(m.member_rank) * comm.columns;
    if (absl::Status status = Column(IndexSection::kCells, at, rows[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status IndexWriter::Impl::Table(IndexSection section, const T* data, size_t count, uint64_t* offset) {
  IndexSectionEntry& entry = Entry(section);
  entry = {*offset, count, static_cast<uint32_t>(sizeof(T)),
           Crc32c({reinterpret_cast<const char*>(data), count * sizeof(T)})};
  *offset += (count * sizeof(T) + kIndexAlign - 1) / kIndexAlign * kIndexAlign;
  return file.WriteAt(entry.offset, data, count * sizeof(T));
}

absl::StatusOr<std::unique_ptr<IndexWriter>> IndexWriter::Create(const Bundle& frame,
                                                                 const std::vector<uint64_t>& operations,
                                                                 uint64_t source, const std::string& path) {
  if (operations.size() != frame.ranks.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation counts given for ", operations.size(), " ranks, but there are ", frame.ranks.size()));
  }
  for (const Rank& rank : frame.ranks) {
    for (const Membership& m : rank.memberships) {
      if (m.comm >= frame.comms.size())
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", rank.rank, " refers to a communicator that does not exist"));
    }
  }
  auto impl = std::make_unique<Impl>(frame, path);
  impl->BuildComms(operations);
  impl->BuildRanks(operations);
  if (impl->ranks.size() > kIndexMaxRanks || impl->comms.size() > kIndexMaxComms ||
      impl->members.size() > kIndexMaxMembers || impl->memberships.size() > kIndexMaxMemberships ||
      impl->Entry(IndexSection::kKind).count > kIndexMaxOps ||
      impl->Entry(IndexSection::kCells).count > kIndexMaxCells || impl->texts.size() > kIndexMaxTextBytes) {
    return absl::OutOfRangeError("more ranks, communicators or operations than an index can contain");
  }
  impl->added.assign(impl->ranks.size(), false);
  std::memcpy(impl->header.magic, kIndexMagic.data(), kIndexMagic.size());
  impl->header.version = impl->header.min_reader_version = kIndexVersion;
  impl->header.byte_order = kIndexByteOrder;
  impl->header.source = source;
  if (absl::Status status = impl->file.Open(); !status.ok()) return status;
  if (absl::Status status = impl->PlaceColumns(); !status.ok()) return status;
  return std::unique_ptr<IndexWriter>(new IndexWriter(std::move(impl)));
}

IndexWriter::IndexWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IndexWriter::~IndexWriter() = default;

absl::Status IndexWriter::AddRank(size_t rank_index, const std::vector<Op>& ops) {
  if (rank_index >= impl_->ranks.size())
    return absl::InvalidArgumentError(absl::StrCat("no rank at index ", rank_index));
  if (impl_->added[rank_index])
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank_index, " was added before"));
  if (ops.size() != impl_->ranks[rank_index].ops) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank_index, " got ", ops.size(), " operations, which is not the number declared for it"));
  }
  impl_->added[rank_index] = true;
  IndexRank& rank = impl_->ranks[rank_index];
  // Only operations of the last 71 minutes have times; older operations keep everything else.
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> low(rank.memberships, std::numeric_limits<int64_t>::max());
  for (const Op& op : ops) {
    if (op.enter_ns != 0) {
      first = std::min(first, op.enter_ns);
      last = std::max({last, op.enter_ns, op.completed_ns});
    }
    if (op.membership < low.size() && op.seq >= 0) low[op.membership] = std::min(low[op.membership], op.seq);
  }
  if (first <= last) {
    const bool long_ago =
        static_cast<uint64_t>(last) - static_cast<uint64_t>(first) > static_cast<uint64_t>(kLongestNs);
    rank.base_ns = long_ago ? last - kLongestNs : first;
  }
  for (size_t i = 0; i < low.size(); ++i) {
    if (low[i] != std::numeric_limits<int64_t>::max()) impl_->memberships[rank.first_membership + i].seq_base = low[i];
  }
  if (absl::Status status = impl_->WriteColumns(rank, ops); !status.ok()) return status;
  return impl_->WriteCells(rank, ops);
}

absl::Status IndexWriter::SetFacts(std::string facts) {
  if (facts.size() > kIndexMaxFactsBytes)
    return absl::OutOfRangeError(absl::StrCat("facts of ", facts.size(), " bytes are more than an index can contain"));
  impl_->facts = std::move(facts);
  return absl::OkStatus();
}

absl::Status IndexWriter::Commit() {
  Impl& w = *impl_;
  for (size_t i = 0; i < w.added.size(); ++i) {
    if (!w.added[i] && w.ranks[i].ops > 0)
      return absl::FailedPreconditionError(absl::StrCat("rank ", i, " was never added to the index"));
  }
  std::sort(w.open.begin(), w.open.end(), [](const IndexOpen& a, const IndexOpen& b) { return a.op < b.op; });
  w.open.push_back({});
  w.open.back().op = w.Entry(IndexSection::kKind).count;
  if (w.too_many_open) w.open.clear();
  uint64_t end = w.header.file_bytes;
  for (const absl::Status& status :
       {w.Table(IndexSection::kRanks, w.ranks.data(), w.ranks.size(), &end),
        w.Table(IndexSection::kComms, w.comms.data(), w.comms.size(), &end),
        w.Table(IndexSection::kMembers, w.members.data(), w.members.size(), &end),
        w.Table(IndexSection::kMemberships, w.memberships.data(), w.memberships.size(), &end),
        w.Table(IndexSection::kTextOffsets, w.text_offsets.data(), w.text_offsets.size(), &end),
        w.Table(IndexSection::kTexts, w.texts.data(), w.texts.size(), &end),
        w.Table(IndexSection::kFacts, w.facts.data(), w.facts.size(), &end),
        w.Table(IndexSection::kOpen, w.open.data(), w.open.size(), &end)}) {
    if (!status.ok()) return status;
  }
  w.header.file_bytes = end;
  w.header.crc = Crc32c({reinterpret_cast<const char*>(&w.header), sizeof(w.header)});
  if (absl::Status status = w.file.SetSize(end); !status.ok()) return status;
  if (absl::Status status = w.file.WriteAt(0, &w.header, sizeof(w.header)); !status.ok()) return status;
  return w.file.Commit();
}

absl::Status WriteIndex(const Bundle& bundle, uint64_t source, const std::string& path, std::string facts) {
  std::vector<uint64_t> operations;
  operations.reserve(bundle.ranks.size());
  for (const Rank& rank : bundle.ranks) operations.push_back(rank.ops.size());
  auto writer = IndexWriter::Create(bundle, operations, source, path);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = (*writer)->SetFacts(std::move(facts)); !status.ok()) return status;
  for (size_t i = 0; i < bundle.ranks.size(); ++i) {
    if (absl::Status status = (*writer)->AddRank(i, bundle.ranks[i].ops); !status.ok()) return status;
  }
  return (*writer)->Commit();
}

}  // namespace lockstep
