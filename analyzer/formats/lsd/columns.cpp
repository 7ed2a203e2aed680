#include "analyzer/formats/lsd/columns.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

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

// Differences wrap around, so any two values are preserved, even those of a broken clock.
int64_t Minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

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

template <typename List>
auto At(const List& list, int i) {
  return list.empty() ? typename List::value_type{0} : list.Get(i);
}

}  // namespace

OpColumns EncodeOps(const Rank& rank, absl::Span<const Op> ops, const TextIndexes& texts) {
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
  // Many sources have none of these columns.
  DropZeros(c.mutable_group());
  DropZeros(c.mutable_ticket_delta());
  DropZeros(c.mutable_result());
  DropZeros(c.mutable_caller_delta());
  DropZeros(c.mutable_caller_object());
  DropZeros(c.mutable_graph());
  DropZeros(c.mutable_send_address_delta());
  DropZeros(c.mutable_recv_address_delta());
  DropZeros(c.mutable_flags());
  DropZeros(c.mutable_started_ns_delta());
  DropZeros(c.mutable_completed_ns_delta());
  DropZeros(c.mutable_input_shape());
  DropZeros(c.mutable_output_shape());
  DropZeros(c.mutable_input_elements());
  DropZeros(c.mutable_output_elements());
  DropZeros(c.mutable_dtypes());
  DropZeros(c.mutable_name());
  DropZeros(c.mutable_call_site());
  DropZeros(c.mutable_record_id());
  return c;
}

absl::Status DecodeOps(const OpColumns& c, const TextIndexes& texts, Rank* rank) {
  const int count = static_cast<int>(c.count());
  const int sizes[] = {c.communicator_size(),
                       c.kind_size(),
                       c.stage_size(),
                       c.datatype_size(),
                       c.reduction_size(),
                       c.root_or_peer_size(),
                       c.elements_size(),
                       c.seq_delta_size(),
                       c.thread_size(),
                       c.index_delta_size(),
                       c.group_size(),
                       c.stream_size(),
                       c.ticket_delta_size(),
                       c.enter_ns_delta_size(),
                       c.duration_ns_size(),
                       c.result_size(),
                       c.caller_delta_size(),
                       c.caller_object_size(),
                       c.graph_size(),
                       c.send_address_delta_size(),
                       c.recv_address_delta_size(),
                       c.flags_size(),
                       c.started_ns_delta_size(),
                       c.completed_ns_delta_size(),
                       c.input_shape_size(),
                       c.output_shape_size(),
                       c.input_elements_size(),
                       c.output_elements_size(),
                       c.dtypes_size(),
                       c.name_size(),
                       c.call_site_size(),
                       c.record_id_size()};
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
