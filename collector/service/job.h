// One generation of one job as the collector knows it: its reporters, its ranks, its open requests.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_JOB_H_
#define LOCKSTEP_COLLECTOR_SERVICE_JOB_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "collector/common/rank_set.h"
#include "collector/common/recorder_facts.h"
#include "collector/detect/desync_watch.h"
#include "collector/detect/detector.h"
#include "collector/service/digest_round.h"
#include "collector/service/flying.h"
#include "collector/service/job_lines.h"
#include "collector/wire/keys.h"
#include "proto/wire.pb.h"

namespace lockstep {

// Where a message goes: a connection, and through which relays behind it.
struct Address {
  uint64_t peer = 0;
  std::vector<uint64_t> route;
  bool operator==(const Address&) const = default;
  bool operator<(const Address& other) const { return std::tie(peer, route) < std::tie(other.peer, other.route); }
};

// One relay's number of a job, if several have the same name.
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

// Ranks as one sender's last heartbeat has them.
struct RanksSeen {
  Ranks alive, stopped, in_d, ended;
  uint64_t records_lost = 0;
  int64_t lag_ns = 0;
  Facts facts;
  std::vector<std::string> blind;
  Ranks All() const;
};

struct JobHost {
  Address address;
  bool direct = false;  // heartbeats come from its agent directly, not through a relay
  uint32_t child = 0;   // number for the merged progress; direct ones only
  uint32_t life = 0;    // JobIdentity.life, as its agent numbers jobs that are called alike
  int64_t heard_ns = 0;
  bool silent = false;
  std::string boot_id;
  RanksSeen seen;  // direct ones
  Ranks ranks;     // as its digest, or its heartbeats, named them
};

struct JobRelay {
  uint32_t child = 0;
  int64_t heard_ns = 0;
  bool silent = false;
  std::string host;
  RanksSeen seen;
  uint32_t hosts = 0, silent_hosts = 0;
  std::set<std::string> silent_named;
};

struct Job {
  explicit Job(const DetectorLimits& limits) : detector(limits) {}

  std::string key, name;  // name: "job/step/restart", with "#2" for another one that is called alike
  int number = 0;         // of jobs that are called alike
  JobIdentity identity;
  Detector detector;
  DesyncWatch desync;
  std::map<std::string, JobHost> hosts;
  std::map<RelayKey, JobRelay> relays;          // by connection
  absl::flat_hash_set<uint64_t> communicators;  // that its senders have named
  absl::flat_hash_set<int32_t> ended_told, ended_badly;
  Ranks duplicates;  // claimed by several hosts
  int64_t began_real_ns = 0, heard_ns = 0;
  int64_t met_ns = 0;  // when this process first heard of it
  int32_t world_size = 0;
  std::vector<TimedLine> desyncs, lates;             // for top, newest last
  HostFindings hosts_found;                          // of the last incident's evidence
  absl::flat_hash_map<uint64_t, Flying> flying;      // as the last round's digests show them
  int64_t flying_ns = 0;                             // when those were asked for
  std::map<uint64_t, std::string> desync_incidents;  // communicator -> name of the incident
  uint32_t restarts_inside = 0;                      // its ranks went on in communicators that they made after a hang
  int64_t restarted_real_ns = 0;                     // time of the last restart
  int64_t level_real_ns = 0;                         // since when it is moving, late, hung
  Level level = Level::kMoving;
  bool lived = false;  // a rank of it was alive since this collector started
  bool over = false;   // all ranks have ended, or nobody reports about it any more

  // The round of digests, or samples, that is under way.
  uint64_t request = 0;  // 0: none
  bool samples = false, by_hand = false, analysing = false;
  int64_t asked_ns = 0, digest_ns = 0, digests_in_ns = 0;
  // The last round of all ranks: its number, and the number under which missing ranks were asked again (0: not yet).
  uint64_t full_request = 0, again_request = 0;
  int64_t full_asked_ns = 0;
  int64_t patience_ns = 0;    // time limit of a round of all ranks, from the answers to earlier ones
  bool gather_again = false;  // an answer came after its round was over: the next one waits longer
  // Samples asked for since: number -> when. Their answers are used whenever they come.
  std::map<uint64_t, int64_t> sample_requests;
  struct HeldSample {
    std::shared_ptr<DigestEnvelope> digest;
    int64_t asked_ns = 0, received_ns = 0;
  };
  std::vector<HeldSample> held;  // came while a round was judged
  size_t held_bytes = 0;
  int64_t said_late_ns = 0, said_round_ns = 0;  // when it was last reported; 0: never
  bool said_cause = false;                      // the last reported round named a cause
  Ranks wanted, got;
  std::map<std::pair<std::string, uint64_t>, uint32_t> parts;  // host and number of the request -> messages received
  std::set<std::string> complete;                              // hosts with all parts received
  std::vector<DigestHole> holes;                               // of the last round of all ranks
  std::shared_ptr<DigestRound> round;                          // being filled, or the last one
  std::vector<std::pair<Address, uint64_t>> asking;            // clients that wait for a dump by hand
  bool asked_everything = false;
  bool dump_wanted = false;
  std::string incident;  // the last one's name
  std::shared_ptr<Incident> last_incident;

  Ranks All() const;
  // A communicator has members without any report so far.
  bool MembersUnknown() const;
  std::vector<DigestHole> Holes(int64_t now) const;
};

// Equal for jobs that are called alike: user, name, step, restart count.
std::string BaseKeyOf(const JobIdentity& identity);
// Matches a job name from a user or a tool. Names are "train", "train/0/1" or "train/step/1", each with "#2" or the
// like behind or after the first part; without it, all jobs of that name match.
enum class NameMatch { kNone, kAlike, kSame, kThis };
NameMatch MatchName(const Job& job, const std::string& name);
std::string NameOf(const JobIdentity& identity);
// Some of its communicators, by which it is known again; at most 64.
std::vector<uint64_t> KinOf(const Job& job);
// The state of a job, and who is to blame if it does not move.
struct JobState {
  std::string job, state;         // "moving", "late", "hung", "ended"
  std::vector<Culprit> culprits;  // of the first finding of its last verdict, at most 8
};
JobState StateOf(const Job& job);
// "7 of 8 ranks": the job for users and for `lockstep top`. Communicators in the same state are one line.
void FillStatus(const Job& job, int64_t now, JobStatus* status);
// Parts of it: communicators, oldest first; ranks by their places in pipelines, if a communicator has a pipeline's
// name.
void FillCommunicators(const Job& job, int64_t now, JobStatus* status);
void FillStages(const Job& job, JobStatus* status);
// Lines about one communicator, or one rank.
void FillDetail(const Job& job, int64_t now, const ClientRequest& request, ClientReply* reply);

constexpr int kMostStatusLines = 256;

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_JOB_H_
