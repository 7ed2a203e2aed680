#include "analyzer/formats/fr/stream.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::fr {
namespace {

// The opcodes that may occur in entries.
constexpr uint8_t kMark = '(', kNoneCode = 'N', kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = 0x8a,
                  kBinFloat = 'G', kTrue = 0x88, kFalse = 0x89, kUnicode = 'X', kShortUnicode = 0x8c, kEmptyList = ']',
                  kAppend = 'a', kAppends = 'e', kEmptyTuple = ')', kTuple2 = 0x86, kEmptyDict = '}', kSetItems = 'u',
                  kPut = 'q', kLongPut = 'r', kMemoize = 0x94, kGet = 'h', kLongGet = 'j', kFrameLength = 0x95;

constexpr int kMaxDepth = 8;  // for values that are skipped

constexpr size_t kMaxTemplates = 512;
constexpr size_t kMaxTemplateBytes = 4096;
constexpr size_t kBlock = 32;  // templates are compared in blocks

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  static_assert(std::endian::native == std::endian::little);
  return value;
}

Value Simple(Type type, int64_t integer = 0, uint32_t index = 0) {
  Value value;
  value.type = type;
  value.index = index;
  value.integer = integer;
  return value;
}

}  // namespace

// The next opcode that is not a hint for buffering; there must be one.
inline EntryStream::Bytes EntryStream::Token(Bytes at) const {
  while (at != end_) {
    if (*at != kFrameLength) return at;
    if (end_ - at < 9) return nullptr;
    at += 9;
  }
  return nullptr;
}

// Reads where `value` is stored in the memo, if it is.
inline EntryStream::Bytes EntryStream::Put(Bytes at, const Value& value, int64_t* slot) {
  if (at == end_) return nullptr;
  uint64_t index = 0;
  if (*at == kMemoize) {
    index = memo_.puts();
    at += 1;
  } else if (*at == kPut && end_ - at >= 2) {
    index = at[1];
    at += 2;
    numbered_puts_ = true;
  } else if (*at == kLongPut && end_ - at >= 5) {
    index = Load<uint32_t>(at + 1);
    at += 5;
    numbered_puts_ = true;
  } else {
    return at;
  }
  if (slot != nullptr) *slot = static_cast<int64_t>(index);
  return memo_.Put(index, value) ? at : nullptr;
}

// A container is complete: stores it in its memo entry, created before (`slot` >= 0) or after its items.
inline EntryStream::Bytes EntryStream::Close(Bytes at, int64_t slot, const Value& value) {
  if (slot >= 0) memo_.Replace(static_cast<uint64_t>(slot), value);
  return Put(at, value);
}

inline bool EntryStream::Recall(uint64_t index, Value* out) const {
  const Value* value = memo_.Find(index);
  if (value == nullptr) return false;
  *out = *value;
  return true;
}

// Reads a reference to a value of that type.
inline EntryStream::Bytes EntryStream::Reference(Bytes at, Type type, Value* out) const {
  if (*at == kGet && end_ - at >= 2) {
    return Recall(at[1], out) && out->type == type ? at + 2 : nullptr;
  }
  if (*at == kLongGet && end_ - at >= 5) {
    return Recall(Load<uint32_t>(at + 1), out) && out->type == type ? at + 5 : nullptr;
  }
  return nullptr;
}

EntryStream::Bytes EntryStream::String(Bytes at, uint64_t size, Value* out) {
  if (static_cast<uint64_t>(end_ - at) < size || document_.full()) return nullptr;
  *out = document_.NewString({reinterpret_cast<const char*>(at), static_cast<size_t>(size)});
  return Put(at + size, *out);
}

