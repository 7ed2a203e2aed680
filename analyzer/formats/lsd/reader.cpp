#include "analyzer/formats/lsd/reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/input.h"

namespace lockstep {
namespace {

constexpr int kMaxProblemsPerFile = 20;
// After this many consecutive damaged messages, the lengths of messages are wrong too, so the rest is skipped.
constexpr int kMaxDamagedRun = 8;

constexpr uint8_t kOpsTag = 4 << 3 | 2;  // DumpRecord.ops

// Reads an OpChunk's identifying fields without copying its contents. Returns false if it cannot be parsed.
bool SkimChunk(std::string_view message, int32_t* rank, LsdFile::Chunk* chunk) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  auto left = [&] { return message.size() - static_cast<size_t>(in.CurrentPosition()); };
  uint64_t tag = 0, value = 0;
  in.Skip(1);
  if (!in.ReadVarint64(&value) || value != left()) return false;
  while (left() > 0) {
    if (!in.ReadVarint64(&tag) || !in.ReadVarint64(&value)) return false;
    if ((tag & 7) == 2) {
      if (value > left()) return false;
      in.Skip(static_cast<int>(value));
      continue;
    }
    if ((tag & 7) != 0) return false;
    switch (tag >> 3) {
      case 1: *rank = static_cast<int32_t>(value); break;
      case 2: chunk->count = static_cast<uint32_t>(value); break;
      case 6: chunk->described = value != 0; break;
      case 7: chunk->newest_ns = static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); break;
      case 8: chunk->keep = value != 0; break;
      default: break;
    }
  }
  return true;
}

