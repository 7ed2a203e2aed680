// Both ways of reading a pickle's entries must give the same result.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"
#include "analyzer/formats/fr/pickle.h"

namespace lockstep::fr {

// Everything that an EntryReader produced, as text.
inline std::string DescribeEntries(const FileData& file, const EntryReader& reader) {
  auto text = [](const std::vector<std::string>& table, uint32_t index) {
    return index == kNoIndex ? std::string("-") : index < table.size() ? table[index] : std::string("out of range");
  };
  std::string out = absl::StrCat(file.newest_ns, " ", file.rank.damaged ? "damaged" : "", "\n");
  for (const Problem& problem : file.problems) absl::StrAppend(&out, problem.offset, " ", problem.text, "\n");
  for (const UsedGroup& group : file.used) {
    absl::StrAppend(&out, "group ", group.name, "/", group.desc, " ", group.local_id_only, " ids");
    for (int64_t id : group.pg_ids) absl::StrAppend(&out, " ", id);
    absl::StrAppend(&out, " zero ", group.collective_zero, " counts ", group.collectives, " ", group.p2ps, " ");
    absl::StrAppend(&out, group.first_collective, " ", group.has_p2p, " own ", group.own_group_rank, " ",
                    group.size_hint);
    absl::StrAppend(&out, " ", group.newest_issued_ns, "\n");
  }
  for (size_t i = 0; i < file.rank.ops.size(); i++) {
    const Op& op = file.rank.ops[i];
    const RawOp& raw = reader.raw()[i];
    absl::StrAppend(&out, "op ", op.membership, " ", static_cast<int>(op.kind), " ", text(file.strings, op.name), " ");
    absl::StrAppend(&out, op.root_or_peer, " ", op.batch_end, op.retired, " ", op.seq, " ", op.record_id);
    absl::StrAppend(&out, " thread ", op.thread, ":", op.index, " at ", op.enter_ns, " ", op.started_ns, " ");
    absl::StrAppend(&out, op.completed_ns, " ", text(file.shapes, op.input_shape), text(file.shapes, op.output_shape),
                    " ");
    absl::StrAppend(&out, op.input_elements, " ", op.output_elements, " ", text(file.strings, op.dtypes), " at ");
    absl::StrAppend(&out, text(file.strings, op.call_site), " raw ", static_cast<int>(raw.state), raw.p2p, " ");
    absl::StrAppend(&out, raw.collective_seq, " ", raw.p2p_seq, "\n");
  }
  return out;
}

// The results of both ways for `bytes` if they differ; empty if they agree or the fast way rejects the file. *streamed,
// if given, is set to whether it accepted the file.
inline std::string StreamDifference(std::string_view bytes, bool* streamed = nullptr) {
  static thread_local Document quick_document, document;
  FileData quick_file, file;
  EntryReader quick(quick_document, &quick_file);
  const bool done = StreamPickle(bytes, &quick_document, &quick) == Streaming::kDone;
  if (streamed != nullptr) *streamed = done;
  if (!done) return "";
  const ParseError error = ParsePickle(bytes, &document);
  if (!error.text.empty()) return absl::StrCat("streamed, but: ", error.text, " at ", error.offset);
  EntryReader slow(document, &file);
  slow.ReadEntries(document.Get(document.root, Key::kEntries));
  const std::string streamed_text = DescribeEntries(quick_file, quick), text = DescribeEntries(file, slow);
  return streamed_text == text ? "" : absl::StrCat("streamed:\n", streamed_text, "as values:\n", text);
}

}  // namespace lockstep::fr