// Reads a number, text, truth value or None.
inline EntryStream::Bytes EntryStream::Scalar(Bytes at, Value* out) {
  at = Token(at);
  if (at == nullptr) return nullptr;
  const auto left = static_cast<size_t>(end_ - at);
  auto integer = [out](int64_t number) { *out = Simple(Type::kInt, number); };
  switch (*at) {
    case kGet:
      if (left < 2 || !Recall(at[1], out) || out->type >= Type::kFrame) return nullptr;
      return at + 2;
    case kLongGet:
      if (left < 5 || !Recall(Load<uint32_t>(at + 1), out) || out->type >= Type::kFrame) return nullptr;
      return at + 5;
    case kBinInt1:
      if (left < 2) return nullptr;
      integer(at[1]);
      return at + 2;
    case kBinInt2:
      if (left < 3) return nullptr;
      integer(Load<uint16_t>(at + 1));
      return at + 3;
    case kBinInt:
      if (left < 5) return nullptr;
      integer(Load<int32_t>(at + 1));
      return at + 5;
    case kLong1: {
      if (left < 2 || at[1] == 0 || at[1] > 8 || left < 2u + at[1]) return nullptr;
      const unsigned size = at[1];
      uint64_t bits = 0;
      std::memcpy(&bits, at + 2, size);
      if (size < 8 && (at[1 + size] & 0x80) != 0) bits |= ~uint64_t{0} << (8 * size);
      integer(static_cast<int64_t>(bits));
      return at + 2 + size;
    }
    case kBinFloat:
      if (left < 9) return nullptr;
      *out = Value();
      out->type = Type::kDouble;
      out->real = std::bit_cast<double>(__builtin_bswap64(Load<uint64_t>(at + 1)));
      return at + 9;
    case kNoneCode:
      *out = Simple(Type::kNone);
      return at + 1;
    case kTrue:
      *out = Simple(Type::kBool, 1);
      return at + 1;
    case kFalse:
      *out = Simple(Type::kBool, 0);
      return at + 1;
    case kUnicode:
      return left < 5 ? nullptr : String(at + 5, Load<uint32_t>(at + 1), out);
    case kShortUnicode:
      return left < 2 ? nullptr : String(at + 2, at[1], out);
    default:
      return nullptr;
  }
}

// Reads the contents of a list: batches between MARK and APPENDS, or one item and APPEND, or nothing. `item` reads one
// item. item(nullptr) takes back an item that follows an empty list; it returns nullptr if that is impossible.
template <typename Item>
inline EntryStream::Bytes EntryStream::List(Bytes at, Item item) {
  at = Token(at);
  if (at == nullptr) return nullptr;
  if (*at == kMark) {
    do {
      at = Token(at + 1);
      while (at != nullptr && *at != kAppends) {
        at = item(at);
        if (at != nullptr) at = Token(at);
      }
      if (at == nullptr) return nullptr;
      at = Token(at + 1);
    } while (at != nullptr && *at == kMark);
    return at;
  }
  const uint64_t puts = memo_.puts();
  if (Bytes behind = item(at); behind != nullptr) {
    behind = Token(behind);
    if (behind != nullptr && *behind == kAppend) return behind + 1;
    if (item(nullptr) == nullptr) return nullptr;
  }
  memo_.SetPuts(puts);
  return at;
}

const uint8_t* EntryStream::Read(const uint8_t* at) {
  at = Put(at, Simple(Type::kOpaque));
  if (at != nullptr) at = List(at, [this](Bytes from) { return from == nullptr ? nullptr : Entry(from); });
  if (at != nullptr) entries_.Finish();
  return at;
}

EntryStream::Bytes EntryStream::Entry(Bytes at) {
  if (entries_.full()) return nullptr;
  if (Bytes behind = Repeat(at); behind != nullptr) return behind;
  return ReadEntry(at);
}

EntryStream::Bytes EntryStream::ReadEntry(Bytes at) {
  const uint64_t first_put = memo_.puts();
  begin_ = at;
  holes_.clear();
  numbered_puts_ = false;
  if (*at != kEmptyDict) return nullptr;
  at = Put(at + 1, Simple(Type::kOpaque));
  if (at == nullptr) return nullptr;
  at = Token(at);
  if (at == nullptr || *at != kMark) return nullptr;
  fields_ = EntryReader::Fields();
  for (EntryReader::Types& side : types_) {
    side.given = false;
    side.items.clear();
  }
  at = Token(at + 1);
  while (at != nullptr && *at != kSetItems) {
    at = Pair(at);
    if (at != nullptr) at = Token(at);
  }
  if (at == nullptr) return nullptr;
  at = Put(at + 1, Simple(Type::kOpaque));
  if (at == nullptr) return nullptr;
  EntryReader::Pattern pattern;
  if (entries_.Take(fields_, types_[0], types_[1], &pattern)) Remember(begin_, at, first_put, pattern);
  return at;
}

