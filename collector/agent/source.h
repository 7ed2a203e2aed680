// What an agent's session (collector/agent/session.h) works with: the ranks of one host, and the store of chunks that
// are not acknowledged yet. Production has HostSource (real rings) and Spool (on disk); a simulation of many agents in
// one process brings its own, so nothing here owns threads, descriptors or clocks. Every call comes from the session's
// thread.
#ifndef LOCKSTEP_COLLECTOR_AGENT_SOURCE_H_
#define LOCKSTEP_COLLECTOR_AGENT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collector/detect/digest_view.h"
#include "proto/wire.pb.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// One rank in its ring's digest. A process that drives several ranks is one entry.
struct RankSight {
  // A rank keeps its `slot` while it is seen, and no other rank of the job uses it meanwhile.
  DigestView view;
  int32_t rank = -1;
  char state = 0;                          // of /proc/PID/stat; 0: unknown
  const ring::Snapshot* digest = nullptr;  // never null; valid as long as the sight is
};

class AgentSource {
 public:
  virtual ~AgentSource() = default;

  // Reads all ranks again. Called about once a second, and when a limit passes. Results of the other calls refer to
  // this call, and stay valid until the next one.
  virtual void Look(int64_t mono_ns) = 0;
  // Jobs (one generation of a job and a user each) with ranks here; any order.
  virtual size_t jobs() const = 0;
  virtual const JobIdentity& job(size_t index) const = 0;
  virtual absl::Span<const RankSight> ranks(size_t index) const = 0;

  // The next ended process that was not reported yet; false: none. Each is reported once, unless TellAgain() is called.
  virtual bool NextEnded(ProcessEnded* out) = 0;
  // The collector lost its state: ended processes are reported again.
  virtual void TellAgain() = 0;

  // Adds `ranks` (and the communicators' infos) of one job; empty `ranks` of the request: all of the host. Sets
  // out->refused if there is nothing to add. The session fills the other fields and splits it into parts.
  virtual void FillDigest(const CollectRequest& request, Digest* out) = 0;

  // Starts the work of an EVIDENCE or EVERYTHING request; must not block. Whole rings go into the chunk store, as
  // HOST.evidence.lsd or HOST.lsd; the latter holds all ranks and replaces the former. An EVIDENCE request is also
  // answered through NextEvidence. The same request may come again after a reconnection: running work continues, and
  // finished work is repeated only if its results left the store.
  virtual void Gather(const CollectRequest& request) = 0;
  virtual void Cancel(uint64_t request) = 0;
  // The next piece of evidence; the last one of a request has `last` set, even if nothing was found.
  virtual bool NextEvidence(HostEvidence* out) = 0;
};

// Chunks in sending order: evidence before everything, older before newer.
class ChunkStore {
 public:
  virtual ~ChunkStore() = default;

  // The next chunk that is not in transit; marks it as in transit. False: none is ready now.
  virtual bool Next(Chunk* out) = 0;
  // The collector has it on disk, or refused it for good (`refused` has the reason): it is removed. Unknown ids are
  // normal: an acknowledgment may come twice.
  virtual void Acked(const std::string& id) = 0;
  virtual void Refused(const std::string& id, const std::string& why) = 0;
  // No acknowledgment in time, or a new connection: no longer in transit. Empty: all.
  virtual void Return(const std::string& id) = 0;
  // Removes the unsent rest of this request.
  virtual void Cancel(uint64_t request) = 0;
  // Chunks that are not acknowledged.
  virtual size_t held() const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_SOURCE_H_
