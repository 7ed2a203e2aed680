#include "recorder/core/gpu_marks.h"

#include "recorder/base/driver.h"
#include "recorder/core/gpu_events.h"
#include "recorder/core/helper.h"
#include "recorder/core/note.h"

namespace lockstep::recorder {
namespace {

using Result = DriverResult;

uint32_t g_registered;  // 0: no, 1: in progress, 2: yes, 3: refused
uint32_t g_gpu_described;

constexpr unsigned kRegisterPortable = 1, kRegisterDeviceMap = 2;
constexpr int kHas64BitMemOps = 122, kHas64BitMemOpsV1 = 93;  // device attributes
constexpr Result kAlreadyRegistered = 712;
constexpr uint8_t kTries = 8;
constexpr uint32_t kNobody = 0, kSomebody = UINT32_MAX;  // values of StreamLocal::busy besides thread numbers

uint32_t IndexOf(const StreamLocal* stream) noexcept { return static_cast<uint32_t>(stream - g_tables.streams); }
void* HandleOf(const StreamLocal& stream) noexcept { return reinterpret_cast<void*>(stream.cell->handle); }

bool RegisterMarks() noexcept {
  if (Swap<uint32_t>(&g_registered, 0, 1)) {
    Result result = g_driver.host_register(g.map.marks, g.map.marks_bytes, kRegisterPortable | kRegisterDeviceMap);
    // Another context that has since ended may have left the memory registered.
    if (result == kAlreadyRegistered) result = 0;
    if (result != 0) {
      char text[112];
      snprintf(text, sizeof(text),
               "no GPU markers: the driver refused to register the ring (error %d); try LOCKSTEP_GPU=events", result);
      AddNote(text);
    }
    StoreRelease(&g_registered, result == 0 ? 2u : 3u);
  }
  return LoadAcquire(&g_registered) == 2;
}

// Ends the stream's markers. Markers that the driver already has remain valid. The state of later operations is
// unknown.
LOCKSTEP_COLD void Fail(StreamLocal* stream, Result error) noexcept {
  stream->ways = 0;
  stream->tries = 0;
  if (IsGpuError(error)) {
    NoteGpuError(stream, error);
  } else {
    char text[80];
    snprintf(text, sizeof(text), "GPU progress markers of a stream stopped: the driver returned error %d", error);
    AddNote(text);
  }
}

bool Write(StreamLocal* stream, size_t field, uint64_t ticket) noexcept {
  ErrnoKeeper keep;
  const InContext context(stream->context);
  Result result = context.result();
  if (result == 0) result = g_driver.write64(HandleOf(*stream), stream->device_mark + field, ticket, 0);
  if (result != 0) Fail(stream, result);
  return result == 0;
}

// Returns whether the device can write markers. A refusal is reported only once.
bool HasMemoryOperations(int32_t device) noexcept {
  if (g_driver.write64 == nullptr || g_driver.host_register == nullptr || g_driver.host_pointer == nullptr) {
    AddNote("no GPU markers: the driver has no stream memory operations; try LOCKSTEP_GPU=events");
    return false;
  }
  if (g_driver.attribute == nullptr) return true;
  int has = 0;
  const Result result =
      g_driver.attribute(&has, g_driver.old_write64 ? kHas64BitMemOpsV1 : kHas64BitMemOps, device < 0 ? 0 : device);
  if (result == 0 && has != 0) return true;
  AddNote("no GPU markers: the device has no 64-bit stream memory operations; try LOCKSTEP_GPU=events");
  return false;
}

// Finds the address at which the GPU writes the stream's marks. Returns false if there is none yet. The stream's
// context must be current.
bool MapMark(StreamLocal* stream) noexcept {
  ring::MarkLine* mark = &g.map.marks[IndexOf(stream)];
  if (!RegisterMarks()) {
    const uint32_t registered = LoadAcquire(&g_registered);
    if (registered == 3) stream->tries = 0;
    // If another thread is registering the marker memory now, this attempt does not count.
    if (registered == 1 && stream->tries < kTries) ++stream->tries;
    return false;
  }
  DevicePointer at = 0;
  if (g_driver.host_pointer(&at, mark, 0) != 0 || at == 0) {
    // The context in which the memory was registered may be gone.
    if (Swap<uint32_t>(&g_registered, 2, 0) && !RegisterMarks()) return false;
    if (g_driver.host_pointer(&at, mark, 0) != 0 || at == 0) return false;
  }
  stream->device_mark = at;
  return true;
}

// Returns true also if the driver reports an error.
bool IsCapturing(const StreamLocal& stream) noexcept {
  int status = 0;
  return g_driver.is_capturing(HandleOf(stream), &status) != 0 || status != 0;
}

// Finds the stream's context and the driver's number for the stream. Returns false if the context is unknown. The
// stream must not be capturing.
bool FindContext(StreamLocal* stream) noexcept {
  stream->context = nullptr;
  stream->identity = 0;
  if (g_driver.get_current == nullptr || g_driver.set_current == nullptr) return false;
  if (stream->cell->handle > 2) {
    if (g_driver.stream_context == nullptr || g_driver.stream_context(HandleOf(*stream), &stream->context) != 0)
      stream->context = nullptr;
    unsigned long long id = 0;
    if (g_driver.stream_id != nullptr && g_driver.stream_id(HandleOf(*stream), &id) == 0) stream->identity = id;
    return stream->context != nullptr;
  }
  // A default stream belongs to the current context. While another device's context is current, a marker would go to
  // the wrong stream and report unfinished work as complete. NCCL uses the default streams of its own device's context.
  const int32_t device = stream->cell->device;
  if (device >= 0 && g_driver.device_context != nullptr && g_driver.device_context(device, &stream->context) == 0)
    return stream->context != nullptr;
  stream->context = nullptr;
  return CurrentDevice() == device && g_driver.get_current(&stream->context) == 0 && stream->context != nullptr;
}

bool IsHeld(const StreamLocal& stream) noexcept {
  for (const uint64_t& word : stream.held) {
    if (LoadAcquire(&word) != 0) return true;
  }
  return false;
}

uint64_t LastGiven(const StreamLocal& stream) noexcept {
  const uint64_t given = Load(&stream.cell->given);
  return given == 0 ? 0 : given - 1;
}

// Puts the marker that reports `ticket` as completed on the stream. The calling thread must own the stream's tickets.
void GiveEnd(StreamLocal* stream, uint64_t ticket) noexcept {
  if (ticket <= LastGiven(*stream) || stream->ways == 0) return;
  Result result = 0;
  if ((stream->ways & kWayEvents) != 0) {
    ErrnoKeeper keep;
    const InContext context(stream->context);
    if (!RecordEnd(IndexOf(stream), HandleOf(*stream), ticket, &result)) {
      if (result != 0) Fail(stream, result);
      return;
    }
  } else if (!Write(stream, offsetof(ring::MarkLine, completed), ticket)) {
    return;
  }
  StoreRelease(&stream->cell->given, ticket + 1);
}

template <typename Each>
void ForHeldStreams(const CommLocal& comm, Each each) noexcept {
  const uint32_t used = Load(&g.streams_used);
  const uint64_t bit = uint64_t{1} << (comm.index % 64);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    if ((LoadAcquire(&g_tables.streams[i].held[comm.index / 64]) & bit) != 0) each(&g_tables.streams[i]);
  }
}

// Like GiveEnd, for work queued some time ago. Writes no marker if the stream is now capturing: the marker would become
// part of the graph, and every launch would write it. In that case, the progress of earlier work remains unknown.
void GiveLate(StreamLocal* stream, uint64_t ticket) noexcept {
  uint64_t graph = 0;
  if (ticket <= LastGiven(*stream) || stream->ways == 0 || QueryCapture(*stream, &graph) != Capture::kNo) return;
  GiveEnd(stream, ticket);
}

void ClearHold(const CommLocal& comm, StreamLocal* stream) noexcept {
  __atomic_fetch_and(&stream->held[comm.index / 64], ~(uint64_t{1} << (comm.index % 64)), __ATOMIC_ACQ_REL);
}

}  // namespace

