// Creates communicators, from a unique id or from other communicators.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/meeting.h"
#include "tests/standin/nccl/ras.h"

namespace standin {

namespace {

IdContent ContentOf(const ncclUniqueId& id) {
  IdContent content;
  memcpy(&content, id.internal, sizeof content);
  return content;
}

uint64_t Combine(uint64_t magic, int number) {
  Hash hash;
  hash.Eat(&magic, sizeof magic);
  hash.Eat(&number, sizeof number);
  return hash.Digest();
}

// Waits until all members have joined.
ncclResult_t Join(ncclComm& comm, const IdContent& id, int nranks, int rank, uint64_t hash) {
  if (nranks > kMaxRanks) {
    Warn(&comm, "the stand-in takes at most %d ranks, not %d", kMaxRanks, nranks);
    return ncclInvalidUsage;
  }
  IdContent place = id;
  if (IdContent fixed; id.pid == 0 && FixedId(&fixed)) {
    if (const ncclResult_t met = Meet(comm, nranks, rank, &place); met != ncclSuccess) {
      return met;
    }
  }
  const ncclResult_t attached = Segment::Attach(place, nranks, rank, comm.device, &comm.segment);
  if (attached != ncclSuccess) {
    Warn(&comm,
         attached == ncclSystemError
             ? "no shared memory to meet in: /dev/shm is full or missing, or the process that made the id is gone"
             : "rank %d of %d is taken, or the ranks disagree on their number",
         rank, nranks);
    return attached;
  }
  comm.rank = rank;
  comm.nranks = nranks;
  comm.hash = hash;
  comm.magic = id.magic;
  comm.send_seq.assign(static_cast<size_t>(nranks), 0);
  comm.recv_seq.assign(static_cast<size_t>(nranks), 0);
  std::vector<std::vector<unsigned char>> all;
  char reserved = 1;
  if (!AllGatherBoot(comm, &reserved, 1, &all)) {
    return ncclInternalError;
  }
  Segment::ForgetId(place);
  reserved = comm.segment->ReserveTransport() ? 1 : 0;
  if (!AllGatherBoot(comm, &reserved, 1, &all)) {
    return ncclInternalError;
  }
  if (reserved == 0) {
    Warn(&comm, "Error while creating shared memory segment /dev/shm/nccl-XXXXXX: No space left on device");
    return ncclSystemError;
  }
  // If a rank fails, it closes its connections, so all other ranks fail too.
  if (std::any_of(all.begin(), all.end(), [](const std::vector<unsigned char>& said) { return said[0] == 0; })) {
    return ncclRemoteError;
  }
  // As in NCCL, initialization may run on any thread, with the communicator's device current.
  const int bound = BoundDevice();
  BindDevice(comm.device);
  ProfilerInit(comm);
  BindDevice(bound);
  RasJoin(comm);
  Info("comm %p rank %d nranks %d cudaDev %d commId 0x%016llx name \"%s\" - Init COMPLETE", static_cast<void*>(&comm),
       rank, nranks, comm.device, static_cast<unsigned long long>(hash), comm.name.c_str());
  return ncclSuccess;
}

// The handle is set at once, even inside a group. It stays set if a grouped or background initialization fails.
ncclResult_t InitRank(ncclComm_t* handle, int nranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config,
                      int device, bool grow = false) {
  if (!handle || nranks < 1 || rank < 0 || rank >= nranks) {
    Warn(nullptr, "invalid rank %d of %d", rank, nranks);
    return GroupError(ncclInvalidArgument);
  }
  ncclComm_t made = nullptr;
  CommPtr comm = NewComm(&made);
  if (const ncclResult_t read = ReadConfig(config, nullptr, comm.get()); read != ncclSuccess) {
    ForgetComm(made);
    return GroupError(read);
  }
  comm->device = device;
  *handle = made;
  Hash hash;
  hash.Eat(id.internal, sizeof id.internal);
  const bool alone = GroupDepth() == 0 && comm->blocking;
  const ncclResult_t result = AddJob({comm,
                                      [comm, content = ContentOf(id), nranks, rank,
                                       digest = grow ? Combine(ContentOf(id).magic, nranks) : hash.Digest()] {
                                        return Join(*comm, content, nranks, rank, digest);
                                      },
                                      [comm](ncclResult_t ended) {
                                        if (ended != ncclSuccess) {
                                          comm->async_result.store(ended);
                                        }
                                      }});
  if (alone && result != ncclSuccess) {
    *handle = nullptr;
    ForgetComm(made);
  }
  return result;
}

struct SplitVote {
  int32_t color;
  int32_t key;
};
struct IdVote {
  IdContent id;
  int32_t result;
};

// Joins the child of `members` (ranks of the parent, in the child's order). The first member creates the meeting place,
// and all `voters` get its address.
ncclResult_t JoinChild(ncclComm& parent, ncclComm& child, const std::vector<int>& members,
                       const std::vector<int>* voters, uint64_t hash) {
  IdVote vote{};
  const bool leads = !members.empty() && members.front() == parent.rank;
  if (leads) {
    vote.result = Segment::NewId(&vote.id);
  }
  std::vector<std::vector<unsigned char>> votes;
  if (!AllGatherBoot(parent, &vote, sizeof vote, &votes, voters)) {
    return ncclInternalError;
  }
  if (members.empty()) {
    return ncclSuccess;
  }
  memcpy(&vote, votes[static_cast<size_t>(members.front())].data(), sizeof vote);
  if (vote.result != ncclSuccess) {
    Warn(&parent, "no shared memory for a child communicator: /dev/shm is full or missing");
    return static_cast<ncclResult_t>(vote.result);
  }
  const auto own = std::find(members.begin(), members.end(), parent.rank) - members.begin();
  const ncclResult_t joined = Join(child, vote.id, static_cast<int>(members.size()), static_cast<int>(own), hash);
  child.magic = hash;
  return joined;
}

// Stores the handle late: when all jobs of the group have ended, on the thread that runs them. The handle of a failed
// communicator is stored too, and the caller must abort that communicator. A group abandoned before its jobs run stores
// no handle.
Job LateJob(const CommPtr& parent, std::function<ncclResult_t()> run, ncclComm_t* handle, ncclComm_t made) {
  Job job{parent, std::move(run), {}};
  job.finish = [handle, made](ncclResult_t ended) {
    if (const CommPtr child = FindComm(made); child && ended != ncclSuccess) {
      child->async_result.store(ended);
    }
    __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  };
  job.drop = [made] { ForgetComm(made); };
  return job;
}

}  // namespace

}  // namespace standin

