#include "collector/tools/archive/store.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/parse_json.h"
#include "collector/tools/archive/embedded.h"

namespace lockstep::archive {
namespace {

using PlainJson = nlohmann::json;

constexpr int64_t kStatementLimitMs = 60'000, kInsertLimitMs = 120'000;
constexpr size_t kMostColumns = 256, kMostRows = 100'000;

const char* Embedded(const std::string& name) {
  for (size_t i = 0; i < kEmbeddedSqlCount; ++i) {
    if (name == kEmbeddedSql[i].name) return kEmbeddedSql[i].text;
  }
  return "";
}

std::string Text(const PlainJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  return value.dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

}  // namespace

std::string Quoted(const std::string& text) {
  static const char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || (c != 0 && strchr(" .,:;-_/@()<>[]+*#=!", c) != nullptr)) {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "\\x", std::string(1, kHex[byte >> 4]), std::string(1, kHex[byte & 15]));
    }
  }
  return absl::StrCat(out, "'");
}

absl::StatusOr<Answer> ParseAnswer(const std::string& text) {
  const PlainJson json = ParseJson(text);
  const auto wrong = absl::DataLossError("the server does not respond like ClickHouse");
  if (!json.is_object()) return wrong;
  const auto meta = json.find("meta"), data = json.find("data");
  if (meta == json.end() || data == json.end() || !meta->is_array() || !data->is_array() || meta->size() > kMostColumns)
    return wrong;
  Answer answer;
  for (const PlainJson& column : *meta) {
    if (!column.is_object() || !column.contains("name") || !column["name"].is_string() || !column.contains("type") ||
        !column["type"].is_string())
      return wrong;
    answer.columns.push_back(column["name"].get<std::string>());
    const auto type = column["type"].get<std::string>();
    answer.numeric.push_back(type.find("Int") != std::string::npos || type.find("Float") != std::string::npos);
  }
  for (const PlainJson& row : *data) {
    if (!row.is_array() || row.size() != answer.columns.size()) return wrong;
    if (answer.rows.size() == kMostRows) break;
    std::vector<std::string> values;
    for (const PlainJson& value : row) values.push_back(Text(value));
    answer.rows.push_back(std::move(values));
  }
  return answer;
}

absl::Status Store::Prepare() {
  Target everywhere = http_->target();
  const std::string database = everywhere.database;
  everywhere.database.clear();
  Http server(everywhere);
  const auto make = [this](const std::string& statement) {
    absl::Status status;
    // If two programs create the same table at once, one may get an error that its folder exists. The table is complete
    // soon after.
    for (int tries = 0; tries < 20; ++tries) {
      status = http_->Post(statement, nullptr, {}, kStatementLimitMs, kMostAnswerBytes).status();
      if (status.ok() || (status.message().find("Code: 57,") == absl::string_view::npos &&
                          status.message().find("already exists") == absl::string_view::npos))
        break;
      // An earlier program added the column and was killed before it stored the version, or another one just did.
      if (statement.find("ALTER TABLE") != std::string::npos) return absl::OkStatus();
      poll(nullptr, 0, 50);
    }
    return status;
  };
  constexpr char kSchema[] =
      "CREATE TABLE IF NOT EXISTS lockstep_schema (version UInt32, made DateTime) ENGINE = ReplacingMergeTree ORDER BY "
      "version";
  absl::Status made = make(kSchema);
  if (!made.ok() && made.message().find("Code: 81") != absl::string_view::npos) {
    made = server
               .Post(absl::StrCat("CREATE DATABASE IF NOT EXISTS ", database), nullptr, {}, kStatementLimitMs,
                     kMostAnswerBytes)
               .status();
    if (made.ok()) made = make(kSchema);
  }
  if (!made.ok()) return made;
  const absl::StatusOr<Answer> version = Ask("SELECT max(version) FROM lockstep_schema", kStatementLimitMs);
  if (!version.ok()) return version.status();
  int number = 0;
  if (version->rows.size() != 1 || !absl::SimpleAtoi(version->rows[0][0], &number))
    return absl::DataLossError("the server does not report the schema version");
  if (number > kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the tables of ", database, " were created by a newer Lockstep (schema ", number,
                     ", this one supports ", kSchemaVersion, "): nothing was written; use the newer version"));
  }
  for (int step = number + 1; step <= kSchemaVersion; ++step) {
    for (const absl::string_view statement :
         absl::StrSplit(Embedded(absl::StrCat("schema_", step)), ";\n", absl::SkipWhitespace())) {
      if (absl::Status status = make(std::string(statement)); !status.ok()) return status;
    }
    const std::string row = absl::StrCat("{\"version\":", step, "}\n");
    if (absl::Status status = Insert("lockstep_schema", row); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Store::Has(const std::string& incident, const std::string& job) {
  const absl::StatusOr<Answer> answer =
      Ask(absl::StrCat("SELECT count() FROM incidents WHERE job = ", Quoted(job), " AND incident = ", Quoted(incident)),
          kStatementLimitMs);
  if (!answer.ok()) return answer.status();
  uint64_t count = 0;
  if (answer->rows.size() != 1 || answer->rows[0].size() != 1 || !absl::SimpleAtoi(answer->rows[0][0], &count))
    return absl::DataLossError("the server returned no row count");
  return count > 0;
}

absl::Status Store::Insert(const std::string& table, const std::string& rows) {
  return http_
      ->Post(absl::StrCat("INSERT INTO ", table, " FORMAT JSONEachRow"), &rows,
             {{"input_format_skip_unknown_fields", "1"}}, kInsertLimitMs, kMostAnswerBytes)
      .status();
}

absl::Status Store::Merge(const std::string& table, const std::string& day) {
  return http_
      ->Post(absl::StrCat("OPTIMIZE TABLE ", table, " PARTITION ", Quoted(day), " FINAL"), nullptr, {}, kInsertLimitMs,
             kMostAnswerBytes)
      .status();
}

absl::StatusOr<Answer> Store::Ask(const std::string& statement, int64_t limit_ms) {
  // readonly=2 still lets the given settings change. wait_end_of_query prevents a partial answer before an error.
  const absl::StatusOr<std::string> text =
      http_->Post(absl::StrCat(statement, "\nFORMAT JSONCompact"), nullptr,
                  {{"readonly", "2"},
                   {"wait_end_of_query", "1"},
                   {"max_execution_time", absl::StrCat(std::max<int64_t>(limit_ms / 1000, 1))}},
                  limit_ms, kMostAnswerBytes);
  if (!text.ok()) return text.status();
  return ParseAnswer(*text);
}

}  // namespace lockstep::archive
