// Interfaces of an agent's session (collector/agent/session.h): the ranks of one host, and the store of unacknowledged
// chunks. In production they are HostSource (real rings) and Spool (on disk). A simulation of many agents in one
// process implements its own, so nothing here owns threads, descriptors or clocks. All calls come from the session's
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "collector/detect/digest_view.h"
#include "collector/detect/quiet_ranks.h"
#include "proto/wire.pb.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// One rank, as its ring's digest shows it. A process that drives several ranks is one entry.
struct RankSight {
  // A rank keeps its `slot` while it is visible. No other rank of the job uses the slot in the meantime.
  DigestView view;
  int32_t rank = -1;
  char state = 0;                          // from /proc/PID/stat; 0 if unknown
  const ring::Snapshot* digest = nullptr;  // never null; valid for as long as this object
  const Process* process = nullptr;        // facts from earlier samples; null if there were none
};

class AgentSource {
 public:
  virtual ~AgentSource() = default;

  // Reads all ranks again. Called about twice a second, and when a limit passes. The other calls return results of this
  // read, which stay valid until the next one.
  virtual void Look(int64_t mono_ns) = 0;
  // Jobs (one for each generation of a job and user) with ranks here, in any order.
  virtual size_t jobs() const = 0;
  virtual const JobIdentity& job(size_t index) const = 0;
  virtual absl::Span<const RankSight> ranks(size_t index) const = 0;

  // Takes stacks of these ranks of one job in the background, for RankSight::process. Called after each Look() while
  // they are needed.
  virtual void Inspect(size_t /*index*/, const std::vector<WantedLook>& /*looks*/) {}

  // Returns the next process that exited and was not reported yet, or false if there is none. Each is reported once,
  // unless TellAgain() is called.
  virtual bool NextEnded(ProcessEnded* out) = 0;
  // Makes NextEnded() report all exits again, because the collector may have lost its state.
  virtual void TellAgain() = 0;

  // Adds the request's ranks and their communicators. If the request names no ranks, adds all ranks of the job on this
  // host. Sets out->refused if there is nothing to add. The session fills the other fields and splits the digest into
  // parts.
  virtual void FillDigest(const CollectRequest& request, Digest* out) = 0;

  // Starts the work of an EVIDENCE, EVERYTHING or EXAMINE request; must not block. Whole rings go into the chunk store
  // as HOST.evidence.lsd or HOST.lsd. HOST.lsd contains all ranks and replaces HOST.evidence.lsd. EVIDENCE and EXAMINE
  // are answered through NextEvidence. The same request may come again after a reconnection: running work continues,
  // and finished work is repeated only if its results left the store.
  virtual void Gather(const CollectRequest& request) = 0;
  // Takes the next piece of evidence; returns false if there is none. The last piece of a request has `last` set, even
  // if nothing was found.
  virtual bool NextEvidence(HostEvidence* out) = 0;
};

// Chunks in sending order: evidence before full data, older before newer.
class ChunkStore {
 public:
  virtual ~ChunkStore() = default;

  // Returns the next chunk that is not in transit, and marks it as in transit. False if none is ready.
  virtual bool Next(Chunk* out) = 0;
  // The collector has stored the chunk, or refused it permanently for the reason `why`, so it is removed. Unknown IDs
  // are normal, because an acknowledgment may arrive twice.
  virtual void Acked(const std::string& id) = 0;
  virtual void Refused(const std::string& id, const std::string& why) = 0;
  // The chunk was not acknowledged in time, or the connection is new, so the chunk is no longer in transit. An empty ID
  // means all chunks.
  virtual void Return(const std::string& id) = 0;
  // Number of chunks that are not acknowledged.
  virtual size_t held() const = 0;
};

}  // namespace lockstep
