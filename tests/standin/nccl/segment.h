// The shared memory in which the ranks of one communicator meet. The memory is an unnamed file on /dev/shm. It is
// removed even if the processes crash. A full /dev/shm is an error, never a SIGBUS. Other processes open the file
// through /proc/PID/fd/FD.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace standin {

// The content of the stand-in's ncclUniqueId; the rest of its 128 bytes is zero.
struct IdContent {
  uint64_t magic = 0;  // random number
  int32_t pid = 0;
  int32_t fd = 0;
};

// A counter that other processes wait for.
struct Bell {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> waiters{0};

  void Ring();
  // Returns when the value is no longer `seen`, or after a bounded time (about 50 ms).
  void Wait(uint32_t seen);
};

constexpr size_t kBootBytes = 192;
constexpr size_t kChunkBytes = 32 * 1024;  // one slot of a rank's outbox, used by collectives
constexpr int kMaxRanks = 512;

struct BootSlot {
  std::atomic<uint64_t> seq{0};
  unsigned char data[kBootBytes];
};

struct OutSlot {
  std::atomic<uint64_t> tag{0};      // the chunk and its operation; 0: never used
  std::atomic<uint32_t> pending{0};  // readers that have not read the chunk yet
  uint32_t bytes = 0;
};

struct alignas(64) RankBlock {
  std::atomic<int32_t> pid{0};  // 0: the rank has not joined yet
  int32_t device = 0;
  uint64_t start_ticks = 0;
  alignas(64) Bell boot;       // this rank put a boot message
  alignas(64) Bell published;  // this rank put a chunk into its outbox
  alignas(64) Bell taken;      // a reader emptied a slot of this rank's outbox
  alignas(64) Bell mail;       // a mailbox from or to this rank changed
  BootSlot boot_slots[2];
  OutSlot out_slots[2];
};

// One direction of a pair of ranks: a FIFO of two slots.
struct alignas(64) Mailbox {
  std::atomic<uint32_t> put{0};
  std::atomic<uint32_t> got{0};
  uint64_t tags[2] = {0, 0};
  uint32_t bytes[2] = {0, 0};
  std::atomic<uint32_t> signals{0};  // number of one-sided signals sent so far
  // Steps of a simulated network. Collectives use them too.
  std::atomic<uint32_t> given_steps{0}, taken_steps{0};
};

class Segment {
 public:
  // Creates the file behind a new unique id. ncclSystemError: /dev/shm is full. `given` is a fixed magic instead of a
  // random one.
  static ncclResult_t NewId(IdContent* id, const uint64_t* given = nullptr);
  // Maps the file of `id` as rank `rank` of `nranks`. The first rank sets the size. ncclSystemError: no space, or the
  // ID's creator has exited. ncclInvalidUsage: the rank is taken, or another rank gave another size.
  static ncclResult_t Attach(const IdContent& id, int nranks, int rank, int device, std::unique_ptr<Segment>* segment);
  // Closes this process's descriptor of an id that it created, once all ranks are attached.
  static void ForgetId(const IdContent& id);
  // Reserves the memory that NCCL's shared-memory transport needs for this rank, for the life of the segment. This is
  // nothing unless NCCL_P2P_DISABLE is set, because otherwise GPUs reach each other's memory. False: /dev/shm is full.
  bool ReserveTransport();
  ~Segment();

  RankBlock& rank(int r) const { return blocks_[r]; }
  unsigned char* outbox(int r, int slot) const {
    return outboxes_ + (static_cast<size_t>(r) * 2 + static_cast<size_t>(slot)) * kChunkBytes;
  }
  Mailbox& mailbox(int from, int to) const { return mailboxes_[Pair(from, to)]; }
  unsigned char* mail(int from, int to, uint32_t slot) const {
    return mail_ + (Pair(from, to) * 2 + slot) * mail_bytes_;
  }
  // The size of a mailbox slot. A send of up to two slots does not wait for its receive.
  size_t mail_bytes() const { return mail_bytes_; }

 private:
  Segment() = default;
  size_t Pair(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(nranks_) + static_cast<size_t>(to);
  }

  void* base_ = nullptr;
  size_t bytes_ = 0;
  int nranks_ = 0;
  RankBlock* blocks_ = nullptr;
  Mailbox* mailboxes_ = nullptr;
  unsigned char* outboxes_ = nullptr;
  unsigned char* mail_ = nullptr;
  size_t mail_bytes_ = 0;
  struct Buffer {
    void* base;
    size_t bytes;
  };
  std::vector<Buffer> transport_;
};

// Returns whether the process in `block` exists and is not a zombie. True for a rank that has not joined yet.
bool Alive(const RankBlock& block);

}  // namespace standin