// Reads the entry with a matching template; nullptr if there is none.
inline EntryStream::Bytes EntryStream::Repeat(Bytes at) {
  if (overwrites_ != memo_.overwrites()) {
    templates_.clear();
    bytes_.clear();
    masks_.clear();
    memo_values_.clear();
    last_ = SIZE_MAX;
    overwrites_ = memo_.overwrites();
  }
  size_t found = SIZE_MAX;
  if (last_ != SIZE_MAX && Matches(templates_[templates_[last_].next], at)) {
    found = templates_[last_].next;
  } else if (misses_ < 2 * kMaxTemplates + hits_) {  // stop searching in a file whose entries never repeat
    for (size_t i = 0; i < templates_.size() && found == SIZE_MAX; i++) {
      if (Matches(templates_[i], at)) found = i;
    }
  }
  if (found == SIZE_MAX) {
    misses_++;
    return nullptr;
  }
  hits_++;
  if (last_ != SIZE_MAX) templates_[last_].next = static_cast<uint32_t>(found);
  last_ = found;
  return TakeAgain(templates_[found], at);
}

inline bool EntryStream::Matches(const Template& one, Bytes at) const {
  // Numbers are read eight bytes at a time, so that many must follow.
  if (static_cast<size_t>(end_ - at) < one.padded + 8) return false;
  using Block = uint64_t __attribute__((vector_size(16)));
  const uint8_t* bytes = bytes_.data() + one.bytes;
  const uint8_t* mask = masks_.data() + one.bytes;
  for (size_t i = 0; i < one.padded; i += kBlock) {
    const Block differ = ((Load<Block>(at + i) ^ Load<Block>(bytes + i)) & Load<Block>(mask + i)) |
                         ((Load<Block>(at + i + 16) ^ Load<Block>(bytes + i + 16)) & Load<Block>(mask + i + 16));
    if ((differ[0] | differ[1]) != 0) return false;
  }
  return true;
}

inline EntryStream::Bytes EntryStream::TakeAgain(const Template& one, Bytes at) {
  EntryReader::Numbers numbers = one.numbers;
  for (size_t i = 0; i < one.holes; i++) {
    const Hole& hole = one.hole[i];
    if (hole.number == EntryReader::kNumbers) continue;
    const unsigned shift = 64 - 8 * hole.size;
    const uint64_t bits = Load<uint64_t>(at + hole.at) << shift;
    if (numbers[hole.number].type == Type::kDouble) {  // eight bytes, the most significant first
      numbers[hole.number].integer = static_cast<int64_t>(__builtin_bswap64(bits));
      continue;
    }
    numbers[hole.number].integer =
        hole.is_signed ? static_cast<int64_t>(bits) >> shift : static_cast<int64_t>(bits >> shift);
  }
  for (size_t i = 0; i < one.memos; i++) {
    if (!memo_.Put(memo_.puts(), memo_values_[one.first_memo + i])) return nullptr;
  }
  entries_.TakeAgain(one.pattern, numbers);
  return at + one.size;
}

