#include "analyzer/formats/fr/file.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/json.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/numbering.h"
#include "analyzer/formats/fr/ops.h"
#include "analyzer/formats/fr/pickle.h"
#include "analyzer/formats/fr/state.h"

namespace lockstep::fr {
namespace {

constexpr char kBlanks[] = " \t\r\n";

// Returns why a file that begins with these bytes cannot be a dump, or an empty string.
std::string WhatItIsNot(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(kBlanks);
  if (first == std::string_view::npos)
    return "is empty: the writer died before it wrote anything, or had nothing to write. Use another dump of this rank";
  if (beginning[first] == '{' || beginning[first] == '[' || beginning[0] == '\x80') return "";
  return "is neither a pickle of protocol 2 to 5 nor JSON, so it is not a Flight Recorder dump";
}

bool LooksLikeDump(const Document& document, const Value& dump) {
  for (Key key : {Key::kEntries, Key::kPgConfig, Key::kPgStatus}) {
    if (document.Get(dump, key).type != Type::kMissing) return true;
  }
  // If nothing has happened yet, some builds write only the version.
  return document.Get(dump, Key::kVersion).type == Type::kString && document.Size(dump) <= 4;
}

// Returns the common part of error messages that differ only in positions.
std::string Like(const char* what, const ParseError& error) {
  return absl::StrCat(what, *error.like == 0 ? error.text : error.like);
}

// Reads one dump of a file.
class DumpReader {
 public:
  DumpReader(const std::string& path, const Document& document, MemberLists* lists)
      : document_(document), lists_(*lists), entries_(document_, &file_) {
    file_.rank.path = path;
    file_.rank.source = Source::kFlightRecorder;
  }

  // `dump` is a dictionary, or a list of entries.
  FileData Read(const Value& dump, int32_t rank, const ParseError& error, bool json) {
    dump_ = dump;
    file_.rank.rank = rank;
    file_.usable = true;
    ReadConfig();
    ReadStatus();
    ReadVersions();
    const Value entries = Document::IsSequence(dump) ? dump : document_.Get(dump, Key::kEntries);
    if (!error.text.empty()) file_.rank.damaged = true;
    entries_.ReadEntries(entries);
    // JSON omits an empty list. A pickle that was requested without collectives has no such list.
    const bool included = Document::IsSequence(entries) || (json && entries.type == Type::kMissing);
    file_.lists_calls = included;
    if (!included) {
      file_.rank.damaged = true;
      if (error.text.empty())
        Report(-1,
               "contains no list of entries, like a dump requested without collectives: its operations are unknown");
    }
    NumberByGroup(entries_.mutable_raw(), &file_);
    DecideStates(entries_.raw(), included, &file_);
    if (!file_.rank.ops.empty()) file_.oldest_ns = file_.rank.ops.front().enter_ns;
    if (!error.text.empty()) {
      Report(error.offset,
             absl::StrCat("damaged: ", error.text, "; the ", file_.rank.ops.size(), " entries before that are used"),
             Like("damaged: ", error));
    }
    // Releases unused memory, because the operations are kept for a long time.
    if (file_.rank.ops.size() + file_.rank.ops.size() / 4 < file_.rank.ops.capacity()) file_.rank.ops.shrink_to_fit();
    return std::move(file_);
  }

 private:
  void Report(int64_t offset, std::string text, std::string like = "") {
    file_.problems.push_back({.path = file_.rank.path,
                              .offset = offset,
                              .text = std::move(text),
                              .rank = file_.rank.rank,
                              .like = std::move(like)});
  }

  void ReadConfig() {
    Value config = document_.Get(dump_, Key::kPgConfig);
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
                  ReadMembers(document_.Get(value, Key::kRanks), &claim.members);
      // Backends without group names (gloo) list only the newest group, without a name and with their own rank
      // numbers.
      if (good && claim.name.empty()) {
        file_.rank.newest_group_size = static_cast<int32_t>(claim.members.size());
        return true;
      }
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
      Report(-1,
             absl::StrCat(bad, " groups of pg_config have no usable list of ranks (the first: '", first_bad,
                          "'); the ranks that used them count as their members"),
             "groups without ranks");
    }
    std::stable_sort(file_.claims.begin(), file_.claims.end(),
                     [](const GroupClaim& a, const GroupClaim& b) { return a.name < b.name; });
    auto same = [](const GroupClaim& a, const GroupClaim& b) { return a.name == b.name; };
    file_.claims.erase(std::unique(file_.claims.begin(), file_.claims.end(), same), file_.claims.end());
  }

  // Returns false if there is no usable list, or an empty one.
  bool ReadMembers(const Value& ranks, MemberList* members) {
    if (ranks.type == Type::kString) {
      *members = lists_.Parse(document_.Text(ranks));
      return !members->empty();
    }
    if (!Document::IsSequence(ranks) || !lists_read_.insert(ranks.index).second) return false;
    std::string text = "[";
    bool good = true;
    document_.ForEach(ranks, [&](const Value& item) {
      int64_t rank = -1;
      good = ToInteger(document_, item, &rank);
      absl::StrAppend(&text, text.size() > 1 ? "," : "", rank);
      return good;
    });
    if (good) *members = lists_.Parse(text + "]");
    return !members->empty();
  }

