// Reads a single Flight Recorder file, without information from other ranks' files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/formats/fr/member_list.h"
#include "analyzer/formats/fr/value.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// PyTorch keeps 2,000 entries by default; some jobs use 20,000.
constexpr uint64_t kMaxEntries = 1u << 20;

// Maximum number of groups in one file, because algorithms over groups may take quadratic time. A file from a job of
// tens of thousands of ranks has about a hundred.
constexpr size_t kMaxGroups = 8192;

// Larger than any real counter. A larger number is damaged and counts as missing, so sums and differences cannot
// overflow.
constexpr int64_t kMaxCounter = INT64_MAX / 8;

// A group in pg_config.
struct GroupClaim {
  std::string name, desc;
  MemberList members;
};

// A line of pg_status with the file's values: -1 means never; kUnknown means missing or not a number.
struct GroupStatus {
  int64_t pg_id = 0;
  int64_t enqueued = kUnknown, started = kUnknown, completed = kUnknown;
};

// The file's latest counts of collectives and point-to-point operations in one group. kNone and kUnknown as in
// Bundle.
struct Progress {
  int64_t issued = kUnknown, started = kUnknown, completed = kUnknown;
  int64_t p2p_issued = kUnknown, p2p_started = kUnknown, p2p_completed = kUnknown;
};

// A group's operations that were left out, and hashes of the collectives among them (older.h).
struct OlderCalls {
  struct Block {
    int64_t number = 0;
    uint64_t hash = 0;
    uint64_t balance = 0;  // elements that this rank sends minus elements that it receives, in all-to-alls
  };
  std::vector<Block> blocks;  // ascending by number
  int64_t left_out = 0;
};

// A group that entries refer to. Op::membership is an index into FileData::used until the files are merged.
struct UsedGroup {
  std::string name, desc;
  // Old dumps have no process_group; `name` is then made from the pg_id.
  bool local_id_only = false;
  std::vector<int64_t> pg_ids;                      // distinct, in order of appearance; exactly one in a valid file
  bool collective_zero = false;                     // a collective has the number 0
  int64_t collectives = kUnknown, p2ps = kUnknown;  // the largest sequence numbers in entries
  int64_t first_collective = kUnknown;              // the smallest sequence number of a collective
  bool has_p2p = false;
  bool has_batches = false;     // the file has batches of point-to-point operations
  int32_t own_group_rank = -1;  // from sends and receives, or log lines; -1 if unknown, -2 if contradictory
  bool counted_inside = false;  // own_group_rank is certainly a rank inside the group, not in the job
  int32_t size_hint = 0;        // lower limit, from peer numbers or log lines
  bool may_have_more = false;   // see Communicator
  int64_t newest_issued_ns = 0;
  int64_t unrecorded = 0;  // calls that op_id counts but no entry contains
  Progress progress;
  OlderCalls older;
  ring::CommState state = ring::CommState::kReady;
  ring::CallKind origin = ring::CallKind::kNone;  // the call that creates it, if known
};

struct FileData {
  bool usable = false;       // whether the file is a Flight Recorder dump, possibly damaged
  bool lists_calls = false;  // the file contains the list of entries, though it may be empty
  Rank rank;
  std::vector<Problem> problems;
  std::vector<GroupClaim> claims;     // sorted by name
  std::vector<GroupStatus> statuses;  // ascending by pg_id
  std::vector<UsedGroup> used;
  std::vector<std::string> strings, shapes;  // the texts that Op's indexes refer to until the files are merged
  size_t source = 0, place = 0;              // the file's number among those to load, and the dump's number in the file
  int64_t oldest_ns = 0;                     // time_created_ns of the oldest entry; 0 if there is none
  // The latest time_created_ns. Decides, with `progress_sum`, between several files of one rank.
  int64_t newest_ns = 0;
  int64_t progress_sum = 0;     // sum of last_enqueued_collective
  int64_t oldest_open_ns = 0;   // when the oldest unfinished operation was recorded; 0 if there is none with a time
  bool ends_unnoticed = false;  // some operations had completed, but their group's watchdog had not noticed yet
};

// Parses a whole file: one dump, a dictionary with the dumps of several ranks, or a list of entries. Returns at least
// one result, which is unusable if the file contains no dump. Ranks are -1 unless the file contains them.
// Problems name `path`. `space` is reusable working memory; the result does not refer to it. `lists` remembers lists of
// ranks from file to file. Safe for any input.
std::vector<FileData> ReadFile(std::string_view bytes, const std::string& path, Document* space, MemberLists* lists);

}  // namespace lockstep::fr
