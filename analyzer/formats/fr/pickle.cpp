#include "analyzer/formats/fr/pickle.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace lockstep::fr {
namespace {

enum class Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinFloat = 'G',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kList = 'l',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kFrame = 0x95,
};

// Opcodes that name, build or fetch objects.
constexpr struct {
  uint8_t op;
  const char* name;
} kCodeRunning[] = {
    {'c', "GLOBAL"},  {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"}, {'i', "INST"},         {'o', "OBJ"},
    {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"},    {'b', "BUILD"},  {'P', "PERSID"},       {'Q', "BINPERSID"},
    {0x82, "EXT1"},   {0x83, "EXT2"},         {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
};

// Values that later opcodes refer to by number.
class Memo {
 public:
  // Returns false if there are too many entries.
  bool Put(uint64_t index, const Value& value) {
    if (puts_++ >= kMaxValues) return false;
    if (index >= puts_ + kSlack) {
      far_[index] = value;
      return true;
    }
    if (index >= near_.size()) near_.resize(index + 1);
    near_[index] = value;
    return true;
  }
  // Null if the number is unused. A number can be in both the array and the map, if the array grew past it.
  [[gnu::always_inline]] const Value* Find(uint64_t index) const {
    if (index < near_.size() && near_[index].type != Type::kMissing) [[likely]]
      return &near_[index];
    return FindFar(index);
  }
  uint64_t puts() const { return puts_; }  // MEMOIZE uses it as the next number

 private:
  // PyTorch uses consecutive numbers. Numbers up to this far beyond the count of puts are in an array, larger numbers
  // in a map.
  static constexpr uint64_t kSlack = 4096;
  [[gnu::noinline]] const Value* FindFar(uint64_t index) const {
    const auto found = far_.find(index);
    return found == far_.end() ? nullptr : &found->second;
  }
  std::vector<Value> near_;
  absl::flat_hash_map<uint64_t, Value> far_;
  uint64_t puts_ = 0;
};

class PickleReader {
 public:
  PickleReader(std::string_view bytes, Document* document)
      : begin_(reinterpret_cast<const uint8_t*>(bytes.data())),
        at_(begin_),
        end_(begin_ + bytes.size()),
        document_(*document),
        stack_(1024),
        top_(stack_.data()) {}

  ParseError Run() {
    while (!done_ && error_.text.empty()) {
      if (Execute()) Step();
    }
    if (error_.text.empty() || error_.refused) return error_;
    CloseOpen();
    return error_;
  }

 private:
  void Fail(std::string text, const char* like = "") {
    if (!error_.text.empty()) return;
    error_.like = like;
    error_.text = std::move(text);
    error_.offset = static_cast<int64_t>(op_at_ - begin_);
  }
  void Refuse(std::string text, const char* like = "") {
    Fail(std::move(text), like);
    error_.refused = true;
  }
  [[gnu::noinline, gnu::cold]] void FailShort(const uint8_t* at, uint64_t size) {
    Fail(absl::StrCat("the file ends inside an item: ", size, " bytes wanted, ", end_ - at, " left"), "inside an item");
  }
  [[gnu::noinline, gnu::cold]] void FailGet(uint64_t index) {
    Fail(absl::StrCat("memo entry ", index, " is used but was never stored"), "memo entry");
  }
  [[gnu::noinline, gnu::cold]] void FailTop() { Fail("an operation without a value"); }
  [[gnu::noinline, gnu::cold]] void RefuseMemo() {
    Refuse(absl::StrCat("more than ", kMaxValues, " memo entries in one file"));
  }
  [[gnu::noinline, gnu::cold]] void RefuseSize() {
    Refuse(absl::StrCat("more than ", kMaxValues, " values or ", kMaxContainers, " containers in one file"));
  }

  bool Need(uint64_t size) {
    if (static_cast<uint64_t>(end_ - at_) >= size) [[likely]]
      return true;
    FailShort(at_, size);
    return false;
  }
  // Reads a little-endian number of `size` <= 8 bytes.
  bool Number(unsigned size, uint64_t* out) {
    if (!Need(size)) return false;
    *out = 0;
    std::memcpy(out, at_, size);
    at_ += size;
    return true;
  }

  static Value Simple(Type type, int64_t integer) {
    Value value;
    value.type = type;
    value.integer = integer;
    return value;
  }

  size_t Depth() const { return static_cast<size_t>(top_ - stack_.data()); }
  // Makes room for one more value. Returns false if there are too many.
  [[gnu::noinline]] bool Grow() {
    const size_t depth = Depth();
    if (depth >= kMaxValues) {
      RefuseSize();
      return false;
    }
    stack_.resize(std::min<size_t>(2 * stack_.size(), kMaxValues + 1));
    top_ = stack_.data() + depth;
    return true;
  }
  void CutTo(size_t depth) { top_ = stack_.data() + depth; }
  // Execute has made room for one value.
  void Push(Type type, int64_t integer) { *top_++ = Simple(type, integer); }
  // Strings and containers use the document's memory, even if they are popped at once.
  void PushMade(const Value& value) {
    if (document_.full()) [[unlikely]]
      return RefuseSize();
    *top_++ = value;
  }

  bool HasTop(const Value* top) {
    if (top > stack_.data() && top[-1].type != Type::kMark) [[likely]]
      return true;
    FailTop();
    return false;
  }
  // Sets the position of the first value above the topmost mark.
  bool AboveMark(size_t* out) {
    if (marks_.empty()) {
      Fail("an operation that needs a mark, but no mark is set");
      return false;
    }
    *out = marks_.back() + 1;
    return true;
  }
  // Pops everything down to and including the topmost mark.
  void DropMark() {
    CutTo(marks_.back());
    marks_.pop_back();
  }

  void String(unsigned length_size, Type type) {
    uint64_t length = 0;
    if (!Number(length_size, &length) || !Need(length)) return;
    PushMade(document_.NewString({reinterpret_cast<const char*>(at_), static_cast<size_t>(length)}, type));
    at_ += length;
  }

  void Long(unsigned length_size) {
    uint64_t length = 0;
    if (!Number(length_size, &length) || !Need(length)) return;
    if (length > 8) {
      Push(Type::kBigInt, 0);
    } else {
      uint64_t bits = 0;
      std::memcpy(&bits, at_, length);
      if (length > 0 && length < 8 && (at_[length - 1] & 0x80) != 0) bits |= ~uint64_t{0} << (8 * length);
      Push(Type::kInt, static_cast<int64_t>(bits));
    }
    at_ += length;
  }

  // Executes the opcodes that make up most of a dump. Stops at another opcode (returns true) or an error (false).
  // Local variables keep the positions in registers.
  bool Execute() {
    const uint8_t* at = at_;
    Value *top = top_, *limit = stack_.data() + stack_.size();
    const auto number = [&](auto* out) __attribute__((always_inline)) {
      static_assert(std::endian::native == std::endian::little);
      if (static_cast<size_t>(end_ - at) < sizeof(*out)) [[unlikely]] {
        FailShort(at, sizeof(*out));
        return false;
      }
      std::memcpy(out, at, sizeof(*out));
      at += sizeof(*out);
      return true;
    };
    const auto push = [&](Type type, int64_t integer) __attribute__((always_inline)) {
      *top++ = Simple(type, integer);
      return true;
    };
    const auto get = [&](uint64_t index) __attribute__((always_inline)) {
      const Value* value = memo_.Find(index);
      if (value != nullptr) [[likely]] {
        *top++ = *value;
        return true;
      }
      FailGet(index);
      return false;
    };
    const auto put = [&](uint64_t index) __attribute__((always_inline)) {
      if (!HasTop(top)) return false;
      if (memo_.Put(index, top[-1])) [[likely]]
        return true;
      RefuseMemo();
      return false;
    };
    const auto make = [&](Type type) __attribute__((always_inline)) {
      *top++ = document_.NewContainer(type);
      if (!document_.full()) [[likely]]
        return true;
      RefuseSize();
      return false;
    };
    // Appends the topmost value to the empty list at `list`. Returns false if `list` is not an empty list.
    const auto first = [&](size_t list, size_t floor) __attribute__((always_inline)) {
      const Value& into = stack_[list];
      return list >= floor && into.type == Type::kList && document_.Size(into) == 0 &&
             document_.AppendFirst(into.index, top[-1]);
    };
    uint8_t one = 0;
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;
    bool mine = true;
    for (bool good = true; good && mine;) {
      // An opcode pushes at most one value.
      if (top == limit) [[unlikely]] {
        top_ = top;
        if (!Grow()) return false;
        top = top_;
        limit = stack_.data() + stack_.size();
      }
      op_at_ = at;
      if (at == end_) [[unlikely]] {
        Fail("the file ends before the pickle does");
        break;
      }
      switch (static_cast<Opcode>(*at++)) {
        case Opcode::kBinGet: good = number(&one) && get(one); break;
        case Opcode::kLongBinGet: good = number(&four) && get(four); break;
        case Opcode::kBinPut: good = number(&one) && put(one); break;
        case Opcode::kLongBinPut: good = number(&four) && put(four); break;
        case Opcode::kMemoize: good = put(memo_.puts()); break;
        case Opcode::kNone: push(Type::kNone, 0); break;
        case Opcode::kNewTrue: push(Type::kBool, 1); break;
        case Opcode::kNewFalse: push(Type::kBool, 0); break;
        case Opcode::kBinInt1: good = number(&one) && push(Type::kInt, one); break;
        case Opcode::kBinInt2: good = number(&two) && push(Type::kInt, two); break;
        case Opcode::kBinInt: good = number(&four) && push(Type::kInt, static_cast<int32_t>(four)); break;
        case Opcode::kBinFloat:
          good = number(&eight) && push(Type::kDouble, 0);
          if (good) top[-1].real = std::bit_cast<double>(__builtin_bswap64(eight));
          break;
        case Opcode::kMark:
          marks_.push_back(static_cast<size_t>(top - stack_.data()));
          push(Type::kMark, 0);
          break;
        case Opcode::kLong1:
          good = number(&one);
          if (good && one == 8) {
            good = number(&eight) && push(Type::kInt, static_cast<int64_t>(eight));
          } else if (good) {
            mine = false;
          }
          break;
        case Opcode::kAppends: {
          const auto depth = static_cast<size_t>(top - stack_.data());
          mine = !marks_.empty() && marks_.back() > 0 && marks_.back() + 2 == depth && first(depth - 3, 0);
          if (!mine) break;
          top -= 2;
          marks_.pop_back();
          break;
        }
        case Opcode::kAppend: {
          const auto depth = static_cast<size_t>(top - stack_.data());
          mine = depth >= 2 && first(depth - 2, marks_.empty() ? 0 : marks_.back() + 1);
          top -= mine;
          break;
        }
        case Opcode::kEmptyList: good = make(Type::kList); break;
        case Opcode::kEmptyDict: good = make(Type::kDict); break;
        default: mine = false;
      }
    }
    at_ = mine ? at : op_at_;
    top_ = top;
    return !mine;
  }

  // Creates a container from everything above the mark, or from the topmost values.
  bool Collect(Type type, size_t from, size_t down_to) {
    if (type == Type::kDict && (Depth() - from) % 2 != 0) {
      Fail("a dictionary with a key but no value");
      return false;
    }
    const Value container = document_.NewContainer(type);
    if (!Store(container, from)) return false;
    CutTo(down_to);
    PushMade(container);
    return true;
  }
  void CollectMarked(Type type) {
    size_t from = 0;
    if (AboveMark(&from) && Collect(type, from, from - 1)) marks_.pop_back();
  }
  void CollectTop(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (Depth() < floor + count) return Fail("a tuple of more values than the stack has");
    Collect(Type::kTuple, Depth() - count, Depth() - count);
  }
  bool Store(const Value& container, size_t from) {
    if (document_.Append(container.index, stack_.data() + from, Depth() - from)) return true;
    Refuse(absl::StrCat("more than ", kMaxValues, " values in one file"));
    return false;
  }

  // Moves the values above the mark into the container below it.
  void Extend(Type type) {
    size_t from = 0;
    if (!AboveMark(&from)) return;
    if (from < 2 || stack_[from - 2].type != type) return Fail("items without a list or dictionary to put them in");
    if (type == Type::kDict && (Depth() - from) % 2 != 0) return Fail("a dictionary with a key but no value");
    Store(stack_[from - 2], from);
    DropMark();
  }
  void ExtendByTop(Type type, size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (Depth() < floor + count + 1) return Fail("an item without a list or dictionary to put it in");
    const size_t from = Depth() - count;
    if (stack_[from - 1].type != type) return Fail("an item without a list or dictionary to put it in");
    Store(stack_[from - 1], from);
    CutTo(from);
  }

  // Executes one opcode that Execute() does not handle.
  void Step() {
    const uint8_t op = *at_++;
    uint64_t number = 0;
    size_t from = 0;
    switch (static_cast<Opcode>(op)) {
      case Opcode::kProto:
        if (Number(1, &number) && number > 5)
          Fail(absl::StrCat("pickle protocol ", number, " is newer than 5"), "protocol");
        return;
      case Opcode::kFrame: Number(8, &number); return;  // only a hint for buffering
      case Opcode::kStop:
        if (!HasTop(top_)) return;
        document_.root = top_[-1];
        done_ = true;
        return;
      case Opcode::kPop:
        if (top_ > stack_.data() && top_[-1].type == Type::kMark) return DropMark();
        if (HasTop(top_)) --top_;
        return;
      case Opcode::kPopMark:
        if (AboveMark(&from)) DropMark();
        return;
      case Opcode::kDup:
        if (!HasTop(top_)) return;
        *top_ = top_[-1];
        ++top_;
        return;
      case Opcode::kLong1: return Long(1);
      case Opcode::kLong4: return Long(4);
      case Opcode::kBinUnicode: return String(4, Type::kString);
      case Opcode::kShortBinUnicode: return String(1, Type::kString);
      case Opcode::kBinUnicode8: return String(8, Type::kString);
      case Opcode::kBinString: return String(4, Type::kString);
      case Opcode::kShortBinString: return String(1, Type::kString);
      case Opcode::kBinBytes: return String(4, Type::kBytes);
      case Opcode::kShortBinBytes: return String(1, Type::kBytes);
      case Opcode::kBinBytes8:
      case Opcode::kByteArray8: return String(8, Type::kBytes);
      case Opcode::kEmptyTuple: return PushMade(document_.NewContainer(Type::kTuple));
      case Opcode::kAppend: return ExtendByTop(Type::kList, 1);
      case Opcode::kAppends: return Extend(Type::kList);
      case Opcode::kSetItem: return ExtendByTop(Type::kDict, 2);
      case Opcode::kSetItems: return Extend(Type::kDict);
      case Opcode::kList: return CollectMarked(Type::kList);
      case Opcode::kTuple: return CollectMarked(Type::kTuple);
      case Opcode::kDict: return CollectMarked(Type::kDict);
      case Opcode::kTuple1: return CollectTop(1);
      case Opcode::kTuple2: return CollectTop(2);
      case Opcode::kTuple3: return CollectTop(3);
      default: break;
    }
    for (const auto& [code, name] : kCodeRunning) {
      if (code != op) continue;
      return Refuse(absl::StrCat("refused: pickle opcode ", name, " at offset ", op_at_ - begin_,
                                 " could run code when loaded; a Flight Recorder dump never contains it. Take the dump "
                                 "again or save it as JSON"),
                    "code");
    }
    Fail(absl::StrCat("opcode ", static_cast<int>(op), " is not pickle data of protocol 2 to 5"), "opcode");
  }

  // After damage: moves pending stack items into their containers, from the innermost outwards, and marks these as
  // partial. An empty container on top of the stack was about to be filled.
  void CloseOpen() {
    if (Depth() > 0 && Document::IsContainer(top_[-1]) && document_.Size(top_[-1]) == 0) {
      document_.SetPartial(top_[-1].index);
    }
    while (!marks_.empty()) {
      size_t mark = marks_.back();
      if (mark > 0) Fill(stack_[mark - 1], mark + 1);
      DropMark();
    }
    if (Depth() == 0) return;
    Fill(stack_[0], 1);
    document_.root = stack_[0];
  }
  void Fill(const Value& container, size_t from) {
    if (container.type != Type::kDict && container.type != Type::kList) return;
    document_.SetPartial(container.index);
    size_t count = Depth() - from;
    if (container.type == Type::kDict) count -= count % 2;
    document_.Append(container.index, stack_.data() + from, count);
  }

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* op_at_ = nullptr;
  Document& document_;
  std::vector<Value> stack_;  // the values up to top_
  Value* top_;
  std::vector<size_t> marks_;
  Memo memo_;
  bool done_ = false;
  ParseError error_;
};

}  // namespace

ParseError ParsePickle(std::string_view bytes, Document* document) {
  document->Clear();
  return PickleReader(bytes, document).Run();
}

}  // namespace lockstep::fr