LOCKSTEP_COLD void EnableMarks(StreamLocal* stream) noexcept {
  ErrnoKeeper keep;
  stream->ways = 0;
  if (!Marking()) {
    stream->tries = 0;
    return;
  }
  if (stream->tries > 0) --stream->tries;
  if (!FindDriver() && LoadAcquire(&g_driver_state) == 0) return;
  if (g_driver.is_capturing == nullptr) {
    AddNote("no GPU markers: the driver cannot tell whether a stream is being captured");
    stream->tries = 0;
    return;
  }
  // The stream is capturing: tries again later.
  if (stream->cell->handle > 2 && IsCapturing(*stream)) {
    stream->tries = kTries;
    return;
  }
  RelaxedCapture relaxed;
  if (!FindContext(stream)) return;
  const InContext context(stream->context);
  if (context.result() != 0) return;
  uint8_t way = 0;
  if (g.gpu == GpuMode::kEvents) {
    if (!MakeEvents(IndexOf(stream), stream->context)) {
      stream->tries = 0;
      return;
    }
    way = kWayEvents;
    stream->cell->timed_every = g.gpu_sample;
    stream->cell->starts_marked = 1;
  } else {
    if (!HasMemoryOperations(stream->cell->device)) {
      stream->tries = 0;
      return;
    }
    if (!MapMark(stream)) return;
    way = kWayMarks;
  }
  Store(&stream->cell->given, Load(&stream->cell->issued) + 1);
  Store(&stream->cell->marked, 1u);
  stream->ways = way;
}

