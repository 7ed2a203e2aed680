#include "analyzer/formats/fr/value.h"

#include <utility>

namespace lockstep::fr {
namespace {

struct KeyName {
  std::string_view text;
  Key key;
};

constexpr KeyName kKeyNames[] = {
    {"version", Key::kVersion},
    {"pg_config", Key::kPgConfig},
    {"pg_status", Key::kPgStatus},
    {"nccl_version", Key::kNcclVersion},
    {"comm_lib_version", Key::kCommLibVersion},
    {"entries", Key::kEntries},
    {"name", Key::kName},
    {"desc", Key::kDesc},
    {"ranks", Key::kRanks},
    {"last_enqueued_collective", Key::kLastEnqueued},
    {"last_started_collective", Key::kLastStarted},
    {"last_completed_collective", Key::kLastCompleted},
    {"frames", Key::kFrames},
    {"filename", Key::kFilename},
    {"line", Key::kLine},
    {"record_id", Key::kRecordId},
    {"pg_id", Key::kPgId},
    {"process_group", Key::kProcessGroup},
    {"thread_name", Key::kThreadName},
    {"thread_id", Key::kThreadId},
    {"collective_seq_id", Key::kCollectiveSeqId},
    {"p2p_seq_id", Key::kP2pSeqId},
    {"seq_id", Key::kSeqId},
    {"op_id", Key::kOpId},
    {"profiling_name", Key::kProfilingName},
    {"time_created_ns", Key::kTimeCreatedNs},
    {"input_sizes", Key::kInputSizes},
    {"output_sizes", Key::kOutputSizes},
    {"input_dtypes", Key::kInputDtypes},
    {"output_dtypes", Key::kOutputDtypes},
    {"state", Key::kState},
    {"time_discovered_started_ns", Key::kTimeDiscoveredStartedNs},
    {"time_discovered_completed_ns", Key::kTimeDiscoveredCompletedNs},
    {"duration_ms", Key::kDurationMs},
    {"retired", Key::kRetired},
    {"is_p2p", Key::kIsP2p},
    {"timeout_ms", Key::kTimeoutMs},
};

}  // namespace

Key FindKey(std::string_view text) {
  if (text.size() < 4 || text.size() > 28) return Key::kOther;
  for (const KeyName& name : kKeyNames) {
    if (name.text.size() == text.size() && name.text == text) return name.key;
  }
  return Key::kOther;
}

void Document::Clear() {
  root = Value();
  strings_.clear();
  owned_.clear();
  containers_.clear();
  chunks_.clear();
  pool_.clear();
}

Value Document::NewString(std::string_view text, Type type) {
  Value value;
  value.type = type;
  value.key = FindKey(text);
  value.index = static_cast<uint32_t>(strings_.size());
  strings_.push_back(text);
  return value;
}

Value Document::OwnString(std::string text) {
  owned_.push_back(std::move(text));
  return NewString(owned_.back());
}

Value Document::NewContainer(Type type) {
  Value value;
  value.type = type;
  value.index = static_cast<uint32_t>(containers_.size());
  containers_.emplace_back();
  return value;
}

bool Document::Append(uint32_t index, const Value* values, size_t count) {
  if (count == 0) return true;
  if (full() || count > kMaxValues) return false;
  Container& container = containers_[index];
  const auto first = static_cast<uint32_t>(pool_.size()), added = static_cast<uint32_t>(count);
  pool_.insert(pool_.end(), values, values + count);
  Chunk* last = container.last == UINT32_MAX ? &container.begin : &chunks_[container.last];
  if (container.size == 0) last->first = first;
  container.size += added;
  if (last->first + last->count == first) {
    last->count += added;
    return true;
  }
  last->next = container.last = static_cast<uint32_t>(chunks_.size());
  chunks_.push_back({first, added, UINT32_MAX});
  return true;
}

Value Document::Get(const Value& dict, Key key) const {
  Value found;
  ForEachPair(dict, [&](const Value& name, const Value& value) {
    if (name.type == Type::kString && name.key == key) found = value;
    return true;
  });
  return found;
}

}  // namespace lockstep::fr