// Creates a template from the entry that was just read.
void EntryStream::Remember(Bytes begin, Bytes behind, uint64_t first_put, const EntryReader::Pattern& pattern) {
  const auto size = static_cast<size_t>(behind - begin);
  if (numbered_puts_ || holes_.size() > kMaxHoles || size > kMaxTemplateBytes || templates_.size() >= kMaxTemplates ||
      overwrites_ != memo_.overwrites()) {
    last_ = SIZE_MAX;
    return;
  }
  Template one;
  one.bytes = bytes_.size();
  one.size = static_cast<uint32_t>(size);
  one.padded = static_cast<uint32_t>((size + kBlock - 1) / kBlock * kBlock);
  bytes_.resize(one.bytes + one.padded);
  masks_.resize(one.bytes + one.padded);
  std::copy(begin, behind, bytes_.begin() + static_cast<ptrdiff_t>(one.bytes));
  std::fill_n(masks_.begin() + static_cast<ptrdiff_t>(one.bytes), size, uint8_t{0xff});
  for (const Hole& hole : holes_) {
    std::fill_n(masks_.begin() + static_cast<ptrdiff_t>(one.bytes) + hole.at, hole.size, uint8_t{0});
    one.hole[one.holes++] = hole;
  }
  one.first_memo = static_cast<uint32_t>(memo_values_.size());
  for (uint64_t put = first_put; put < memo_.puts(); put++) memo_values_.push_back(*memo_.Find(put));
  one.memos = static_cast<uint32_t>(memo_values_.size() - one.first_memo);
  one.numbers = fields_.numbers;
  one.pattern = pattern;
  one.next = static_cast<uint32_t>(templates_.size());
  if (last_ != SIZE_MAX) templates_[last_].next = one.next;
  last_ = templates_.size();
  templates_.push_back(one);
}

// `at` is the token of a number, or of another value.
inline void EntryStream::NoteNumber(Bytes at, EntryReader::Number which) {
  const auto offset = static_cast<size_t>(at - begin_);
  if (offset > kMaxTemplateBytes) return;
  const auto place = static_cast<uint16_t>(offset + 1);
  switch (*at) {
    case kBinInt1:
      return holes_.push_back({place, 1, false, which});
    case kBinInt2:
      return holes_.push_back({place, 2, false, which});
    case kBinInt:
      return holes_.push_back({place, 4, true, which});
    case kLong1:
      return holes_.push_back({static_cast<uint16_t>(place + 1), at[1], true, which});
    case kBinFloat:
      if (which == EntryReader::kNumbers || which == EntryReader::kDuration) holes_.push_back({place, 8, false, which});
      return;
    default:
      return;
  }
}

inline EntryStream::Bytes EntryStream::Number(Bytes at, EntryReader::Number which) {
  Bytes behind = Scalar(at, &fields_.numbers[which]);
  if (behind == nullptr) return nullptr;
  for (Hole& hole : holes_) {
    if (hole.number == which) hole.number = EntryReader::kNumbers;  // if a key is repeated, the last value counts
  }
  NoteNumber(at, which);
  return behind;
}

EntryStream::Bytes EntryStream::Pair(Bytes at) {
  Value key;
  at = Scalar(at, &key);
  if (at == nullptr || key.type != Type::kString) return nullptr;
  at = Token(at);
  if (at == nullptr) return nullptr;
  switch (key.key) {
    case Key::kRecordId:
      return Number(at, EntryReader::kRecordId);
    case Key::kPgId:
      return Scalar(at, &fields_.pg_id);
    case Key::kProcessGroup:
      return Group(at);
    case Key::kThreadId:
      return Scalar(at, &fields_.thread_id);
    case Key::kCollectiveSeqId:
      return Number(at, EntryReader::kCollectiveSeq);
    case Key::kP2pSeqId:
      return Number(at, EntryReader::kP2pSeq);
    case Key::kSeqId:
      return Number(at, EntryReader::kSeq);
    case Key::kOpId:
      return Number(at, EntryReader::kOpId);
    case Key::kProfilingName:
      return Scalar(at, &fields_.profiling_name);
    case Key::kTimeCreatedNs:
      return Number(at, EntryReader::kCreated);
    case Key::kInputSizes:
      return Sizes(at, &fields_.input);
    case Key::kOutputSizes:
      return Sizes(at, &fields_.output);
    case Key::kInputDtypes:
      return TypeList(at, &types_[0]);
    case Key::kOutputDtypes:
      return TypeList(at, &types_[1]);
    case Key::kState:
      return Scalar(at, &fields_.state);
    case Key::kTimeDiscoveredStartedNs:
      return Number(at, EntryReader::kStarted);
    case Key::kTimeDiscoveredCompletedNs:
      return Number(at, EntryReader::kCompleted);
    case Key::kDurationMs:
      return Number(at, EntryReader::kDuration);
    case Key::kTimeoutMs:
      return Number(at, EntryReader::kTimeout);
    case Key::kRetired:
      return Scalar(at, &fields_.retired);
    case Key::kIsP2p:
      return Scalar(at, &fields_.is_p2p);
    case Key::kFrames:
      return Frames(at);
    default: {
      Bytes behind = Any(at, 0);
      if (behind != nullptr) NoteNumber(at, EntryReader::kNumbers);
      return behind;
    }
  }
}

