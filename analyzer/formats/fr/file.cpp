#include "analyzer/formats/fr/file.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/json.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/ops.h"
#include "analyzer/formats/fr/pickle.h"
#include "analyzer/formats/fr/state.h"

namespace lockstep::fr {
namespace {

constexpr char kBlanks[] = " \t\r\n";

// What keeps a file with these bytes from being a dump; empty: nothing.
std::string WhatItIsNot(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(kBlanks);
  if (first == std::string_view::npos)
    return "is empty: the writer died before it wrote, or wrote nothing. Use another dump of this rank";
  if (beginning[first] == '{' || beginning[0] == '\x80') return "";
  return "is neither a pickle of protocol 2 to 5 nor a JSON object, so no Flight Recorder dump";
}

class FileReader {
 public:
  FileReader(std::string_view bytes, const std::string& path, int32_t rank, ReadSpace* space)
      : bytes_(bytes), space_(*space), document_(space->document) {
    file_.rank.rank = rank;
    file_.rank.path = path;
    file_.rank.source = Source::kFlightRecorder;
  }

  FileData Run() {
    if (std::string what = WhatItIsNot(bytes_); !what.empty()) {
      Report(0, std::move(what));
      return std::move(file_);
    }
    json_ = bytes_[bytes_.find_first_not_of(kBlanks)] == '{';
    ParseError error;
    // Their number is not known before, but files of one job hold much the same.
    file_.rank.ops.reserve(space_.expected_ops);
    std::optional<EntryReader> reader(std::in_place, document_, &file_);
    const bool streamed = !json_ && StreamPickle(bytes_, &document_, &*reader) == Streaming::kDone;
    if (!streamed) {
      ForgetEntries();
      error = json_ ? ParseJson(bytes_, &document_) : ParsePickle(bytes_, &document_);
      reader.emplace(document_, &file_);
    }
    if (error.refused) {
      Report(error.offset, error.text);
      return std::move(file_);
    }
    if (!LooksLikeDump()) {
      if (!error.text.empty()) {
        Report(error.offset, absl::StrCat("damaged: ", error.text, "; nothing before that could be used"));
      } else {
        Report(0, "holds data, but none of the fields of a Flight Recorder dump");
      }
      return std::move(file_);
    }
    file_.usable = true;
    ReadConfig();
    ReadStatus();
    ReadVersions();
    Value entries = document_.Get(document_.root, Key::kEntries);
    if (!error.text.empty()) file_.rank.damaged = true;
    if (!streamed) reader->ReadEntries(entries);
    // JSON leaves an empty list out; a pickle without the list was asked for without collectives.
    bool included = streamed || Document::IsSequence(entries) || (json_ && entries.type == Type::kMissing);
    if (!included) {
      file_.rank.damaged = true;
      if (error.text.empty())
        Report(
            -1,
            "holds no list of entries, as a dump that was asked for without collectives: its operations are not known");
    }
    DecideStates(reader->raw(), included, &file_);
    if (!error.text.empty()) {
      Report(error.offset, absl::StrCat("damaged: ", error.text, "; the ", file_.rank.ops.size(),
                                        " entries complete before that are used"));
    }
    space_.expected_ops = file_.rank.ops.size();
    // They are kept for long.
    if (file_.rank.ops.size() + file_.rank.ops.size() / 4 < file_.rank.ops.capacity()) file_.rank.ops.shrink_to_fit();
    return std::move(file_);
  }

 private:
  void Report(int64_t offset, std::string text) {
    file_.problems.push_back({file_.rank.path, offset, std::move(text), file_.rank.rank});
  }

  // What a streaming that failed halfway left.
  void ForgetEntries() {
    file_.rank.ops.clear();
    file_.rank.damaged = false;
    file_.used.clear();
    file_.strings.clear();
    file_.shapes.clear();
    file_.problems.clear();
    file_.newest_ns = 0;
  }

  bool LooksLikeDump() const {
    for (Key key : {Key::kEntries, Key::kPgConfig, Key::kPgStatus}) {
      if (document_.Get(document_.root, key).type != Type::kMissing) return true;
    }
    // Some builds write only the version when nothing has happened yet.
    return document_.Get(document_.root, Key::kVersion).type == Type::kString && document_.Size(document_.root) <= 4;
  }