absl::Status ReadAt(int fd, uint64_t offset, size_t size, std::string* bytes) {
  bytes->resize(size);
  for (size_t done = 0; done < size;) {
    const ssize_t n = pread(fd, bytes->data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::UnavailableError(n < 0 ? strerror(errno) : "the file became shorter");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

bool Needed(const Op& op, const std::vector<LsdNeed>& needs) {
  if (needs.empty()) return false;
  const std::optional<LaneId> lane = LaneOf(op);
  return std::any_of(needs.begin(), needs.end(),
                     [&](const LsdNeed& need) { return lane == need && op.seq >= need.first && op.seq <= need.last; });
}

}  // namespace

struct LsdWorkspace::Parts {
  LsdInput input;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> zstd{ZSTD_createDCtx(), &ZSTD_freeDCtx};
  std::string message;
  DumpRecord record;
  OpColumns columns;
  std::unique_ptr<char[]> raw;
  size_t raw_size = 0;
  Rank rows;  // operations before the needed ones are selected
};

LsdWorkspace::LsdWorkspace() : parts_(std::make_unique<Parts>()) {}
LsdWorkspace::~LsdWorkspace() = default;

absl::Status LsdFile::Scan(int fd, LsdWorkspace* workspace) {
  // Protobuf would print a line to standard error for every name that is not UTF-8.
  const google::protobuf::LogSilencer silencer;
  LsdWorkspace::Parts& parts = workspace->parts();
  LsdInput& input = parts.input;
  input.Start(fd);
  std::string_view magic;
  if (absl::Status status = input.Peek(kLsdMagic.size(), &magic); !status.ok())
    return absl::DataLossError(absl::StrCat(path_, ": cannot read at byte 0: ", status.message()));
  if (magic != kLsdMagic)
    return absl::InvalidArgumentError(absl::StrCat(path_, ": not a Lockstep dump: it does not begin with \"LSDUMP1\""));
  input.Skip(kLsdMagic.size());
  int damaged_run = 0;
  while (!ended_) {
    if (Cancelled()) return absl::CancelledError("cancelled");
    const LsdMessage message = NextLsdMessage(&input);
    if (message.kind == LsdMessage::Kind::kStop) {
      Damage("end", message.start, message.text);
      break;
    }
    bool intact = message.kind == LsdMessage::Kind::kIntact;
    std::string text = message.text;
    Chunk chunk;
    int32_t rank = 0;
    if (intact && !message.bytes.empty() && static_cast<uint8_t>(message.bytes[0]) == kOpsTag &&
        SkimChunk(message.bytes, &rank, &chunk)) {
      chunk.offset = message.offset;
      chunk.length = static_cast<uint32_t>(message.bytes.size());
      TakeChunk(rank, chunk);
    } else if (intact) {
      DumpRecord& record = parts.record;
      intact = record.ParseFromArray(message.bytes.data(), static_cast<int>(message.bytes.size()));
      if (!intact) {
        text =
            absl::StrCat("a message of ", message.bytes.size() + kLsdCrcBytes, " bytes is not a dump message; skipped");
      } else if (record.has_header() && record.header().min_reader_version() > kLsdFormatVersion) {
        return absl::UnimplementedError(
            absl::StrCat(path_, ": written in dump format ", record.header().format_version(),
                         ", which needs a reader of version ", record.header().min_reader_version(),
                         " or newer; this one reads up to version ", kLsdFormatVersion, "; use a newer lockstep"));
      } else {
        TakeRecord(record, message.offset, static_cast<uint32_t>(message.bytes.size()));
      }
    }
    if (!intact) {
      Damage("message", message.start, text);
      if (++damaged_run < kMaxDamagedRun) continue;
      Damage("messages", message.start, "several damaged messages in a row; the rest of the file is skipped");
      break;
    }
    damaged_run = 0;
  }
  if (ranks_.empty() && !ended_) {
    return absl::DataLossError(
        absl::StrCat(path_, ": nothing in this dump could be read",
                     problems_.empty() ? "" : absl::StrCat(": ", problems_[0].text, " at byte ", problems_[0].offset)));
  }
  for (auto& [number, history] : histories_) {
    auto it = rank_at_.find(number);
    if (it == rank_at_.end()) continue;
    ReadRank& read = ranks_[it->second];
    for (LaneHistory& lane : history.lanes) lane.membership = Place(read, lane.membership);
    std::erase_if(history.lanes, [](const LaneHistory& lane) { return lane.membership == kNoIndex; });
    read.history = std::move(history);
  }
  histories_.clear();
  for (ReadRank& read : ranks_) {
    // If the history or one chunk's description is missing, DescribeAll() creates all of them.
    for (const Chunk& chunk : read.chunks) read.described &= chunk.described;
    if (read.history.lanes.empty() && read.recorded > 0) read.described = false;
  }
  return absl::OkStatus();
}

void LsdFile::Damage(const char* like, uint64_t offset, std::string text, int32_t rank) {
  ++damages_;
  if (problems_.size() < kMaxProblemsPerFile)
    problems_.push_back({path_, static_cast<int64_t>(offset), std::move(text), rank, false, false, like});
}

void LsdFile::TakeRecord(DumpRecord& record, uint64_t offset, uint32_t length) {
  switch (record.record_case()) {
    case DumpRecord::kHeader: header_ = record.header(); break;
    case DumpRecord::kRank: TakeRank(record.rank(), offset); break;
    case DumpRecord::kCommunicator: TakeMembership(record.communicator(), offset); break;
    case DumpRecord::kOps: {
      Chunk chunk;
      chunk.offset = offset;
      chunk.length = length;
      chunk.count = record.ops().count();
      chunk.described = record.ops().described();
      if (chunk.described) chunk.newest_ns = record.ops().newest_ns();
      chunk.keep = record.ops().keep();
      TakeChunk(record.ops().rank(), chunk);
      break;
    }
    case DumpRecord::kCommunicatorInfo:
      if (comms_seen_++ < kLsdMaxFileMemberships)
        comms_.emplace_back(FactsOf(record.communicator_info()), MembersOf(record.communicator_info()));
      break;
    case DumpRecord::kTexts:
      for (std::string& text : *record.mutable_texts()->mutable_strings()) {
        if (strings_.size() < kLsdMaxTexts) strings_.push_back(std::move(text));
      }
      for (std::string& text : *record.mutable_texts()->mutable_shapes()) {
        if (shapes_.size() < kLsdMaxTexts) shapes_.push_back(std::move(text));
      }
      break;
    case DumpRecord::kHistory:
      if (histories_.size() < kLsdMaxFileRanks)
        histories_.emplace_back(record.history().rank(), DecodeHistory(record.history()));
      break;
    case DumpRecord::kEnd: ended_ = true; break;
    case DumpRecord::RECORD_NOT_SET: break;  // from a newer writer; min_reader_version allows skipping it
  }
}

LsdFile::ReadRank* LsdFile::Find(int32_t rank, uint64_t offset) {
  auto it = rank_at_.find(rank);
  if (it != rank_at_.end()) return &ranks_[it->second];
  if (rank < 0 || rank >= kMaxRanks || ranks_.size() >= kLsdMaxFileRanks) {
    Damage("impossible rank", offset, absl::StrCat("data from an impossible rank (", rank, "); skipped"));
    return nullptr;
  }
  rank_at_[rank] = ranks_.size();
  ranks_.emplace_back();
  ranks_.back().loose.rank.rank = rank;
  return &ranks_.back();
}

void LsdFile::TakeRank(const RankHeader& header, uint64_t offset) {
  ReadRank* rank = Find(header.rank(), offset);
  if (rank == nullptr) return;
  if (rank->has_header) {
    Damage("second entry", offset, absl::StrCat("a second entry for rank ", header.rank(), "; skipped"), header.rank());
    return;
  }
  Rank decoded = DecodeRank(header);
  std::swap(decoded.memberships, rank->loose.rank.memberships);
  rank->loose.rank = std::move(decoded);
  rank->has_header = true;
  rank->promised_ops = header.operations();
  rank->promised_comms = header.communicators();
  for (const std::string& problem : header.problems())
    carried_.push_back({path_, -1, problem, header.rank(), false, false, kDamagedRank});
}

void LsdFile::TakeMembership(const RankCommunicator& message, uint64_t offset) {
  ReadRank* rank = Find(message.rank(), offset);
  if (rank == nullptr) return;
  if (++memberships_ > kLsdMaxFileMemberships) {
    rank->damaged = true;
    return;
  }
  const auto place = static_cast<uint32_t>(rank->loose.rank.memberships.size());
  const uint32_t taken = Place(*rank, message.index());
  // As long as every entry is at its own index, no table is needed.
  if (taken == kNoIndex && (message.index() != place || !rank->position.empty())) {
    if (rank->position.empty()) {
      for (uint32_t i = 0; i < place; ++i) rank->position[i] = i;
    }
    rank->position[message.index()] = place;
  }
  if (taken != kNoIndex) {
    Damage("second communicator", offset,
           absl::StrCat("a second entry for communicator ", message.index(), " of rank ", message.rank(), "; skipped"),
           message.rank());
    return;
  }
  rank->loose.rank.memberships.push_back(DecodeMembership(message));
  rank->loose.comms.push_back(FactsOf(message));
}

uint32_t LsdFile::Place(const ReadRank& read, uint32_t index) const {
  if (read.position.empty()) return index < read.loose.rank.memberships.size() ? index : kNoIndex;
  auto it = read.position.find(index);
  return it == read.position.end() ? kNoIndex : it->second;
}

void LsdFile::TakeChunk(int32_t number, Chunk chunk) {
  ReadRank* rank = Find(number, chunk.offset);
  if (rank == nullptr) return;
  auto refuse = [&](const std::string& why) {
    rank->damaged = true;
    Damage("chunk", chunk.offset,
           absl::StrCat("a chunk of ", chunk.count, " operations cannot be used (", why, "); skipped"), number);
  };
  if (chunk.count > kLsdMaxChunkOps) return refuse("it claims to be larger than a chunk can be");
  if (operations_ + chunk.count > kLsdMaxFileOps)
    return refuse(absl::StrCat("more than ", kLsdMaxFileOps, " operations in one file"));
  operations_ += chunk.count;
  rank->recorded += chunk.count;
  rank->chunks.push_back(chunk);
}

absl::Status LsdFile::UnpackInto(const OpChunk& chunk, LsdWorkspace::Parts* parts, Rank* rows) const {
  const std::string& packed = chunk.zstd();
  if (chunk.count() > kLsdMaxChunkOps || chunk.raw_bytes() > kLsdMaxRawBytes ||
      chunk.raw_bytes() > chunk.count() * kLsdMaxOpBytes + 1024) {
    return absl::DataLossError("it claims to be larger than a chunk can be");
  }
  // The third bit of the frame descriptor means that there is a checksum.
  if (packed.size() < 5 || (static_cast<unsigned char>(packed[4]) & 4) == 0)
    return absl::DataLossError("not a zstd frame with a checksum");
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != chunk.raw_bytes())
    return absl::DataLossError("its size differs from the size in the frame header");
  if (parts->zstd == nullptr) return absl::ResourceExhaustedError("no memory");
  if (parts->raw_size < chunk.raw_bytes() + 1) {
    parts->raw_size = chunk.raw_bytes() + 1;
    parts->raw.reset(new char[parts->raw_size]);
  }
  const size_t size =
      ZSTD_decompressDCtx(parts->zstd.get(), parts->raw.get(), chunk.raw_bytes(), packed.data(), packed.size());
  if (ZSTD_isError(size)) return absl::DataLossError(ZSTD_getErrorName(size));
  if (size != chunk.raw_bytes() || !parts->columns.ParseFromArray(parts->raw.get(), static_cast<int>(size)) ||
      parts->columns.count() != chunk.count()) {
    return absl::DataLossError("its contents do not match its header");
  }
  return DecodeOps(parts->columns, texts_, rows);
}

bool LsdFile::Unpack(int fd, ReadRank* read, const Chunk& chunk, LsdWorkspace::Parts* parts, Rank* rows) {
  if (Cancelled()) return false;
  absl::Status status = ReadAt(fd, chunk.offset, chunk.length, &parts->message);
  if (status.ok() && (!parts->record.ParseFromString(parts->message) || !parts->record.has_ops() ||
                      parts->record.ops().count() != chunk.count))
    status = absl::DataLossError("the file changed while it was read");
  const size_t before = rows->ops.size();
  if (status.ok()) status = UnpackInto(parts->record.ops(), parts, rows);
  if (!status.ok()) {
    read->damaged = true;
    Damage("chunk", chunk.offset,
           absl::StrCat("a chunk of ", chunk.count, " operations cannot be used (", status.message(), "); skipped"),
           read->loose.rank.rank);
    return false;
  }
  CheckRows(*read, before, rows);
  return true;
}

// Removes references that are out of range. If a communicator's entry was lost, its operations are lost, too.
void LsdFile::CheckRows(const ReadRank& read, size_t first, Rank* rows) const {
  const Rank& rank = read.loose.rank;
  const auto begin = rows->ops.begin() + static_cast<ptrdiff_t>(first);
  rows->ops.erase(std::remove_if(begin, rows->ops.end(),
                                 [&](Op& op) {
                                   if (op.membership == kNoIndex) return false;
                                   op.membership = Place(read, op.membership);
                                   return op.membership == kNoIndex;
                                 }),
                  rows->ops.end());
  for (size_t i = first; i < rows->ops.size(); ++i) {
    Op& op = rows->ops[i];
    if (op.stream >= rank.streams.size()) op.stream = kNoIndex;
    if (op.replayed && ReplayOf(op) >= rank.replays.size()) op.replayed = false;
  }
}

void LsdFile::DescribeAll(int fd, LsdWorkspace* workspace) {
  const google::protobuf::LogSilencer silencer;
  Rank& rows = workspace->parts().rows;
  for (ReadRank& read : ranks_) {
    if (read.described) continue;
    rows.ops.clear();
    rows.addresses.clear();
    rows.source = read.loose.rank.source;
    std::vector<Chunk> usable;
    for (Chunk& chunk : read.chunks) {
      const size_t before = rows.ops.size();
      if (!Unpack(fd, &read, chunk, &workspace->parts(), &rows)) {
        read.recorded -= chunk.count;
        continue;
      }
      OpChunk description;
      Describe(absl::MakeSpan(rows.ops).subspan(before), &description);
      chunk.newest_ns = description.newest_ns();
      chunk.keep = description.keep();
      usable.push_back(chunk);
    }
    read.chunks = std::move(usable);
    std::vector<uint64_t> classes;
    for (const CommFacts& facts : read.loose.comms)
      classes.push_back(CommClassHash(facts.name, facts.size, !facts.parent_id.empty(), facts.ordinal));
    std::swap(rows.memberships, read.loose.rank.memberships);
    read.history = MakeHistory(rows, classes);
    std::swap(rows.memberships, read.loose.rank.memberships);
    read.described = true;
  }
}

void LsdFile::InternTexts(BundleBuilder* builder) {
  for (const std::string& text : strings_) texts_.strings.push_back(builder->InternString(text));
  for (const std::string& text : shapes_) texts_.shapes.push_back(builder->InternShape(text));
  strings_ = {};
  shapes_ = {};
}

void LsdFile::Load(int fd, const std::vector<LsdPlan>& plans, LsdWorkspace* workspace) {
  const google::protobuf::LogSilencer silencer;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ReadRank& read = ranks_[i];
    if (read.recorded <= plans[i].newest) {
      LoadAll(fd, &read, &workspace->parts());
    } else {
      LoadPart(fd, &read, plans[i], &workspace->parts());
    }
    Rank& rank = read.loose.rank;
    for (ring::ThreadSnapshot& thread : rank.threads) {
      thread.comm = Place(read, thread.comm);
      if (thread.wait_stream >= rank.streams.size()) thread.wait_stream = kNoIndex;
    }
    for (NetworkOp& op : rank.network) op.membership = Place(read, op.membership);
    for (ring::GraphSnapshot& graph : rank.graphs) {
      if (graph.stream >= rank.streams.size()) graph.stream = kNoIndex;
    }
    for (ring::StreamSnapshot& stream : rank.streams) {
      std::erase_if(stream.depends_on,
                    [&](const auto& dependency) { return dependency.stream >= rank.streams.size(); });
    }
    rank.path = path_;
    read.chunks = {};
    read.history = {};
  }
}