// Reads the pair of a group's name and description.
EntryStream::Bytes EntryStream::Group(Bytes at) {
  Value pair;
  if (Bytes behind = Reference(at, Type::kGroup, &pair); behind != nullptr) {
    fields_.group_name = Simple(Type::kString, 0, pair.index);
    fields_.group_desc = Simple(Type::kString, 0, static_cast<uint32_t>(pair.integer));
    return behind;
  }
  at = Scalar(at, &fields_.group_name);
  if (at != nullptr) at = Scalar(at, &fields_.group_desc);
  if (at != nullptr) at = Token(at);
  if (at == nullptr || *at != kTuple2) return nullptr;
  pair = Simple(Type::kOpaque);
  if (fields_.group_name.type == Type::kString && fields_.group_desc.type == Type::kString) {
    pair = Simple(Type::kGroup, fields_.group_desc.index, fields_.group_name.index);
  }
  return Put(at + 1, pair);
}

EntryStream::Bytes EntryStream::Sizes(Bytes at, EntryReader::Shape* out) {
  Value shape;
  if (*at != kEmptyList) {
    at = Reference(at, Type::kShape, &shape);
    *out = {shape.index, shape.integer};
    return at;
  }
  int64_t slot = -1;
  at = Put(at + 1, Simple(Type::kOpaque), &slot);
  if (at == nullptr) return nullptr;
  numbers_.clear();
  int64_t total = 0;
  at = List(at, [&](Bytes from) { return from == nullptr ? nullptr : Tensor(from, &total); });
  if (at == nullptr) return nullptr;
  *out = entries_.InternShape(numbers_, numbers_.empty() ? -1 : total);
  return Close(at, slot, Simple(Type::kShape, out->elements, out->index));
}

// Reads one tensor's dimensions; `total` of elements becomes -1 if one is unknown.
EntryStream::Bytes EntryStream::Tensor(Bytes at, int64_t* total) {
  if (*at != kEmptyList) return nullptr;
  at = Put(at + 1, Simple(Type::kOpaque));
  if (at == nullptr) return nullptr;
  const size_t count_at = numbers_.size();
  numbers_.push_back(0);
  int64_t product = 1;
  bool known = true;
  at = List(at, [&](Bytes from) -> Bytes {
    if (from == nullptr) return nullptr;
    Value dimension;
    from = Scalar(from, &dimension);
    if (from == nullptr || dimension.type != Type::kInt) return nullptr;
    numbers_.push_back(dimension.integer);
    if (dimension.integer < 0 || __builtin_mul_overflow(product, dimension.integer, &product)) {
      known = false;
      product = 0;
    }
    return from;
  });
  numbers_[count_at] = static_cast<int64_t>(numbers_.size() - count_at - 1);
  if (!known || *total < 0 || __builtin_add_overflow(*total, product, total)) *total = -1;
  return at == nullptr ? nullptr : Put(at, Simple(Type::kOpaque));
}

EntryStream::Bytes EntryStream::TypeList(Bytes at, EntryReader::Types* out) {
  out->given = true;
  out->items.clear();
  Value list;
  if (*at != kEmptyList) {
    at = Reference(at, Type::kTypes, &list);
    if (list.integer != 0) out->items.push_back(Simple(Type::kString, 0, list.index));
    return at;
  }
  int64_t slot = -1;
  at = Put(at + 1, Simple(Type::kOpaque), &slot);
  if (at == nullptr) return nullptr;
  at = List(at, [&](Bytes from) -> Bytes {
    if (from == nullptr) {
      out->items.pop_back();
      return end_;
    }
    Value type;
    from = Scalar(from, &type);
    if (from == nullptr || type.type != Type::kString) return nullptr;
    out->items.push_back(type);
    return from;
  });
  if (at == nullptr) return nullptr;
  list = Simple(Type::kOpaque);
  if (out->items.empty()) list = Simple(Type::kTypes);
  if (out->items.size() == 1) list = Simple(Type::kTypes, 1, out->items[0].index);
  return Close(at, slot, list);
}

