// Runs operations as the GPU does. Every chunk carries an exact tag (operation, kind, root, step), and a reader waits
// for exactly one tag. So it is deterministic whether a wrong argument hangs or completes (see README.md).
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/ras.h"

namespace standin {

namespace {

// Simulates a network that is slow for every chunk except the first, so that only large operations are slow.
void SlowNetwork() {
  static const useconds_t delay = [] {
    const char* text = getenv("STANDIN_CHUNK_DELAY_US");
    return static_cast<useconds_t>(text ? atoi(text) : 0);
  }();
  if (delay) {
    usleep(delay);
  }
}

bool Rooted(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter;
}

bool Reduces(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter; }

// Returns whether each destination gets its own part of a slot.
bool InParts(Kind kind) { return kind == Kind::kReduceScatter || kind == Kind::kAlltoAll || kind == Kind::kScatter; }

bool WaitInOperation(ncclComm& comm, Bell& bell, uint32_t seen) {
  return !comm.revoked.load(std::memory_order_relaxed) && WaitBell(comm, bell, seen) &&
         !comm.revoked.load(std::memory_order_relaxed);
}

class Collective {
 public:
  Collective(ncclComm& comm, const Task& task)
      : comm_(comm), task_(task), segment_(*comm.segment), element_(TypeBytes(task.type)), reduction_(task.reduction) {
    bytes_ = task.count * element_;
    chunk_ = InParts(task.kind) ? kChunkBytes / static_cast<size_t>(comm.nranks) / 64 * 64 : kChunkBytes;
    if (task.device_scalar) {
      memcpy(reduction_.scalar, task.device_scalar, element_);
    }
  }

  void Run() {
    const bool root = comm_.rank == task_.peer;
    // Finds the senders, and the number of readers of each of this rank's chunks.
    bool sends = true;
    auto readers = static_cast<uint32_t>(comm_.nranks - 1);
    if (task_.kind == Kind::kBroadcast || task_.kind == Kind::kScatter) {
      sends = root;
    } else if (task_.kind == Kind::kReduce || task_.kind == Kind::kGather) {
      readers = root ? 0 : 1;
    }
    Begin();
    if (Reduces(task_.kind)) {
      sum_ = std::make_unique<Accumulator>(task_.type, reduction_.op);
    }
    for (size_t step = 0; step * chunk_ < bytes_; ++step) {
      if (step > 0) {
        SlowNetwork();
      }
      const size_t offset = step * chunk_;
      const size_t length = std::min(chunk_, bytes_ - offset);
      if ((sends && !Publish(step, offset, length, readers)) || !Collect(step, offset, length)) {
        return;
      }
    }
    // The senders of a rooted operation leave when everything was read. NCCL's senders do so if a message is larger
    // than their buffers. So a wrong root never completes by luck.
    if (Rooted(task_.kind) && sends) {
      Drain(0) && Drain(1);
    }
  }

 private:
  void Begin() {
    if (!task_.work) {
      return;
    }
    for (int peer = 0; peer < comm_.nranks; ++peer) {
      task_.work->sent_before[static_cast<size_t>(peer)] = segment_.mailbox(comm_.rank, peer).given_steps.load();
    }
    task_.work->Start();
  }

  uint64_t Tag(size_t step) const {
    const uint64_t root = Rooted(task_.kind) ? static_cast<uint64_t>(task_.peer) & 0xff : 0;
    return task_.seq << 32 | static_cast<uint64_t>(task_.kind) << 28 | root << 20 | (step & 0xfffff);
  }

  bool Drain(uint64_t slot) {
    RankBlock& own = segment_.rank(comm_.rank);
    while (true) {
      const uint32_t seen = own.taken.value.load(std::memory_order_acquire);
      if (own.out_slots[slot].pending.load(std::memory_order_acquire) == 0) {
        return true;
      }
      if (!WaitInOperation(comm_, own.taken, seen)) {
        return false;
      }
    }
  }

