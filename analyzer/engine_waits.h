// Who waits for whom. Two nodes a rank: its host (which must issue calls) and its GPU (which must finish what was issued),
// and one for each rank that others wait for and that left no data.
#ifndef LOCKSTEP_ANALYZER_ENGINE_WAITS_H_
#define LOCKSTEP_ANALYZER_ENGINE_WAITS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/engine_mismatch.h"
#include "analyzer/engine_model.h"
#include "analyzer/engine_stopped.h"

namespace lockstep {

enum class Why : uint8_t {
  kNotIssued,    // the target has not issued the operation
  kBehind,       // it has, but its GPU is still in something older
  kNotStarted,   // it has, but its stream has not reached it although the waiter's has
  kDead,         // its process is gone or stopped
  kNoData,       // nothing is known of it
  kOwnGpu,       // the host waits for its own GPU
  kInit,         // it has not entered the making of the communicator
};

struct Edge {
  uint32_t to = 0;
  Why why = Why::kNotIssued;
  const Op* op = nullptr;        // what the waiter is in; null for kOwnGpu and kInit
  uint32_t comm = kNoIndex;
  // The other side of a send or receive may as well be complete and gone from the record.
  bool presumed = false;
};

// Why a GPU that waits for nobody does not go on.
enum class Front : uint8_t {
  kIdle,          // nothing in flight
  kWaits,         // has edges
  kAllArrived,    // every member is in the operation, none finishes
  kNotReached,    // peers started it, this rank's stream did not reach it
  kPeersFinished, // peers finished it, this rank's GPU did not
  kMismatched,    // the members' calls differ
};

struct GpuFront {
  Front front = Front::kIdle;
  const Op* op = nullptr;
  uint32_t comm = kNoIndex;
  int32_t mismatch = -1;         // into the mismatches given
};

class WaitGraph {
 public:
  WaitGraph(const Model& model, const std::vector<Mismatch>& mismatches);

  static uint32_t HostNode(size_t rank_index) { return static_cast<uint32_t>(2 * rank_index); }
  static uint32_t GpuNode(size_t rank_index) { return static_cast<uint32_t>(2 * rank_index + 1); }
  // -1 for a node of a rank without data.
  int32_t RankOf(uint32_t node) const { return node < first_missing_ ? static_cast<int32_t>(node / 2) : -1; }
  bool IsHost(uint32_t node) const { return node < first_missing_ && node % 2 == 0; }
  int32_t MissingRank(uint32_t node) const { return missing_[node - first_missing_]; }
  size_t size() const { return edges.size(); }

  std::vector<std::vector<Edge>> edges;
  std::vector<std::vector<uint32_t>> back;     // reverse adjacency
  std::vector<GpuFront> fronts;                // by rank index
  std::vector<StoppedHost> stopped;            // by rank index
  // Strongly connected components that nothing leads out of and something waits in; each ascending.
  std::vector<std::vector<uint32_t>> sinks;

 private:
  void BuildGpu(size_t rank_index, bool skip_finished);
  void HoldByFaultyGpus(size_t rank_index);
  void BuildHost(size_t rank_index);
  // True when ranks were taken for slow to notice completions.
  bool Build(bool forgive);
  int32_t CountUnnoticed(size_t rank_index);
  bool OnlySlowToNotice(size_t rank_index);
  bool SiblingsExchanged(const Op& op, uint32_t comm, int32_t my_member_rank, const Member& peer) const;
  bool PeersFinishedLater(size_t rank_index, uint32_t after, GpuFront* front);
  void AddOp(size_t rank_index, const Op& op, std::vector<Edge>* out, GpuFront* front);
  void AddMember(const Op& op, uint32_t comm, const Member& member, int32_t my_member_rank, std::vector<Edge>* out,
                 GpuFront* front);
  uint32_t MissingNode(int32_t global_rank);
  void FindSinks();

  const Model& model_;
  const std::vector<Mismatch>& mismatches_;
  uint32_t first_missing_ = 0;
  std::vector<int32_t> missing_;
  std::map<int32_t, uint32_t> missing_nodes_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_WAITS_H_
