// Flight Recorder dumps for tests: describe a rank's groups and entries, write them as PyTorch does (pickle protocol
// 2 with memo, protocol 4 as Python saves it again, or JSON), and load them.
//
//   FrDump dump;                                   // group "0" = {0, 1}, default_pg, no entries, nothing enqueued
//   dump.entries.push_back({.op = "nccl:all_reduce", .seq = 1});
//   Bundle bundle = LoadDumps({dump, dump});       // rank 0 and rank 1
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/formats/fr/loader.h"
#include "analyzer/model/bundle.h"
#include "tests/support/files.h"

namespace lockstep::fr_test {

using Sizes = std::vector<std::vector<int64_t>>;

struct FrFrame {
  std::string name, filename;
  int64_t line = 1;
};

constexpr int64_t kFirstEntryNs = 1'758'000'000'000'000'000;  // time of entries without an explicit time
constexpr int64_t kTimeoutNs = 600'000'000'000;               // timeout_ms of every entry

struct FrEntry {
  std::string op = "nccl:all_reduce";  // profiling_name
  int64_t seq = 1;                     // collective_seq_id, or seq_id in old dumps
  std::string pg = "0", desc = "default_pg";
  int64_t pg_id = 0;
  Sizes input = {{4, 4}}, output = {{4, 4}};
  std::vector<std::string> input_dtypes = {"Float"}, output_dtypes = {"Float"};
  std::string state = "scheduled";
  bool retired = false;
  bool is_p2p = false;
  int64_t p2p_seq = 0;
  int64_t op_id = -1;                        // -1 means the value of seq (for sends and receives, p2p_seq)
  int64_t record_id = -1;                    // -1 means the position in the list
  int64_t created_ns = -1;                   // -1 means one millisecond after the previous entry
  int64_t started_ns = 0, completed_ns = 0;  // 0 means None
  double duration_ms = -1;                   // -1: the key is missing
  std::string thread_id = "140000000000001", thread_name = "python3";
  std::vector<FrFrame> frames = {};
};

struct FrGroup {
  std::string name = "0", desc = "default_pg";
  std::vector<int32_t> ranks = {0, 1};
  int64_t pg_id = 0;
  int64_t enqueued = -1, started = -1, completed = -1;
  bool in_config = true, in_status = true;
  std::string ranks_text = {};  // if not empty, used instead of `ranks`
};

struct FrDump {
  std::string version = "2.8";
  std::vector<FrGroup> groups = {FrGroup()};
  std::vector<FrEntry> entries;
  bool pg_config = true, pg_status = true;
  bool comm_lib_version = false;  // writes 2.10's key instead of nccl_version; before 2.6 there was neither
  bool library_version = true;
  bool single_seq = false;  // before 2.0: seq_id, no op_id, dtypes, is_p2p
  bool thread = true;       // from 2.9
  bool write_entries = true;

  // Sets which keys are written, as in that version.
  void AsVersion(const std::string& text) {
    version = text;
    int major = 2, minor = 0;
    if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2) return;
    single_seq = major < 2;
    pg_config = major >= 2;
    pg_status = major > 2 || (major == 2 && minor >= 4);
    library_version = major == 2 && minor >= 6;
    comm_lib_version = major == 2 && minor >= 10;
    thread = major == 2 && minor >= 9;
  }
};

using Json = nlohmann::ordered_json;

// Writes the array `process_group` as a tuple, and equal stack frames once, as PyTorch does.
class PickleWriter {
 public:
  explicit PickleWriter(int protocol = 2) : protocol_(protocol) {}

  std::string Write(const Json& value) {
    out_ = {'\x80', static_cast<char>(protocol_)};
    if (protocol_ >= 4) {
      out_ += '\x95';
      Number(0, 8);  // the length of a frame, which readers may ignore
    }
    Save(value);
    out_ += '.';
    return out_;
  }