bool IsSameStream(const StreamLocal& stream) noexcept {
  if (stream.identity == 0) return true;
  ErrnoKeeper keep;
  unsigned long long id = 0;
  return g_driver.stream_id(HandleOf(stream), &id) != 0 || id == stream.identity;
}

Capture QueryCapture(const StreamLocal& stream, uint64_t* graph) noexcept {
  ErrnoKeeper keep;
  *graph = 0;
  const InContext context(stream.cell->handle > 2 ? nullptr : stream.context);
  int status = 0;
  const Result result = g_driver.is_capturing(HandleOf(stream), &status);
  if (result != 0) {
    if (stream.ways != 0) NoteGpuError(const_cast<StreamLocal*>(&stream), result);
    return Capture::kUnknown;
  }
  if (status == 0) return Capture::kNo;
  uint64_t id = 0;
  if (g_driver.capture_info != nullptr && g_driver.capture_info(HandleOf(stream), &status, &id) == 0) *graph = id;
  return Capture::kYes;
}

uint64_t TakeTicket(const ThreadState* thread, StreamLocal* stream, bool nonblocking) noexcept {
  // If another thread is using the stream, the order of their work is unknown. If it is this thread, a jump or an
  // exception left its previous call.
  const uint32_t me = thread->index + 1;
  if (!Swap(&stream->busy, kNobody, me)) {
    if (Load(&stream->busy) != me) return 0;
    if ((stream->ways & kWayEvents) != 0) DropStart(IndexOf(stream));
  }
  const uint64_t ticket = Load(&stream->cell->issued) + 1;
  if ((stream->ways & kWayEvents) != 0) {
    stream->timed = !nonblocking && !IsHeld(*stream) && ticket % g.gpu_sample == 0;
    // More operations are in progress than there are events, so the progress of this operation will be unknown.
    if (!HasEvents(IndexOf(stream))) {
      StoreRelease(&stream->busy, kNobody);
      return 0;
    }
  }
  Store(&stream->cell->issued, ticket);
  return ticket;
}

void StartMark(StreamLocal* stream, uint64_t ticket, uint64_t now) noexcept {
  if (stream->ways == 0) return;
  if ((stream->ways & kWayEvents) == 0) {
    if (g.gpu == GpuMode::kFull) Write(stream, offsetof(ring::MarkLine, started), ticket);
    return;
  }
  ErrnoKeeper keep;
  const InContext context(stream->context);
  Result result = 0;
  if (!RecordStart(IndexOf(stream), HandleOf(*stream), ticket, now, stream->timed, &result) && result != 0)
    Fail(stream, result);
}

void EndMark(StreamLocal* stream, uint64_t ticket) noexcept {
  if (LOCKSTEP_LIKELY(!IsHeld(*stream))) {
    GiveEnd(stream, ticket);
  } else if ((stream->ways & kWayEvents) != 0) {
    DropStart(IndexOf(stream));
  }
  StoreRelease(&stream->busy, kNobody);
}

void HoldMarks(CommLocal* comm, StreamLocal* stream) noexcept {
  if (comm->index >= ring::kMaxComms) return;
  __atomic_fetch_or(&stream->held[comm->index / 64], uint64_t{1} << (comm->index % 64), __ATOMIC_ACQ_REL);
  StoreRelease(&comm->holds, true);
}

uint64_t MarksBegun(const CommLocal& comm) noexcept {
  if (!LoadAcquire(&comm.holds)) return 0;
  const uint32_t returned = LoadAcquire(&comm.async_returned);
  return LoadAcquire(&comm.async_begun) == returned ? returned : 0;
}