  void ReadStatus() {
    Value all = document_.Get(dump_, Key::kPgStatus);
    size_t bad = 0;
    absl::flat_hash_set<uint32_t> used;
    document_.ForEachPair(all, [&](const Value& key, const Value& value) {
      if (document_.IsPartial(value)) return true;
      GroupStatus status;
      if (!ToInteger(document_, key, &status.pg_id) || status.pg_id < 0 || value.type != Type::kDict ||
          !used.insert(value.index).second) {
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
    if (bad > 0)
      Report(-1, absl::StrCat(bad, " lines of pg_status do not have the expected format; ignored"), "pg_status");
    std::stable_sort(file_.statuses.begin(), file_.statuses.end(),
                     [](const GroupStatus& a, const GroupStatus& b) { return a.pg_id < b.pg_id; });
    auto same = [](const GroupStatus& a, const GroupStatus& b) { return a.pg_id == b.pg_id; };
    file_.statuses.erase(std::unique(file_.statuses.begin(), file_.statuses.end(), same), file_.statuses.end());
    for (const GroupStatus& status : file_.statuses) {
      if (status.enqueued > 0) file_.progress_sum += std::min(status.enqueued, INT64_MAX - file_.progress_sum);
    }
  }

  void ReadVersions() {
    Value version = document_.Get(dump_, Key::kNcclVersion);
    if (version.type == Type::kMissing) version = document_.Get(dump_, Key::kCommLibVersion);
    file_.rank.nccl_version = ParseLibraryVersion(document_.Text(version));
  }

  const Document& document_;
  MemberLists& lists_;
  FileData file_;
  EntryReader entries_;
  Value dump_;
  absl::flat_hash_set<uint32_t> lists_read_;
};

FileData NoDump(const std::string& path, int64_t offset, std::string why, std::string like = "") {
  FileData none;
  none.rank.path = path;
  none.problems.push_back({.path = path, .offset = offset, .text = std::move(why), .like = std::move(like)});
  return none;
}

// Returns the dumps in a dictionary by rank, as in {"0": {..}, "rank1": {..}}; empty if any entry is not a dump with a
// rank.
std::vector<std::pair<int32_t, Value>> DumpsByRank(const Document& document) {
  std::vector<std::pair<int32_t, Value>> out;
  // A writer creates a separate object for each rank. Shared objects would multiply the work.
  absl::flat_hash_set<uint32_t> seen;
  document.ForEachPair(document.root, [&](const Value& key, const Value& value) {
    int64_t rank = -1;
    if (value.type == Type::kDict && !seen.insert(value.index).second) return true;
    if (!ToInteger(document, key, &rank)) rank = RankInName(document.Text(key));
    if (rank < 0 || rank > kMaxRank || value.type != Type::kDict || !LooksLikeDump(document, value)) {
      out.clear();
      return false;
    }
    out.emplace_back(static_cast<int32_t>(rank), value);
    return true;
  });
  return out;
}

bool IsListOfEntries(const Document& document, const Value& list) {
  bool entries = false;
  document.ForEach(list, [&](const Value& item) {
    entries = document.Get(item, Key::kProfilingName).type != Type::kMissing;
    return false;
  });
  return entries;
}

}  // namespace

std::vector<FileData> ReadFile(std::string_view bytes, const std::string& path, Document* space, MemberLists* lists) {
  std::vector<FileData> out;
  if (std::string what = WhatItIsNot(bytes); !what.empty()) {
    out.push_back(NoDump(path, 0, std::move(what)));
    return out;
  }
  Document& document = *space;
  const bool json = bytes[0] != '\x80';
  const ParseError error = json ? ParseJson(bytes, &document) : ParsePickle(bytes, &document);
  const Value root = document.root;
  if (error.refused) {
    out.push_back(NoDump(path, error.offset, error.text, Like("", error)));
  } else if (LooksLikeDump(document, root) || IsListOfEntries(document, root)) {
    out.push_back(DumpReader(path, document, lists).Read(root, -1, error, json));
  } else if (const auto dumps = DumpsByRank(document); !dumps.empty()) {
    for (const auto& [rank, dump] : dumps)
      out.push_back(DumpReader(path, document, lists).Read(dump, rank, error, json));
  } else if (!error.text.empty()) {
    out.push_back(NoDump(path, error.offset, absl::StrCat("damaged: ", error.text, "; nothing before that is usable"),
                         Like("nothing usable: ", error)));
  } else {
    out.push_back(NoDump(path, 0, "contains data, but none of a Flight Recorder dump's fields"));
  }
  return out;
}

}  // namespace lockstep::fr
