// An incident during gathering: the open requests, and the state that a restarted collector needs to continue.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_OPEN_INCIDENT_H_
#define LOCKSTEP_COLLECTOR_SERVICE_OPEN_INCIDENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/evidence/stack_tree.h"
#include "collector/incident/store.h"
#include "collector/service/digest_round.h"
#include "collector/service/job.h"
#include "proto/wire.pb.h"

namespace lockstep {

// A silent desync whose rings are gathered while the job continues.
struct DesyncFacts {
  std::string text;  // empty: the incident is none
  uint64_t comm = 0, seq = 0;
  std::string comm_name;
  int32_t size = 0;
  std::vector<int32_t> odd;
  bool confirmed = false;  // seen twice
  std::string where;       // `text` without the ranks
};

// Kept as ".gathering.json" in the folder until the incident is whole.
struct IncidentState {
  std::string redacted;  // as RedactionOf() says; not kept with the state
  std::string name, folder;
  JobIdentity identity;
  std::vector<uint64_t> comms;  // some of the job's communicators, which separate it from others of the same name
  uint64_t evidence_request = 0, everything_request = 0;  // 0: not asked for
  bool everything = false;
  bool declared = false;       // not a dump by hand: the command of --on-verdict runs
  bool evidence_done = false;  // the verdict with evidence is written
  std::string people;          // the job's name for people
  std::map<std::string, Ranks> hosts;
  std::map<std::string, Ranks> evidence;  // ranks whose evidence is requested
  std::map<std::string, Ranks> merged;    // ranks that send only merged stacks
  DesyncFacts desync;
  int64_t stalled_ns = 0;
  int32_t ranks_expected = 0;
  int64_t captured_real_ns = 0;
};
std::string StateText(const IncidentState& state);
absl::StatusOr<IncidentState> ParseState(const std::string& text);
// Of all incidents below `out` that are not whole. Folders that cannot be read are named in *problems.
std::vector<IncidentState> FindUnfinished(const std::string& out, std::vector<std::string>* problems);
// There once the command of --on-verdict was started for the incident in this folder.
std::string ToldMark(const std::string& folder);

// A hang that an earlier process of the collector declared, by the first lines of its verdict.
struct DeclaredBefore {
  JobIdentity identity;
  std::string folder;
  uint64_t desync_comm = 0;  // not 0: a silent desync of this communicator, and no hang
  int64_t captured_real_ns = 0;
  bool known = false;  // false: its verdict cannot be read; it may be any
  std::string kind, communicator;
  int64_t sequence = 0;
  std::vector<int32_t> culprits;
  // Whether this is the same hang, in which nothing has moved since then: whole rings and stacks may have given the
  // earlier one another verdict than digests give.
  bool Is(const Verdict& verdict, int64_t since_real_ns) const;
};
// The newest incidents below `out`, at most `most`.
std::vector<DeclaredBefore> FindDeclared(const std::string& out, size_t most = 256);
// What an earlier life wrote of the verdict: verdict.txt and verdict.json; empty where there is none.
struct VerdictTexts {
  std::string text, json;
};
VerdictTexts ReadVerdictTexts(const std::string& folder);
// The ranks' digests as WriteDigests left them.
absl::StatusOr<Bundle> ReadDigests(const std::string& folder);

struct HostGathering {
  Ranks ranks, merged;
  bool asked = false, last = false, done = false, given_up = false;  // last: of its evidence
  int64_t asked_ns = 0, heard_ns = 0;
  Address asked_at;
};

struct Gathering {
  enum class Phase { kVerdict, kEvidence, kEverything, kFinal, kDone };
  IncidentState state;
  std::string job;     // key; may be gone
  std::string people;  // the job's name for people
  std::string json;    // its verdict, for the command of --on-verdict
  Phase phase = Phase::kVerdict;
  bool ready = false;            // its folder is there
  bool dead = false;             // nothing can be written there
  bool resumed = false;          // an earlier life of the collector has begun it
  bool without_digests = false;  // it was killed before they were kept: `round` takes evidence, and is not analysed
  std::set<std::string> whole;   // hosts with everything on disk since then
  std::shared_ptr<DigestRound> round;  // null: the evidence is in
  std::shared_ptr<std::unique_ptr<IncidentStore>> store =
      std::make_shared<std::unique_ptr<IncidentStore>>();  // of the disk lane
  Incident incident;
  std::map<std::string, HostGathering> evidence, everything;
  std::shared_ptr<StackTree> stacks = std::make_shared<StackTree>();  // of the disk lane
  Ranks stacks_of;                                                    // ranks that were looked at for it
  std::vector<std::string> stacks_refused;
  int64_t phase_ns = 0, done_ns = 0;
  bool working = false;
  std::vector<std::pair<Address, uint64_t>> asking;
  std::map<std::string, Address> unacknowledged;  // chunks written and not committed: id -> sender
  bool committing = false;
  std::set<std::string> said;
  std::vector<std::string> missing;  // hosts that did not answer
};

// The finding from a desync's hashes. It comes first, unless an analysis of the gathered data already shows the desync:
// if that analysis names some of these ranks because of a call on this communicator, its finding comes first, with the
// hashes as evidence.
void AddDesync(const DesyncFacts& desync, Verdict* verdict);

// The files of an incident. All errors name the file.
absl::Status MakeIncidentFolder(const std::string& folder);
absl::Status WriteState(const IncidentState& state);
absl::Status WriteVerdictFiles(const IncidentState& state, const std::string& text, const std::string& json, bool whole,
                               const std::vector<std::string>& missing);
// "stacks.json".
absl::Status WriteStacks(const std::string& folder, const StackTree& tree, const Ranks& looked_at,
                         const std::vector<std::string>& refused);
// Every rank of the round in one file, "digests.lsd": the data for an analysis until the hosts' own files arrive.
// `evidence_alone`: only ranks with evidence.
absl::Status WriteDigests(const IncidentState& state, const Bundle& bundle, bool evidence_alone = false);
// Loads the folder, analyzes the present files and rewrites verdict, report and manifest. For a separate process,
// because the files came from the network.
absl::Status FinaliseFolder(const std::string& folder);
// What FinaliseFolder has left for its caller.
absl::Status ReadFinal(const std::string& folder, Incident* incident);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_OPEN_INCIDENT_H_
