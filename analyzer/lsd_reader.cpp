#include "analyzer/lsd_reader.h"

#include <google/protobuf/stubs/logging.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/lsd_columns.h"
#include "analyzer/lsd_convert.h"
#include "analyzer/lsd_format.h"

namespace lockstep {
namespace {

constexpr int kMaxProblemsPerFile = 20;
// So many damaged messages one after the other: the framing is lost, what follows is noise.
constexpr int kMaxDamagedRun = 8;
constexpr size_t kBlockBytes = 256u << 10;

// Reads ahead; knows the file offset of what it shows.
class Input {
 public:
  explicit Input(int fd) : fd_(fd) {}

  // The next `size` bytes, fewer at the end of the file; valid until the next call.
  absl::Status Peek(size_t size, std::string_view* bytes) {
    if (buffer_.size() - begin_ < size) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      size_t have = buffer_.size();
      while (have < size) {
        buffer_.resize(have + kBlockBytes);
        const ssize_t n = pread(fd_, buffer_.data() + have, kBlockBytes, static_cast<off_t>(offset_ + have));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
          const int error = errno;
          buffer_.resize(have);
          if (n < 0) return absl::UnavailableError(strerror(error));
          break;
        }
        have += static_cast<size_t>(n);
      }
      buffer_.resize(have);
    }
    *bytes = std::string_view(buffer_).substr(begin_, size);
    return absl::OkStatus();
  }
  // Past bytes that Peek has shown.
  void Skip(size_t size) {
    begin_ += size;
    offset_ += size;
  }
  uint64_t offset() const { return offset_; }

 private:
  const int fd_;
  std::string buffer_;
  size_t begin_ = 0;
  uint64_t offset_ = 0;  // of buffer_[begin_]
};

struct ReadRank {
  LooseRank loose;
  absl::flat_hash_map<uint32_t, uint32_t> position;  // RankCommunicator.index -> place in loose.rank.memberships
  uint64_t operations = 0;                           // that the header promised
  uint32_t communicators = 0;
  bool has_header = false;
  bool damaged = false;
};

class LsdReader {
 public:
  LsdReader(int fd, const std::string& path, BundleBuilder* builder)
      : input_(fd), path_(path), builder_(builder), zstd_(ZSTD_createDCtx(), &ZSTD_freeDCtx) {}