  bool Publish(size_t step, size_t offset, size_t length, uint32_t readers) {
    const uint64_t index = comm_.published & 1;
    if (!Drain(index)) {
      return false;
    }
    unsigned char* to = segment_.outbox(comm_.rank, static_cast<int>(index));
    const auto* from = static_cast<const unsigned char*>(task_.send);
    const int parts = InParts(task_.kind) ? comm_.nranks : 1;
    for (int part = 0; part < parts; ++part) {
      const auto p = static_cast<size_t>(part);
      const unsigned char* source = from + p * bytes_ + offset;
      if (reduction_.premultiply) {
        Multiply(task_.type, to + p * chunk_, source, length / element_, reduction_.scalar);
      } else {
        memcpy(to + p * chunk_, source, length);
      }
    }
    OutSlot& slot = segment_.rank(comm_.rank).out_slots[index];
    slot.bytes = static_cast<uint32_t>(length);
    slot.pending.store(readers, std::memory_order_relaxed);
    slot.tag.store(Tag(step), std::memory_order_release);  // readers acquire it in Await()
    segment_.rank(comm_.rank).published.Ring();
    ++comm_.published;
    const bool to_root = task_.kind == Kind::kReduce || task_.kind == Kind::kGather;
    for (int peer = 0; peer < comm_.nranks; ++peer) {
      if (peer != comm_.rank && (!to_root || peer == task_.peer)) {
        segment_.mailbox(comm_.rank, peer).given_steps.fetch_add(1, std::memory_order_relaxed);
      }
    }
    if (task_.work) {
      task_.work->published.store(static_cast<uint32_t>(step + 1), std::memory_order_release);
    }
    return true;
  }

  // Returns the slot of `from` that holds this step, or -1 if aborted.
  int Await(int from, size_t step) {
    RankBlock& other = segment_.rank(from);
    const uint64_t tag = Tag(step);
    while (true) {
      const uint32_t seen = other.published.value.load(std::memory_order_acquire);
      for (int slot = 0; slot < 2; ++slot) {
        if (other.out_slots[slot].tag.load(std::memory_order_acquire) == tag &&
            !NetworkIsStuck(comm_, from, task_.seq, step)) {
          return slot;
        }
      }
      if (!WaitInOperation(comm_, other.published, seen)) {
        return -1;
      }
    }
  }

  bool Collect(size_t step, size_t offset, size_t length) {
    const bool root = comm_.rank == task_.peer;
    auto* to = static_cast<unsigned char*>(task_.recv);
    int first = 0;
    int last = comm_.nranks - 1;
    if (task_.kind == Kind::kBroadcast || task_.kind == Kind::kScatter) {
      first = last = task_.peer;
    } else if ((task_.kind == Kind::kReduce || task_.kind == Kind::kGather) && !root) {
      return true;
    }
    for (int from = first; from <= last; ++from) {
      const int slot = Await(from, step);
      if (slot < 0) {
        return false;
      }
      OutSlot& held = segment_.rank(from).out_slots[slot];
      const unsigned char* data = segment_.outbox(from, slot);
      if (InParts(task_.kind)) {
        data += static_cast<size_t>(comm_.rank) * chunk_;
      }
      // A peer with less data has sent fewer bytes.
      const size_t take = std::min<size_t>(length, held.bytes);
      if (sum_) {
        sum_->Add(data, take / element_);
      } else if (task_.kind == Kind::kBroadcast || task_.kind == Kind::kScatter) {
        memcpy(to + offset, data, take);
      } else {
        memcpy(to + static_cast<size_t>(from) * bytes_ + offset, data, take);
      }
      if (from != comm_.rank) {
        segment_.mailbox(from, comm_.rank).taken_steps.fetch_add(1, std::memory_order_release);
      }
      if (from != comm_.rank && task_.work) {
        task_.work->received[static_cast<size_t>(from)].store(static_cast<uint32_t>(step + 1),
                                                              std::memory_order_release);
      }
      if (from != comm_.rank && held.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        segment_.rank(from).taken.Ring();
      }
    }
    if (sum_) {
      sum_->Finish(to + offset, length / element_, comm_.nranks);
    }
    return true;
  }