 private:
  void Number(uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) out_ += static_cast<char>(number >> (8 * i));
  }
  void Put() {
    uint32_t index = puts_++;
    if (protocol_ >= 4) {
      out_ += '\x94';
    } else if (index < 256) {
      out_ += 'q';
      Number(index, 1);
    } else {
      out_ += 'r';
      Number(index, 4);
    }
  }
  void Get(uint32_t index) {
    out_ += index < 256 ? 'h' : 'j';
    Number(index, index < 256 ? 1 : 4);
  }
  void Text(const std::string& text) {
    auto found = texts_.find(text);
    if (found != texts_.end()) return Get(found->second);
    if (protocol_ >= 4 && text.size() < 256) {
      out_ += '\x8c';
      Number(text.size(), 1);
    } else {
      out_ += 'X';
      Number(text.size(), 4);
    }
    out_ += text;
    texts_[text] = puts_;
    Put();
  }
  void Int(int64_t number) {
    if (number >= 0 && number < 256) {
      out_ += 'K';
      Number(static_cast<uint64_t>(number), 1);
    } else if (number >= 0 && number < 65536) {
      out_ += 'M';
      Number(static_cast<uint64_t>(number), 2);
    } else if (number >= INT32_MIN && number <= INT32_MAX) {
      out_ += 'J';
      Number(static_cast<uint64_t>(number), 4);
    } else {
      out_ += "\x8a\x08";
      Number(static_cast<uint64_t>(number), 8);
    }
  }
  void Save(const Json& value, bool tuple = false) {
    switch (value.type()) {
      case Json::value_t::null: out_ += 'N'; return;
      case Json::value_t::boolean: out_ += value.get<bool>() ? '\x88' : '\x89'; return;
      case Json::value_t::number_integer:
      case Json::value_t::number_unsigned: return Int(value.get<int64_t>());
      case Json::value_t::number_float: {
        const auto bits = std::bit_cast<uint64_t>(value.get<double>());
        out_ += 'G';
        for (int i = 7; i >= 0; i--) out_ += static_cast<char>(bits >> (8 * i));
        return;
      }
      case Json::value_t::string: return Text(value.get_ref<const std::string&>());
      default: break;
    }
    if (tuple && value.is_array()) {
      if (value.empty()) {
        out_ += ')';
        return;
      }
      if (value.size() > 3) out_ += '(';
      for (const Json& item : value) Save(item);
      out_ += value.size() > 3 ? 't' : "\x85\x86\x87"[value.size() - 1];
      return Put();
    }
    if (value.contains("filename")) {
      const auto [known, fresh] = frames_.try_emplace(value.dump(), puts_);
      if (!fresh) return Get(known->second);
    }
    const bool dict = value.is_object();
    out_ += dict ? '}' : ']';
    Put();
    const bool single = protocol_ >= 4 && value.size() == 1;
    if (value.empty()) return;
    if (!single) out_ += '(';
    for (const auto& [key, item] : value.items()) {
      if (dict) Text(key);
      Save(item, key == "process_group");
    }
    out_ += single ? (dict ? 's' : 'a') : (dict ? 'u' : 'e');
  }

  int protocol_;
  std::string out_;
  uint32_t puts_ = 0;
  std::map<std::string, uint32_t> texts_, frames_;
};

