// NCCL's profiler interface, versions 1 to 7, as the stand-in calls it: a plugin gets the structures of the version
// that it exports. Written from NCCL's published headers. The recorder does not share this code, because the code
// checks the recorder's reading.
#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

enum : uint64_t {
  kProfileGroup = 1 << 0,
  kProfileColl = 1 << 1,
  kProfileP2p = 1 << 2,
  kProfileProxyOp = 1 << 3,
  kProfileProxyStep = 1 << 4,
  kProfileKernelCh = 1 << 6,
  kProfileNetPlugin = 1 << 7,
  kProfileGroupApi = 1 << 8,
  kProfileCollApi = 1 << 9,
  kProfileP2pApi = 1 << 10,
  kProfileKernelLaunch = 1 << 11,
  kProfileCeColl = 1 << 12,
};
enum {
  kSendGPUWait = 8,
  kSendWait = 9,
  kRecvWait = 10,
  kRecvFlushWait = 11,
  kRecvGPUWait = 12,
  kProxyOpInProgress = 19,
  kSendPeerWait = 20,
  kKernelChStop = 22,
  kGroupStartApiStop = 23,
  kGroupEndApiStart = 24,
};

// An event's data, in the form of the newest version.
struct Event {
  uint64_t type = 0;
  void* parent = nullptr;
  int rank = 0;
  struct {
    bool captured;
    int depth;
  } group_api = {};
  struct {
    const char* func;
    size_t count;
    const char* datatype;
    int root;
    void* stream;
    bool captured;
  } api = {};
  struct {
    const char* comm_name;
    uint64_t comm_hash, seq;
    const char* func;
    const void* send;
    void* recv;
    size_t count;
    int root;
    const char* datatype;
    uint8_t channels;
    void* parent_group;
    void* stream;
  } coll = {};  // sends and receives also use it: `root` is the peer, `recv` the buffer
  struct {
    int pid;
    uint8_t channel;
    int peer, steps, chunk_bytes, is_send;
  } proxy_op = {};
  int step = 0;
  uint8_t channel = 0;
  uint64_t gpu_ns = 0;
};

class ProfilerPlugin {
 public:
  // Returns the newest version up to `newest` that the library exports, or null.
  static ProfilerPlugin* Find(void* library, int newest);
  virtual ~ProfilerPlugin() = default;
  virtual int Init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank) = 0;
  virtual void Start(void* context, void** handle, const Event& event) = 0;
  virtual void Stop(void* handle) = 0;
  virtual void Record(void* handle, int state, uint64_t gpu_ns, size_t transferred) = 0;
  virtual void Finalize(void* context) = 0;
  int version = 0;
};

}  // namespace standin
