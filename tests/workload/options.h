// trainsim's options: the shape of the job and the faults to play.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainsim {

enum class FaultKind {
  kStallHost,
  kStallGpu,
  kKill,
  kSegv,
  kStop,
  kSkip,
  kExtra,
  kWrongCount,
  kWrongDatatype,
  kWrongReduction,
  kWrongRoot,
  kWrongOp,
  kExitEarly,
  kException,
  kSpinHost,
  kOpenGroup,
  kWrongPeer,
  // These kinds have a fixed position in the step. Parse refuses `op` and `nth` for them.
  kStallLoader,
  kSwapOrder,
  kNoGroup,
  // These kinds occur while communicators are created, and also ignore `step`.
  kNeverInit,
  kWrongColor,
};
// Returns whether a fault of this kind occurs at an operation, and has no trigger of its own.
inline constexpr bool AtOperation(FaultKind kind) { return kind < FaultKind::kStallLoader; }
inline constexpr bool AtStart(FaultKind kind) { return kind >= FaultKind::kNeverInit; }

enum class CommKind { kWorld, kTp, kPp, kDp, kEp };
inline constexpr int kCommKinds = 5;

enum class OpKind { kAllReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll, kSend, kRecv };
inline constexpr int kOpKinds = 7;

// One fault: on `rank`, in `step` (from 1), at the nth (from 0) `op` of the step on `comm`.
struct Fault {
  FaultKind kind = FaultKind::kStallHost;
  int rank = 0;
  int step = 1;
  CommKind comm = CommKind::kTp;
  OpKind op = OpKind::kAllReduce;
  int nth = 0;
  std::optional<int64_t> value;  // wrong-count: the count; wrong-root: the root; wrong-peer: the peer
};

struct Pause {
  int step = 0;  // the pause is after this step
  double seconds = 0;
  int rank = 0;  // only for checkpoints and preparations: the rank that pauses
};

// Long work of a healthy rank outside of NCCL.
enum class PrepareKind {
  kCompile,  // waits for child processes that compute, one at a time
  kThread,   // waits for a computing thread of the process
  kRead,     // reads a file in pieces
  kLock,     // sleeps again and again, like a poll for a lock of another process
  kService,  // waits for a slow server
};
struct Prepare {
  Pause pause;  // step 0: before the first step
  PrepareKind kind = PrepareKind::kCompile;
};

// A rank with a longer GPU computation than the others in every step.
struct Straggler {
  int rank = -1;  // -1: no straggler
  double milliseconds = 0;
};

enum class SyncKind { kStream, kEvent, kDevice, kCopy };

struct Options {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  int ep = 1;
  int steps = 100;
  int micro_batches = 4;
  int layers = 2;
  int64_t elements = 1024;  // rounded up by Parse to a multiple of 4 * tp * dp
  double pace_ms = 0;
  double slow_start_s = 0;
  std::vector<Pause> checkpoints;
  std::vector<Pause> evaluations;
  std::vector<Prepare> preparations;
  int recreate_step = 0;  // after this step, the data group is aborted and created again; 0: never
  Straggler straggler;
  double jitter_ms = 0;  // in every step, one rank computes longer by this time
  uint64_t seed = 1;
  int print_every = 10;
  bool graph = false;          // from the second step on, the step is a CUDA graph
  bool shared_stream = false;  // world, tp and ep run on the computation's stream
  SyncKind sync = SyncKind::kStream;
  // Number of small fills after each step's gradient norm. If the launch queue cannot hold them, the CPU thread waits.
  int launches = 0;
  double store_timeout_s = 120;
  std::vector<Fault> faults;

  int WorldSize() const { return tp * pp * dp; }
  int CommSize(CommKind comm) const;
  // Returns whether a fault intentionally causes wrong data, so that results are not verified.
  bool ExpectsWrongData() const;
};

// What the launcher's variables say about this process.
struct Environment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  std::string master_addr;
  int master_port = 0;
};

const char* Name(FaultKind kind);
const char* Name(CommKind comm);
const char* Name(OpKind op);

// Number of elements of the small operations: flags, gradient norms, losses.
inline constexpr int64_t kSmallCount = 32;
inline constexpr int64_t kLossCount = 8;

std::string HelpText();

// On an error, returns false and sets *error to one line: what is wrong, and what is allowed. For --help, sets *help
// and returns true.
bool Parse(const std::vector<std::string>& args, Options* options, bool* help, std::string* error);

// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (or the names of Slurm and Open MPI), and checks them
// against the options. Returns false with a one-line *error.
bool ReadEnvironment(const Options& options, Environment* environment, std::string* error);

}  // namespace trainsim