using standin::CommPtr;

STANDIN_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id)) {
  if (!id) {
    return ncclInvalidArgument;
  }
  standin::IdContent content;
  if (const ncclResult_t made = standin::FixedId(&content) ? ncclSuccess : standin::Segment::NewId(&content);
      made != ncclSuccess) {
    standin::Warn(nullptr, "no shared memory to meet in: /dev/shm is full or missing");
    return made;
  }
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &content, sizeof content);
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank)) {
  return standin::InitRank(comm, nranks, id, rank, nullptr, standin::CurrentDevice());
}

STANDIN_API(ncclResult_t, ncclCommInitRankConfig,
            (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config)) {
  return standin::InitRank(comm, nranks, id, rank, config, standin::CurrentDevice());
}

STANDIN_API(ncclResult_t, ncclCommInitRankScalable,
            (ncclComm_t * comm, int nranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config)) {
  if (!id || ids < 1 || ids > nranks) {
    return standin::GroupError(ncclInvalidArgument);
  }
  return standin::InitRank(comm, nranks, id[0], rank, config, standin::CurrentDevice());
}

STANDIN_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  if (!comms || count < 1) {
    return standin::GroupError(ncclInvalidArgument);
  }
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= standin::DeviceCount()) {
      standin::Warn(nullptr, "device %d does not exist", device);
      return standin::GroupError(ncclUnhandledCudaError);
    }
    const char* shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (!seen.insert(device).second && !(shared && *shared == '1')) {
      standin::Warn(nullptr, "device %d is named twice", device);
      return standin::GroupError(ncclInvalidUsage);
    }
  }
  ncclUniqueId id;
  if (const ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess) {
    return standin::GroupError(made);
  }
  standin::GroupStart();
  for (int i = 0; i < count; ++i) {
    standin::InitRank(comms + i, count, id, i, nullptr, devices ? devices[i] : i);
  }
  return standin::GroupEnd(false);
}

STANDIN_API(ncclResult_t, ncclCommSplit,
            (ncclComm_t handle, int color, int key, ncclComm_t* child_handle, ncclConfig_t* config)) {
  CommPtr parent;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &parent); ready != ncclSuccess) {
    return standin::GroupError(ready);
  }
  if (!child_handle || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
    return standin::GroupError(ncclInvalidArgument);
  }
  *child_handle = nullptr;
  ncclComm_t made = nullptr;
  CommPtr child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    child = standin::NewComm(&made);
    if (const ncclResult_t read = standin::ReadConfig(config, parent.get(), child.get()); read != ncclSuccess) {
      standin::ForgetComm(made);
      return standin::GroupError(read);
    }
    child->device = parent->device;
  }
  const int ordinal = ++parent->child_count;
  standin::Hash hash;
  hash.Eat(&parent->hash, sizeof parent->hash);
  hash.Eat(&ordinal, sizeof ordinal);
  hash.Eat(&color, sizeof color);
  const auto run = [parent, child, color, key, digest = hash.Digest()] {
    const standin::SplitVote vote{color, key};
    std::vector<std::vector<unsigned char>> votes;
    if (!standin::AllGatherBoot(*parent, &vote, sizeof vote, &votes)) {
      return ncclInternalError;
    }
    std::vector<std::pair<int, int>> order;  // key, parent rank
    for (int r = 0; r < parent->nranks; ++r) {
      standin::SplitVote other{};
      memcpy(&other, votes[static_cast<size_t>(r)].data(), sizeof other);
      if (color != NCCL_SPLIT_NOCOLOR && other.color == color) {
        order.emplace_back(other.key, r);
      }
    }
    std::sort(order.begin(), order.end());
    std::vector<int> members;
    for (const auto& [own_key, r] : order) {
      members.push_back(r);
    }
    // Members without a color only take part in the exchange of the ids.
    return standin::JoinChild(*parent, child ? *child : *parent, members, nullptr, digest);
  };
  return standin::AddJob(standin::LateJob(parent, run, child_handle, made));
}