  ncclComm& comm_;
  const Task& task_;
  Segment& segment_;
  const size_t element_;
  Reduction reduction_;
  size_t bytes_ = 0;  // bytes of one rank's block
  size_t chunk_ = 0;
  std::unique_ptr<Accumulator> sum_;
};

// One send or receive in progress.
struct Transfer {
  const Task* task = nullptr;
  size_t bytes = 0;
  uint64_t step = 0;
  uint64_t steps = 0;
};

class PointToPoint {
 public:
  PointToPoint(ncclComm& comm, const std::vector<Task>& tasks) : comm_(comm), segment_(*comm.segment) {
    for (const Task& task : tasks) {
      Transfer transfer;
      transfer.task = &task;
      transfer.bytes = task.count * TypeBytes(task.type);
      // A transfer of 0 bytes takes one step, in which the peers meet.
      transfer.steps = std::max<uint64_t>(1, (transfer.bytes + segment_.mail_bytes() - 1) / segment_.mail_bytes());
      lanes_[{task.kind == Kind::kSend, task.peer}].push_back(transfer);
    }
  }

  void Run() {
    for (auto& [direction, lane] : lanes_) {
      for (const Transfer& transfer : lane) {
        if (transfer.task->work) {
          const auto peer = static_cast<size_t>(transfer.task->peer);
          transfer.task->work->sent_before[peer] = segment_.mailbox(comm_.rank, transfer.task->peer).given_steps.load();
          transfer.task->work->Start();
        }
      }
    }
    CopyToSelf();
    Bell& bell = segment_.rank(comm_.rank).mail;
    while (!lanes_.empty()) {
      const uint32_t seen = bell.value.load(std::memory_order_acquire);
      bool moved = false;
      for (auto at = lanes_.begin(); at != lanes_.end();) {
        moved |= Advance(at->second);
        at = at->second.empty() ? lanes_.erase(at) : std::next(at);
      }
      if (!moved && !lanes_.empty() && !WaitInOperation(comm_, bell, seen)) {
        return;
      }
    }
  }

 private:
  using Lane = std::vector<Transfer>;  // one direction with one peer, in call order

  void CopyToSelf() {
    const auto sends = lanes_.find({true, comm_.rank});
    const auto receives = lanes_.find({false, comm_.rank});
    if (sends == lanes_.end() || receives == lanes_.end()) {
      return;
    }
    for (size_t i = 0; i < sends->second.size(); ++i) {
      const Transfer& from = sends->second[i];
      const Transfer& to = receives->second[i];
      memmove(to.task->recv, from.task->send, std::min(from.bytes, to.bytes));
    }
    lanes_.erase(sends);
    lanes_.erase({false, comm_.rank});
  }

  bool Advance(Lane& lane) {
    bool moved = false;
    while (!lane.empty()) {
      Transfer& transfer = lane.front();
      bool stuck = false;
      if (transfer.step < transfer.steps) {
        stuck = transfer.task->kind == Kind::kSend ? !Put(transfer) : !Get(transfer);
        moved |= !stuck;
      }
      if (stuck) {
        return moved;
      }
      if (transfer.step == transfer.steps) {
        if (!Left(transfer)) {
          return moved;
        }
        lane.erase(lane.begin());
        moved = true;
      }
    }
    return moved;
  }

  // Returns whether the transfer is complete. A send of up to two slots is complete when it is in the mailbox, a larger
  // one when all of it was read.
  bool Left(const Transfer& transfer) {
    if (transfer.task->kind != Kind::kSend || transfer.steps <= 2) {
      return true;
    }
    Mailbox& box = segment_.mailbox(comm_.rank, transfer.task->peer);
    return box.got.load(std::memory_order_acquire) == box.put.load(std::memory_order_relaxed);
  }

