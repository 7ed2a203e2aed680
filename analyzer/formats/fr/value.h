// The values of one Flight Recorder dump, stored flat: containers refer by index to items in a shared pool. Shared and
// even cyclic structures therefore need no special care, nothing is freed recursively, and one Document serves all
// files. Readers follow the dump's schema, which has a fixed number of levels.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fr {

// Files with more values (16 bytes each) or containers are refused. Ring buffers of 200,000 entries with stacks have
// far fewer, and a hostile file can use at most about a gigabyte.
constexpr uint64_t kMaxValues = 16u << 20;
constexpr uint64_t kMaxContainers = 8u << 20;

// Dictionary keys of the dump format, compared as numbers.
enum class Key : uint16_t {
  kOther,
  kVersion,
  kPgConfig,
  kPgStatus,
  kNcclVersion,
  kCommLibVersion,
  kEntries,
  kName,
  kDesc,
  kRanks,
  kLastEnqueued,
  kLastStarted,
  kLastCompleted,
  kFrames,
  kFilename,
  kLine,
  kRecordId,
  kPgId,
  kProcessGroup,
  kThreadName,
  kThreadId,
  kCollectiveSeqId,
  kP2pSeqId,
  kSeqId,
  kOpId,
  kProfilingName,
  kTimeCreatedNs,
  kInputSizes,
  kOutputSizes,
  kInputDtypes,
  kOutputDtypes,
  kState,
  kTimeDiscoveredStartedNs,
  kTimeDiscoveredCompletedNs,
  kDurationMs,
  kRetired,
  kIsP2p,
  kTimeoutMs,
  kCount
};

Key FindKey(std::string_view text);

enum class Type : uint8_t {
  kMissing,
  kMark,
  kNone,
  kBool,
  kInt,
  kBigInt,
  kDouble,
  kString,
  kBytes,
  kList,
  kTuple,
  kDict
};

struct Value {
  Type type = Type::kMissing;
  Key key = Key::kOther;  // key of a string
  uint32_t index = 0;     // index of a string or a container in the document
  union {
    int64_t integer = 0;
    double real;
  };
};
static_assert(sizeof(Value) == 16);

class Document {
 public:
  // Clears the contents but keeps the memory.
  void Clear();

  // The string is a view into the bytes of the file, or into this document (OwnString).
  Value NewString(std::string_view text, Type type = Type::kString);
  Value OwnString(std::string text);
  Value NewContainer(Type type);
  // For a dictionary: key, value, key, value. Returns false if the document is full.
  bool Append(uint32_t container, const Value* values, size_t count);
  // Like Append, for a container's first item; most containers of a dump have only one.
  bool AppendFirst(uint32_t container, const Value& value) {
    if (full()) return false;
    containers_[container].begin = {static_cast<uint32_t>(pool_.size()), 1};
    containers_[container].size = 1;
    pool_.push_back(value);
    return true;
  }
  bool full() const {
    return containers_.size() > kMaxContainers || pool_.size() + chunks_.size() > kMaxValues ||
           strings_.size() > kMaxValues;
  }

  std::string_view Text(const Value& value) const {
    return value.type == Type::kString ? strings_[value.index] : std::string_view();
  }
  size_t string_count() const { return strings_.size(); }
  size_t container_count() const { return containers_.size(); }

  // Marks the container as damaged: its contents are incomplete.
  void SetPartial(uint32_t container) { containers_[container].partial = true; }
  bool IsPartial(const Value& value) const { return IsContainer(value) && containers_[value.index].partial; }
  static bool IsContainer(const Value& value) { return value.type >= Type::kList; }
  static bool IsSequence(const Value& value) { return value.type == Type::kList || value.type == Type::kTuple; }
  // Number of items; for a dictionary, keys and values together.
  uint32_t Size(const Value& value) const { return IsContainer(value) ? containers_[value.index].size : 0; }

  // Calls visit(const Value&) for each item of a list or tuple until it returns false.
  template <typename Visit>
  void ForEach(const Value& value, Visit visit) const {
    if (IsSequence(value)) Walk(value.index, 1, [&](const Value* item) { return visit(*item); });
  }
  // Calls visit(const Value& key, const Value& value) for each pair of a dictionary until it returns false.
  template <typename Visit>
  void ForEachPair(const Value& value, Visit visit) const {
    if (value.type == Type::kDict) Walk(value.index, 2, [&](const Value* pair) { return visit(pair[0], pair[1]); });
  }
  // Returns the last value stored under `key`, as in a dictionary; Type::kMissing if there is none.
  Value Get(const Value& dict, Key key) const;

  Value root;

 private:
  struct Chunk {
    uint32_t first = 0, count = 0;
    uint32_t next = UINT32_MAX;  // in chunks_
  };
  struct Container {
    Chunk begin;
    uint32_t last = UINT32_MAX;  // in chunks_; UINT32_MAX: `begin`
    uint32_t size = 0;
    bool partial = false;
  };

  template <typename Visit>
  void Walk(uint32_t container, uint32_t step, Visit visit) const {
    for (const Chunk* chunk = &containers_[container].begin;;) {
      const Value* values = pool_.data() + chunk->first;
      for (uint32_t i = 0; i + step <= chunk->count; i += step) {
        if (!visit(values + i)) return;
      }
      if (chunk->next == UINT32_MAX) return;
      chunk = &chunks_[chunk->next];
    }
  }

  std::vector<std::string_view> strings_;
  std::deque<std::string> owned_;
  std::vector<Container> containers_;
  std::vector<Chunk> chunks_;
  std::vector<Value> pool_;
};

// Why a parser stopped early. If `refused`, the file is hostile, and nothing in it may be used. Otherwise the document
// contains everything that was complete before `offset`, and open containers are marked partial.
struct ParseError {
  std::string text;       // empty if there is no error
  const char* like = "";  // equal for errors that differ only in numbers; "" if the texts must be equal
  int64_t offset = -1;
  bool refused = false;
};

}  // namespace lockstep::fr
