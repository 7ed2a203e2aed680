// What the collector knows about one generation of one job: who reports it, its ranks, and its open requests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/model/rank_set.h"
#include "collector/common/heartbeat_facts.h"
#include "collector/detect/desync_watch.h"
#include "collector/detect/detector.h"
#include "collector/service/core/digest_round.h"
#include "collector/service/core/flying.h"
#include "collector/service/core/job_lines.h"
#include "collector/wire/keys.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Where to send a message: a connection, and the relays behind it.
struct Address {
  uint64_t peer = 0;
  std::vector<uint64_t> route;
  bool operator==(const Address&) const = default;
  bool operator<(const Address& other) const { return std::tie(peer, route) < std::tie(other.peer, other.route); }
};

// A relay's connection, and its number for a job (JobIdentity.life).
struct RelayKey {
  uint64_t peer = 0;
  uint32_t life = 0;
  auto operator<=>(const RelayKey&) const = default;
};

// A direct connection.
struct PeerInfo {
  wire::Role role = wire::Role::kNone;
  std::string host, boot_id, version;
  uint64_t instance = 0;
  int64_t heard_ns = 0;
  int64_t beat_ns = 0;  // the sender's last heartbeat for any job
};

struct JobHost {
  Address address;
  bool direct = false;  // heartbeats come directly from the host's agent, not through a relay
  uint32_t child = 0;   // identifies the host in the merged progress; 0 unless direct
  uint32_t life = 0;    // JobIdentity.life: the agent's number for jobs with the same name
  int64_t heard_ns = 0;
  bool silent = false;
  std::string boot_id;
  HeartbeatFacts seen;  // only if direct
  Ranks ranks;          // as listed in the host's digest or heartbeats
};

struct JobRelay {
  uint32_t child = 0;
  int64_t heard_ns = 0;
  bool silent = false;
  std::string host;
  HeartbeatFacts seen;
};

struct Job {
  explicit Job(const DetectorLimits& limits) : detector(limits) {}

  std::string key, name;  // name: "job/step/restart", with "#2" for a second job with the same name
  int number = 0;         // number among jobs with the same name
  JobIdentity identity;
  Detector detector;
  DesyncWatch desync;
  std::map<std::string, JobHost> hosts;
  std::map<RelayKey, JobRelay> relays;
  absl::flat_hash_set<uint64_t> communicators;  // communicators that the job's senders have reported
  absl::flat_hash_set<int32_t> ended_told, ended_badly;
  Ranks duplicates;  // ranks that several hosts claim
  int64_t began_real_ns = 0, heard_ns = 0;
  int64_t met_ns = 0;  // when this process first heard of the job
  int32_t world_size = 0;
  std::vector<TimedLine> desyncs, lates;             // for `lockstep top`, newest last
  HostFindings hosts_found;                          // from the last incident's evidence
  absl::flat_hash_map<uint64_t, Flying> flying;      // from the last round's digests
  int64_t flying_ns = 0;                             // when these digests were requested
  std::map<uint64_t, std::string> desync_incidents;  // maps a communicator to the name of the incident
  uint32_t restarts_inside = 0;   // how often the job's ranks continued in new communicators after a hang
  int64_t restarted_real_ns = 0;  // time of the last restart
  int64_t level_real_ns = 0;      // start of the current level (moving, late, hung)
  Level level = Level::kMoving;
  bool lived = false;  // a rank of the job has been alive since this collector started
  bool over = false;   // all ranks have exited, or no sender reports the job any more

  // The current round of digests or samples.
  uint64_t request = 0;  // 0 if there is none
  bool samples = false, by_hand = false, analysing = false;
  int64_t asked_ns = 0, digest_ns = 0, digests_in_ns = 0;
  // The numbers of the last round of all ranks, and of the second request to missing ranks (0 if not yet sent).
  uint64_t full_request = 0, again_request = 0;
  int64_t full_asked_ns = 0;
  int64_t patience_ns = 0;    // time limit of a round of all ranks, derived from earlier answers
  bool gather_again = false;  // an answer arrived after its round had ended, so the next round waits longer
  // Samples requested since then, by number, with the time of the request. Answers are used whenever they arrive.
  std::map<uint64_t, int64_t> sample_requests;
  struct HeldSample {
    std::shared_ptr<DigestEnvelope> digest;
    int64_t asked_ns = 0, received_ns = 0;
  };
  std::vector<HeldSample> held;  // arrived while a round was being judged
  size_t held_bytes = 0;
  int64_t said_late_ns = 0, said_round_ns = 0;  // when lateness, and a round, were last reported; 0 for never
  bool said_cause = false;                      // the last reported round named a cause
  Ranks wanted, got;
  // Number of messages received, by host and request number.
  std::map<std::pair<std::string, uint64_t>, uint32_t> parts;
  std::set<std::string> complete;                    // hosts from which all parts have arrived
  std::vector<DigestHole> holes;                     // data that was missing from the last round of all ranks
  std::shared_ptr<DigestRound> round;                // the current round; the last one if none is running
  std::vector<std::pair<Address, uint64_t>> asking;  // clients that are waiting for a requested dump
  bool asked_everything = false;
  bool dump_wanted = false;
  std::string incident;  // name of the last incident
  std::shared_ptr<Incident> last_incident;

  Ranks All() const;
  // Returns whether no communicator is known, or one has members that no sender has reported.
  bool MembersUnknown() const;
  std::vector<DigestHole> Holes(int64_t now) const;
};

// Equal for jobs with the same user, name, step and restart count.
std::string BaseKeyOf(const JobIdentity& identity);
// How a job matches a name from a user: "train", "train/0/1" or "train/step/1", optionally with a suffix like "#2" at
// the end or after the first part. kThis: equal with the suffix. kSame: equal without a suffix. kAlike: only the first
// part is given, or nothing.
enum class NameMatch { kNone, kAlike, kSame, kThis };
NameMatch MatchName(const Job& job, const std::string& name);
std::string NameOf(const JobIdentity& identity);
// Returns up to 64 of the job's communicators, which identify the job.
std::vector<uint64_t> CommunicatorsOf(const Job& job);
// The state of a job and, if it is hung, the culprits of its last incident.
struct JobState {
  std::string job, state;         // "moving", "late", "hung", "ended"
  std::vector<Culprit> culprits;  // culprits in the first finding of the last incident's verdict, at most 8
};
JobState StateOf(const Job& job);
// Fills in the job as users see it in `lockstep top` ("7 of 8 ranks"). Communicators in the same state become one line.
void FillStatus(const Job& job, int64_t now, JobStatus* status);
// Fill in parts of the status: communicators, the root first and then by age; ranks by pipeline stage, if a
// communicator has a pipeline's name.
void FillCommunicators(const Job& job, int64_t now, JobStatus* status);
void FillStages(const Job& job, JobStatus* status);
// Adds lines about one communicator, or one rank, to the reply.
void FillDetail(const Job& job, int64_t now, const ClientRequest& request, ClientReply* reply);

constexpr int kMostStatusLines = 256;

}  // namespace lockstep
