// Perfetto's protobuf trace. A host is a process group that contains its ranks, which contain their threads and
// streams.
#include <string>

#include "absl/container/flat_hash_map.h"
#include "analyzer/export/export.h"
#include "analyzer/export/time.h"
#include "analyzer/export/trace.h"
#include "proto/perfetto.pb.h"

namespace lockstep {
namespace {

constexpr uint32_t kSequence = 1;
constexpr size_t kMaxInterned = 1 << 16;  // readers keep these in memory; later names are written in full

using perfetto::TrackDescriptor;
using perfetto::TrackEvent;

class PerfettoSink : public TraceSink {
 public:
  PerfettoSink(const Bundle& bundle, const ExportWriter& write) : TraceSink(write), bundle_(bundle) {}

  void Row(const TraceRow& row) override {
    perfetto::TracePacket& packet = Fresh();
    TrackDescriptor& track = *packet.mutable_track_descriptor();
    track.set_uuid(row.id);
    track.set_name(row.name);
    track.set_sibling_order_rank(row.order);
    track.set_sibling_merge_behavior(TrackDescriptor::MERGE_NEVER);
    if (row.kind == TraceRow::Kind::kHost) {
      track.mutable_process()->set_pid(row.order + 1);  // real PIDs could be equal on different hosts
      track.mutable_process()->set_process_name(row.name);
    } else {
      track.set_parent_uuid(row.parent);
    }
    if (row.kind != TraceRow::Kind::kLane) track.set_child_ordering(TrackDescriptor::BY_RANK);
    Put();
  }

  void Begin(const TraceRow& row, const TraceSlice& slice) override {
    TrackEvent& event = Event(row, slice.begin, TrackEvent::SLICE_BEGIN);
    Name(slice.name, &event);
    Category(slice.category, &event);
    for (const TraceFact& fact : FactsOf(bundle_, slice)) Annotate(fact, &event);
    Put();
  }

  void End(const TraceRow& row, const TraceSlice& slice) override {
    Event(row, slice.end, TrackEvent::SLICE_END);
    Put();
  }

  void Mark(const TraceRow& row, const TraceMark& mark) override {
    TrackEvent& event = Event(row, mark.at, TrackEvent::INSTANT);
    event.set_name(mark.name);
    Category(mark.category, &event);
    for (uint64_t arrow : mark.arrows_from) event.add_flow_ids(arrow);
    for (uint64_t arrow : mark.arrows_to) event.add_terminating_flow_ids(arrow);
    Put();
  }

 private:
  perfetto::TracePacket& Fresh() {
    packet_.Clear();
    packet_.set_trusted_packet_sequence_id(kSequence);
    packet_.set_sequence_flags(first_ ? 3 : 2);
    first_ = false;
    return packet_;
  }

  TrackEvent& Event(const TraceRow& row, int64_t at, TrackEvent::Type type) {
    Fresh().set_timestamp(static_cast<uint64_t>(at));
    TrackEvent& event = *packet_.mutable_track_event();
    event.set_type(type);
    event.set_track_uuid(row.id);
    return event;
  }

  // Returns the id of a text; *fresh is set if this packet must define it. 0 if the table is full.
  uint64_t Intern(absl::flat_hash_map<std::string, uint64_t>* table, const std::string& text, bool* fresh) {
    auto it = table->find(text);
    *fresh = it == table->end();
    if (!*fresh) return it->second;
    if (table->size() >= kMaxInterned) return *fresh = false, 0;
    return (*table)[text] = table->size() + 1;
  }

  void Name(const std::string& name, TrackEvent* event) {
    bool fresh = false;
    const uint64_t iid = Intern(&names_, name, &fresh);
    if (iid == 0) {
      event->set_name(name);
      return;
    }
    event->set_name_iid(iid);
    if (fresh) Say(packet_.mutable_interned_data()->add_event_names(), iid, name);
  }

  void Category(const char* category, TrackEvent* event) {
    bool fresh = false;
    const uint64_t iid = Intern(&categories_, category, &fresh);
    event->add_category_iids(iid);
    if (fresh) Say(packet_.mutable_interned_data()->add_event_categories(), iid, category);
  }

  void Annotate(const TraceFact& fact, TrackEvent* event) {
    bool fresh = false;
    perfetto::DebugAnnotation& annotation = *event->add_debug_annotations();
    annotation.set_name_iid(Intern(&facts_, fact.key, &fresh));
    if (fresh) Say(packet_.mutable_interned_data()->add_debug_annotation_names(), annotation.name_iid(), fact.key);
    if (fact.text.empty()) {
      annotation.set_int_value(fact.number);
    } else {
      annotation.set_string_value(fact.text);
    }
  }

  static void Say(perfetto::InternedString* entry, uint64_t iid, const std::string& text) {
    entry->set_iid(iid);
    entry->set_name(text);
  }

  // A file may consist of several Trace messages one after another.
  void Put() { Write(trace_.SerializeAsString()); }

  const Bundle& bundle_;
  perfetto::Trace trace_;
  perfetto::TracePacket& packet_ = *trace_.add_packet();
  bool first_ = true;
  absl::flat_hash_map<std::string, uint64_t> names_, categories_, facts_;
};

}  // namespace

absl::StatusOr<ExportCounts> ExportPerfetto(const Bundle& bundle, const Verdict& verdict, const ExportOptions& options,
                                            const ExportWriter& write) {
  const ExportTime time(bundle, verdict);
  PerfettoSink sink(bundle, write);
  return WalkTrace(bundle, verdict, options, time, &sink);
}

}  // namespace lockstep
