#include "analyzer/formats/fr/format_reader.h"

#include "analyzer/formats/fr/loader.h"
#include "analyzer/formats/fr/packed.h"
#include "analyzer/formats/fr/text.h"

namespace lockstep {
namespace fr {
namespace {

// Returns false for a log that begins with a printed Python dictionary, or has an object in each line.
bool IsOneObject(std::string_view head) {
  const size_t end = head.find('\n');
  const std::string_view first = Strip(head.substr(0, end));
  const std::string_view inside = Strip(first.substr(1));
  if (!inside.empty() && inside[0] != '"' && inside[0] != '}') return false;
  // If a log's first line is longer than `head`, or its only line, only its first key shows that it is not a dump.
  for (const std::string_view key :
       {"\"log\"", "\"message\"", "\"msg\"", "\"textPayload\"", "\"line\"", "\"time\"", "\"ts\"", "\"timestamp\"",
        "\"@timestamp\"", "\"stream\"", "\"level\"", "\"severity\"", "\"_source\""}) {
    if (inside.starts_with(key)) return false;
  }
  return end == std::string_view::npos || !first.ends_with('}') || Strip(head.substr(end)).empty();
}

std::string_view WithoutBlanksBefore(std::string_view text) {
  while (!text.empty() && IsSpace(text[0])) text.remove_prefix(1);
  return text;
}

}  // namespace

bool IsPickle(std::string_view head) {
  if (!head.starts_with('\x80')) return false;
  return head.size() == 1 || (head[1] >= 2 && head[1] <= 5);
}

bool IsJson(std::string_view head) {
  head = WithoutBlanksBefore(head);
  if (head.starts_with('{')) return IsOneObject(head);
  // A plain list of entries. Logs can also begin with a bracket.
  return head.starts_with('[') && WithoutBlanksBefore(head.substr(1)).starts_with('{');
}

bool IsPacked(std::string_view head) { return IsGzip(head) || IsZip(head) || IsTar(head); }

}  // namespace fr

void ReadFlightRecorder(const std::vector<std::string>& paths, const ReadControl& control, Records* records) {
  LoadFlightRecorder(paths, &records->framework, control.limits, control.cancel, [&control] { control.Done(1); });
}

}  // namespace lockstep
