#include "analyzer/formats/fr/pickle.h"

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
  // nullptr if the number is unused. A number can be in both if the array grew past it.
  const Value* Find(uint64_t index) const {
    if (index < near_.size() && near_[index].type != Type::kMissing) return &near_[index];
    const auto found = far_.find(index);
    return found == far_.end() ? nullptr : &found->second;
  }
  uint64_t puts() const { return puts_; }  // MEMOIZE uses it as the next number

 private:
  // Numbers up to this far beyond those of a counting writer are in an array, others in a map.
  static constexpr uint64_t kSlack = 4096;
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
        document_(*document) {}

  ParseError Run() {
    while (!done_ && error_.text.empty()) Step();
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

  bool Need(uint64_t size) {
    if (static_cast<uint64_t>(end_ - at_) >= size) [[likely]]
      return true;
    return FailShort(size);
  }
  [[gnu::noinline, gnu::cold]] bool FailShort(uint64_t size) {
    Fail(absl::StrCat("the file ends inside an item: ", size, " bytes wanted, ", end_ - at_, " left"),
         "inside an item");
    return false;
  }

  // A little-endian number of `size` <= 8 bytes.
  [[gnu::always_inline]] bool Number(unsigned size, uint64_t* out) {
    if (!Need(size)) return false;
    uint64_t value = 0;
    std::memcpy(&value, at_, size);
    static_assert(std::endian::native == std::endian::little);
    at_ += size;
    *out = value;
    return true;
  }

  void Push(const Value& value) {
    if (stack_.size() >= kMaxValues) [[unlikely]]
      return RefuseSize();
    stack_.push_back(value);
  }
  // Strings and containers use memory of the document, even if they are popped at once.
  void PushMade(const Value& value) {
    if (document_.full()) [[unlikely]]
      return RefuseSize();
    Push(value);
  }
  [[gnu::noinline, gnu::cold]] void RefuseSize() {
    Refuse(absl::StrCat("more than ", kMaxValues, " values or ", kMaxContainers, " containers in one file"));
  }
  void PushInt(int64_t integer) {
    Value value;
    value.type = Type::kInt;
    value.integer = integer;
    Push(value);
  }
  void PushSimple(Type type, int64_t integer = 0) {
    Value value;
    value.type = type;
    value.integer = integer;
    Push(value);
  }

  bool Top(Value* out) {
    if (stack_.empty() || stack_.back().type == Type::kMark) {
      Fail("an operation without a value to work on");
      return false;
    }
    *out = stack_.back();
    return true;
  }
  bool PopValue(Value* out) {
    if (!Top(out)) return false;
    stack_.pop_back();
    return true;
  }
  // Position of the first value above the topmost mark.
  bool AboveMark(size_t* out) {
    if (marks_.empty()) {
      Fail("an operation that needs a mark where none is set");
      return false;
    }
    *out = marks_.back() + 1;
    return true;
  }
  // Cuts the stack down to the topmost mark, and removes it too.
  void DropMark() {
    stack_.resize(marks_.back());
    marks_.pop_back();
  }

  [[gnu::always_inline]] void String(unsigned length_size, Type type) {
    uint64_t length = 0;
    if (!Number(length_size, &length) || !Need(length)) return;
    PushMade(document_.NewString({reinterpret_cast<const char*>(at_), static_cast<size_t>(length)}, type));
    at_ += length;
  }

  void Long(unsigned length_size) {
    uint64_t length = 0;
    if (!Number(length_size, &length) || !Need(length)) return;
    if (length > 8) {
      PushSimple(Type::kBigInt);
    } else {
      uint64_t bits = 0;
      std::memcpy(&bits, at_, length);
      if (length > 0 && length < 8 && (at_[length - 1] & 0x80) != 0) bits |= ~uint64_t{0} << (8 * length);
      PushInt(static_cast<int64_t>(bits));
    }
    at_ += length;
  }

  void Float() {
    uint64_t bits = 0;
    if (!Number(8, &bits)) return;
    Value value;
    value.type = Type::kDouble;
    value.real = std::bit_cast<double>(__builtin_bswap64(bits));
    Push(value);
  }

  void Put(uint64_t index) {
    Value top;
    if (!Top(&top)) return;
    if (!memo_.Put(index, top)) Refuse(absl::StrCat("more than ", kMaxValues, " memo entries in one file"));
  }
  void Get(uint64_t index) {
    const Value* value = memo_.Find(index);
    if (value == nullptr)
      return Fail(absl::StrCat("memo entry ", index, " is used but was never stored"), "memo entry");
    Push(*value);
  }

  // Creates a container from everything above the mark, or from the topmost `count` values.
  void Collect(Type type, size_t from) {
    if (type == Type::kDict && (stack_.size() - from) % 2 != 0) return Fail("a dictionary with a key but no value");
    Value container = document_.NewContainer(type);
    Store(container, from);
    stack_.resize(from);
  }
  void CollectMarked(Type type) {
    size_t from = 0;
    if (!AboveMark(&from)) return;
    Collect(type, from);
    if (!error_.text.empty()) return;
    DropMark();
    PushMade(Value{type, Key::kOther, static_cast<uint32_t>(document_.container_count() - 1), {}});
  }
  void CollectTop(size_t count) {
    size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (stack_.size() < floor + count) return Fail("a tuple of more values than there are");
    Collect(Type::kTuple, stack_.size() - count);
    PushMade(Value{Type::kTuple, Key::kOther, static_cast<uint32_t>(document_.container_count() - 1), {}});
  }
  void Store(const Value& container, size_t from) {
    if (!document_.Append(container.index, stack_.data() + from, stack_.size() - from)) {
      Refuse(absl::StrCat("more than ", kMaxValues, " values in one file"));
    }
  }

  // Moves the values above the mark into the container below it.
  void Extend(Type type) {
    size_t from = 0;
    if (!AboveMark(&from)) return;
    if (from < 2 || stack_[from - 2].type != type) return Fail("items without a list or dictionary to put them in");
    if (type == Type::kDict && (stack_.size() - from) % 2 != 0) return Fail("a dictionary with a key but no value");
    Store(stack_[from - 2], from);
    DropMark();
  }
  void ExtendByTop(Type type, size_t count) {
    size_t floor = marks_.empty() ? 0 : marks_.back() + 1;
    if (stack_.size() < floor + count + 1) return Fail("an item without a list or dictionary to put it in");
    size_t from = stack_.size() - count;
    if (stack_[from - 1].type != type) return Fail("an item without a list or dictionary to put it in");
    Store(stack_[from - 1], from);
    stack_.resize(from);
  }

  void Stop() {
    Value top;
    if (!Top(&top)) return;
    document_.root = top;
    done_ = true;
  }

  void Step() {
    op_at_ = at_;
    if (at_ == end_) return Fail("the file ends before the pickle does");
    uint8_t op = *at_++;
    uint64_t number = 0;
    Value value;
    size_t from = 0;
    switch (static_cast<Opcode>(op)) {
      case Opcode::kProto:
        if (Number(1, &number) && number > 5)
          Fail(absl::StrCat("pickle protocol ", number, " is newer than 5"), "protocol");
        return;
      case Opcode::kFrame: Number(8, &number); return;  // only a hint for buffering
      case Opcode::kMark: marks_.push_back(stack_.size()); return PushSimple(Type::kMark);
      case Opcode::kStop: return Stop();
      case Opcode::kPop:
        if (!stack_.empty() && stack_.back().type == Type::kMark) return DropMark();
        PopValue(&value);
        return;
      case Opcode::kPopMark:
        if (AboveMark(&from)) DropMark();
        return;
      case Opcode::kDup:
        if (Top(&value)) Push(value);
        return;
      case Opcode::kNone: return PushSimple(Type::kNone);
      case Opcode::kNewTrue: return PushSimple(Type::kBool, 1);
      case Opcode::kNewFalse: return PushSimple(Type::kBool, 0);
      case Opcode::kBinInt:
        if (Number(4, &number)) PushInt(static_cast<int32_t>(static_cast<uint32_t>(number)));
        return;
      case Opcode::kBinInt1:
        if (Number(1, &number)) PushInt(static_cast<int64_t>(number));
        return;
      case Opcode::kBinInt2:
        if (Number(2, &number)) PushInt(static_cast<int64_t>(number));
        return;
      case Opcode::kLong1: return Long(1);
      case Opcode::kLong4: return Long(4);
      case Opcode::kBinFloat: return Float();
      case Opcode::kBinUnicode: return String(4, Type::kString);
      case Opcode::kShortBinUnicode: return String(1, Type::kString);
      case Opcode::kBinUnicode8: return String(8, Type::kString);
      case Opcode::kBinString: return String(4, Type::kString);
      case Opcode::kShortBinString: return String(1, Type::kString);
      case Opcode::kBinBytes: return String(4, Type::kBytes);
      case Opcode::kShortBinBytes: return String(1, Type::kBytes);
      case Opcode::kBinBytes8:
      case Opcode::kByteArray8: return String(8, Type::kBytes);
      case Opcode::kEmptyList: return PushMade(document_.NewContainer(Type::kList));
      case Opcode::kEmptyTuple: return PushMade(document_.NewContainer(Type::kTuple));
      case Opcode::kEmptyDict: return PushMade(document_.NewContainer(Type::kDict));
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
      case Opcode::kBinPut:
        if (Number(1, &number)) Put(number);
        return;
      case Opcode::kLongBinPut:
        if (Number(4, &number)) Put(number);
        return;
      case Opcode::kMemoize: return Put(memo_.puts());
      case Opcode::kBinGet:
        if (Number(1, &number)) Get(number);
        return;
      case Opcode::kLongBinGet:
        if (Number(4, &number)) Get(number);
        return;
    }
    for (const auto& [code, name] : kCodeRunning) {
      if (code != op) continue;
      return Refuse(
          absl::StrCat("refused: pickle opcode ", name, " at offset ", op_at_ - begin_,
                       " could run code when loaded; a Flight Recorder dump never has it. Take the dump again, "
                       "or save it as JSON"),
          "code");
    }
    Fail(absl::StrCat("opcode ", static_cast<int>(op), " is not pickle data of protocol 2 to 5"), "opcode");
  }

  // After damage: moves waiting items on the stack into their containers, from the innermost outwards, and marks these
  // as partial. An empty container there was about to be filled.
  void CloseOpen() {
    if (!stack_.empty() && Document::IsContainer(stack_.back()) && document_.Size(stack_.back()) == 0) {
      document_.SetPartial(stack_.back().index);
    }
    while (!marks_.empty()) {
      size_t mark = marks_.back();
      if (mark > 0) Fill(stack_[mark - 1], mark + 1);
      DropMark();
    }
    if (stack_.empty()) return;
    Fill(stack_[0], 1);
    document_.root = stack_[0];
  }
  void Fill(const Value& container, size_t from) {
    if (container.type != Type::kDict && container.type != Type::kList) return;
    document_.SetPartial(container.index);
    size_t count = stack_.size() - from;
    if (container.type == Type::kDict) count -= count % 2;
    document_.Append(container.index, stack_.data() + from, count);
  }

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* op_at_ = nullptr;
  Document& document_;
  std::vector<Value> stack_;
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