LOCKSTEP_COLD void SettleMarks(CommLocal* comm, uint64_t begun) noexcept {
  if (begun == 0) return;
  bool left = false;
  ForHeldStreams(*comm, [&](StreamLocal* stream) noexcept {
    // Work that NCCL accepted is on the stream by now, so a marker may be written. A stream that another thread is
    // using is left for later.
    if (!Swap(&stream->busy, kNobody, kSomebody)) {
      left = true;
      return;
    }
    if (LoadAcquire(&comm->async_begun) != begun) {
      left = true;
    } else {
      ClearHold(*comm, stream);
      if (!IsHeld(*stream)) GiveLate(stream, Load(&stream->cell->issued));
    }
    StoreRelease(&stream->busy, kNobody);
  });
  if (left || LoadAcquire(&comm->async_begun) != begun) return;
  StoreRelease(&comm->holds, false);
  // Another thread may have set a hold in the meantime, which must remain.
  if (LoadAcquire(&comm->async_begun) != begun) StoreRelease(&comm->holds, true);
}

void SettleEarlier(CommLocal* comm) noexcept {
  if (!LoadAcquire(&comm->holds)) return;
  const uint32_t me = t_local.state != nullptr ? t_local.state->index + 1 : kSomebody;
  ForHeldStreams(*comm, [&](StreamLocal* stream) noexcept {
    const bool mine = Load(&stream->busy) == me;
    if (!mine && !Swap(&stream->busy, kNobody, me)) return;
    ClearHold(*comm, stream);
    const uint64_t issued = Load(&stream->cell->issued);
    // The newest ticket belongs to the use that ends now.
    if (!IsHeld(*stream)) GiveLate(stream, mine ? issued - 1 : issued);
    if (!mine) StoreRelease(&stream->busy, kNobody);
  });
}

void DropHolds(CommLocal* comm) noexcept {
  if (!LoadAcquire(&comm->holds)) return;
  ForHeldStreams(*comm, [&](StreamLocal* stream) noexcept { ClearHold(*comm, stream); });
  StoreRelease(&comm->holds, false);
}

void NoteGpuError(StreamLocal* stream, int32_t error) noexcept {
  if (!IsGpuError(error)) return;
  int32_t none = 0;
  __atomic_compare_exchange_n(&stream->cell->first_error, &none, error, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int32_t CurrentDevice() noexcept {
  ErrnoKeeper keep;
  FindDriver();
  int device = -1;
  if (LoadAcquire(&g_driver_state) == 0 || g_driver.get_device == nullptr || g_driver.get_device(&device) != 0)
    return -1;
  return device;
}

LOCKSTEP_COLD void DescribeGpu(int32_t device) noexcept {
  ErrnoKeeper keep;
  FindDriver();
  if (device < 0 || !Swap<uint32_t>(&g_gpu_described, 0, 1)) return;
  ring::Header* header = g.map.header;
  Store(&header->gpu_index, device);
  if (LoadAcquire(&g_driver_state) == 0) return;
  int version = 0;
  if (g_driver.driver_version != nullptr && g_driver.driver_version(&version) == 0)
    Store(&header->cuda_version, version);
  unsigned char uuid[16] = {};
  if (g_driver.device_uuid != nullptr && g_driver.device_uuid(uuid, device) == 0) {
    snprintf(header->gpu_uuid, sizeof(header->gpu_uuid),
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid[0], uuid[1], uuid[2],
             uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10], uuid[11], uuid[12], uuid[13],
             uuid[14], uuid[15]);
  }
  char pci[32] = {};
  if (g_driver.pci_id != nullptr && g_driver.pci_id(pci, sizeof(pci), device) == 0) {
    CopyText(header->gpu_pci, sizeof(header->gpu_pci), pci);
  }
}

LOCKSTEP_COLD void BeginDeviceReset(int32_t device) noexcept {
  ErrnoKeeper keep;
  if (HoldPolling()) LookOnce(device);
  const uint32_t used = Load(&g.streams_used);
  for (uint32_t i = 0; i < used && i < g.map.capacities.streams; ++i) {
    StreamLocal* stream = &g_tables.streams[i];
    if (stream->cell == nullptr || stream->cell->device != device) continue;
    stream->ways = 0;
    stream->device_mark = 0;
    stream->tries = stream->cell->handle > 2 ? 0 : kTries;
    if (stream->cell->handle > 2) StoreRelease(&g_tables.stream_handles[i], static_cast<const void*>(nullptr));
    ForgetStreamEvents(i);
    // No further completion will be observed.
    if (stream->cell->marked != 0) StoreRelease(&stream->cell->given, Load(&g.map.marks[i].completed) + 1);
  }
  Swap<uint32_t>(&g_registered, 2, 0);
}

void EndDeviceReset() noexcept { ReleasePolling(); }

void ForgetMarks() noexcept {
  g_registered = g_gpu_described = 0;
  ForgetAllEvents();
  ForgetPolling();
  ForgetHelper();
}

}  // namespace lockstep::recorder
