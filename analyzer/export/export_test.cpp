#include "analyzer/export/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "analyzer/export/time.h"
#include "analyzer/testing/export_job.h"
#include "proto/perfetto.pb.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Text(ExportFunction exporter, const Bundle& bundle, const Verdict& verdict,
                 const ExportOptions& options = {}, ExportCounts* counts = nullptr) {
  std::string out;
  const auto done = exporter(bundle, verdict, options, [&out](std::string_view bytes) {
    out.append(bytes);
    return absl::OkStatus();
  });
  EXPECT_TRUE(done.ok()) << done.status();
  if (counts != nullptr && done.ok()) *counts = *done;
  return out;
}

// The data that a trace reader extracts, and the rules that it checks.
struct Read {
  std::map<uint64_t, perfetto::TrackDescriptor> tracks;
  struct Slice {
    uint64_t track = 0, begin = 0, end = 0;
    std::string name, category;
    std::map<std::string, std::string> facts;
  };
  std::vector<Slice> slices;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> from, to;  // time and track at both ends of an arrow
  std::string TrackPath(uint64_t uuid) const {
    const auto& track = tracks.at(uuid);
    return (track.parent_uuid() != 0 ? TrackPath(track.parent_uuid()) + " / " : "") + track.name();
  }
};

Read ReadTrace(const std::string& bytes) {
  Read read;
  perfetto::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(bytes));
  EXPECT_EQ(trace.packet(0).sequence_flags(), 3u);
  std::map<uint64_t, std::string> names, categories, facts;
  std::map<uint64_t, std::vector<Read::Slice>> open;
  std::map<uint64_t, uint64_t> last;
  for (const perfetto::TracePacket& packet : trace.packet()) {
    EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
    for (const auto& entry : packet.interned_data().event_names())
      EXPECT_TRUE(names.emplace(entry.iid(), entry.name()).second);
    for (const auto& entry : packet.interned_data().event_categories())
      EXPECT_TRUE(categories.emplace(entry.iid(), entry.name()).second);
    for (const auto& entry : packet.interned_data().debug_annotation_names())
      EXPECT_TRUE(facts.emplace(entry.iid(), entry.name()).second);
    if (packet.has_track_descriptor()) {
      const auto& track = packet.track_descriptor();
      EXPECT_TRUE(track.parent_uuid() == 0 || read.tracks.count(track.parent_uuid()) == 1);
      EXPECT_EQ(track.parent_uuid() == 0, track.has_process());
      EXPECT_TRUE(read.tracks.emplace(track.uuid(), track).second);
      continue;
    }
    const perfetto::TrackEvent& event = packet.track_event();
    EXPECT_EQ(read.tracks.count(event.track_uuid()), 1u);
    EXPECT_GT(packet.timestamp(), 0u);
    EXPECT_GE(packet.timestamp(), last[event.track_uuid()]);
    last[event.track_uuid()] = packet.timestamp();
    auto& stack = open[event.track_uuid()];
    for (uint64_t id : event.flow_ids())
      EXPECT_TRUE(read.from.emplace(id, std::make_pair(packet.timestamp(), event.track_uuid())).second);
    for (uint64_t id : event.terminating_flow_ids())
      EXPECT_TRUE(read.to.emplace(id, std::make_pair(packet.timestamp(), event.track_uuid())).second);
    if (event.type() == perfetto::TrackEvent::SLICE_BEGIN) {
      Read::Slice slice;
      slice.track = event.track_uuid();
      slice.begin = packet.timestamp();
      slice.name = event.name_iid() != 0 ? names.at(event.name_iid()) : event.name();
      slice.category = categories.at(event.category_iids(0));
      for (const auto& note : event.debug_annotations())
        slice.facts[facts.at(note.name_iid())] =
            note.has_int_value() ? std::to_string(note.int_value()) : note.string_value();
      stack.push_back(slice);
    } else if (event.type() == perfetto::TrackEvent::SLICE_END) {
      EXPECT_FALSE(stack.empty());
      if (stack.empty()) continue;
      stack.back().end = packet.timestamp();
      read.slices.push_back(stack.back());
      stack.pop_back();
    }
  }
  for (const auto& [track, stack] : open) EXPECT_TRUE(stack.empty()) << read.TrackPath(track);
  return read;
}

