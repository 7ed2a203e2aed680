// One Flight Recorder file on its own: everything that does not need other ranks' files.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_FILE_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/formats/fr/value.h"
#include "analyzer/model/bundle.h"

namespace lockstep::fr {

// PyTorch keeps 2,000 entries by default, 20,000 are in use.
constexpr uint64_t kMaxEntries = 1u << 20;

// Groups in one file. Jobs of tens of thousands of ranks have a hundred on each; work on them may be quadratic.
constexpr size_t kMaxGroups = 8192;

// Above any real counter; larger numbers are damage and count as missing, so that sums and differences of the rest
// cannot overflow.
constexpr int64_t kMaxCounter = INT64_MAX / 8;

// A group of pg_config.
struct GroupClaim {
  std::string name, desc;
  std::vector<int32_t> members;
};

// A line of pg_status. Values as in the file: -1 never; kUnknown if missing or not a number.
struct GroupStatus {
  int64_t pg_id = 0;
  int64_t enqueued = kUnknown, started = kUnknown, completed = kUnknown;
};

// The file's last counts of collectives and of point-to-point operations in one group. kNone and kUnknown as in Bundle.
struct Progress {
  int64_t issued = kUnknown, started = kUnknown, completed = kUnknown;
  int64_t p2p_issued = kUnknown, p2p_started = kUnknown, p2p_completed = kUnknown;
};

// A group that entries name. Op::membership is an index into these until the files are merged.
struct UsedGroup {
  std::string name, desc;
  bool local_id_only = false;                       // old dumps: no process_group; `name` is then made of the pg_id
  std::vector<int64_t> pg_ids;                      // distinct, in order of appearance; one in a sound file
  bool collective_zero = false;                     // a collective has number 0
  int64_t collectives = kUnknown, p2ps = kUnknown;  // the largest numbers in entries
  int64_t first_collective = kUnknown;              // the smallest number of a collective
  bool has_p2p = false;
  bool has_batches = false;     // of point-to-point operations
  int32_t own_group_rank = -1;  // from sends and receives; -1 unknown or contradictory
  int32_t size_hint = 0;        // lower limit, from peer numbers and pg_config
  bool may_have_more = false;   // see Communicator
  int64_t newest_issued_ns = 0;
  int64_t unrecorded = 0;  // calls that op_id counts and no entry holds
  Progress progress;
};

struct FileData {
  bool usable = false;  // a Flight Recorder dump, though perhaps damaged
  Rank rank;
  std::vector<Problem> problems;
  std::vector<GroupClaim> claims;     // sorted by name
  std::vector<GroupStatus> statuses;  // ascending by pg_id
  std::vector<UsedGroup> used;
  std::vector<std::string> strings, shapes;  // meaning of Op's indices until the files are merged
  int64_t newest_ns = 0;     // latest time_created_ns; with `progress_sum` the choice between files of one rank
  int64_t progress_sum = 0;  // of last_enqueued_collective
  // When the oldest unfinished operation was recorded, and its timeout. 0 unknown.
  int64_t oldest_open_ns = 0, open_timeout_ns = 0;
};

// Working memory, reused for all files.
struct ReadSpace {
  Document document;
  size_t expected_ops = 0;
};

// Parses `bytes` (a whole file): one dump, or those of several ranks in one JSON object by rank, or a bare list of
// entries. Returns at least one, unusable if the file contains none. Ranks are -1 unless the file itself names them.
// The result does not refer to `space`. Problems carry `path`. Safe on any input.
std::vector<FileData> ReadFile(std::string_view bytes, const std::string& path, ReadSpace* space);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_FILE_H_
