// Converts the entries of a pickle directly into operations, without intermediate values. Nearly all of a dump is
// entries, and nearly every entry has the same form.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/formats/fr/memo.h"
#include "analyzer/formats/fr/ops.h"
#include "analyzer/formats/fr/value.h"

namespace lockstep::fr {

// Reads one list of entries in the form that PyTorch's pickler and Python's write. Any other form (values of other
// types, tuples for lists, entries that refer to each other, damage, unexpected opcodes) ends the reading. The result
// is then discarded, and the general parser reads the file. So this parser does not need to understand every pickle,
// but must agree with the general one on what it accepts. Every access is checked against `end`.
class EntryStream {
 public:
  EntryStream(const uint8_t* end, Document* document, PickleMemo* memo, EntryReader* entries)
      : end_(end), document_(*document), memo_(*memo), entries_(*entries) {}

  // `at` points behind the list's EMPTY_LIST. Returns the position behind the list; nullptr for another form.
  const uint8_t* Read(const uint8_t* at);

 private:
  using Bytes = const uint8_t*;  // a nullptr result means another form

  // The bytes of a number in an entry.
  struct Hole {
    uint16_t at;
    uint8_t size;
    bool is_signed;
    EntryReader::Number number;  // kNumbers if the value is not needed
  };
  static constexpr size_t kMaxHoles = 16;
  // Jobs repeat their calls, so dumps repeat the bytes of entries except for numbers. A template keeps the result of an
  // entry for all entries with the same bytes outside the holes. References into the memo stay valid as long as nothing
  // in the memo was overwritten.
  struct Template {
    size_t bytes;  // position in bytes_ and masks_
    uint32_t size;
    uint32_t padded;             // rounded up to whole blocks
    uint32_t first_memo, memos;  // in memo_values_: what the entry adds to the memo
    uint32_t holes = 0;
    uint32_t next = 0;  // the template that followed this one last time
    Hole hole[kMaxHoles];
    EntryReader::Numbers numbers;
    EntryReader::Pattern pattern;
  };

  Bytes Token(Bytes at) const;
  Bytes Put(Bytes at, const Value& value, int64_t* slot = nullptr);
  Bytes Close(Bytes at, int64_t slot, const Value& value);
  bool Recall(uint64_t index, Value* out) const;
  Bytes Reference(Bytes at, Type type, Value* out) const;
  Bytes String(Bytes at, uint64_t size, Value* out);
  Bytes Scalar(Bytes at, Value* out);
  template <typename Item>
  Bytes List(Bytes at, Item item);
  Bytes Entry(Bytes at);
  Bytes ReadEntry(Bytes at);
  Bytes Repeat(Bytes at);
  bool Matches(const Template& one, Bytes at) const;
  Bytes TakeAgain(const Template& one, Bytes at);
  void Remember(Bytes begin, Bytes behind, uint64_t first_put, const EntryReader::Pattern& pattern);
  void NoteNumber(Bytes at, EntryReader::Number which);
  Bytes Number(Bytes at, EntryReader::Number which);
  Bytes Pair(Bytes at);
  Bytes Group(Bytes at);
  Bytes Sizes(Bytes at, EntryReader::Shape* out);
  Bytes Tensor(Bytes at, int64_t* total);
  Bytes TypeList(Bytes at, EntryReader::Types* out);
  Bytes Frames(Bytes at);
  Bytes Frame(Bytes at, uint32_t* code);
  Bytes NewFrame(Bytes at, uint32_t* code);
  Bytes Any(Bytes at, int depth);

  Bytes end_;
  Document& document_;
  PickleMemo& memo_;
  EntryReader& entries_;
  EntryReader::Fields fields_;
  EntryReader::Types types_[2];
  std::vector<int64_t> numbers_;
  // State of the current entry.
  Bytes begin_ = nullptr;
  std::vector<Hole> holes_;
  bool numbered_puts_ = false;  // the entry chooses its memo numbers itself
  std::vector<Template> templates_;
  std::vector<uint8_t> bytes_, masks_;
  std::vector<Value> memo_values_;
  uint64_t overwrites_ = 0;  // the memo's count when the templates were made
  size_t last_ = SIZE_MAX;   // the template of the previous entry
  size_t hits_ = 0, misses_ = 0;
};

}  // namespace lockstep::fr