void LsdFile::LoadAll(int fd, ReadRank* read, LsdWorkspace::Parts* parts) {
  Rank& rank = read->loose.rank;
  // Before decompression, a chunk's claimed size is trusted only up to a limit.
  rank.ops.reserve(std::min<uint64_t>(read->recorded, 1u << 16));
  bool gap = false;
  for (const Chunk& chunk : read->chunks) {
    const size_t first = rank.ops.size();
    gap |= !Unpack(fd, read, chunk, parts, &rank);
    if (rank.ops.size() > first) rank.ops[first].after_gap = std::exchange(gap, false);
  }
}

void LsdFile::LoadPart(int fd, ReadRank* read, const LsdPlan& plan, LsdWorkspace::Parts* parts) {
  const std::vector<Chunk>& chunks = read->chunks;
  struct Piece {
    size_t begin = 0, end = 0;  // range in rows
    bool unpacked = false;
    bool needed_only = false;  // only operations in `needs` are kept
  };
  std::vector<Piece> pieces(chunks.size());
  Rank& rows = parts->rows;
  rows.ops.clear();
  rows.addresses.clear();
  auto unpack = [&](size_t i, bool needed_only) {
    Piece& piece = pieces[i];
    if (piece.unpacked) return;
    piece.unpacked = true;
    piece.needed_only = needed_only;
    piece.begin = rows.ops.size();
    Unpack(fd, read, chunks[i], parts, &rows);
    piece.end = rows.ops.size();
  };

  std::vector<size_t> order(chunks.size());  // newest first
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return chunks[a].newest_ns > chunks[b].newest_ns; });
  size_t taken = 0;
  for (size_t i : order) {
    if (taken >= plan.newest) break;
    unpack(i, false);
    taken += chunks[i].count;
  }
  // The oldest unfinished operation is the most informative, because the rest waits behind it.
  size_t kept = 0;
  for (auto it = order.rbegin(); it != order.rend() && kept < 2 * plan.newest; ++it) {
    if (!chunks[*it].keep || pieces[*it].unpacked) continue;
    unpack(*it, false);
    kept += chunks[*it].count;
  }

  std::vector<LsdNeed> needs;
  std::vector<OpChunk> descriptions;  // indexed by chunk, loaded on first use
  for (const LsdNeed& need : plan.needs) {
    const LaneHistory* lane = read->history.Find(need);
    if (lane == nullptr || lane->last_seq < need.first || lane->first_seq > need.last) continue;
    needs.push_back(need);
    const int64_t from = std::max(need.first, lane->first_seq);
    auto holds = [&](const Op& op) { return op.seq == from && LaneOf(op) == need; };
    if (std::any_of(rows.ops.begin(), rows.ops.end(), holds)) continue;
    if (descriptions.empty()) descriptions.resize(chunks.size());
    for (size_t i : order) {
      if (pieces[i].unpacked) continue;
      if (chunks[i].described && descriptions[i].lanes().empty()) {
        if (!ReadAt(fd, chunks[i].offset, chunks[i].length, &parts->message).ok() ||
            !parts->record.ParseFromString(parts->message))
          continue;
        parts->record.mutable_ops()->clear_zstd();
        descriptions[i].Swap(parts->record.mutable_ops());
      }
      bool overlaps = !chunks[i].described, reaches = false;
      for (const LaneRun& run : descriptions[i].lanes()) {
        if (Place(*read, run.communicator()) != need.membership || run.peer() != need.peer ||
            run.direction() != static_cast<uint32_t>(need.direction))
          continue;
        overlaps |= run.first_seq() <= need.last && run.last_seq() >= need.first;
        reaches |= run.first_seq() <= from;
      }
      if (overlaps) unpack(i, true);
      if (reaches) break;
    }
  }

  // Chunks may contain far more than requested, so only the newest `plan.newest` operations are taken.
  int64_t cutoff = INT64_MIN;
  size_t whole = 0;
  std::vector<int64_t> times;
  for (const Piece& piece : pieces) {
    if (piece.unpacked && !piece.needed_only) whole += piece.end - piece.begin;
  }
  if (whole > plan.newest + plan.newest / 2) {
    times.reserve(whole);
    for (const Piece& piece : pieces) {
      for (size_t i = piece.begin; i < piece.end && !piece.needed_only; ++i) times.push_back(rows.ops[i].enter_ns);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(plan.newest), times.end(), std::greater<>());
    cutoff = times[plan.newest];
  }
  size_t unfinished = 0;
  std::vector<size_t> keep;
  bool gap = false;
  for (const Piece& piece : pieces) {
    gap |= !piece.unpacked;
    for (size_t i = piece.begin; i < piece.end; ++i) {
      Op& op = rows.ops[i];
      bool take = !piece.needed_only && op.enter_ns > cutoff;
      if (!take && (IsInFlight(op.state) || op.recent_only)) take = unfinished++ < 2 * plan.newest;
      if (!take && !Needed(op, needs)) {
        gap = true;
        continue;
      }
      op.after_gap = std::exchange(gap, false);
      keep.push_back(i);
    }
  }
  Rank& rank = read->loose.rank;
  rank.ops.reserve(keep.size());
  for (size_t i : keep) {
    rank.ops.push_back(rows.ops[i]);
    rank.ops.back().addresses = kNoIndex;
  }
  read->left = read->recorded > keep.size() ? read->recorded - keep.size() : 0;
  rank.not_loaded = read->left;
  for (const LaneHistory& lane : read->history.lanes) rank.memberships[lane.membership].not_loaded += lane.count;
  for (const Op& op : rank.ops) {
    if (LaneOf(op)) --rank.memberships[op.membership].not_loaded;
  }
  for (Membership& m : rank.memberships) m.not_loaded = std::max<int64_t>(m.not_loaded, 0);
}

