// An incident while it is gathered: what is asked of whom, and what a collector that is started anew needs to go on.
#ifndef LOCKSTEP_COLLECTOR_COLLECTOR_INCIDENT_H_
#define LOCKSTEP_COLLECTOR_COLLECTOR_INCIDENT_H_

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
#include "collector/collector_job.h"
#include "collector/digest_round.h"
#include "collector/incident_store.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Kept as ".gathering.json" in the folder until the incident is whole.
struct IncidentState {
  std::string name, folder;
  JobIdentity identity;
  uint64_t evidence_request = 0, everything_request = 0;  // 0: not asked for
  bool everything = false;
  std::map<std::string, Ranks> hosts;
  int64_t stalled_ns = 0;
  int32_t ranks_expected = 0;
  int64_t captured_real_ns = 0;
};
std::string StateText(const IncidentState& state);
absl::StatusOr<IncidentState> ParseState(const std::string& text);
// Of all incidents below `out` that are not whole. Folders that cannot be read are named in *problems.
std::vector<IncidentState> FindUnfinished(const std::string& out, std::vector<std::string>* problems);

struct HostGathering {
  Ranks ranks;
  bool asked = false, done = false, given_up = false;
  int64_t asked_ns = 0, heard_ns = 0;
  Address asked_at;
};

struct Gathering {
  enum class Phase { kVerdict, kEvidence, kEverything, kFinal, kDone };
  IncidentState state;
  std::string job;                        // key; may be gone
  std::string people;                     // the job's name for people
  Phase phase = Phase::kVerdict;
  bool ready = false;                     // its folder is there
  bool dead = false;                      // nothing can be written there
  std::shared_ptr<DigestRound> round;     // null: taken up after a restart
  std::shared_ptr<std::unique_ptr<IncidentStore>> store = std::make_shared<std::unique_ptr<IncidentStore>>();  // of the disk lane
  Incident incident;
  std::map<std::string, HostGathering> evidence, everything;
  int64_t phase_ns = 0, done_ns = 0;
  bool working = false;
  std::vector<std::pair<Address, uint64_t>> asking;
  std::map<std::string, Address> unacknowledged;  // chunks written and not committed: id -> sender
  bool committing = false;
  std::set<std::string> said;
  std::vector<std::string> missing;       // hosts that did not answer
};

// The files of an incident. All errors name the file.
absl::Status MakeIncidentFolder(const std::string& folder);
absl::Status WriteVerdictFiles(const IncidentState& state, const std::string& text, const std::string& json, bool whole,
                               const std::vector<std::string>& missing);
// Every rank of the round in one file, "digests.lsd": what an analysis has until the hosts' own files are there.
absl::Status WriteDigests(const IncidentState& state, const Bundle& bundle);
// Loads the folder, analyses what is there now and writes verdict, report and manifest anew. For a process of its own:
// the files came from the network.
absl::Status FinaliseFolder(const std::string& folder);
// What FinaliseFolder has left for its caller.
absl::Status ReadFinal(const std::string& folder, Incident* incident);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COLLECTOR_INCIDENT_H_