  static uint64_t Tag(const Transfer& transfer) { return transfer.task->seq << 24 | (transfer.step & 0xffffff); }

  bool Put(Transfer& transfer) {
    const int peer = transfer.task->peer;
    Mailbox& box = segment_.mailbox(comm_.rank, peer);
    const uint32_t put = box.put.load(std::memory_order_relaxed);
    if (put - box.got.load(std::memory_order_acquire) >= 2) {
      return false;
    }
    const size_t offset = transfer.step * segment_.mail_bytes();
    const size_t length = std::min(segment_.mail_bytes(), transfer.bytes - offset);
    if (length != 0) {
      memcpy(segment_.mail(comm_.rank, peer, put & 1), static_cast<const unsigned char*>(transfer.task->send) + offset,
             length);
    }
    box.tags[put & 1] = Tag(transfer);
    box.bytes[put & 1] = static_cast<uint32_t>(length);
    box.put.store(put + 1, std::memory_order_release);
    segment_.rank(peer).mail.Ring();
    ++transfer.step;
    box.given_steps.fetch_add(1, std::memory_order_relaxed);
    if (transfer.task->work) {
      transfer.task->work->published.store(static_cast<uint32_t>(transfer.step), std::memory_order_release);
    }
    return true;
  }

  bool Get(Transfer& transfer) {
    const int peer = transfer.task->peer;
    Mailbox& box = segment_.mailbox(peer, comm_.rank);
    const uint32_t got = box.got.load(std::memory_order_relaxed);
    if (box.put.load(std::memory_order_acquire) == got || box.tags[got & 1] != Tag(transfer) ||
        NetworkIsStuck(comm_, peer, transfer.task->seq, transfer.step)) {
      return false;
    }
    const size_t offset = transfer.step * segment_.mail_bytes();
    const size_t room = std::min(segment_.mail_bytes(), transfer.bytes - offset);
    const size_t length = std::min<size_t>(room, box.bytes[got & 1]);
    if (length != 0) {
      memcpy(static_cast<unsigned char*>(transfer.task->recv) + offset, segment_.mail(peer, comm_.rank, got & 1),
             length);
    }
    box.got.store(got + 1, std::memory_order_release);
    box.taken_steps.fetch_add(1, std::memory_order_release);
    segment_.rank(peer).mail.Ring();
    ++transfer.step;
    if (transfer.task->work) {
      transfer.task->work->received[static_cast<size_t>(peer)].store(static_cast<uint32_t>(transfer.step),
                                                                     std::memory_order_release);
    }
    return true;
  }