  absl::Status Read() {
    std::string_view magic;
    if (absl::Status status = input_.Peek(kLsdMagic.size(), &magic); !status.ok())
      return Error("cannot read", status.message());
    if (magic != kLsdMagic) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": not a Lockstep dump: it does not begin with \"LSDUMP1\""));
    }
    input_.Skip(kLsdMagic.size());
    while (!ended_ && !stopped_) {
      if (absl::Status status = NextRecord(); !status.ok()) return status;
    }
    if (ranks_.empty() && !ended_) {
      return absl::DataLossError(absl::StrCat(
          path_, ": nothing could be read of this dump",
          problems_.empty() ? "" : absl::StrCat(": ", problems_[0].text, " at byte ", problems_[0].offset)));
    }
    Deliver();
    return absl::OkStatus();
  }

  const DumpHeader& header() const { return header_; }

 private:
  absl::Status Error(absl::string_view what, absl::string_view why) const {
    return absl::DataLossError(absl::StrCat(path_, ": ", what, " at byte ", input_.offset(), ": ", why));
  }

  void Damage(uint64_t offset, std::string text, int32_t rank = -1) {
    ++damages_;
    if (problems_.size() < kMaxProblemsPerFile)
      problems_.push_back({path_, static_cast<int64_t>(offset), std::move(text), rank});
  }

  void Stop(uint64_t offset, std::string text) {
    Damage(offset, std::move(text));
    stopped_ = true;
  }

  // One length-delimited message; sets stopped_ where nothing after it can be found.
  absl::Status NextRecord() {
    const uint64_t start = input_.offset();
    std::string_view bytes;
    if (absl::Status status = input_.Peek(10, &bytes); !status.ok()) {
      Stop(start, absl::StrCat("cannot read on: ", status.message()));
      return absl::OkStatus();
    }
    if (bytes.empty()) {
      Stop(start, "the file ends early: it was cut off, or its writer never finished");
      return absl::OkStatus();
    }
    uint64_t length = 0;
    size_t width = 0;
    bool complete = false;
    while (width < bytes.size() && width < 5 && !complete) {
      const auto byte = static_cast<unsigned char>(bytes[width]);
      length |= static_cast<uint64_t>(byte & 0x7f) << (7 * width);
      complete = byte < 0x80;
      ++width;
    }
    if (!complete || length > kLsdMaxMessageBytes || length < kLsdCrcBytes) {
      Stop(start, width == bytes.size() && !complete
                      ? "the file ends inside a message: it was cut off"
                      : absl::StrCat("no message of a possible length (", kLsdCrcBytes, " to ", kLsdMaxMessageBytes,
                                     " bytes) begins here; what follows is lost"));
      return absl::OkStatus();
    }
    input_.Skip(width);
    if (absl::Status status = input_.Peek(length, &bytes); !status.ok()) {
      Stop(start, absl::StrCat("cannot read on: ", status.message()));
      return absl::OkStatus();
    }
    if (bytes.size() < length) {
      Stop(start,
           absl::StrCat("the file ends ", length - bytes.size(), " bytes before the end of a message: it was cut off"));
      return absl::OkStatus();
    }
    // Protobuf would write a line to standard error for every name that is no UTF-8.
    const google::protobuf::LogSilencer silencer;
    DumpRecord record;
    const bool intact = CrcMatches(bytes) && record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    input_.Skip(length);
    if (!intact) {
      Damage(start, absl::StrCat("a message of ", length, " bytes is damaged (its checksum does not match): skipped"));
      if (++damaged_run_ >= kMaxDamagedRun)
        Stop(start, "several damaged messages in a row; what follows is taken as lost");
      return absl::OkStatus();
    }
    damaged_run_ = 0;
    return Take(record, start);
  }

  static bool CrcMatches(std::string_view bytes) {
    const size_t body = bytes.size() - kLsdCrcBytes;
    if (static_cast<uint8_t>(bytes[body]) != kLsdCrcTag) return false;
    uint32_t crc = 0;
    for (size_t i = 0; i < 4; ++i)
      crc |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[body + 1 + i])) << (8 * i);
    return crc == Crc32c(bytes.substr(0, body));
  }

  absl::Status Take(const DumpRecord& record, uint64_t offset) {
    switch (record.record_case()) {
      case DumpRecord::kHeader:
        if (record.header().min_reader_version() > kLsdFormatVersion) {
          return absl::UnimplementedError(
              absl::StrCat(path_, ": written in dump format ", record.header().format_version(),
                           ", which needs a reader of version ", record.header().min_reader_version(),
                           " or newer; this one reads up to version ", kLsdFormatVersion, ": use a newer lockstep"));
        }
        header_ = record.header();
        break;
      case DumpRecord::kRank:
        TakeRank(record.rank(), offset);
        break;
      case DumpRecord::kCommunicator:
        TakeMembership(record.communicator(), offset);
        break;
      case DumpRecord::kOps:
        TakeOps(record.ops(), offset);
        break;
      case DumpRecord::kCommunicatorInfo:
        if (comms_seen_++ < kLsdMaxFileMemberships)
          builder_comms_.emplace_back(FactsOf(record.communicator_info()), MembersOf(record.communicator_info()));
        break;
      case DumpRecord::kTexts:
        for (const std::string& text : record.texts().strings()) {
          if (texts_.strings.size() < kLsdMaxTexts) texts_.strings.push_back(builder_->InternString(text));
        }
        for (const std::string& text : record.texts().shapes()) {
          if (texts_.shapes.size() < kLsdMaxTexts) texts_.shapes.push_back(builder_->InternShape(text));
        }
        break;
      case DumpRecord::kEnd:
        ended_ = true;
        break;
      case DumpRecord::RECORD_NOT_SET:
        break;  // a newer writer's; min_reader_version says we may pass over it
    }
    return absl::OkStatus();
  }

  ReadRank* Find(int32_t rank, uint64_t offset) {
    auto it = rank_at_.find(rank);
    if (it != rank_at_.end()) return &ranks_[it->second];
    if (rank < 0 || rank >= kMaxRanks || ranks_.size() >= kLsdMaxFileRanks) {
      Damage(offset, absl::StrCat("data of an impossible rank (", rank, "): skipped"));
      return nullptr;
    }
    rank_at_[rank] = ranks_.size();
    ranks_.emplace_back();
    ranks_.back().loose.rank.rank = rank;
    return &ranks_.back();
  }

  void TakeRank(const RankHeader& header, uint64_t offset) {
    ReadRank* rank = Find(header.rank(), offset);
    if (rank == nullptr) return;
    if (rank->has_header) {
      Damage(offset, absl::StrCat("a second entry of rank ", header.rank(), ": skipped"), header.rank());
      return;
    }
    Rank decoded = DecodeRank(header);
    std::swap(decoded.memberships, rank->loose.rank.memberships);
    std::swap(decoded.ops, rank->loose.rank.ops);
    rank->loose.rank = std::move(decoded);
    rank->has_header = true;
    rank->operations = header.operations();
    rank->communicators = header.communicators();
    for (const std::string& problem : header.problems()) carried_.push_back({path_, -1, problem, header.rank()});
  }

  void TakeMembership(const RankCommunicator& message, uint64_t offset) {
    ReadRank* rank = Find(message.rank(), offset);
    if (rank == nullptr) return;
    if (++memberships_ > kLsdMaxFileMemberships) {
      rank->damaged = true;
      return;
    }
    const auto place = static_cast<uint32_t>(rank->loose.rank.memberships.size());
    if (!rank->position.try_emplace(message.index(), place).second) {
      Damage(offset,
             absl::StrCat("a second entry of communicator ", message.index(), " of rank ", message.rank(), ": skipped"),
             message.rank());
      return;
    }
    rank->loose.rank.memberships.push_back(DecodeMembership(message));
    rank->loose.comms.push_back(FactsOf(message));
  }

  void TakeOps(const OpChunk& chunk, uint64_t offset) {
    ReadRank* rank = Find(chunk.rank(), offset);
    if (rank == nullptr) return;
    if (absl::Status status = Unpack(chunk, &rank->loose.rank); !status.ok()) {
      rank->damaged = true;
      Damage(offset,
             absl::StrCat("a chunk of ", chunk.count(), " operations cannot be used (", status.message(), "): skipped"),
             chunk.rank());
    }
  }

  absl::Status Unpack(const OpChunk& chunk, Rank* rank) {
    const std::string& packed = chunk.zstd();
    if (chunk.count() > kLsdMaxChunkOps || chunk.raw_bytes() > kLsdMaxRawBytes ||
        chunk.raw_bytes() > chunk.count() * kLsdMaxOpBytes + 1024) {
      return absl::DataLossError("it claims to be larger than a chunk can be");
    }
    if (operations_ + chunk.count() > kLsdMaxFileOps)
      return absl::DataLossError(absl::StrCat("more than ", kLsdMaxFileOps, " operations in one file"));
    // The frame descriptor's third bit: with checksum.
    if (packed.size() < 5 || (static_cast<unsigned char>(packed[4]) & 4) == 0)
      return absl::DataLossError("no zstd frame with a checksum");
    if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != chunk.raw_bytes())
      return absl::DataLossError("its size is not what the frame says");
    if (zstd_ == nullptr) return absl::ResourceExhaustedError("no memory");
    const std::unique_ptr<char[]> raw(new char[chunk.raw_bytes() + 1]);
    const size_t size = ZSTD_decompressDCtx(zstd_.get(), raw.get(), chunk.raw_bytes(), packed.data(), packed.size());
    if (ZSTD_isError(size)) return absl::DataLossError(ZSTD_getErrorName(size));
    OpColumns columns;
    if (size != chunk.raw_bytes() || !columns.ParseFromArray(raw.get(), static_cast<int>(size)) ||
        columns.count() != chunk.count()) {
      return absl::DataLossError("it does not hold what it says");
    }
    if (absl::Status status = DecodeOps(columns, texts_, rank); !status.ok()) return status;
    operations_ += chunk.count();
    return absl::OkStatus();
  }

  // References that point outside are cut; operations whose communicator's entry was lost are lost with it.
  void CheckReferences(ReadRank* read) {
    Rank& rank = read->loose.rank;
    auto membership = [&](uint32_t index) {
      auto it = read->position.find(index);
      return it == read->position.end() ? kNoIndex : it->second;
    };
    std::erase_if(rank.ops, [&](Op& op) {
      if (op.membership == kNoIndex) return false;
      op.membership = membership(op.membership);
      return op.membership == kNoIndex;
    });
    for (Op& op : rank.ops) {
      if (op.stream >= rank.streams.size()) op.stream = kNoIndex;
      if (op.thread >= rank.threads.size() && rank.source != Source::kFlightRecorder) op.thread = kNoIndex;
    }
    for (ring::ThreadSnapshot& thread : rank.threads) {
      thread.comm = membership(thread.comm);
      if (thread.wait_stream >= rank.streams.size()) thread.wait_stream = kNoIndex;
    }
    for (ring::StreamSnapshot& stream : rank.streams) {
      std::erase_if(stream.depends_on,
                    [&](const auto& dependency) { return dependency.stream >= rank.streams.size(); });
    }
  }

  void Deliver() {
    for (ReadRank& read : ranks_) {
      CheckReferences(&read);
      Rank& rank = read.loose.rank;
      rank.path = path_;
      if (!read.has_header) {
        rank.source = Source::kDump;
        rank.job = header_.job();
        rank.restart_count = header_.restart_count();
        rank.host = header_.host();
        read.damaged = true;
        problems_.push_back(
            {path_, -1, absl::StrCat("rank ", rank.rank, ": its own entry is lost, only parts of its data were read"),
             rank.rank});
      } else if (read.operations > rank.ops.size() || read.communicators > rank.memberships.size()) {
        read.damaged = true;
        const uint64_t lost_comms =
            read.communicators > rank.memberships.size() ? read.communicators - rank.memberships.size() : 0;
        const uint64_t lost_ops = read.operations > rank.ops.size() ? read.operations - rank.ops.size() : 0;
        problems_.push_back(
            {path_, -1,
             absl::StrCat("rank ", rank.rank, ": ", lost_ops, " of ", read.operations, " operations and ", lost_comms,
                          " of ", read.communicators, " communicators could not be read"),
             rank.rank});
      }
      rank.damaged |= read.damaged;
      builder_->AddRank(std::move(read.loose));
    }
    for (auto& [facts, members] : builder_comms_) builder_->AddComm(std::move(facts), std::move(members));
    builder_->ExpectRanks(header_.ranks_expected());
    for (const std::string& problem : header_.problems()) carried_.push_back({path_, -1, problem, -1});
    if (damages_ > kMaxProblemsPerFile)
      problems_.push_back(
          {path_, -1, absl::StrCat(damages_ - kMaxProblemsPerFile, " more damaged places in this file"), -1});
    for (std::vector<Problem>* list : {&problems_, &carried_}) {
      for (Problem& problem : *list) builder_->AddProblem(std::move(problem));
    }
  }

  Input input_;
  const std::string path_;
  BundleBuilder* builder_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> zstd_;
  DumpHeader header_;
  TextIndexes texts_;  // file's index -> bundle's
  std::vector<ReadRank> ranks_;
  absl::flat_hash_map<int32_t, size_t> rank_at_;
  std::vector<std::pair<CommFacts, std::vector<MemberSpan>>> builder_comms_;
  std::vector<Problem> problems_, carried_;
  uint64_t operations_ = 0, memberships_ = 0, comms_seen_ = 0;
  int damages_ = 0, damaged_run_ = 0;
  bool ended_ = false, stopped_ = false;
};

}  // namespace

bool LooksLikeLsd(std::string_view head) {
  return head.substr(0, kLsdMagic.size()) == kLsdMagic;
}

absl::Status ReadLsd(int fd, const std::string& path, BundleBuilder* builder, DumpHeader* header) {
  LsdReader reader(fd, path, builder);
  if (absl::Status status = reader.Read(); !status.ok()) return status;
  if (header != nullptr) *header = reader.header();
  return absl::OkStatus();
}

}  // namespace lockstep
