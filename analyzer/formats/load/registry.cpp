#include "analyzer/formats/load/registry.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/format_reader.h"
#include "analyzer/formats/logs/format_reader.h"
#include "analyzer/formats/logs/inspector.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/formats/logs/stacks.h"
#include "analyzer/formats/lsd/format_reader.h"
#include "analyzer/formats/ring/format_reader.h"

namespace lockstep {
namespace {

// Formats with a magic number come first. The JSON of py-spy, ncclras and NCCL's Inspector begins like that of Flight
// Recorder. Any text may be a log.
constexpr FormatReader kFormats[] = {
    {.name = "lsd dump",
     .beginning = "\"LSDUMP1\"",
     .claims = IsLsd,
     .source = Source::kDump,
     .read = ReadLsdDumps,
     .certain = true,
     .ending = ".lsd",
     .passes = 2},
    {.name = "ring file",
     .beginning = "\"LOCKSTEP RING\"",
     .claims = IsRing,
     .source = Source::kRing,
     .read = ReadRings,
     .certain = true,
     .ending = ".ring"},
    {"Flight Recorder pickle", "byte 0x80, protocol 2 to 5", fr::IsPickle, Source::kFlightRecorder, ReadFlightRecorder},
    {"py-spy JSON", "\"[{\", with \"pid\" and \"thread_id\"", logs::IsPySpyJson, Source::kText, ReadLogs},
    {"ncclras JSON", "\"{\", with \"nccl_version\" and \"communicators_count\"", logs::IsRasJson, Source::kText,
     ReadLogs},
    {"NCCL Inspector JSON", "\"{\"header\":\", with \"inspector_output_format_version\"", logs::IsInspectorJson,
     Source::kText, ReadLogs},
    {"Flight Recorder JSON", "\"{\" or \"[{\"", fr::IsJson, Source::kFlightRecorder, ReadFlightRecorder},
    {"Flight Recorder dumps in gzip, zip or tar", "bytes 0x1f 0x8b, \"PK\", or \"ustar\" at byte 257", fr::IsPacked,
     Source::kFlightRecorder, ReadFlightRecorder},
    {"log or printed stacks", "any text", logs::IsText, Source::kText, ReadLogs},
};

}  // namespace

absl::Span<const FormatReader> Formats() { return kFormats; }

const FormatReader* Detect(std::string_view head) {
  const auto* const found = std::ranges::find_if(kFormats, [&](const FormatReader& f) { return f.claims(head); });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string FormatsTried() {
  std::string text;
  for (const FormatReader& format : kFormats)
    absl::StrAppend(&text, text.empty() ? "" : ", ", format.name, " (begins with ", format.beginning, ")");
  return text;
}

}  // namespace lockstep
