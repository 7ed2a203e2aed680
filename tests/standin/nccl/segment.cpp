#include "tests/standin/nccl/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

namespace standin {

namespace {

constexpr size_t kHeaderBytes = 4096;
constexpr uint32_t kFresh = 0;
constexpr uint32_t kGrowing = 1;
constexpr uint32_t kReady = 2;
constexpr uint32_t kFailed = 3;
constexpr size_t kReceiveMemBytes = 4096;
constexpr size_t kChannels = 2;

size_t Setting(const char* name, size_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr || *text == 0 ? otherwise : strtoull(text, nullptr, 10);
}

struct Header {
  uint64_t magic;
  std::atomic<uint32_t> nranks;
  Bell state;  // holds one of the four values above
};

struct Layout {
  size_t blocks, mailboxes, outboxes, mail, total, mail_bytes;
};

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

Layout LayoutOf(int nranks) {
  const auto n = static_cast<size_t>(nranks);
  Layout layout{};
  layout.mail_bytes = std::max<size_t>(64 * 1024 / std::max<size_t>(n, 8) / 64 * 64, 128);
  layout.blocks = kHeaderBytes;
  layout.mailboxes = RoundUp(layout.blocks + n * sizeof(RankBlock), 4096);
  layout.outboxes = RoundUp(layout.mailboxes + n * n * sizeof(Mailbox), 4096);
  layout.mail = layout.outboxes + n * 2 * kChunkBytes;
  layout.total = RoundUp(layout.mail + n * n * 2 * layout.mail_bytes, 4096);
  return layout;
}

int Futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* timeout) {
  return static_cast<int>(syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout, nullptr, 0));
}

int OpenUnnamed() {
  int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    return fd;
  }
  char path[] = "/dev/shm/lockstep-standin-XXXXXX";
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) {
    unlink(path);
  }
  return fd;
}

// Reserves space instead of leaving the file sparse, so that a later write cannot fail.
bool Reserve(int fd, size_t bytes) {
  int error = 0;
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error == 0;
}

uint64_t StartTicks(int pid, char* state) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return 0;
  }
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) {
    return 0;
  }
  text[got] = 0;
  // The command name may contain anything, so fields are counted from its closing parenthesis.
  const char* at = strrchr(text, ')');
  if (!at) {
    return 0;
  }
  unsigned long long ticks = 0;
  sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &ticks);
  return ticks;
}

struct OwnIds {
  std::mutex mutex;
  std::map<uint64_t, int> fds;
};

OwnIds& TheOwnIds() {
  static auto* ids = new OwnIds;
  return *ids;
}

}  // namespace

void Bell::Ring() {
  // Pairs with Wait(): a reader of the new value sees all earlier writes.
  value.fetch_add(1, std::memory_order_seq_cst);
  if (waiters.load(std::memory_order_seq_cst) != 0) {
    Futex(&value, FUTEX_WAKE, INT32_MAX, nullptr);
  }
}

void Bell::Wait(uint32_t seen) {
  for (int i = 0; i < 64; ++i) {
    if (value.load(std::memory_order_acquire) != seen) {
      return;
    }
  }
  waiters.fetch_add(1, std::memory_order_seq_cst);
  const timespec limit{0, 50'000'000};
  if (value.load(std::memory_order_seq_cst) == seen) {
    Futex(&value, FUTEX_WAIT, seen, &limit);
  }
  waiters.fetch_sub(1, std::memory_order_seq_cst);
}

