// Builds each rank's data from text files, in the same form as that of Flight Recorder dumps.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/formats/format_reader.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/logs/read_file.h"
#include "analyzer/model/bundle.h"

namespace lockstep::logs {

// PyTorch's name and description of the group of all ranks.
inline constexpr char kWholeName[] = "0";
inline constexpr char kWholeDesc[] = "default_pg";

// Maximum number of groups of one rank, because algorithms on them take quadratic time.
constexpr size_t kMostGroupsOfRank = 1024;

// Maximum number of listed members of all communicators. A line may claim any size, so the limit depends on the files'
// contents. It allows a communicator of 262,144 ranks, and 16 members for each membership.
constexpr int64_t MostListed(size_t memberships) { return (int64_t{1} << 18) + 16 * static_cast<int64_t>(memberships); }

// Returns the first number that is not negative; -1 if all are.
int32_t FirstKnown(std::initializer_list<int32_t> ranks);

// Returns text such as "ranks 0-2, 5".
std::string RanksText(const std::set<int32_t>& ranks);

// Ranks while they are being built.
class Ranks {
 public:
  // Returns the rank's data. `path` is the first file that mentions the rank.
  fr::FileData* Of(int32_t rank, const std::string& path);
  // Returns the index of the rank's group in FileData::used.
  static uint32_t GroupOf(fr::FileData* rank, const std::string& name, const std::string& desc);
  static uint32_t Intern(fr::FileData* rank, const std::string& text);
  // Adds an operation that the rank does not complete. The name is only stored if the kind is unknown.
  static Op& AddOp(fr::FileData* rank, uint32_t group, int64_t seq, ring::CallKind kind, const std::string& name);
  // Adds a group with a single operation, which the rank does not complete.
  static void AddStuck(fr::FileData* rank, const std::string& group, ring::CallKind kind, const std::string& name);
  void Report(const std::string& path, std::string text, int32_t rank = -1, bool note = false,
              const std::string& like = "");
  // Adds a fact about the hang as a problem. Such facts come before problems with reading.
  void Tell(const std::string& path, std::string text, int32_t rank = -1, const std::string& like = "");

  int32_t world = 0;               // minimum number of ranks in the job
  bool sized = false;              // the number of ranks in the job is known exactly
  int32_t said = 0;                // the largest number of ranks in any line
  std::set<int32_t> waited;        // ranks that waited for others until a timeout
  bool waits_by_number = false;    // a wait is known only from "[Rank 3]", which may be a rank inside a group
  bool unplaced_waits = false;     // further ranks also waited, but it is unknown which
  bool waits_for_unnamed = false;  // a rank waited for others that its lines do not name
  // Adds what is known about where a rank runs. `pci` is its GPU's address, "0000:1b:00.0"; empty if not printed.
  void AddPlace(int32_t rank, std::string_view host, int64_t pid, const std::string& pci);
  // Returns the ranks of this GPU, otherwise of this process, otherwise of this host. Pass "" or 0 if unknown.
  const std::set<int32_t>& At(std::string_view host, int64_t pid, const std::string& pci) const;

  // Returns the longest known host name in the last two parts of the path; empty if there is none.
  std::string HostIn(const std::string& path) const;

  std::map<int32_t, fr::FileData> ranks;
  std::optional<Rank> aborted_first;  // see Records
  std::vector<Problem> told, problems;

 private:
  // By host without its domain, PID, and PCI address of the GPU; each may be "" or 0.
  std::map<std::tuple<std::string, int64_t, std::string>, std::set<int32_t>> places_;
};

// Each Add function adds to the ranks, or reports, what one kind of line or file shows.

// Counters and timeouts of PyTorch's watchdog.
void AddWatchdog(const std::vector<FileFacts>& files, Ranks* ranks);
// Differing calls that PyTorch reports (TORCH_DISTRIBUTED_DEBUG=DETAIL, DDP).
void AddFingerprints(const std::vector<FileFacts>& files, Ranks* ranks);
// Ranks that did not reach a monitored barrier, or a collective in PyTorch's desync report.
void AddBarriers(const std::vector<FileFacts>& files, Ranks* ranks);
// Ranks that did not join while a process group was created.
void AddStoreBarriers(const std::vector<FileFacts>& files, Ranks* ranks);
// Tensors that Horovod waits for.
void AddStalled(const std::vector<FileFacts>& files, Ranks* ranks);
// Calls that NCCL printed.
void AddCalls(const std::vector<FileFacts>& files, Ranks* ranks);
// Counts of operations that ncclras reported.
void AddCounts(const std::vector<FileFacts>& files, Ranks* ranks);
// Completed operations that NCCL's Inspector wrote.
void AddCompleted(const std::vector<FileFacts>& files, Ranks* ranks);
void AddStacks(std::vector<FileFacts>* files, Ranks* ranks);
// Adds the end of the process that failed first. If that is unknown, adds waits, and reports the ends.
void AddEnds(const std::vector<FileFacts>& files, Ranks* ranks);

// Reports what does not concern a rank's progress, such as stuck watchdogs, a lost store, and messages of NCCL and the
// kernel. Also reports logs without any evidence.
void AddSeen(const std::vector<FileFacts>& files, Ranks* ranks);

// Returns all ranks, ascending. Appends problems. For `aborted_first` and `kernel`, see Records.
std::vector<fr::FileData> ToRanks(std::vector<FileFacts> files, std::vector<Problem>* problems,
                                  std::optional<Rank>* aborted_first, KernelEvents* kernel);

}  // namespace lockstep::logs
