// Converts the entries of one file to operations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

// The state text of an entry.
enum class RawState : uint8_t { kUnknown, kScheduled, kStarted, kCompleted };

struct RawOp {
  RawState state = RawState::kUnknown;
  bool p2p = false;
  bool measured = false;  // the dump has the operation's duration
  uint8_t backend = 0;    // distinguishes "nccl" from "gloo" in a file with both
  int64_t collective_seq = kUnknown, p2p_seq = kUnknown;
  int64_t op_id = kUnknown;  // counts the group's collectives, sends and receives together
  int64_t timeout_ms = -1;   // the watchdog's timeout; -1 if unknown
};

// Reads an integer in any of the format's forms: int, integral double, bool, decimal text. Returns false for anything
// else.
bool ToInteger(const Document& document, const Value& value, int64_t* out);

class EntryReader {
 public:
  EntryReader(const Document& document, FileData* file);

  // Reads the list of entries and appends to file->rank.ops and file->used. Skips unreadable entries and reports a
  // problem.
  void ReadEntries(const Value& entries);

  // Parallel to file->rank.ops.
  const std::vector<RawOp>& raw() const { return raw_; }
  std::vector<RawOp>* mutable_raw() { return &raw_; }

 private:
  // The tensors on one side of an operation.
  struct Shape {
    uint32_t index = kNoIndex;
    int64_t elements = -1;
  };
  struct Types {
    bool given = false;  // the list exists, though it may be empty
    std::vector<Value> items;
  };
  struct KnownShape {
    size_t first, size;  // range in shape_numbers_
    Shape shape;
  };
  struct OpNameInfo {
    OpName name;
    uint32_t text = kNoIndex;  // interned
    uint8_t backend = 0;
    bool garbled = false;
  };
  // The group of the last entry with these values.
  struct RecentGroup {
    uint32_t name = kNoIndex, desc = kNoIndex;
    int64_t pg_id = 0;
    uint32_t group = 0;
  };

  bool full() const { return file_.rank.ops.size() >= kMaxEntries; }
  void Finish();
  // Returns why the entry is unusable, or an empty string.
  std::string_view ReadEntry(const Value& entry);
  uint32_t FindGroup(const Value& name, const Value& desc, const Value& id);
  uint32_t FindGroupSlowly(const Value& name, const Value& desc, const Value& id);
  void NoteGroupUse(const Op& op, const RawOp& raw, int32_t own);
  Shape ReadShape(const Value& sizes);
  void ReadTypes(const Value& list, Types* types);
  uint32_t InternTypes(const Types& in, const Types& out);
  uint32_t ReadCallSite(const Value& frames);
  // Returns a frame's code: 1 if it is useless, otherwise 2 * (interned text + 1), plus 1 if it is inside PyTorch.
  uint32_t ReadFrame(const Value& frame);
  const OpNameInfo& FindOpName(const Value& name);
  uint8_t BackendOf(std::string_view profiling_name);
  RawState StateOf(const Value& state);
  uint32_t ThreadOf(const Value& id);
  uint32_t Intern(std::string_view text);
  uint32_t InternValue(const Value& value);
  bool Spend(uint64_t work);
  void Skip(std::string_view reason);
  void SortByRecord();

  const Document& document_;
  FileData& file_;
  std::vector<RawOp> raw_;
  std::vector<bool> seen_;  // for each container: whether it was already used as an entry
  Types types_[2];
  absl::flat_hash_map<std::string, uint32_t> strings_;
  std::vector<uint32_t> string_of_value_;  // maps a document string to the interned text + 1
  std::vector<uint32_t> name_of_value_;    // maps a document string to an index into names_ + 1
  std::vector<uint8_t> state_of_value_;    // maps a document string to RawState + 1
  std::vector<OpNameInfo> names_;
  std::vector<std::string> backends_;
  std::vector<uint32_t> frame_of_container_;
  absl::flat_hash_map<uint64_t, std::vector<KnownShape>> shapes_;
  KnownShape recent_shapes_[64] = {};
  RecentGroup recent_groups_[16];
  std::vector<int64_t> shape_numbers_;  // for each tensor: the number of dimensions, then the dimensions
  std::vector<int64_t> scratch_;
  absl::flat_hash_map<uint64_t, uint32_t> dtypes_;
  absl::flat_hash_map<uint64_t, uint32_t> groups_;
  absl::flat_hash_map<uint32_t, uint32_t> threads_;  // maps an interned thread id to its number
  uint32_t recent_thread_value_ = kNoIndex, recent_thread_ = kNoIndex;
  std::vector<int64_t> thread_ops_;
  size_t entry_ = 0;  // number of the current entry
  uint64_t work_left_;
  struct Skipped {
    size_t first = 0, count = 0;
  };
  std::map<std::string, Skipped> skipped_;
  std::string detail_;
  std::string text_;
};

}  // namespace lockstep::fr
