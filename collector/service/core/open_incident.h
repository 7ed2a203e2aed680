// An incident that is being gathered: open requests, and the state with which a restarted collector continues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/evidence/stack_tree.h"
#include "collector/incident/store.h"
#include "collector/service/core/digest_round.h"
#include "collector/service/core/job.h"
#include "proto/wire.pb.h"

namespace lockstep {

// A silent desync. Its rings are gathered while the job continues.
struct DesyncFacts {
  std::string text;  // empty: the incident is not a desync
  uint64_t comm = 0, seq = 0;
  std::string comm_name;
  int32_t size = 0;
  std::vector<int32_t> odd;
  bool confirmed = false;  // the difference has been seen for the second time
  std::string where;       // `text` without the names of ranks
};

// Stored as ".gathering.json" in the folder until the incident is complete.
struct IncidentState {
  std::string redacted;  // level from RedactionOf(); not stored with the state
  std::string name, folder;
  JobIdentity identity;
  std::vector<uint64_t> comms;  // some of the job's communicators, to distinguish it from others with the same name
  uint64_t evidence_request = 0, everything_request = 0;  // 0: not yet requested
  bool everything = false;                                // whole rings are requested after the evidence
  bool declared = false;                                  // not a manual dump, so the command of --on-verdict runs
  bool evidence_done = false;                             // whether the verdict with evidence has been written
  std::string job_name;                                   // as users see it
  std::map<std::string, Ranks> hosts;
  std::map<std::string, Ranks> evidence;  // ranks that send all evidence
  std::map<std::string, Ranks> merged;    // ranks that send only merged stacks
  DesyncFacts desync;
  int64_t stalled_ns = 0;
  int32_t ranks_expected = 0;
  int64_t captured_real_ns = 0;
};
std::string StateText(const IncidentState& state);
absl::StatusOr<IncidentState> ParseState(const std::string& text);
// Returns the states of all incomplete incidents in `out`. Lists unreadable ones in *problems. Removes folders in
// which a killed collector had not finished the state.
std::vector<IncidentState> FindUnfinished(const std::string& out, std::vector<std::string>* problems);
// Returns the path of the mark file, which exists if the command of --on-verdict was started for the incident in this
// folder.
std::string ToldMark(const std::string& folder);

// A hang or desync that an earlier collector process declared, with the first finding of its verdict.
struct DeclaredBefore {
  JobIdentity identity;
  std::string folder;
  uint64_t desync_comm = 0;  // if not 0: a silent desync of this communicator, not a hang
  int64_t captured_real_ns = 0;
  bool known = false;  // false: the incident's verdict is unreadable, so it may be any verdict
  std::string kind, communicator;
  int64_t sequence = 0;
  std::vector<int32_t> culprits;
  // Returns whether `verdict` is about this hang: nothing has moved since its capture (`since_real_ns` is the time of
  // the last progress), or the first findings are equal.
  bool Is(const Verdict& verdict, int64_t since_real_ns) const;
};
// Returns the declared hangs and desyncs among the 256 newest incidents in `out`.
std::vector<DeclaredBefore> FindDeclared(const std::string& out);
// The verdict that an earlier process wrote: verdict.txt and verdict.json; empty if there is none.
struct VerdictTexts {
  std::string text, json;
};
VerdictTexts ReadVerdictTexts(const std::string& folder);
// Returns the ranks' digests, as WriteDigests stored them.
absl::StatusOr<Bundle> ReadDigests(const std::string& folder);

struct HostGathering {
  Ranks ranks, merged;
  // `last`: the host has sent the last message of its evidence.
  bool asked = false, last = false, done = false, given_up = false;
  int64_t asked_ns = 0, heard_ns = 0;
  Address asked_at;
};

struct Gathering {
  enum class Phase { kVerdict, kEvidence, kEverything, kFinal, kDone };
  IncidentState state;
  std::string job;   // key of the job, which may no longer exist
  std::string json;  // verdict of the incident, for the command of --on-verdict
  Phase phase = Phase::kVerdict;
  bool ready = false;    // the incident's folder exists
  bool dead = false;     // nothing more is gathered (IncidentBook::Close)
  bool resumed = false;  // an earlier process of the collector began this incident
  // The earlier process was killed before it stored the digests, so `round` only collects evidence and is not analyzed.
  bool without_digests = false;
  std::set<std::string> whole;         // hosts with complete rings on disk before the rings were requested
  std::shared_ptr<DigestRound> round;  // null once the evidence has arrived
  std::shared_ptr<std::unique_ptr<IncidentStore>> store =
      std::make_shared<std::unique_ptr<IncidentStore>>();  // used by the disk lane
  Incident incident;
  std::map<std::string, HostGathering> evidence, everything;
  std::shared_ptr<StackTree> stacks = std::make_shared<StackTree>();  // used by the disk lane
  Ranks stacks_of;                                                    // ranks that were examined for the incident
  std::vector<std::string> stacks_refused;
  int64_t phase_ns = 0, done_ns = 0;
  bool working = false;
  std::vector<std::pair<Address, uint64_t>> asking;
  std::map<std::string, Address> unacknowledged;  // chunks written but not committed: maps the ID to the sender
  bool committing = false;
  std::set<std::string> said;
  std::vector<std::string> missing;  // data that did not arrive, one text each
};

// Puts a finding from the desync's hashes first. If the analysis has a more exact finding (same communicator, fewer of
// the same ranks), puts that one first, with the hashes as evidence.
void AddDesync(const DesyncFacts& desync, Verdict* verdict);

// Functions for an incident's files. All errors name the file.
absl::Status MakeIncidentFolder(const std::string& folder);
absl::Status WriteState(const IncidentState& state);
// Writes verdict and manifest. Unless this is the incident's final verdict, writes the state first. `missing`: data or
// hosts, for the manifest.
absl::Status WriteVerdictFiles(const IncidentState& state, const std::string& text, const std::string& json,
                               bool is_final, const std::vector<std::string>& missing);
// Writes "stacks.json".
absl::Status WriteStacks(const std::string& folder, const StackTree& tree, const Ranks& looked_at,
                         const std::vector<std::string>& refused);
// Writes every rank of the round into one file, "digests.lsd": the data for an analysis until the hosts' own files
// arrive. With `evidence_alone`, writes only ranks with evidence.
absl::Status WriteDigests(const IncidentState& state, const Bundle& bundle, bool evidence_alone = false);
// Analyzes the folder's files and rewrites verdict, report and manifest. Call it in a separate process, because the
// files came from the network.
absl::Status FinaliseFolder(const std::string& folder);
// Reads and removes the results of FinaliseFolder, and removes the state.
absl::Status ReadFinal(const std::string& folder, Incident* incident);

}  // namespace lockstep
