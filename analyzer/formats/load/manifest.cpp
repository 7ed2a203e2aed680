#include "analyzer/formats/load/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/merge.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxManifestBytes = 16u << 20;
constexpr int64_t kManifestFormat = 1;

int64_t NumberOr(const nlohmann::json& json, const char* key, int64_t otherwise) {
  auto it = json.find(key);
  return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
}

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
  if (NumberOr(json, "format", 0) > kManifestFormat) {
    *error = absl::StrCat("manifest format ", NumberOr(json, "format", 0), " is newer than this program's ",
                          kManifestFormat, ": ignored; use a newer lockstep");
    return false;
  }
  const int64_t expected = NumberOr(json, "ranks_expected", 0);
  if (expected > 0 && expected <= kMaxRanks)
    manifest->ranks_expected = std::max(manifest->ranks_expected, static_cast<int32_t>(expected));
  if (auto it = json.find("job"); it != json.end() && it->is_string() && manifest->job.empty())
    manifest->job = CleanUtf8(it->get<std::string>(), 256);
  if (auto it = json.find("known_stalled"); it != json.end() && it->is_boolean())
    manifest->known_stalled |= it->get<bool>();
  manifest->stalled_ns = std::max(manifest->stalled_ns, std::max<int64_t>(0, NumberOr(json, "stalled_ns", 0)));
  return true;
}

}  // namespace lockstep
