#include "analyzer/formats/lsd/writer.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsd/history.h"
#include "analyzer/formats/merge.h"
#include "analyzer/util/atomic_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxProblemsKept = 256;

class LsdWriter {
 public:
  LsdWriter(const Bundle& bundle, AtomicFile* file)
      : bundle_(bundle), file_(file), zstd_(ZSTD_createCCtx(), &ZSTD_freeCCtx) {
    texts_.strings.assign(bundle.strings.size(), kNoIndex);
    texts_.shapes.assign(bundle.shapes.size(), kNoIndex);
  }

  absl::Status Write(const std::vector<size_t>& rank_indexes, const DumpHeader& header) {
    if (zstd_ == nullptr) return absl::ResourceExhaustedError("no memory for the compressor");
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, 3);
    if (absl::Status status = file_->Append(kLsdMagic); !status.ok()) return status;
    if (absl::Status status = WriteHeader(header, rank_indexes.size()); !status.ok()) return status;
    if (absl::Status status = WriteTexts(rank_indexes); !status.ok()) return status;
    if (absl::Status status = WriteComms(rank_indexes); !status.ok()) return status;
    uint64_t operations = 0;
    for (size_t index : rank_indexes) {
      if (absl::Status status = WriteRank(bundle_.ranks[index]); !status.ok()) return status;
      operations += bundle_.ranks[index].ops.size();
    }
    DumpRecord record;
    record.mutable_end()->set_ranks(static_cast<uint32_t>(rank_indexes.size()));
    record.mutable_end()->set_records(operations);
    return Append(record);
  }

 private:
  absl::Status Append(const DumpRecord& record) {
    std::string bytes = record.SerializeAsString();
    if (bytes.size() + kLsdCrcBytes > kLsdMaxMessageBytes) {
      return absl::OutOfRangeError(absl::StrCat("a dump message of ", bytes.size(),
                                                " bytes is larger than readers accept (", kLsdMaxMessageBytes, ")"));
    }
    const uint32_t crc = Crc32c(bytes);
    bytes.push_back(static_cast<char>(kLsdCrcTag));
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(crc >> shift & 0xff));
    std::string length;
    for (uint64_t left = bytes.size();; left >>= 7) {
      length.push_back(static_cast<char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0)));
      if (left <= 0x7f) break;
    }
    if (absl::Status status = file_->Append(length); !status.ok()) return status;
    return file_->Append(bytes);
  }

  absl::Status WriteHeader(const DumpHeader& header, size_t ranks) {
    DumpRecord record;
    *record.mutable_header() = header;
    DumpHeader* out = record.mutable_header();
    if (out->format_version() == 0) out->set_format_version(kLsdFormatVersion);
    if (out->min_reader_version() == 0) out->set_min_reader_version(kLsdFormatVersion);
    if (out->job().empty()) out->set_job(bundle_.job);
    if (out->ranks_expected() == 0) out->set_ranks_expected(bundle_.ranks_expected);
    for (std::string* text : {out->mutable_tool_version(), out->mutable_host(), out->mutable_boot_id(),
                              out->mutable_job(), out->mutable_step()}) {
      *text = CleanUtf8(*text, 1024);
    }
    for (const Problem& problem : bundle_.problems) {
      if (problem.rank >= 0 || problem.note || static_cast<size_t>(out->problems_size()) >= kMaxProblemsKept ||
          ranks == 0)
        continue;
      out->add_problems(CleanUtf8(ProblemText(problem), 1024));
    }
    return Append(record);
  }

  static std::string ProblemText(const Problem& problem) {
    std::string where = problem.path;
    if (!where.empty() && problem.offset >= 0) absl::StrAppend(&where, " at byte ", problem.offset);
    return where.empty() ? problem.text : absl::StrCat(where, ": ", problem.text);
  }

  // Writes only the strings that this file's ranks use.
  absl::Status WriteTexts(const std::vector<size_t>& rank_indexes) {
    DumpRecord record;
    size_t bytes = 0;
    uint32_t strings = 0, shapes = 0;
    absl::Status status;
    auto flush = [&] {
      status = Append(record);
      record.Clear();
      bytes = 0;
    };
    auto use = [&](uint32_t index, bool shape) {
      std::vector<uint32_t>& map = shape ? texts_.shapes : texts_.strings;
      if (index >= map.size() || map[index] != kNoIndex || !status.ok()) return;
      if ((shape ? shapes : strings) >= kLsdMaxTexts) return;
      const std::string text = CleanUtf8(shape ? bundle_.shapes[index] : bundle_.strings[index], 65536);
      if (bytes + text.size() > kLsdMaxMessageBytes / 4) flush();
      bytes += text.size() + 8;
      if (shape) {
        record.mutable_texts()->add_shapes(text);
        map[index] = shapes++;
      } else {
        record.mutable_texts()->add_strings(text);
        map[index] = strings++;
      }
    };
    for (size_t index : rank_indexes) {
      for (const Op& op : bundle_.ranks[index].ops) {
        use(op.input_shape, true);
        use(op.output_shape, true);
        use(op.dtypes, false);
        use(op.name, false);
        use(op.call_site, false);
      }
    }
    if (status.ok() && record.has_texts()) flush();
    return status;
  }

  absl::Status WriteComms(const std::vector<size_t>& rank_indexes) {
    std::vector<bool> used(bundle_.comms.size());
    for (size_t index : rank_indexes) {
      for (const Membership& m : bundle_.ranks[index].memberships) {
        if (m.comm < used.size()) used[m.comm] = true;
      }
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      DumpRecord record;
      *record.mutable_communicator_info() = EncodeComm(bundle_.comms[i]);
      // Members in no regular order take much space. Members that do not fit are omitted, because their own files
      // contain them.
      CommunicatorInfo* info = record.mutable_communicator_info();
      while (record.ByteSizeLong() + 64 > kLsdMaxMessageBytes)
        info->mutable_members()->DeleteSubrange(info->members_size() / 2,
                                                info->members_size() - info->members_size() / 2);
      if (absl::Status status = Append(record); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status WriteRank(const Rank& rank) {
    DumpRecord record;
    *record.mutable_rank() = EncodeRank(rank);
    for (const Problem& problem : bundle_.problems) {
      if (problem.rank != rank.rank || problem.note ||
          static_cast<size_t>(record.rank().problems_size()) >= kMaxProblemsKept)
        continue;
      record.mutable_rank()->add_problems(CleanUtf8(ProblemText(problem), 1024));
    }
    if (absl::Status status = Append(record); !status.ok()) return status;
    static const Communicator kNobodys;
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      const Membership& m = rank.memberships[i];
      DumpRecord membership;
      *membership.mutable_communicator() = EncodeMembership(
          m, m.comm < bundle_.comms.size() ? bundle_.comms[m.comm] : kNobodys, rank.rank, static_cast<uint32_t>(i));
      if (absl::Status status = Append(membership); !status.ok()) return status;
    }
    if (absl::Status status = WriteHistory(rank); !status.ok()) return status;
    for (size_t first = 0; first < rank.ops.size(); first += kLsdChunkOps) {
      const size_t count = std::min<size_t>(kLsdChunkOps, rank.ops.size() - first);
      if (absl::Status status = WriteOps(rank, {rank.ops.data() + first, count}); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status WriteHistory(const Rank& rank) {
    std::vector<uint64_t> classes;
    for (const Membership& m : rank.memberships) {
      classes.push_back(m.comm < bundle_.comms.size() ? ClassOf(bundle_.comms[m.comm]) : 0);
    }
    DumpRecord record;
    *record.mutable_history() = EncodeHistory(MakeHistory(rank, classes), rank.rank);
    // The history only speeds up reading, so one that is too large is omitted.
    if (record.history().lanes().empty() || record.ByteSizeLong() + 64 > kLsdMaxMessageBytes) return absl::OkStatus();
    return Append(record);
  }

  static uint64_t ClassOf(const Communicator& comm) {
    return CommClassHash(comm.name, comm.size, !comm.parent_id.empty(), comm.ordinal);
  }

  absl::Status WriteOps(const Rank& rank, absl::Span<const Op> ops) {
    const std::string raw = EncodeOps(rank, ops, texts_).SerializeAsString();
    DumpRecord record;
    OpChunk* chunk = record.mutable_ops();
    chunk->set_rank(rank.rank);
    chunk->set_count(static_cast<uint32_t>(ops.size()));
    chunk->set_raw_bytes(static_cast<uint32_t>(raw.size()));
    Describe(ops, chunk);
    std::string* packed = chunk->mutable_zstd();
    packed->resize(ZSTD_compressBound(raw.size()));
    const size_t size = ZSTD_compress2(zstd_.get(), packed->data(), packed->size(), raw.data(), raw.size());
    if (ZSTD_isError(size)) return absl::InternalError(absl::StrCat("cannot compress: ", ZSTD_getErrorName(size)));
    packed->resize(size);
    return Append(record);
  }

  const Bundle& bundle_;
  AtomicFile* file_;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd_;
  TextIndexes texts_;
};

}  // namespace

absl::Status WriteLsd(const Bundle& bundle, const std::vector<size_t>& rank_indexes, const DumpHeader& header,
                      const std::string& path) {
  for (size_t index : rank_indexes) {
    if (index >= bundle.ranks.size())
      return absl::InvalidArgumentError(absl::StrCat("no rank at index ", index, " of the bundle"));
    if (bundle.ranks[index].not_loaded > 0) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", bundle.ranks[index].rank, ": part of its history was ",
                                                        "not loaded from ", bundle.ranks[index].path,
                                                        "; copy that file instead"));
    }
  }
  AtomicFile file(path, ".lsd.");
  if (absl::Status status = file.Open(); !status.ok()) return status;
  if (absl::Status status = LsdWriter(bundle, &file).Write(rank_indexes, header); !status.ok()) return status;
  return file.Commit();
}

}  // namespace lockstep
