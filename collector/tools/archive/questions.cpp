#include "collector/tools/archive/questions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/parse_json.h"
#include "collector/tools/archive/embedded.h"
#include "collector/tools/archive/rows.h"

namespace lockstep::archive {
namespace {

constexpr size_t kMostColumn = 100, kMostAsked = 64, kMostAskedBytes = 256;
constexpr int kLastIncidents = 1000;  // maximum number of incidents for a verdict

bool IsSchema(const std::string& name) { return name.compare(0, 7, "schema_") == 0; }

// The first line of a query file describes it.
std::string Purpose(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.compare(0, 3, "-- ") == 0 ? line.substr(3) : "";
}

std::vector<std::string> Names(const Json& json, const char* name) {
  std::vector<std::string> names;
  for (const Json& value : JsonList(json, name)) {
    if (value.is_string() && names.size() < kMostAsked && value.get_ref<const std::string&>().size() <= kMostAskedBytes)
      names.push_back(value.get<std::string>());
  }
  return names;
}

// Returns the time before which incidents count, in nanoseconds since 1970.
int64_t UntilOf(const Json& question) {
  const int64_t until = JsonInteger(question, "until_real_ns");
  return until > 0 ? until : std::numeric_limits<int64_t>::max();
}

std::string List(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  quoted.reserve(names.size());
  for (const std::string& name : names) quoted.push_back(Quoted(name));
  return quoted.empty() ? "''" : absl::StrJoin(quoted, ", ");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ReadyQueries() {
  std::vector<std::pair<std::string, std::string>> queries;
  for (size_t i = 0; i < kEmbeddedSqlCount; ++i) {
    if (!IsSchema(kEmbeddedSql[i].name)) queries.emplace_back(kEmbeddedSql[i].name, Purpose(kEmbeddedSql[i].text));
  }
  std::sort(queries.begin(), queries.end());
  return queries;
}

absl::StatusOr<std::string> ReadyQuery(const std::string& name, const QueryArguments& arguments) {
  for (size_t i = 0; i < kEmbeddedSqlCount; ++i) {
    if (name != kEmbeddedSql[i].name || IsSchema(name)) continue;
    const int days = arguments.days > 0 ? arguments.days : name == "links" || name == "host" ? 7 : 90;
    if (name == "host" && arguments.host.empty()) return absl::InvalidArgumentError("the query host needs --host NAME");
    return absl::StrReplaceAll(kEmbeddedSql[i].text, {{"{days}", absl::StrCat(days)},
                                                      {"{limit}", absl::StrCat(arguments.limit)},
                                                      {"{host}", Quoted(arguments.host)},
                                                      {"{place}", Quoted(arguments.place)},
                                                      {"{job}", Quoted(arguments.job)},
                                                      {"{cluster}", Quoted(arguments.cluster)}});
  }
  std::vector<std::string> names;
  for (const auto& [known, purpose] : ReadyQueries()) names.push_back(known);
  return absl::NotFoundError(
      absl::StrCat("no query '", Printable(name, 100), "'; there are ", absl::StrJoin(names, ", ")));
}

std::string AsTable(const Answer& answer, size_t columns) {
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> lines;
  lines.push_back(answer.columns);
  lines.insert(lines.end(), answer.rows.begin(), answer.rows.end());
  widths.resize(answer.columns.size());
  for (auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = Printable(line[i], kMostColumn);
      widths[i] = std::max(widths[i], Columns(line[i]));
    }
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widths[i] - Columns(line[i]), ' ');
      const bool last = i + 1 == line.size();
      absl::StrAppend(&text, i == 0 ? "" : "  ", answer.numeric[i] ? pad : "", line[i],
                      answer.numeric[i] || last ? "" : pad);
    }
    absl::StrAppend(&out, columns > 0 ? Printable(text, columns) : text, "\n");
  }
  if (answer.rows.empty()) absl::StrAppend(&out, "(nothing)\n");
  return out;
}

