// The entries of one file into operations.
#ifndef LOCKSTEP_ANALYZER_FR_OPS_H_
#define LOCKSTEP_ANALYZER_FR_OPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/fr_file.h"
#include "analyzer/fr_names.h"
#include "analyzer/fr_value.h"

namespace lockstep::fr {

// The state text of an entry, and what else decides the operation's state.
enum class RawState : uint8_t { kUnknown, kScheduled, kStarted, kCompleted };

struct RawOp {
  RawState state = RawState::kUnknown;
  bool p2p = false;
  bool gloo = false;
  int64_t collective_seq = kUnknown, p2p_seq = kUnknown;
};

// An integer of any of the forms the format has: int, whole double, bool, decimal text. False for anything else.
bool ToInteger(const Document& document, const Value& value, int64_t* out);

class EntryReader {
 public:
  EntryReader(const Document& document, FileData* file);

  // Reads the list of entries, appending to file->rank.ops and file->used; what cannot be read is skipped with a
  // problem.
  void ReadEntries(const Value& entries);

  // Parallel to file->rank.ops.
  const std::vector<RawOp>& raw() const { return raw_; }

 private:
  struct Fields;
  struct Shape {
    size_t first, size;  // in shape_numbers_
    int64_t elements;
    uint32_t index;
  };
  struct OpNameInfo {
    OpName name;
    uint32_t text = kNoIndex;  // interned
  };

  // Returns a reason when the entry cannot be used.
  std::string_view ReadEntry(const Value& entry);
  uint32_t FindGroup(const Fields& fields);
  void NoteGroupUse(UsedGroup* group, const Fields& fields, const Op& op, const RawOp& raw, const OpName& name);
  void ReadShape(const Value& sizes, uint32_t* index, int64_t* elements, uint32_t* tensors);
  uint32_t ReadDtypes(const Value& in, const Value& out);
  uint32_t ReadCallSite(const Value& frames);
  uint32_t ReadFrame(const Value& frame);
  const OpNameInfo& FindOpName(const Value& name);
  uint32_t ThreadOf(const Value& id);
  uint32_t Intern(std::string_view text);
  uint32_t InternValue(const Value& value);
  bool Spend(uint64_t work);
  void Skip(size_t entry, std::string_view reason, const std::string& detail);
  void SortByRecord();

  const Document& document_;
  FileData& file_;
  std::vector<RawOp> raw_;
  std::vector<bool> seen_;  // containers used as entries
  absl::flat_hash_map<std::string, uint32_t> strings_;
  std::vector<uint32_t> string_of_value_;  // document string -> interned + 1
  std::vector<uint32_t> name_of_value_;    // document string -> names_ + 1
  std::vector<OpNameInfo> names_;
  std::vector<uint32_t> frame_of_container_;
  absl::flat_hash_map<uint64_t, std::vector<Shape>> shapes_;
  std::vector<int64_t> shape_numbers_;
  std::vector<int64_t> scratch_;
  absl::flat_hash_map<uint64_t, uint32_t> dtypes_;
  absl::flat_hash_map<uint64_t, uint32_t> groups_;
  absl::flat_hash_map<uint32_t, uint32_t> threads_;  // interned thread id -> number
  std::vector<int64_t> thread_ops_;
  uint64_t work_left_;
  uint64_t work_total_ = 0;
  struct Skipped {
    size_t first = 0, count = 0;
  };
  std::map<std::string, Skipped> skipped_;
  std::string detail_;
};

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FR_OPS_H_
