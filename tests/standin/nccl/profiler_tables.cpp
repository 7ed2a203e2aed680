#include "tests/standin/nccl/profiler_tables.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace standin {

namespace {

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);

void Log(int, unsigned long, const char*, int, const char*, ...) {}

struct ProxyOpFields {
  int pid;
  uint8_t channel_id;
  int peer, n_steps, chunk_size, is_send;
};

template <typename Type, typename Coll, typename P2p, typename KernelCh>
struct Descriptor {
  Type type;
  void* parent_obj;
  int rank;
  union {
    struct {
      bool graph_captured;
      int group_depth;
    } group_api;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graph_captured;
    } coll_api;
    struct {
      const char* func;
      size_t count;
      const char* datatype;
      void* stream;
      bool graph_captured;
    } p2p_api;
    Coll coll;
    P2p p2p;
    ProxyOpFields proxy_op;
    struct {
      int step;
    } proxy_step;
    KernelCh kernel_ch;
    struct {
      uint64_t seq;
      const char* func;
      const void* send;
      void* recv;
      size_t count;
      int root;
      const char* datatype;
      const char* sync_strategy;
      bool intra_batch_sync;
      uint32_t batch_size, num_batches, ce_seq_num;
      void* stream;
    } ce_coll;
  };
};

struct Coll1 {
  const char* name;
  uint64_t comm_hash, seq_number;
  uint8_t func;
  const void* send_buff;
  void* recv_buff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t n_max_channels, n_warps, algo, proto;
  int is_collnet, is_nvls;
};
struct P2p1 {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buff;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct Coll2 {
  const char* name;
  uint64_t comm_hash, seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t n_max_channels, n_warps;
  const char *algo, *proto;
};
struct Coll3 {
  const char* name;
  uint64_t comm_hash, seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t n_max_channels, n_warps;
  const char *algo, *proto;
};
struct P2p2 {
  const char* name;
  uint64_t comm_hash;
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
};
struct Coll4 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t n_channels, n_warps;
  const char *algo, *proto;
};
struct P2p4 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t n_channels;
};
struct Coll5 {
  uint64_t seq_number;
  const char* func;
  const void* send_buff;
  void* recv_buff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t n_channels, n_warps;
  const char *algo, *proto;
  void* parent_group;
};
struct P2p5 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t n_channels;
  void* parent_group;
};
struct Coll7 : Coll5 {
  const char* kernel_variant;
  bool is_sym_coll;
  uint64_t user_tag;
};
struct P2p7 : P2p5 {
  uint64_t user_tag;
};
struct KernelCh3 {
  uint8_t channel_id;
};
struct KernelCh4 {
  uint8_t channel_id;
  uint64_t p_timer;
};

using Descriptor1 = Descriptor<uint8_t, Coll1, P2p1, KernelCh3>;
using Descriptor2 = Descriptor<uint8_t, Coll2, P2p2, KernelCh3>;
using Descriptor3 = Descriptor<uint8_t, Coll3, P2p2, KernelCh3>;
using Descriptor4 = Descriptor<uint8_t, Coll4, P2p4, KernelCh4>;
using Descriptor5 = Descriptor<uint64_t, Coll5, P2p5, KernelCh4>;
using Descriptor7 = Descriptor<uint64_t, Coll7, P2p7, KernelCh4>;

uint8_t OldFunc(const char* func) {
  static const char* const kNames[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                       "AllReduce", "SendRecv", "Send",      "Recv"};
  for (uint8_t i = 0; i < 8; ++i) {
    if (strcmp(kNames[i], func) == 0) {
      return i;
    }
  }
  return 6;
}