  void ReadConfig() {
    Value config = document_.Get(document_.root, Key::kPgConfig);
    size_t bad = 0;
    std::string first_bad;
    absl::flat_hash_set<uint32_t> used;
    document_.ForEachPair(config, [&](const Value& key, const Value& value) {
      if (document_.IsPartial(value)) return true;
      GroupClaim claim;
      std::string_view name = document_.Text(document_.Get(value, Key::kName));
      if (name.empty()) name = document_.Text(key);
      claim.name = std::string(name);
      claim.desc = std::string(document_.Text(document_.Get(value, Key::kDesc)));
      bool good = value.type == Type::kDict && used.insert(value.index).second &&
                  ReadMembers(document_.Get(value, Key::kRanks), &claim.members) && !claim.members.empty();
      // Backends that know no names list one nameless group with ranks counted inside it: nothing to go by.
      if (good && claim.name.empty()) return true;
      if (good) {
        file_.claims.push_back(std::move(claim));
      } else if (bad++ == 0) {
        first_bad = claim.name.substr(0, 60);
      }
      if (file_.claims.size() < kMaxGroups) return true;
      Report(-1, absl::StrCat("more than ", kMaxGroups, " groups in pg_config: the rest is ignored"));
      return false;
    });
    if (bad > 0) {
      Report(-1, absl::StrCat(bad, " groups of pg_config have no usable list of ranks (the first: '", first_bad,
                              "'); their members are taken from the ranks that used them"));
    }
    std::stable_sort(file_.claims.begin(), file_.claims.end(),
                     [](const GroupClaim& a, const GroupClaim& b) { return a.name < b.name; });
    auto same = [](const GroupClaim& a, const GroupClaim& b) { return a.name == b.name; };
    file_.claims.erase(std::unique(file_.claims.begin(), file_.claims.end(), same), file_.claims.end());
  }

  bool ReadMembers(const Value& ranks, std::vector<int32_t>* members) {
    if (ranks.type == Type::kString) return ParseRankList(document_.Text(ranks), members);
    if (!Document::IsSequence(ranks) || !lists_.insert(ranks.index).second) return false;
    std::string text = "[";
    bool good = true;
    document_.ForEach(ranks, [&](const Value& item) {
      int64_t rank = -1;
      good = ToInteger(document_, item, &rank);
      absl::StrAppend(&text, text.size() > 1 ? "," : "", rank);
      return good;
    });
    return good && ParseRankList(text + "]", members);
  }

  void ReadStatus() {
    Value all = document_.Get(document_.root, Key::kPgStatus);
    size_t bad = 0;
    document_.ForEachPair(all, [&](const Value& key, const Value& value) {
      if (document_.IsPartial(value)) return true;
      GroupStatus status;
      if (!ToInteger(document_, key, &status.pg_id) || status.pg_id < 0 || value.type != Type::kDict) {
        bad++;
        return true;
      }
      document_.ForEachPair(value, [&](const Value& name, const Value& number) {
        int64_t* field = name.key == Key::kLastEnqueued    ? &status.enqueued
                         : name.key == Key::kLastStarted   ? &status.started
                         : name.key == Key::kLastCompleted ? &status.completed
                                                           : nullptr;
        if (field != nullptr && (!ToInteger(document_, number, field) || *field < -1 || *field > kMaxCounter))
          *field = kUnknown;
        return true;
      });
      file_.statuses.push_back(status);
      return file_.statuses.size() < kMaxGroups;
    });
    if (bad > 0) Report(-1, absl::StrCat(bad, " lines of pg_status are not of the format: ignored"));
    std::stable_sort(file_.statuses.begin(), file_.statuses.end(),
                     [](const GroupStatus& a, const GroupStatus& b) { return a.pg_id < b.pg_id; });
    auto same = [](const GroupStatus& a, const GroupStatus& b) { return a.pg_id == b.pg_id; };
    file_.statuses.erase(std::unique(file_.statuses.begin(), file_.statuses.end(), same), file_.statuses.end());
    for (const GroupStatus& status : file_.statuses) {
      if (status.enqueued > 0) file_.progress_sum += std::min(status.enqueued, INT64_MAX - file_.progress_sum);
    }
  }

  void ReadVersions() {
    Value version = document_.Get(document_.root, Key::kNcclVersion);
    if (version.type == Type::kMissing) version = document_.Get(document_.root, Key::kCommLibVersion);
    file_.rank.nccl_version = ParseLibraryVersion(document_.Text(version));
  }

  std::string_view bytes_;
  ReadSpace& space_;
  Document& document_;
  FileData file_;
  absl::flat_hash_set<uint32_t> lists_;
  bool json_ = false;
};

}  // namespace

FileData ReadFile(std::string_view bytes, const std::string& path, int32_t rank, ReadSpace* space) {
  FileData data = FileReader(bytes, path, rank, space).Run();
  if (!data.usable) data.rank.ops = {};
  return data;
}

}  // namespace lockstep::fr
