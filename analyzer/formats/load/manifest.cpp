#include "analyzer/formats/load/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxManifestBytes = 16u << 20;
constexpr int64_t kManifestFormat = 1;

}  // namespace

bool ReadManifest(const std::string& path, Manifest* manifest, std::string* error) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxManifestBytes);
  if (!text.ok()) {
    *error = "is unreadable or too large; the number of ranks comes from the dumps";
    return false;
  }
  const nlohmann::json json = ParseJson(*text);
  if (!json.is_object()) {
    *error = "is not a JSON object (damaged or truncated); the number of ranks comes from the dumps";
    return false;
  }
  if (JsonInteger(json, "format") > kManifestFormat) {
    *error = absl::StrCat("manifest format ", JsonInteger(json, "format"), " is newer than this program's ",
                          kManifestFormat, ": ignored; use a newer lockstep");
    return false;
  }
  const int64_t expected = JsonInteger(json, "ranks_expected");
  if (expected > 0 && expected <= kMaxRanks)
    manifest->ranks_expected = std::max(manifest->ranks_expected, static_cast<int32_t>(expected));
  if (manifest->job.empty()) manifest->job = CleanUtf8(JsonText(json, "job"), 256);
  manifest->known_stalled |= JsonFlag(json, "known_stalled");
  manifest->stalled_ns = std::max(manifest->stalled_ns, std::max<int64_t>(0, JsonInteger(json, "stalled_ns")));
  return true;
}

}  // namespace lockstep