std::string AsJson(const Answer& answer) {
  Json rows = Json::array();
  for (const auto& row : answer.rows) {
    Json object = Json::object();
    for (size_t i = 0; i < row.size(); ++i) {
      int64_t whole = 0;
      double real = 0;
      if (answer.numeric[i] && absl::SimpleAtoi(row[i], &whole)) {
        object[answer.columns[i]] = whole;
      } else if (answer.numeric[i] && absl::SimpleAtod(row[i], &real)) {
        object[answer.columns[i]] = real;
      } else if (answer.numeric[i] && row[i].empty()) {
        object[answer.columns[i]] = nullptr;
      } else {
        object[answer.columns[i]] = row[i];
      }
    }
    rows.push_back(std::move(object));
  }
  return rows.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::string> BestStatement(const std::string& question) {
  const Json json = ParseJson<Json>(question);
  if (!json.is_object()) return absl::InvalidArgumentError("the question is not a JSON object");
  std::vector<std::string> keys;
  for (const Json& speed : JsonList(json, "speeds")) {
    if (!JsonMember(speed, "operation").is_string() || keys.size() == kMostAsked) continue;
    const auto whole = [&speed](const char* name) { return JsonInteger<uint64_t>(speed, name); };
    keys.push_back(absl::StrCat("(", Quoted(JsonText(speed, "operation").substr(0, kMostAskedBytes)), ", ",
                                SizeClass(whole("bytes")), ", ", whole("ranks"), ", ", whole("hosts"), ")"));
  }
  if (keys.empty()) return absl::InvalidArgumentError("the question contains no operation");
  return absl::StrCat(
      "SELECT operation, size_class, ranks, hosts, max(bus_bytes_per_s) AS best, uniqExact(incident) AS incidents FROM "
      "speeds WHERE real_ns < ",
      UntilOf(json), " AND (operation, size_class, ranks, hosts) IN (", absl::StrJoin(keys, ", "),
      ") GROUP BY operation, size_class, ranks, hosts");
}

std::string BestAnswer(const absl::StatusOr<Answer>& answer) {
  Json best = Json::array();
  for (const auto& row : answer.ok() && answer->columns.size() == 6 ? answer->rows : decltype(answer->rows)()) {
    Json one = {{"operation", row[0]}};
    int64_t whole = 0;
    double rate = 0;
    for (const auto& [name, column] : {std::pair("size_class", 1), {"ranks", 2}, {"hosts", 3}, {"incidents", 5}})
      one[name] = absl::SimpleAtoi(row[static_cast<size_t>(column)], &whole) ? whole : 0;
    one["bus_bytes_per_s"] = absl::SimpleAtod(row[4], &rate) ? rate : 0;
    best.push_back(std::move(one));
  }
  return Dump({{"best", best}}) + "\n";
}

absl::StatusOr<std::string> BeforeStatement(const std::string& question, const std::string& cluster) {
  const Json json = ParseJson<Json>(question);
  if (!json.is_object()) return absl::InvalidArgumentError("the question is not a JSON object");
  // The culprits of the latest verdicts. An incident without findings has no culprit.
  const std::string last =
      absl::StrCat("(SELECT hosts, places, kind, real_ns FROM incidents FINAL WHERE kind != ''", " AND real_ns < ",
                   UntilOf(json), cluster.empty() ? "" : absl::StrCat(" AND cluster = ", Quoted(cluster)),
                   " ORDER BY real_ns DESC LIMIT ", kLastIncidents, ")");
  const auto of = [&last](const char* what, const char* column, const std::vector<std::string>& names) {
    return absl::StrCat(
        " UNION ALL SELECT '", what,
        "' AS what, name, count() AS times, max(real_ns) AS newest, argMax(kind, real_ns) AS newest_kind FROM ", last,
        " ARRAY JOIN ", column, " AS name WHERE name IN (", List(names), ") GROUP BY name");
  };
  return absl::StrCat(
      "SELECT 'all' AS what, '' AS name, count() AS times, max(real_ns) AS newest, '' AS newest_kind FROM ", last,
      of("host", "hosts", Names(json, "hosts")), of("code place", "places", Names(json, "places")));
}

std::string BeforeAnswer(const std::string& question, const absl::StatusOr<Answer>& answer) {
  if (!answer.ok()) return Dump({{"error", std::string(answer.status().message())}}) + "\n";
  const Json json = ParseJson<Json>(question);
  if (!json.is_object() || answer->columns.size() != 5)
    return Dump({{"error", "the archive's answer is not valid"}}) + "\n";
  std::map<std::pair<std::string, std::string>, const std::vector<std::string>*> known;
  int64_t incidents = -1;
  for (const auto& row : answer->rows) {
    if (row[0] == "all" && !absl::SimpleAtoi(row[2], &incidents)) incidents = -1;
    known[{row[0], row[1]}] = &row;
  }
  if (incidents < 0) return Dump({{"error", "the archive's answer is not valid"}}) + "\n";
  Json before = Json::array();
  const auto add = [&](const char* what, const std::vector<std::string>& names, bool silent) {
    for (const std::string& name : names) {
      const auto at = known.find({what, name});
      int64_t times = 0, newest = 0;
      if (at != known.end() &&
          (!absl::SimpleAtoi((*at->second)[2], &times) || !absl::SimpleAtoi((*at->second)[3], &newest)))
        continue;
      if (times == 0 && silent) continue;
      before.push_back({{"what", what},
                        {"name", name},
                        {"culprit_of", times},
                        {"incidents", incidents},
                        {"last_real_ns", newest},
                        {"last_kind", at == known.end() ? "" : (*at->second)[4]}});
    }
  };
  const std::vector<std::string> hosts = Names(json, "hosts");
  // A count of zero is reported only for a single host, not for one of many hosts or a line of code.
  add("host", hosts, hosts.size() > 1);
  add("code place", Names(json, "places"), true);
  return Dump({{"before", before}}) + "\n";
}

}  // namespace lockstep::archive