STANDIN_API(ncclResult_t, ncclCommShrink,
            (ncclComm_t handle, int* excluded, int count, ncclComm_t* child_handle, ncclConfig_t* config, int flags)) {
  CommPtr parent;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &parent); ready != ncclSuccess && !parent) {
    return standin::GroupError(ready);
  }
  if (!child_handle || !excluded || count < 1 || count >= parent->nranks ||
      (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)) {
    return standin::GroupError(ncclInvalidArgument);
  }
  *child_handle = nullptr;
  std::sort(excluded, excluded + count);
  std::vector<int> members;
  for (int r = 0; r < parent->nranks; ++r) {
    if (!std::binary_search(excluded, excluded + count, r)) {
      members.push_back(r);
    }
  }
  if (std::adjacent_find(excluded, excluded + count) != excluded + count || excluded[0] < 0 ||
      excluded[count - 1] >= parent->nranks ||
      std::find(members.begin(), members.end(), parent->rank) == members.end()) {
    standin::Warn(parent.get(), "the list of excluded ranks is not valid, or holds the caller");
    return standin::GroupError(ncclInvalidArgument);
  }
  ncclComm_t made = nullptr;
  CommPtr child = standin::NewComm(&made);
  if (const ncclResult_t read = standin::ReadConfig(config, parent.get(), child.get()); read != ncclSuccess) {
    standin::ForgetComm(made);
    return standin::GroupError(read);
  }
  child->device = parent->device;
  const int zero = 0;
  standin::Hash hash;
  hash.Eat(&parent->hash, sizeof parent->hash);
  hash.Eat(&zero, sizeof zero);
  hash.Eat(&zero, sizeof zero);
  const auto run = [parent, child, members, flags, digest = hash.Digest()] {
    if (flags == NCCL_SHRINK_ABORT) {
      parent->aborted.store(true);
      standin::WaitFor(parent->last_launch);
      parent->aborted.store(false);
      parent->async_result.store(parent->blocking ? ncclSuccess : ncclInProgress);
    }
    return standin::JoinChild(*parent, *child, members, &members, digest);
  };
  return standin::AddJob(standin::LateJob(parent, run, child_handle, made));
}

STANDIN_API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t handle, ncclUniqueId* id)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  standin::IdContent content;
  if (!id || standin::FixedId(&content)) {
    return id ? ncclInvalidUsage : ncclInvalidArgument;
  }
  // Members without the id can still compute its first word, which identifies the grown communicator.
  const uint64_t magic = standin::Combine(comm->magic, comm->child_count + 1);
  if (const ncclResult_t made = standin::Segment::NewId(&content, &magic); made != ncclSuccess) {
    return made;
  }
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &content, sizeof content);
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclCommGrow,
            (ncclComm_t handle, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* child_handle,
             ncclConfig_t* config)) {
  if (!child_handle) {
    return standin::GroupError(ncclInvalidArgument);
  }
  if (!handle) {
    if (!id) {
      return standin::GroupError(ncclInvalidArgument);
    }
    return standin::InitRank(child_handle, nranks, *id, rank, config, standin::CurrentDevice(), true);
  }
  CommPtr parent;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &parent); ready != ncclSuccess) {
    return standin::GroupError(ready);
  }
  if (rank != -1 || nranks <= parent->nranks) {
    return standin::GroupError(ncclInvalidArgument);
  }
  ncclComm_t made = nullptr;
  CommPtr child = standin::NewComm(&made);
  if (const ncclResult_t read = standin::ReadConfig(config, parent.get(), child.get()); read != ncclSuccess) {
    standin::ForgetComm(made);
    return standin::GroupError(read);
  }
  child->device = parent->device;
  *child_handle = made;
  ++parent->child_count;
  struct Vote {
    ncclUniqueId id;
    int32_t given;
  };
  Vote vote{};
  if (id) {
    vote.id = *id;
    vote.given = 1;
  }
  const auto run = [parent, child, nranks, vote] {
    std::vector<std::vector<unsigned char>> votes;
    if (!standin::AllGatherBoot(*parent, &vote, sizeof vote, &votes)) {
      return ncclInternalError;
    }
    for (const auto& bytes : votes) {
      Vote other{};
      memcpy(&other, bytes.data(), sizeof other);
      if (other.given) {
        const standin::IdContent content = standin::ContentOf(other.id);
        return standin::Join(*child, content, nranks, parent->rank, standin::Combine(content.magic, nranks));
      }
    }
    standin::Warn(parent.get(), "no rank brought the unique id to grow with");
    return ncclInvalidUsage;
  };
  return standin::AddJob({parent, run, [child](ncclResult_t ended) {
                            if (ended != ncclSuccess) {
                              child->async_result.store(ended);
                            }
                          }});
}
