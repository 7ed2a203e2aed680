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

// One rank as its ring's digest shows it. A process that drives several ranks is one entry.
struct RankSight {
  // `slot` stays a rank's while it is seen and is used by no other rank of the job in that time.
  DigestView view;
  int32_t rank = -1;
  char state = 0;                          // of /proc/PID/stat; 0: not known
  const ring::Snapshot* digest = nullptr;  // never null; valid as long as the sight is
};

class AgentSource {
 public:
  virtual ~AgentSource() = default;

  // Reads all ranks again. Called about once a second, and when a limit passes. Results of the other calls refer to
  // this call, and stay valid until the next one.
  virtual void Look(int64_t mono_ns) = 0;
  // Jobs (one generation of a job and a user each) that have ranks here; any order.
  virtual size_t jobs() const = 0;
  virtual const JobIdentity& job(size_t index) const = 0;
  virtual absl::Span<const RankSight> ranks(size_t index) const = 0;

  // The next ended process that was not reported yet; false: none. Each is reported once, unless TellAgain() is called.
  virtual bool NextEnded(ProcessEnded* out) = 0;
  // The collector lost its state: ended processes are reported again.
  virtual void TellAgain() = 0;

  // Adds `ranks` (and the communicators' infos) of one job; empty `ranks` of the request: all of the host. Sets
  // out->refused where there is nothing to add. The session fills the other fields and cuts it into parts.
  virtual void FillDigest(const CollectRequest& request, Digest* out) = 0;

  // Starts the work of an EVIDENCE or EVERYTHING request; must not block. Whole rings go into the chunk store, as
  // HOST.evidence.lsd or HOST.lsd; the latter holds all ranks and replaces the former. An EVIDENCE request is also
  // answered through NextEvidence. The same request may come again after a reconnection: running work continues, and
  // finished work is repeated only if its results left the store.
  virtual void Gather(const CollectRequest& request) = 0;
  virtual void Cancel(uint64_t request) = 0;
  // The next piece of evidence; the last one of a request has `last` set, also when nothing could be found out.
  virtual bool NextEvidence(HostEvidence* out) = 0;
};

// Chunks in the order in which they are to be sent: evidence before everything, older before newer.
class ChunkStore {
 public:
  virtual ~ChunkStore() = default;

  // The next chunk that is not out; it is then. False: none is ready now.
  virtual bool Next(Chunk* out) = 0;
  // The collector has it on disk, or refused it for good (`refused` has the reason): it is removed. Unknown ids are
  // normal: an acknowledgment may come twice.
  virtual void Acked(const std::string& id) = 0;
  virtual void Refused(const std::string& id, const std::string& why) = 0;
  // It was not acknowledged in time, or the connection is another one: not out any more. Empty: all.
  virtual void Return(const std::string& id) = 0;
  // What was not sent of this request need not be; it is removed.
  virtual void Cancel(uint64_t request) = 0;
  // Chunks that are not acknowledged.
  virtual size_t held() const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_SOURCE_H_