TEST(Export, PerfettoNestsHostsRanksThreadsAndStreams) {
  const Read read = ReadTrace(Text(ExportPerfetto, MakeExportJob(), MakeExportVerdict()));
  std::set<std::string> paths;
  for (const auto& [uuid, track] : read.tracks) paths.insert(read.TrackPath(uuid));
  for (const char* path :
       {"node0", "node1", "unknown host", "node0 / rank 1 gpu 1 pid 101",
        "node0 / rank 1 gpu 1 pid 101 / thread 1001 main", "node0 / rank 1 gpu 1 pid 101 / stream 0: world",
        "unknown host / rank 5 gpu 1 pid 105 / stream 0: world",
        "node0 / rank 1 gpu 1 pid 101 / thread 1001 main (2)"}) {
    EXPECT_EQ(paths.count(path), 1u) << path;
  }
}

TEST(Export, SlicesShowWhatIsKnownAboutTheGpu) {
  const Read read = ReadTrace(Text(ExportPerfetto, MakeExportJob(), MakeExportVerdict()));
  std::map<std::string, int> categories;
  for (const Read::Slice& slice : read.slices) {
    ++categories[slice.category];
    EXPECT_GE(slice.end, slice.begin);
    if (slice.category == "gpu" && slice.name == "AllReduce on world") {
      const bool second = read.TrackPath(slice.track).find("rank 1") != std::string::npos;
      EXPECT_EQ(slice.end - slice.begin, second ? 4'899'000u : 4'900'000u);
    }
  }
  EXPECT_EQ(categories["gpu"], 2 * 8 + 2 * 4);              // host 0
  EXPECT_EQ(categories["gpu, start not recorded"], 2 * 8);  // host 1
  EXPECT_EQ(categories["in flight"], 5);                    // #9, until the capture
  EXPECT_EQ(categories["host call"], 6 * 9 - 1 + 8);
  EXPECT_EQ(categories["verdict"], 1);
  EXPECT_EQ(categories["waiting"], 5);
  for (const Read::Slice& slice : read.slices) {
    if (slice.category != "in flight") continue;
    EXPECT_EQ(slice.facts.at("what"), "started, not completed when the data was captured");
    EXPECT_EQ(slice.facts.at("sequence"), "9");
    EXPECT_GT(slice.end - slice.begin, 50'000'000'000u);
  }
}

TEST(Export, ArrowsPointFromWaitersToTheCulprit) {
  const Read read = ReadTrace(Text(ExportPerfetto, MakeExportJob(), MakeExportVerdict()));
  ASSERT_EQ(read.from.size(), 5u);
  ASSERT_EQ(read.to.size(), 5u);
  for (const auto& [id, target] : read.to) {
    EXPECT_THAT(read.TrackPath(target.second), HasSubstr("rank 3"));
    EXPECT_LT(read.from.at(id).first, target.first);
    EXPECT_THAT(read.TrackPath(read.from.at(id).second), Not(HasSubstr("rank 3")));
  }
}

TEST(Export, HostsShareOneClock) {
  const Bundle bundle = MakeExportJob();
  const ExportTime time(bundle, MakeExportVerdict());
  EXPECT_EQ(time.ToJob(0, bundle.ranks[0].ops[8].enter_ns), 1'700'000'009'000'000'000);
  // This host's wall clock was 5 s ahead.
  EXPECT_EQ(time.ToJob(2, bundle.ranks[2].ops[8].enter_ns), 1'700'000'009'000'002'000);
  // This host is not aligned, so its own wall clock is used.
  EXPECT_EQ(time.ToJob(4, bundle.ranks[4].ops[8].enter_ns), 1'700'000'009'000'004'000);
  EXPECT_EQ(time.stop_ns(), 1'700'000'009'000'000'000);
  EXPECT_EQ(time.ToJob(0, 0), 0);
  EXPECT_EQ(time.ToJob(0, -5), 0);
  EXPECT_EQ(time.ToJob(0, INT64_MAX), 0);
}

TEST(Export, HostileTimesAreHarmless) {
  Bundle bundle = MakeExportJob();
  Verdict verdict = MakeExportVerdict();
  verdict.mutable_clocks(0)->set_offset_ns(INT64_MIN);
  verdict.mutable_clocks(1)->set_offset_ns(INT64_MAX);
  int64_t wild[] = {INT64_MIN, INT64_MAX, -1, 1, INT64_MAX / 2, 0};
  int i = 0;
  for (Rank& rank : bundle.ranks) {
    rank.real_minus_mono_ns = wild[i++ % 6];
    rank.captured_ns = wild[i++ % 6];
    for (Op& op : rank.ops) {
      op.enter_ns = wild[i++ % 6];
      op.return_ns = wild[i++ % 6];
      op.started_ns = wild[i++ % 6];
      op.completed_ns = wild[i++ % 6];
      i += static_cast<int>(op.seq);
    }
  }
  ReadTrace(Text(ExportPerfetto, bundle, verdict));
  EXPECT_TRUE(nlohmann::json::accept(Text(ExportChrome, bundle, verdict)));
  Text(ExportCsv, bundle, verdict);
  EXPECT_TRUE(nlohmann::json::accept(Text(ExportChrome, Bundle(), Verdict())));
}

TEST(Export, ChromeContainsTheSameAsPerfetto) {
  const nlohmann::json json = nlohmann::json::parse(Text(ExportChrome, MakeExportJob(), MakeExportVerdict()));
  std::map<std::string, int> phases;
  std::set<int> processes;
  std::map<int, int> arrows;
  for (const nlohmann::json& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    ++phases[phase];
    processes.insert(event["pid"].get<int>());
    EXPECT_TRUE(phase != "X" || event["dur"].get<double>() >= 0);
    EXPECT_TRUE(phase != "f" || event["pid"] == 3);
    if (phase == "s" || phase == "f") arrows[event["id"].get<int>()] += phase == "s" ? 1 : 100;
  }
  EXPECT_EQ(processes.size(), 6u);
  EXPECT_EQ(phases["X"], 61 + 24 + 16 + 5 + 6);
  EXPECT_EQ(arrows.size(), 5u);
  for (const auto& [id, ends] : arrows) EXPECT_EQ(ends, 101) << id;
}

TEST(Export, CsvHasOneLineForEachOperation) {
  ExportCounts counts;
  const std::string csv = Text(ExportCsv, MakeExportJob(), MakeExportVerdict(), {}, &counts);
  const std::vector<std::string> lines = absl::StrSplit(csv, "\r\n");
  EXPECT_EQ(counts.operations, 6 * 9 - 1 + 8 + 1);
  EXPECT_EQ(counts.without_time, 1);
  ASSERT_EQ(lines.size(), 2u + static_cast<size_t>(counts.operations));
  EXPECT_THAT(lines[0], StartsWith("rank,host,gpu,pid,thread,index,operation,"));
  EXPECT_EQ(lines[1],
            "0,node0,0,100,0,0,AllReduce,world,00000000000000aa,6,0,1,completed,1024,float32,sum,,,0,"
            "1700000001000000000,1700000001000020000,"
            "1700000001000100000,1700000001005000000,0,");
  EXPECT_THAT(csv, HasSubstr(",\"dp \"\"x\"\",\\ </script>"));
  EXPECT_THAT(csv, Not(HasSubstr("\x1b")));
}

TEST(Export, CsvContainsNoFormulas) {
  Bundle job = MakeExportJob();
  for (const char* host : {"=1+1", "+1", "-1", "@sum"}) {
    job.ranks[0].host = host;
    EXPECT_THAT(Text(ExportCsv, job, MakeExportVerdict()), HasSubstr(absl::StrCat("\r\n0,'", host, ",")));
  }
}

TEST(Export, RanksAndTimeCanBeSelected) {
  ExportOptions options;
  options.ranks = {{2, 3}, {5, 5}};
  options.around_stop_ns = 2'500'000'000;
  const nlohmann::json json = nlohmann::json::parse(Text(ExportChrome, MakeExportJob(), MakeExportVerdict(), options));
  std::set<int> processes;
  std::set<int> numbers;
  for (const nlohmann::json& event : json["traceEvents"]) {
    processes.insert(event["pid"].get<int>());
    if (event["ph"] == "X" && event["args"].contains("sequence")) numbers.insert(event["args"]["sequence"].get<int>());
  }
  EXPECT_THAT(processes, ElementsAre(2, 3, 5));
  EXPECT_THAT(numbers, ElementsAre(7, 8, 9));  // the stop is at #9
}

TEST(Export, AFailingWriterEndsTheExport) {
  for (const ExportFormat& format : kExportFormats) {
    int calls = 0;
    const auto done = format.write(MakeExportJob(), MakeExportVerdict(), {}, [&calls](std::string_view) {
      return ++calls < 10 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
    });
    EXPECT_EQ(done.status().message(), "full");
    EXPECT_EQ(calls, 10);
  }
}

}  // namespace
}  // namespace lockstep