EntryStream::Bytes EntryStream::Frames(Bytes at) {
  Value site;
  if (*at != kEmptyList) {
    at = Reference(at, Type::kCallSite, &site);
    fields_.call_site = site.index;
    return at;
  }
  int64_t slot = -1;
  at = Put(at + 1, Simple(Type::kOpaque), &slot);
  if (at == nullptr) return nullptr;
  fields_.call_site = kNoIndex;
  bool searching = true;
  at = List(at, [&](Bytes from) -> Bytes {
    if (from == nullptr) return nullptr;
    uint32_t code = 0;
    from = Frame(from, &code);
    if (from != nullptr && searching) searching = EntryReader::AddFrame(code, &fields_.call_site);
    return from;
  });
  return at == nullptr ? nullptr : Close(at, slot, Simple(Type::kCallSite, 0, fields_.call_site));
}

inline EntryStream::Bytes EntryStream::Frame(Bytes at, uint32_t* code) {
  Value known;
  if (*at == kEmptyDict) return NewFrame(at, code);
  at = Reference(at, Type::kFrame, &known);
  *code = known.index;
  return at;
}

EntryStream::Bytes EntryStream::NewFrame(Bytes at, uint32_t* code) {
  int64_t slot = -1;
  at = Put(at + 1, Simple(Type::kOpaque), &slot);
  if (at != nullptr) at = Token(at);
  if (at == nullptr || *at != kMark) return nullptr;
  Value name, file, line;
  at = Token(at + 1);
  while (at != nullptr && *at != kSetItems) {
    Value key;
    at = Scalar(at, &key);
    if (at == nullptr || key.type != Type::kString) return nullptr;
    switch (key.key) {
      case Key::kName:
        at = Scalar(at, &name);
        break;
      case Key::kFilename:
        at = Scalar(at, &file);
        break;
      case Key::kLine:
        at = Scalar(at, &line);
        break;
      default:
        at = Any(at, 0);
        break;
    }
    if (at != nullptr) at = Token(at);
  }
  if (at == nullptr) return nullptr;
  int64_t number = 0;
  ToInteger(document_, line, &number);
  *code = entries_.FrameCode(document_.Text(file), document_.Text(name), number);
  return Close(at + 1, slot, Simple(Type::kFrame, 0, *code));
}

// Reads a value that no operation needs.
EntryStream::Bytes EntryStream::Any(Bytes at, int depth) {
  at = Token(at);
  if (at == nullptr || depth > kMaxDepth) return nullptr;
  Value value;
  if (*at == kGet && end_ - at >= 2) return Recall(at[1], &value) ? at + 2 : nullptr;
  if (*at == kLongGet && end_ - at >= 5) return Recall(Load<uint32_t>(at + 1), &value) ? at + 5 : nullptr;
  if (*at == kEmptyTuple) return at + 1;
  if (*at != kEmptyList && *at != kEmptyDict) return Scalar(at, &value);
  const bool dict = *at == kEmptyDict;
  at = Put(at + 1, Simple(Type::kOpaque));
  if (at == nullptr) return nullptr;
  if (!dict) {
    at = List(at, [&](Bytes from) { return from == nullptr ? end_ : Any(from, depth + 1); });
  } else if (at = Token(at); at != nullptr && *at == kMark) {
    at = Token(at + 1);
    while (at != nullptr && *at != kSetItems) {
      at = Any(at, depth + 1);
      if (at != nullptr) at = Any(at, depth + 1);
      if (at != nullptr) at = Token(at);
    }
    if (at != nullptr) at++;
  }
  return at == nullptr ? nullptr : Put(at, Simple(Type::kOpaque));
}

}  // namespace lockstep::fr