// Returns the dump's values. With `json`, returns them as in PyTorch's JSON: no frames, numbers in pg_status as text,
// 0 for missing times, no empty list of entries.
inline Json ToValue(const FrDump& dump, bool json = false) {
  auto rank_text = [](const FrGroup& group) {
    std::string text = "[";
    for (int32_t rank : group.ranks) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
    return group.ranks_text.empty() ? text + "]" : group.ranks_text;
  };
  Json top = {{"version", dump.version}};
  if (dump.pg_config) {
    Json& config = top["pg_config"] = Json::object();
    for (const FrGroup& group : dump.groups) {
      if (group.in_config)
        config[group.name] = {{"name", group.name}, {"desc", group.desc}, {"ranks", rank_text(group)}};
    }
  }
  if (dump.library_version) top[dump.comm_lib_version ? "comm_lib_version" : "nccl_version"] = "2.27.3";
  if (dump.pg_status) {
    Json& status = top["pg_status"] = Json::object();
    auto number = [json](int64_t value) { return json ? Json(std::to_string(value)) : Json(value); };
    for (const FrGroup& group : dump.groups) {
      if (!group.in_status) continue;
      status[std::to_string(group.pg_id)] = {{"last_enqueued_collective", number(group.enqueued)},
                                             {"last_started_collective", number(group.started)},
                                             {"last_completed_collective", number(group.completed)}};
    }
  }
  Json entries = Json::array();
  for (const FrEntry& entry : dump.entries) {
    const auto place = static_cast<int64_t>(entries.size());
    Json& one = entries.emplace_back();
    if (!json) {
      for (const FrFrame& frame : entry.frames)
        one["frames"].push_back({{"name", frame.name}, {"filename", frame.filename}, {"line", frame.line}});
    }
    auto time = [json](int64_t ns) { return ns == 0 && !json ? Json() : Json(ns); };
    one["record_id"] = entry.record_id >= 0 ? entry.record_id : place;
    one["pg_id"] = entry.pg_id;
    one["process_group"] = Json::array({entry.pg, entry.desc});
    if (dump.thread) {
      one["thread_name"] = entry.thread_name;
      one["thread_id"] = entry.thread_id;
    }
    if (dump.single_seq) {
      one["seq_id"] = entry.is_p2p ? entry.p2p_seq : entry.seq;
    } else {
      one["collective_seq_id"] = entry.seq;
      one["p2p_seq_id"] = entry.p2p_seq;
      one["op_id"] = entry.op_id >= 0 ? entry.op_id : entry.is_p2p ? entry.p2p_seq : entry.seq;
    }
    one["profiling_name"] = entry.op;
    one["time_created_ns"] = entry.created_ns >= 0 ? entry.created_ns : kFirstEntryNs + place * 1'000'000;
    if (entry.duration_ms >= 0) one["duration_ms"] = entry.duration_ms;
    one["input_sizes"] = entry.input;
    if (!dump.single_seq) one["input_dtypes"] = entry.input_dtypes;
    one["output_sizes"] = entry.output;
    if (!dump.single_seq) one["output_dtypes"] = entry.output_dtypes;
    one["state"] = entry.state;
    one["time_discovered_started_ns"] = time(entry.started_ns);
    one["time_discovered_completed_ns"] = time(entry.completed_ns);
    one["retired"] = entry.retired;
    if (!dump.single_seq) {
      one["timeout_ms"] = kTimeoutNs / 1'000'000;
      one["is_p2p"] = entry.is_p2p;
    }
  }
  if (dump.write_entries && !(json && dump.entries.empty())) top["entries"] = std::move(entries);
  return top;
}

inline std::string ToPickle(const FrDump& dump, int protocol = 2) {
  return PickleWriter(protocol).Write(ToValue(dump));
}
inline std::string ToJson(const FrDump& dump) { return ToValue(dump, true).dump(); }

class DumpFolder : public support::TempFolder {
 public:
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string file = path() + "/" + name;
    support::WriteFile(file, bytes);
    return file;
  }
  // Writes a rank's file under the name that LoadFlightRecorder expects.
  std::string WriteRank(int rank, const std::string& bytes) const {
    return Write("nccl_trace_rank_" + std::to_string(rank), bytes);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path())) files.push_back(entry.path().string());
    return files;
  }
};

inline Bundle LoadFiles(const std::vector<std::string>& paths) {
  Bundle bundle;
  LoadFlightRecorder(paths, &bundle);
  return bundle;
}

inline void SetFileTime(const std::string& path, int64_t ns) {
  const timespec when = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  const timespec times[] = {when, when};
  EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Writes the dumps of ranks 0, 1, ... to files dated just after the timeout, and loads them. Omits ranks without a
// dump.
inline Bundle LoadDumps(const std::vector<std::optional<FrDump>>& by_rank, bool json = false) {
  DumpFolder folder;
  int64_t newest = kFirstEntryNs;
  for (const auto& dump : by_rank) {
    if (!dump.has_value()) continue;
    newest = std::max(newest, kFirstEntryNs + static_cast<int64_t>(dump->entries.size()) * 1'000'000);
    for (const FrEntry& entry : dump->entries) newest = std::max(newest, entry.created_ns);
  }
  for (size_t rank = 0; rank < by_rank.size(); rank++) {
    if (!by_rank[rank].has_value()) continue;
    const std::string file =
        folder.WriteRank(static_cast<int>(rank), json ? ToJson(*by_rank[rank]) : ToPickle(*by_rank[rank]));
    SetFileTime(file, newest + kTimeoutNs + 1'000'000'000);
  }
  return LoadFiles(folder.Files());
}

inline Bundle LoadBytes(const std::string& bytes) {
  DumpFolder folder;
  return LoadFiles({folder.WriteRank(0, bytes)});
}

// Returns the rank's membership in the communicator with this name, or null.
inline const Membership* MemberIn(const Bundle& bundle, const Rank& rank, const std::string& comm_name) {
  for (const Membership& membership : rank.memberships) {
    if (bundle.comms[membership.comm].name == comm_name) return &membership;
  }
  return nullptr;
}

}  // namespace lockstep::fr_test
