#include "analyzer/formats/fr/format_reader.h"

#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/formats/fr/packed.h"
#include "analyzer/formats/fr/text.h"

namespace lockstep {
namespace {

class FlightRecorderReader : public FormatReader {
 public:
  int32_t RankOf(const std::string& path) const override { return fr::RankInName(path); }
  Source source() const override { return Source::kFlightRecorder; }
  void Read(const std::vector<std::string>& paths, const ReadControl& control, Records* records) const override {
    LoadFlightRecorder(paths, &records->framework, control.cancel, [&control] { control.Done(1); });
  }
};

class PickleReader final : public FlightRecorderReader {
 public:
  const char* name() const override { return "Flight Recorder pickle"; }
  const char* beginning() const override { return "byte 0x80, protocol 2 to 5"; }
  Claim Claims(std::string_view head) const override {
    if (head.empty() || head[0] != '\x80') return Claim::kNo;
    return head.size() == 1 || (head[1] >= 2 && head[1] <= 5) ? Claim::kMaybe : Claim::kNo;
  }
};

// Returns false for a log that begins with a printed Python dictionary, or has an object in each line.
bool IsOneObject(std::string_view head) {
  const size_t end = head.find('\n');
  const std::string_view first = fr::Strip(head.substr(0, end));
  const std::string_view inside = fr::Strip(first.substr(1));
  if (!inside.empty() && inside[0] != '"' && inside[0] != '}') return false;
  // If a log's first line is longer than `head`, or its only line, only its first key shows that it is not a dump.
  for (const std::string_view key :
       {"\"log\"", "\"message\"", "\"msg\"", "\"textPayload\"", "\"line\"", "\"time\"", "\"ts\"", "\"timestamp\"",
        "\"@timestamp\"", "\"stream\"", "\"level\"", "\"severity\"", "\"_source\""}) {
    if (inside.starts_with(key)) return false;
  }
  return end == std::string_view::npos || !first.ends_with('}') || fr::Strip(head.substr(end)).empty();
}

class JsonReader final : public FlightRecorderReader {
 public:
  const char* name() const override { return "Flight Recorder JSON"; }
  const char* beginning() const override { return "\"{\" or \"[{\""; }
  Claim Claims(std::string_view head) const override {
    while (!head.empty() && fr::IsSpace(head[0])) head.remove_prefix(1);
    if (!head.empty() && head[0] == '{') return IsOneObject(head) ? Claim::kMaybe : Claim::kNo;
    // A plain list of entries. Logs can also begin with a bracket.
    if (head.empty() || head[0] != '[') return Claim::kNo;
    head.remove_prefix(1);
    while (!head.empty() && fr::IsSpace(head[0])) head.remove_prefix(1);
    return !head.empty() && head[0] == '{' ? Claim::kMaybe : Claim::kNo;
  }
};

class PackedReader final : public FlightRecorderReader {
 public:
  const char* name() const override { return "Flight Recorder dumps in gzip, zip or tar"; }
  const char* beginning() const override { return "bytes 0x1f 0x8b, \"PK\", or \"ustar\" at byte 257"; }
  Claim Claims(std::string_view head) const override {
    return fr::IsGzip(head) || fr::IsZip(head) || fr::IsTar(head) ? Claim::kMaybe : Claim::kNo;
  }
};

}  // namespace

const FormatReader& FlightRecorderPackedFormat() {
  static const PackedReader reader;
  return reader;
}

const FormatReader& FlightRecorderPickleFormat() {
  static const PickleReader reader;
  return reader;
}

const FormatReader& FlightRecorderJsonFormat() {
  static const JsonReader reader;
  return reader;
}

}  // namespace lockstep