uint8_t OldDatatype(const char* name) {
  static const char* const kNames[] = {"ncclInt8",   "ncclUint8",   "ncclInt32",   "ncclUint32",  "ncclInt64",
                                       "ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
  for (uint8_t i = 0; i < 10; ++i) {
    if (strcmp(kNames[i], name) == 0) {
      return i;
    }
  }
  return 8;
}

void Fill(Coll1* to, const Event& e) {
  to->name = e.coll.comm_name;
  to->comm_hash = e.coll.comm_hash;
  to->seq_number = e.coll.seq;
  to->func = OldFunc(e.coll.func);
  to->send_buff = e.coll.send;
  to->recv_buff = e.coll.recv;
  to->count = e.coll.count;
  to->root = e.coll.root;
  to->datatype = OldDatatype(e.coll.datatype);
  to->n_max_channels = e.coll.channels;
}
void Fill(P2p1* to, const Event& e) {
  to->name = e.coll.comm_name;
  to->comm_hash = e.coll.comm_hash;
  to->func = OldFunc(e.coll.func);
  to->buff = e.coll.recv;
  to->datatype = OldDatatype(e.coll.datatype);
  to->count = e.coll.count;
  to->peer = e.coll.root;
}
template <typename Coll>
requires requires(Coll c) { c.algo; }
void Fill(Coll* to, const Event& e) {
  if constexpr (requires { to->comm_hash; }) {
    to->name = e.coll.comm_name;
    to->comm_hash = e.coll.comm_hash;
  }
  to->seq_number = e.coll.seq;
  to->func = e.coll.func;
  to->send_buff = e.coll.send;
  to->recv_buff = e.coll.recv;
  to->count = e.coll.count;
  to->root = e.coll.root;
  to->datatype = e.coll.datatype;
  if constexpr (requires { to->n_channels; }) {
    to->n_channels = e.coll.channels;
  } else {
    to->n_max_channels = e.coll.channels;
  }
  to->n_warps = 16;
  to->algo = "RING";
  to->proto = "SIMPLE";
  if constexpr (requires { to->parent_group; }) {
    to->parent_group = e.coll.parent_group;
  }
  if constexpr (requires { to->kernel_variant; }) {
    to->kernel_variant = "Default";
  }
}
template <typename P2p>
requires requires(P2p p) { p.peer; }
void Fill(P2p* to, const Event& e) {
  if constexpr (requires { to->comm_hash; }) {
    to->name = e.coll.comm_name;
    to->comm_hash = e.coll.comm_hash;
  }
  to->func = e.coll.func;
  to->buff = e.coll.recv;
  to->datatype = e.coll.datatype;
  to->count = e.coll.count;
  to->peer = e.coll.root;
  if constexpr (requires { to->n_channels; }) {
    to->n_channels = e.coll.channels;
  }
  if constexpr (requires { to->parent_group; }) {
    to->parent_group = e.coll.parent_group;
  }
}

// Omits fields that the plugin's version does not know, like NCCL's adapters.
template <int kVersion, typename D>
class Adapter : public ProfilerPlugin {
 public:
  struct Table {
    const char* name;
    void* init;
    int (*start_event)(void*, void**, D*);
    int (*stop_event)(void*);
    int (*record_event_state)(void*, int, void*);
    int (*finalize)(void*);
  };
  explicit Adapter(void* table) : table_(static_cast<Table*>(table)) { version = kVersion; }

  int Init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank) override {
    if constexpr (kVersion >= 5) {
      using F = int (*)(void**, uint64_t, int*, const char*, int, int, int, Logger);
      return reinterpret_cast<F>(table_->init)(context, id, mask, name, nodes, ranks, rank, Log);
    } else if constexpr (kVersion == 4) {
      using F = int (*)(void**, int*, const char*, uint64_t, int, int, int, Logger);
      return reinterpret_cast<F>(table_->init)(context, mask, name, id, nodes, ranks, rank, Log);
    } else {
      return reinterpret_cast<int (*)(void**, int*)>(table_->init)(context, mask);
    }
  }

  void Start(void* context, void** handle, const Event& e) override {
    *handle = nullptr;
    D d;
    memset(static_cast<void*>(&d), 0, sizeof d);
    d.type = static_cast<decltype(d.type)>(e.type);
    d.parent_obj = e.parent;
    d.rank = e.rank;
    switch (e.type) {
      case kProfileGroup: break;
      case kProfileColl:
        Fill(&d.coll, e);
        if (kVersion < 5) {
          d.parent_obj = e.coll.parent_group;
        }
        break;
      case kProfileP2p:
        Fill(&d.p2p, e);
        if (kVersion < 5) {
          d.parent_obj = e.coll.parent_group;
        }
        break;
      case kProfileProxyOp:
        d.proxy_op = {e.proxy_op.pid,   e.proxy_op.channel,     e.proxy_op.peer,
                      e.proxy_op.steps, e.proxy_op.chunk_bytes, e.proxy_op.is_send};
        break;
      case kProfileProxyStep: d.proxy_step.step = e.step; break;
      case kProfileKernelCh:
        if (kVersion < 3) {
          return;
        }
        d.kernel_ch.channel_id = e.channel;
        if constexpr (kVersion >= 4) {
          d.kernel_ch.p_timer = e.gpu_ns;
        }
        break;
      default:
        if (kVersion < 5 || (e.type == kProfileCeColl && kVersion < 6)) {
          return;
        }
        if (e.type == kProfileGroupApi) {
          d.group_api = {e.group_api.captured, e.group_api.depth};
        } else if (e.type == kProfileCollApi) {
          d.coll_api = {e.api.func, e.api.count, e.api.datatype, e.api.root, e.api.stream, e.api.captured};
        } else if (e.type == kProfileP2pApi) {
          d.p2p_api = {e.api.func, e.api.count, e.api.datatype, e.api.stream, e.api.captured};
        } else if (e.type == kProfileCeColl) {
          d.ce_coll = {
              e.coll.seq, e.coll.func, e.coll.send, e.coll.recv, e.coll.count, e.coll.root, e.coll.datatype, "MC",
              false,      1,           1,           1,           e.coll.stream};
        } else {
          return;
        }
        break;
    }
    table_->start_event(context, handle, &d);
  }

  void Stop(void* handle) override { table_->stop_event(handle); }

  void Record(void* handle, int state, uint64_t gpu_ns, size_t transferred) override {
    const bool group = state == kGroupStartApiStop || state == kGroupEndApiStart;
    if (kVersion < 4 && (state > kProxyOpInProgress - 1 || group)) {
      return;
    }
    uint64_t arguments[2] = {state == kKernelChStop ? gpu_ns : transferred, 0};
    table_->record_event_state(handle, state, group ? nullptr : arguments);
  }

  void Finalize(void* context) override { table_->finalize(context); }

 private:
  Table* table_;
};

ProfilerPlugin* MakePlugin(int version, void* table) {
  switch (version) {
    case 1: return new Adapter<1, Descriptor1>(table);
    case 2: return new Adapter<2, Descriptor2>(table);
    case 3: return new Adapter<3, Descriptor3>(table);
    case 4: return new Adapter<4, Descriptor4>(table);
    case 5: return new Adapter<5, Descriptor5>(table);
    case 6: return new Adapter<6, Descriptor5>(table);
    default: return new Adapter<7, Descriptor7>(table);
  }
}

}  // namespace

ProfilerPlugin* ProfilerPlugin::Find(void* library, int newest) {
  for (int version = newest < 7 ? newest : 7; version >= 1; --version) {
    char name[32];
    snprintf(name, sizeof name, "ncclProfiler_v%d", version);
    if (void* table = dlsym(library, name)) {
      return MakePlugin(version, table);
    }
  }
  return nullptr;
}

}  // namespace standin
