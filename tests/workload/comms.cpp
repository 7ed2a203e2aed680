#include "tests/workload/comms.h"

#include <cstring>

#include "tests/workload/device.h"
#include "tests/workload/faults.h"

namespace trainsim {
namespace {

ncclConfig_t ConfigNamed([[maybe_unused]] const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  config.commName = name.c_str();
#endif
  return config;
}

// The first member creates the ID and stores it; the other members read it.
ncclUniqueId ExchangeId(const Comm& comm, TCPStore* store) {
  const std::string key = "id/" + comm.name;
  ncclUniqueId id{};
  std::string value;
  std::string error;
  if (comm.index() == 0) {
    NCCL_OK(ncclGetUniqueId(&id));
    value.assign(id.internal, sizeof id.internal);
    if (!store->Set(key, value, &error)) FailCall("sharing a unique id", error.c_str(), __FILE__, __LINE__);
    return id;
  }
  if (!store->Get(key, &value, &error)) FailCall("reading a unique id", error.c_str(), __FILE__, __LINE__);
  if (value.size() != sizeof id.internal) FailCall("reading a unique id", "wrong size", __FILE__, __LINE__);
  std::memcpy(id.internal, value.data(), sizeof id.internal);
  return id;
}

lockstep::jobmodel::Layout LayoutOf(const Options& options) {
  lockstep::jobmodel::Layout layout;
  layout.tp = options.tp, layout.dp = options.dp, layout.pp = options.pp, layout.ep = options.ep;
  return layout;
}

}  // namespace

Place PlaceOf(const Options& options, int rank) { return LayoutOf(options).PlaceOf(rank); }

Group GroupOf(const Options& options, CommKind kind, int rank) {
  using lockstep::jobmodel::Family;
  static constexpr Family kFamilies[] = {Family::kWorld, Family::kTp, Family::kPp, Family::kDp, Family::kEp};
  return lockstep::jobmodel::GroupOf(LayoutOf(options), kFamilies[static_cast<size_t>(kind)], rank);
}

Communicators::Communicators(const Options& options, const Environment& environment, TCPStore* store)
    : options_(options), rank_(environment.rank) {
  for (int i = 0; i < kCommKinds; ++i) {
    Comm& comm = comms_[i];
    comm.kind = static_cast<CommKind>(i);
    comm.group = GroupOf(options, comm.kind, environment.rank);
    comm.ranks = comm.group.Members();
    comm.name = comm.group.Name();
    if (comm.size() < 2 && comm.kind != CommKind::kWorld) continue;
    if (SharesStream(comm.kind) && comm.kind != CommKind::kWorld) {
      comm.stream = comms_[static_cast<size_t>(CommKind::kWorld)].stream;
    } else {
      CUDA_OK(cudaStreamCreateWithFlags(&comm.stream, cudaStreamNonBlocking));
    }
    CUDA_OK(cudaEventCreateWithFlags(&comm.ready, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&comm.done, cudaEventDisableTiming));
  }
  Comm& world = comms_[static_cast<size_t>(CommKind::kWorld)];
  if (StrikesAtStart(options_, rank_, FaultKind::kNeverInit, CommKind::kWorld)) SleepForEver();
  ncclConfig_t config = ConfigNamed(world.name);
  NCCL_OK(ncclCommInitRankConfig(&world.handle, world.size(), ExchangeId(world, store), world.index(), &config));
  for (CommKind kind : {CommKind::kTp, CommKind::kDp, CommKind::kEp}) {
    if (comms_[static_cast<size_t>(kind)].size() >= 2) Split(kind);
  }
  Comm& pp = comms_[static_cast<size_t>(CommKind::kPp)];
  if (pp.size() > 1) {
    if (StrikesAtStart(options_, rank_, FaultKind::kNeverInit, CommKind::kPp)) SleepForEver();
    config = ConfigNamed(pp.name);
    NCCL_OK(ncclCommInitRankConfig(&pp.handle, pp.size(), ExchangeId(pp, store), pp.index(), &config));
  }
}

bool Communicators::SharesStream(CommKind kind) const {
  return options_.shared_stream && (kind == CommKind::kWorld || kind == CommKind::kTp || kind == CommKind::kEp);
}

void Communicators::Split(CommKind kind) {
  Comm& comm = comms_[static_cast<size_t>(kind)];
  int color = comm.group.number;
  if (StrikesAtStart(options_, rank_, FaultKind::kWrongColor, kind)) {
    const int groups = options_.WorldSize() / comm.size();
    color = groups > 1 ? (color + 1) % groups : color + 1;
  }
  ncclConfig_t config = ConfigNamed(comm.name);
  NCCL_OK(
      ncclCommSplit(comms_[static_cast<size_t>(CommKind::kWorld)].handle, color, comm.index(), &comm.handle, &config));
}

void Communicators::Recreate(CommKind kind) {
  Comm& comm = comms_[static_cast<size_t>(kind)];
  NCCL_OK(ncclCommAbort(comm.handle));
  Split(kind);
}

void Communicators::Destroy() {
  for (int i = kCommKinds - 1; i >= 0; --i) {
    if (comms_[i].used()) NCCL_OK(ncclCommFinalize(comms_[i].handle));
  }
  for (int i = kCommKinds - 1; i >= 0; --i) {
    Comm& comm = comms_[i];
    if (!comm.used()) continue;
    NCCL_OK(ncclCommDestroy(comm.handle));
    comm.handle = nullptr;
    CUDA_OK(cudaEventDestroy(comm.ready));
    CUDA_OK(cudaEventDestroy(comm.done));
    if (!SharesStream(comm.kind) || comm.kind == CommKind::kWorld) CUDA_OK(cudaStreamDestroy(comm.stream));
  }
}

}  // namespace trainsim
