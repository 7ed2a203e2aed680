#include "analyzer/formats/lsd/columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/util/wrap.h"

namespace lockstep {
namespace {

enum Flag : uint32_t {
  kInBatch = 1,
  kBatchEnd = 2,
  kRetired = 4,
  kRecentOnly = 8,
  kHasStarted = 16,
  kHasCompleted = 32,
  kReplayed = 64,
};

uint32_t TextOut(uint32_t index, const std::vector<uint32_t>& map) {
  return index < map.size() && map[index] != kNoIndex ? map[index] + 1 : 0;
}
uint32_t TextIn(uint32_t value, const std::vector<uint32_t>& map) {
  return value != 0 && value - 1 < map.size() ? map[value - 1] : kNoIndex;
}

// Clears a list if all its entries are 0.
template <typename List>
void DropZeros(List* list) {
  if (std::all_of(list->begin(), list->end(), [](auto value) { return value == 0; })) list->Clear();
}

uint32_t FlagsOf(const Op& op) {
  return (op.in_batch ? kInBatch : 0u) | (op.batch_end ? kBatchEnd : 0u) | (op.retired ? kRetired : 0u) |
         (op.recent_only ? kRecentOnly : 0u) | (op.started_ns != 0 ? kHasStarted : 0u) |
         (op.completed_ns != 0 ? kHasCompleted : 0u) | (op.replayed ? kReplayed : 0u);
}

// RARE marks the columns that many sources do not have.
// clang-format off
#define LOCKSTEP_COLUMNS(COLUMN, RARE)                                                      \
  COLUMN(communicator) COLUMN(kind) COLUMN(stage) COLUMN(datatype) COLUMN(reduction)        \
  COLUMN(root_or_peer) COLUMN(elements) COLUMN(seq_delta) COLUMN(thread)                    \
  COLUMN(index_delta) RARE(group) COLUMN(stream) RARE(ticket_delta) COLUMN(enter_ns_delta)  \
  COLUMN(duration_ns) RARE(result) RARE(caller_delta) RARE(caller_object) RARE(graph)       \
  RARE(send_address_delta) RARE(recv_address_delta) RARE(flags) RARE(started_ns_delta)      \
  RARE(completed_ns_delta) RARE(input_shape) RARE(output_shape) RARE(input_elements)        \
  RARE(output_elements) RARE(dtypes) RARE(name) RARE(call_site) RARE(record_id)
// clang-format on
#define LOCKSTEP_KEEP(column)
#define LOCKSTEP_DROP(column) DropZeros(c.mutable_##column());
#define LOCKSTEP_SIZE(column) c.column##_size(),

template <typename List>
auto At(const List& list, int i) {
  return list.empty() ? typename List::value_type{0} : list.Get(i);
}

}  // namespace

OpColumns EncodeOps(const Rank& rank, absl::Span<const Op> ops, const TextIndexes& texts) {
  // Differences wrap around, so any two values are preserved, even those of a broken clock.
  OpColumns c;
  c.set_count(static_cast<uint32_t>(ops.size()));
  Op last;
  OpAddresses last_addresses;
  last.seq = last.index = last.ticket = 0;
  for (const Op& op : ops) {
    const OpAddresses at = op.addresses < rank.addresses.size() ? rank.addresses[op.addresses] : OpAddresses();
    c.add_communicator(static_cast<int32_t>(op.membership));
    c.add_kind(static_cast<uint32_t>(op.kind));
    c.add_stage(static_cast<uint32_t>(op.state));
    c.add_datatype(op.datatype);
    c.add_reduction(op.reduction);
    c.add_root_or_peer(op.root_or_peer);
    c.add_elements(static_cast<uint64_t>(op.count));
    c.add_seq_delta(Minus(op.seq, last.seq));
    c.add_thread(op.thread);
    c.add_index_delta(Minus(op.index, last.index));
    c.add_group(op.group);
    c.add_stream(static_cast<int32_t>(op.stream));
    c.add_ticket_delta(Minus(op.ticket, last.ticket));
    c.add_enter_ns_delta(Minus(op.enter_ns, last.enter_ns));
    c.add_duration_ns(op.return_ns == 0 ? -1 : Minus(op.return_ns, op.enter_ns));
    c.add_result(op.result);
    c.add_caller_delta(Minus(static_cast<int64_t>(op.caller), static_cast<int64_t>(last.caller)));
    c.add_caller_object(op.caller_object);
    c.add_graph(op.graph);
    c.add_send_address_delta(Minus(static_cast<int64_t>(at.send), static_cast<int64_t>(last_addresses.send)));
    c.add_recv_address_delta(Minus(static_cast<int64_t>(at.recv), static_cast<int64_t>(last_addresses.recv)));
    c.add_flags(FlagsOf(op));
    c.add_started_ns_delta(op.started_ns != 0 ? Minus(op.started_ns, op.enter_ns) : 0);
    c.add_completed_ns_delta(op.completed_ns != 0 ? Minus(op.completed_ns, op.enter_ns) : 0);
    c.add_input_shape(TextOut(op.input_shape, texts.shapes));
    c.add_output_shape(TextOut(op.output_shape, texts.shapes));
    c.add_input_elements(Plus(op.input_elements, 1));
    c.add_output_elements(Plus(op.output_elements, 1));
    c.add_dtypes(TextOut(op.dtypes, texts.strings));
    c.add_name(TextOut(op.name, texts.strings));
    c.add_call_site(TextOut(op.call_site, texts.strings));
    c.add_record_id(Plus(op.record_id, 2));
    last = op;
    last_addresses = at;
  }
  LOCKSTEP_COLUMNS(LOCKSTEP_KEEP, LOCKSTEP_DROP)
  return c;
}

absl::Status DecodeOps(const OpColumns& c, const TextIndexes& texts, Rank* rank) {
  const int count = static_cast<int>(c.count());
  const int sizes[] = {LOCKSTEP_COLUMNS(LOCKSTEP_SIZE, LOCKSTEP_SIZE)};
  for (int size : sizes) {
    if (size != 0 && size != count) {
      return absl::DataLossError(
          absl::StrCat("operation columns differ in length: one has ", size, " entries instead of ", count));
    }
  }
  // Works column by column, so that a chunk stays in the cache.
  const size_t first = rank->ops.size();
  rank->ops.resize(first + c.count());
  Op* const rows = rank->ops.data() + first;
  auto each = [&](const auto& list, auto&& put) {
    if (list.empty()) {
      for (int i = 0; i < count; ++i) put(rows[i], 0);
    } else {
      const auto* values = list.data();
      for (int i = 0; i < count; ++i) put(rows[i], values[i]);
    }
  };
  // An omitted column needs no work if the default in Op is 0.
  auto each_given = [&](const auto& list, auto&& put) {
    if (!list.empty()) each(list, put);
  };
  int64_t sum = 0;
  auto total = [&](int64_t delta) { return sum = Plus(sum, delta); };
  each(c.communicator(), [](Op& op, int32_t v) { op.membership = static_cast<uint32_t>(v); });
  each_given(c.kind(), [](Op& op, uint32_t v) { op.kind = static_cast<ring::CallKind>(v); });
  each_given(c.stage(), [](Op& op, uint32_t v) {
    op.state = v <= static_cast<uint32_t>(OpState::kCaptured) ? static_cast<OpState>(v) : OpState::kUnknown;
  });
  each(c.datatype(), [](Op& op, uint32_t v) { op.datatype = static_cast<uint8_t>(v); });
  each(c.reduction(), [](Op& op, uint32_t v) { op.reduction = static_cast<uint8_t>(v); });
  each(c.root_or_peer(), [](Op& op, int32_t v) { op.root_or_peer = v; });
  each(c.elements(), [](Op& op, uint64_t v) { op.count = static_cast<int64_t>(v); });
  each(c.seq_delta(), [&](Op& op, int64_t v) { op.seq = total(v); });
  each(c.thread(), [](Op& op, uint32_t v) { op.thread = v; });
  sum = 0;
  each_given(c.index_delta(), [&](Op& op, int64_t v) { op.index = total(v); });
  each_given(c.group(), [](Op& op, uint64_t v) { op.group = GroupNumber(v); });
  each(c.stream(), [](Op& op, int32_t v) { op.stream = static_cast<uint32_t>(v); });
  sum = 0;
  each_given(c.ticket_delta(), [&](Op& op, int64_t v) { op.ticket = total(v); });
  sum = 0;
  each_given(c.enter_ns_delta(), [&](Op& op, int64_t v) { op.enter_ns = total(v); });
  each(c.duration_ns(), [](Op& op, int64_t v) { op.return_ns = v == -1 ? 0 : Plus(op.enter_ns, v); });
  each_given(c.result(),
             [](Op& op, int32_t v) { op.result = static_cast<int16_t>(std::clamp<int32_t>(v, INT16_MIN, INT16_MAX)); });
  sum = 0;
  each_given(c.caller_delta(), [&](Op& op, int64_t v) { op.caller = static_cast<uint64_t>(total(v)); });
  each_given(c.caller_object(), [](Op& op, uint32_t v) { op.caller_object = v; });
  each_given(c.graph(), [](Op& op, uint64_t v) { op.graph = v; });
  OpAddresses at;
  for (int i = 0; i < count && !(c.send_address_delta().empty() && c.recv_address_delta().empty()); ++i) {
    at.send = static_cast<uint64_t>(Plus(static_cast<int64_t>(at.send), At(c.send_address_delta(), i)));
    at.recv = static_cast<uint64_t>(Plus(static_cast<int64_t>(at.recv), At(c.recv_address_delta(), i)));
    if (at.send == 0 && at.recv == 0) continue;
    rows[i].addresses = static_cast<uint32_t>(rank->addresses.size());
    rank->addresses.push_back(at);
  }
  each_given(c.flags(), [](Op& op, uint32_t v) {
    op.in_batch = v & kInBatch;
    op.batch_end = v & kBatchEnd;
    op.retired = v & kRetired;
    op.recent_only = v & kRecentOnly;
    op.replayed = v & kReplayed;
  });
  for (int i = 0; i < count && !c.flags().empty(); ++i) {
    if (c.flags(i) & kHasStarted) rows[i].started_ns = Plus(rows[i].enter_ns, At(c.started_ns_delta(), i));
    if (c.flags(i) & kHasCompleted) rows[i].completed_ns = Plus(rows[i].enter_ns, At(c.completed_ns_delta(), i));
  }
  each_given(c.input_shape(), [&](Op& op, uint32_t v) { op.input_shape = TextIn(v, texts.shapes); });
  each_given(c.output_shape(), [&](Op& op, uint32_t v) { op.output_shape = TextIn(v, texts.shapes); });
  each_given(c.input_elements(), [](Op& op, int64_t v) { op.input_elements = Minus(v, 1); });
  each_given(c.output_elements(), [](Op& op, int64_t v) { op.output_elements = Minus(v, 1); });
  each_given(c.dtypes(), [&](Op& op, uint32_t v) { op.dtypes = TextIn(v, texts.strings); });
  each_given(c.name(), [&](Op& op, uint32_t v) { op.name = TextIn(v, texts.strings); });
  each_given(c.call_site(), [&](Op& op, uint32_t v) { op.call_site = TextIn(v, texts.strings); });
  each_given(c.record_id(), [](Op& op, int64_t v) { op.record_id = Minus(v, 2); });
  return absl::OkStatus();
}

}  // namespace lockstep