ncclResult_t Segment::NewId(IdContent* id, const uint64_t* given) {
  const int fd = OpenUnnamed();
  if (fd < 0) {
    return ncclSystemError;
  }
  void* page = MAP_FAILED;
  if (Reserve(fd, kHeaderBytes)) {
    page = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  uint64_t magic = given ? *given : 0;
  if (page == MAP_FAILED || (!given && getrandom(&magic, sizeof magic, 0) != sizeof magic)) {
    close(fd);
    return ncclSystemError;
  }
  auto* header = new (page) Header{};
  header->magic = magic;
  munmap(page, kHeaderBytes);
  *id = {magic, getpid(), fd};
  OwnIds& ids = TheOwnIds();
  const std::lock_guard lock(ids.mutex);
  ids.fds[magic] = fd;
  return ncclSuccess;
}

void Segment::ForgetId(const IdContent& id) {
  OwnIds& ids = TheOwnIds();
  const std::lock_guard lock(ids.mutex);
  const auto at = ids.fds.find(id.magic);
  if (at != ids.fds.end() && id.pid == getpid()) {
    close(at->second);
    ids.fds.erase(at);
  }
}

ncclResult_t Segment::Attach(const IdContent& id, int nranks, int rank, int device, std::unique_ptr<Segment>* segment) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", id.pid, id.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return ncclSystemError;
  }
  // The PID may have been reused. Then the descriptor may be any file.
  struct stat info = {};
  void* page = MAP_FAILED;
  if (fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(kHeaderBytes)) {
    page = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  auto* header = static_cast<Header*>(page);
  if (page == MAP_FAILED || header->magic != id.magic) {
    if (page != MAP_FAILED) {
      munmap(page, kHeaderBytes);
    }
    close(fd);
    return ncclSystemError;
  }
  const Layout layout = LayoutOf(nranks);
  std::atomic<uint32_t>& state = header->state.value;
  uint32_t fresh = kFresh;
  if (state.compare_exchange_strong(fresh, kGrowing)) {
    const bool grown = Reserve(fd, layout.total);
    header->nranks.store(static_cast<uint32_t>(nranks));
    state.store(grown ? kReady : kFailed);
    Futex(&state, FUTEX_WAKE, INT32_MAX, nullptr);
  }
  while (state.load() == kGrowing) {
    header->state.Wait(kGrowing);
  }
  const bool ready = state.load() == kReady;
  const bool agreed = header->nranks.load() == static_cast<uint32_t>(nranks);
  munmap(page, kHeaderBytes);
  if (!ready || !agreed) {
    close(fd);
    return ready ? ncclInvalidUsage : ncclSystemError;
  }
  void* base = mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED) {
    return ncclSystemError;
  }
  std::unique_ptr<Segment> made(new Segment);
  auto* bytes = static_cast<unsigned char*>(base);
  made->base_ = base;
  made->bytes_ = layout.total;
  made->nranks_ = nranks;
  // The file starts zeroed, and zero is the initial state of everything in it.
  made->blocks_ = reinterpret_cast<RankBlock*>(bytes + layout.blocks);
  made->mailboxes_ = reinterpret_cast<Mailbox*>(bytes + layout.mailboxes);
  made->outboxes_ = bytes + layout.outboxes;
  made->mail_ = bytes + layout.mail;
  made->mail_bytes_ = layout.mail_bytes;
  RankBlock& own = made->rank(rank);
  int32_t nobody = 0;
  if (!own.pid.compare_exchange_strong(nobody, getpid())) {
    return ncclInvalidUsage;
  }
  char ignored = 0;
  own.device = device;
  own.start_ticks = StartTicks(getpid(), &ignored);
  *segment = std::move(made);
  return ncclSuccess;
}

bool Segment::ReserveTransport() {
  if (nranks_ < 2 || Setting("NCCL_P2P_DISABLE", 0) == 0 || Setting("NCCL_SHM_DISABLE", 0) != 0) {
    return true;
  }
  // Each channel has one receive buffer: a control page and the buffers of the three protocols.
  const size_t bytes = kReceiveMemBytes + Setting("NCCL_BUFFSIZE", 4 << 20) + Setting("NCCL_LL_BUFFSIZE", 524288) +
                       Setting("NCCL_LL128_BUFFSIZE", 4915200);
  const size_t channels = std::clamp<size_t>(Setting("NCCL_MAX_NCHANNELS", kChannels), 1, kChannels);
  for (size_t channel = 0; channel < channels; ++channel) {
    const int fd = OpenUnnamed();
    void* base = MAP_FAILED;
    if (fd >= 0 && Reserve(fd, bytes)) {
      base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
      close(fd);
    }
    if (base == MAP_FAILED) {
      return false;
    }
    transport_.push_back({base, bytes});
  }
  return true;
}

Segment::~Segment() {
  munmap(base_, bytes_);
  for (const Buffer& buffer : transport_) {
    munmap(buffer.base, buffer.bytes);
  }
}

bool Alive(const RankBlock& block) {
  const int pid = block.pid.load();
  if (pid == 0) {
    return true;
  }
  char state = 0;
  const uint64_t ticks = StartTicks(pid, &state);
  return ticks != 0 && state != 'Z' && state != 'X' && (block.start_ticks == 0 || ticks == block.start_ticks);
}

}  // namespace standin
