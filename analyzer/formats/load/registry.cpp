#include "analyzer/formats/load/registry.h"

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/format_reader.h"
#include "analyzer/formats/logs/format_reader.h"
#include "analyzer/formats/lsd/format_reader.h"
#include "analyzer/formats/ring/format_reader.h"

namespace lockstep {

absl::Span<const FormatReader* const> Formats() {
  static const FormatReader* const formats[] = {
      &LsdFormat(),     &RingFormat(),      &FlightRecorderPickleFormat(), &PySpyJsonFormat(),
      &RasJsonFormat(), &InspectorFormat(), &FlightRecorderJsonFormat(),   &FlightRecorderPackedFormat(),
      &TextFormat(),
  };
  return formats;
}

Detected Detect(std::string_view head) {
  Detected best;
  for (const FormatReader* format : Formats()) {
    if (const Claim claim = format->Claims(head); claim > best.claim) best = {format, claim};
  }
  return best;
}

std::string FormatsTried() {
  std::string text;
  for (const FormatReader* format : Formats())
    absl::StrAppend(&text, text.empty() ? "" : ", ", format->name(), " (begins with ", format->beginning(), ")");
  return text;
}

}  // namespace lockstep