  ncclComm& comm_;
  Segment& segment_;
  std::map<std::pair<bool, int>, Lane> lanes_;  // (is a send, peer)
};

}  // namespace

// An aborted operation does not report its end, because its kernel was killed.
void RunCollective(ncclComm& comm, const Task& task) {
  Collective(comm, task).Run();
  if (task.work && !comm.aborted.load() && !comm.revoked.load()) {
    task.work->Stop();
  }
}

void RunPointToPoint(ncclComm& comm, const std::vector<Task>& tasks) {
  PointToPoint(comm, tasks).Run();
  for (const Task& task : tasks) {
    if (task.work && !comm.aborted.load() && !comm.revoked.load()) {
      task.work->Stop();
    }
  }
}

ncclResult_t Launch(const CommPtr& comm, std::vector<Task> tasks) {
  if (comm->revoked.load() || comm->aborted.load()) {
    return ncclInvalidUsage;
  }
  auto collectives = std::make_shared<std::vector<Task>>();
  auto transfers = std::make_shared<std::vector<Task>>();
  std::vector<std::shared_ptr<Stream>> streams;
  int to_self = 0;
  for (const Task& task : tasks) {
    if (!task.one_sided && task.peer == comm->rank && task.kind >= Kind::kSend) {
      to_self += task.kind == Kind::kSend ? 1 : -1;
    }
  }
  if (to_self != 0) {
    Warn(comm.get(), "a send to oneself needs its receive in the same group");
    return ncclInvalidUsage;
  }
  for (Task& task : tasks) {
    if (std::find(streams.begin(), streams.end(), task.stream) == streams.end()) {
      streams.push_back(task.stream);
    }
    (task.kind >= Kind::kSend && !task.one_sided ? transfers : collectives)->push_back(std::move(task));
  }
  const std::shared_ptr<Capture> capture = CaptureOf(streams[0]);
  for (const auto& stream : streams) {
    if (CaptureOf(stream) != capture) {
      Warn(comm.get(),
           "streams given to a communicator in one group must all be uncaptured or all captured by the same graph");
      return ncclInvalidUsage;
    }
    if (CheckUse(stream) != 0) {
      return ncclUnhandledCudaError;
    }
  }
  if (StickyError(StreamDevice(*streams[0])) != 0) {
    return ncclUnhandledCudaError;
  }
  // One fused launch. It waits for every stream of the group and for the communicator's previous launch. Every stream
  // of the group then waits for this launch. Graph launches and other launches take their turn where they run.
  std::vector<StreamPoint> after;
  if (comm->last_launch.capture == capture) {
    after.push_back(comm->last_launch);
  }
  for (size_t i = 1; i < streams.size(); ++i) {
    after.push_back(capture ? Enqueue(streams[i], {}) : Tail(streams[i]));
  }
  // A launch assigns the sequence numbers, so each graph launch assigns new ones. After the launch, the launching
  // thread calls the plugin; for a graph, the driver's thread does so at every replay.
  auto launched = std::make_shared<std::vector<Task>>();
  const bool captured = capture != nullptr;
  const Make make = [comm, collectives, transfers, captured, launched]() -> std::function<void()> {
    auto own_collectives = std::make_shared<std::vector<Task>>(*collectives);
    auto own_transfers = std::make_shared<std::vector<Task>>(*transfers);
    for (Task& task : *own_collectives) {
      task.seq = task.one_sided ? 0 : ++comm->coll_seq;
      if (!task.one_sided && !captured) RasCount(*comm, task.kind);
    }
    for (Task& task : *own_transfers) {
      const auto peer = static_cast<size_t>(task.peer);
      task.seq = task.kind == Kind::kSend ? ++comm->send_seq[peer] : ++comm->recv_seq[peer];
    }
    ProfilerPrepare(*comm, *own_collectives);
    ProfilerPrepare(*comm, *own_transfers);
    if (!captured) {
      for (const auto& own : {own_collectives, own_transfers}) {
        launched->insert(launched->end(), own->begin(), own->end());
      }
    }
    return [comm, own_collectives, own_transfers, captured, turn = ++comm->launches] {
      if (captured) {
        ProfilerLaunched(comm, *own_collectives);
        ProfilerLaunched(comm, *own_transfers);
      }
      std::unique_lock lock(comm->turn_mutex);
      comm->turn_changed.wait(lock, [&] { return comm->turn + 1 == turn; });
      lock.unlock();
      comm->running.fetch_add(1);
      for (const Task& task : *own_collectives) {
        if (comm->aborted.load() || comm->revoked.load()) {
          continue;
        }
        if (task.one_sided) {
          task.one_sided(*comm);
        } else {
          RunCollective(*comm, task);
        }
      }
      if (!own_transfers->empty() && !comm->aborted.load() && !comm->revoked.load()) {
        RunPointToPoint(*comm, *own_transfers);
      }
      comm->running.fetch_sub(1);
      lock.lock();
      comm->turn = turn;
      comm->turn_changed.notify_all();
    };
  };
  comm->last_launch = EnqueueMade(streams[0], make, std::move(after));
  ProfilerLaunched(comm, *launched);
  launched->clear();
  for (size_t i = 1; i < streams.size(); ++i) {
    Enqueue(streams[i], {}, {comm->last_launch});
  }
  return ncclSuccess;
}

}  // namespace standin