void LsdFile::Deliver(BundleBuilder* builder) {
  for (ReadRank& read : ranks_) {
    Rank& rank = read.loose.rank;
    const uint64_t have = rank.ops.size() + read.left;
    rank.step = header_.step();
    if (!read.has_header) {
      rank.source = Source::kDump;
      rank.job = header_.job();
      rank.restart_count = header_.restart_count();
      rank.host = header_.host();
      read.damaged = true;
      problems_.push_back(
          {.path = path_,
           .text = absl::StrCat("rank ", rank.rank, ": its own entry is lost, so only parts of its data were read"),
           .rank = rank.rank,
           .like = "entry lost"});
    } else if (read.promised_ops > have || read.promised_comms > rank.memberships.size()) {
      read.damaged = true;
      const uint64_t lost_comms =
          read.promised_comms > rank.memberships.size() ? read.promised_comms - rank.memberships.size() : 0;
      const uint64_t lost_ops = read.promised_ops > have ? read.promised_ops - have : 0;
      problems_.push_back(
          {.path = path_,
           .text = absl::StrCat("rank ", rank.rank, ": ", lost_ops, " of ", read.promised_ops, " operations and ",
                                lost_comms, " of ", read.promised_comms, " communicators could not be read"),
           .rank = rank.rank,
           .like = "data lost"});
    }
    rank.damaged |= read.damaged;
    builder->AddRank(std::move(read.loose));
  }
  for (auto& [facts, members] : comms_) builder->AddComm(std::move(facts), std::move(members));
  builder->ExpectRanks(header_.ranks_expected());
  builder->AddPlace(
      {header_.host(), header_.rack(), header_.leaf_switch(), {header_.port_mbits(), header_.ports(), header_.gpus()}});
  for (const std::string& problem : header_.problems()) carried_.push_back({path_, -1, problem, -1});
  if (damages_ > kMaxProblemsPerFile)
    problems_.push_back({.path = path_,
                         .text = absl::StrCat(damages_ - kMaxProblemsPerFile, " more damaged parts in this file"),
                         .like = "more damage"});
  for (std::vector<Problem>* list : {&problems_, &carried_}) {
    for (Problem& problem : *list) builder->AddProblem(std::move(problem));
  }
  ranks_.clear();
  comms_.clear();
  problems_.clear();
  carried_.clear();
}

}  // namespace lockstep
