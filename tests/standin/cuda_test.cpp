// Tests streams, events, memory and the driver's stream memory operations.
#include <cuda.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <standin.h>
#include <time.h>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

// A host function that keeps its stream busy until the gate opens.
std::atomic<bool> gate_open{false};
void Gate(void*) {
  Eventually([] { return gate_open.load(); });
}

TEST(Streams, EachIsFifoAndIndependentOfOthers) {
  InOwnProcess([] {
    cudaStream_t blocked;
    cudaStream_t free;
    RANK_CUDA(cudaStreamCreateWithFlags(&blocked, cudaStreamNonBlocking));
    RANK_CUDA(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
    int* data = ToDevice(std::vector<int>(1, 0));
    RANK_CUDA(cudaLaunchHostFunc(blocked, Gate, nullptr));
    RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), blocked));
    RANK_CHECK(cudaStreamQuery(blocked) == cudaErrorNotReady);
    RANK_CUDA(cudaMemsetAsync(data, 2, sizeof(int), free));
    RANK_CUDA(cudaStreamSynchronize(free));
    RANK_CHECK(*data == 0x02020202);
    gate_open = true;
    RANK_CUDA(cudaStreamSynchronize(blocked));
    RANK_CHECK(*data == 0x01010101);
    RANK_CUDA(cudaStreamDestroy(blocked));
    RANK_CHECK(cudaStreamQuery(blocked) == cudaErrorInvalidResourceHandle);
    RANK_CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    RANK_CHECK(cudaGetLastError() == cudaSuccess);
  });
}

TEST(Streams, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  InOwnProcess([] {
    cudaStream_t blocking;
    cudaStream_t aside;
    RANK_CUDA(cudaStreamCreate(&blocking));
    RANK_CUDA(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
    int* data = ToDevice(std::vector<int>(1, 0));
    RANK_CUDA(cudaLaunchHostFunc(blocking, Gate, nullptr));
    RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), nullptr));
    RANK_CUDA(cudaStreamSynchronize(aside));
    RANK_CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
    RANK_CHECK(*data == 0);
    gate_open = true;
    RANK_CUDA(cudaStreamSynchronize(nullptr));
    RANK_CHECK(*data == 0x01010101);
    gate_open = false;
    RANK_CUDA(cudaLaunchHostFunc(nullptr, Gate, nullptr));
    RANK_CUDA(cudaMemsetAsync(data, 2, sizeof(int), blocking));
    RANK_CHECK(!Eventually([&] { return *data != 0x01010101; }, std::chrono::milliseconds(50)));
    gate_open = true;
    RANK_CUDA(cudaDeviceSynchronize());
    RANK_CHECK(*data == 0x02020202);
  });
}

TEST(Events, OrderStreamsAndMeasureTime) {
  InOwnProcess([] {
    cudaStream_t first;
    cudaStream_t second;
    cudaEvent_t start;
    cudaEvent_t end;
    RANK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    RANK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    RANK_CUDA(cudaEventCreate(&start));
    RANK_CUDA(cudaEventCreate(&end));
    RANK_CUDA(cudaEventQuery(end));  // the event was never recorded
    float time = -1;
    RANK_CHECK(cudaEventElapsedTime(&time, start, end) == cudaErrorInvalidResourceHandle);
    RANK_CUDA(cudaEventRecord(start, first));
    RANK_CUDA(cudaLaunchHostFunc(first, Gate, nullptr));
    RANK_CUDA(cudaEventRecord(end, first));
    RANK_CUDA(cudaStreamWaitEvent(second, end, 0));
    RANK_CHECK(cudaEventQuery(end) == cudaErrorNotReady);
    RANK_CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
    gate_open = true;
    RANK_CUDA(cudaStreamSynchronize(second));
    RANK_CUDA(cudaEventSynchronize(end));
    RANK_CUDA(cudaEventElapsedTime(&time, start, end));
    RANK_CHECK(time >= 0);
    RANK_CUDA(cudaEventDestroy(start));
    RANK_CHECK(cudaEventQuery(start) == cudaErrorInvalidResourceHandle);
  });
}

TEST(Driver, WritesValuesInStreamOrderAndOnlyIntoRegisteredMemory) {
  InOwnProcess([] {
    static uint64_t target = 0;
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(&target));
    // No context is current yet.
    RANK_CHECK(cuMemHostRegister(&target, sizeof target, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_ERROR_INVALID_CONTEXT);
    RANK_CHECK(cuStreamWriteValue64(nullptr, address, 1, 0) == CUDA_ERROR_INVALID_CONTEXT);
    cudaStream_t stream;
    RANK_CUDA(cudaSetDevice(3));
    RANK_CHECK(cuMemHostRegister(&target, sizeof target, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS);
    RANK_CUDA(cudaStreamCreate(&stream));
    CUdeviceptr device = 0;
    RANK_CHECK(cuMemHostGetDevicePointer(&device, &target, 0) == CUDA_SUCCESS);
    RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
    RANK_CHECK(cuStreamWriteValue64(stream, device, 77, 0) == CUDA_SUCCESS);
    RANK_CHECK(__atomic_load_n(&target, __ATOMIC_ACQUIRE) == 0);
    gate_open = true;
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(target == 77);
    // The current context belongs to another device.
    RANK_CUDA(cudaSetDevice(0));
    RANK_CHECK(cuStreamWriteValue64(stream, device, 78, 0) == CUDA_ERROR_INVALID_HANDLE);
    CUcontext context = nullptr;
    RANK_CHECK(cuStreamGetCtx(stream, &context) == CUDA_SUCCESS);
    RANK_CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    RANK_CHECK(cuStreamWriteValue64(stream, device, 79, 0) == CUDA_SUCCESS);
    RANK_CHECK(cuStreamWriteValue32(stream, device + 4, 5, 0) == CUDA_SUCCESS);
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(target == (5ull << 32 | 79));
    RANK_CHECK(cuStreamWriteValue64(stream, device + 4, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    RANK_CHECK(cuMemHostUnregister(&target) == CUDA_SUCCESS);
    RANK_CHECK(cuStreamWriteValue64(stream, device, 80, 0) == CUDA_ERROR_INVALID_VALUE);
    void* function = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    RANK_CHECK(cuGetProcAddress("cuStreamWriteValue64", &function, 12000, 0, &found) == CUDA_SUCCESS);
    RANK_CHECK(function == reinterpret_cast<void*>(&cuStreamWriteValue64) && found == CU_GET_PROC_ADDRESS_SUCCESS);
    RANK_CHECK(cuGetProcAddress("cuNoSuchThing", &function, 12000, 0, &found) == CUDA_SUCCESS);
    RANK_CHECK(function == nullptr && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  });
}

// Returns whether `call` returns while its stream is blocked. `call` has ended when this function returns.
template <typename Call>
bool ReturnsWhileHeldUp(cudaStream_t stream, Call call) {
  gate_open = false;
  RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
  std::atomic<bool> back{false};
  std::thread other([&] {
    call();
    back = true;
  });
  const bool returned = Eventually([&] { return back.load(); }, std::chrono::milliseconds(500));
  gate_open = true;
  other.join();
  RANK_CUDA(cudaStreamSynchronize(stream));
  return returned;
}

TEST(Copies, WaitOnlyForPageableMemory) {
  InOwnProcess([] {
    constexpr size_t kLarge = 1 << 20;
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    char *device = nullptr, *pinned = nullptr, *registered = nullptr;
    std::vector<char> pageable(kLarge), own(kLarge);
    registered = own.data();
    RANK_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), kLarge));
    RANK_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), kLarge));
    RANK_CUDA(cudaHostRegister(registered, kLarge, cudaHostRegisterDefault));
    const auto copy = [&](void* to, const void* from, size_t bytes) {
      return ReturnsWhileHeldUp(stream,
                                [&] { RANK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream)); });
    };
    for (const size_t bytes : {size_t{8}, kLarge}) {
      RANK_CHECK(!copy(pageable.data(), device, bytes));
      RANK_CHECK(copy(pinned, device, bytes));
      RANK_CHECK(copy(registered, device, bytes));
      RANK_CHECK(copy(device, pinned, bytes));
      RANK_CHECK(copy(device, device + kLarge / 2, bytes / 2));
      RANK_CHECK(!copy(pinned, pageable.data(), bytes));
      // A copy that fits the staging buffer does not wait.
      RANK_CHECK(copy(device, pageable.data(), bytes) == (bytes == 8));
    }
    RANK_CHECK(!ReturnsWhileHeldUp(stream, [&] {
      RANK_CUDA(cudaMemcpy2DAsync(pageable.data(), 64, device, 64, 8, 8, cudaMemcpyDeviceToHost, stream));
    }));
    // The copy takes the value as it was at the call.
    pageable[0] = 1;
    gate_open = false;
    RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
    RANK_CUDA(cudaMemcpyAsync(device, pageable.data(), 8, cudaMemcpyHostToDevice, stream));
    pageable[0] = 2;
    gate_open = true;
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(device[0] == 1);
  });
}

TEST(Launches, WaitWhileTheQueueIsFull) {
  InOwnProcess([] {
    cudaStream_t stream, other;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    RANK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int* data = ToDevice(std::vector<int>(1, 0));
    const auto fill = [&](int entries) {
      return ReturnsWhileHeldUp(stream, [&] {
        for (int i = 0; i < entries; ++i) RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), stream));
      });
    };
    RANK_CHECK(fill(1023));
    RANK_CHECK(!fill(1024));
    RANK_CHECK(ReturnsWhileHeldUp(stream, [&] { RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), other)); }));
  });
}

TEST(Waits, SpinUnlessTheProgramSelectsSleep) {
  InOwnProcess([] {
    cudaStream_t stream;
    unsetenv("STANDIN_WAIT");
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto processor_time = [&](auto wait) {
      gate_open = false;
      RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
      std::atomic<clockid_t> clock{0};
      std::atomic<bool> go{false};
      std::thread other([&] {
        clockid_t own = 0;
        RANK_CHECK(pthread_getcpuclockid(pthread_self(), &own) == 0);
        clock = own;
        while (!go.load()) usleep(100);
        wait();
      });
      while (clock.load() == 0) usleep(100);
      const auto used = [&] {
        timespec now{};
        clock_gettime(clock.load(), &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
      };
      const auto before = used();
      go = true;
      const bool much = Eventually([&] { return used() - before >= 20; }, std::chrono::seconds(2));
      gate_open = true;
      other.join();
      return much;
    };
    const auto synchronize = [&] { RANK_CUDA(cudaStreamSynchronize(stream)); };
    RANK_CHECK(processor_time(synchronize));
    cudaEvent_t event;
    RANK_CUDA(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
    RANK_CHECK(!processor_time([&] {
      RANK_CUDA(cudaEventRecord(event, stream));
      RANK_CUDA(cudaEventSynchronize(event));
    }));
    RANK_CUDA(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    RANK_CHECK(!processor_time(synchronize));
  });
}

TEST(Memory, FreeWaitsForTheDevice) {
  InOwnProcess([] {
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int* data = ToDevice(std::vector<int>(1, 0));
    RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
    std::atomic<bool> freed{false};
    std::thread other([&] {
      RANK_CUDA(cudaFree(data));
      freed = true;
    });
    RANK_CHECK(!Eventually([&] { return freed.load(); }, std::chrono::milliseconds(50)));
    gate_open = true;
    other.join();
    RANK_CHECK(freed.load());
    RANK_CHECK(cudaFree(data) == cudaErrorInvalidValue);
    RANK_CUDA(cudaFree(nullptr));
  });
}

TEST(Events, DriverAndRuntimeMeasureTheSameTime) {
  InOwnProcess([] {
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreate(&stream));
    CUevent events[2];
    for (CUevent& event : events) RANK_CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
    RANK_CHECK(cuEventRecord(events[0], reinterpret_cast<CUstream>(stream)) == CUDA_SUCCESS);
    RANK_CHECK(cuEventSynchronize(events[0]) == CUDA_SUCCESS);
    gate_open = false;
    RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
    RANK_CHECK(cuEventRecord(events[1], reinterpret_cast<CUstream>(stream)) == CUDA_SUCCESS);
    RANK_CHECK(cuEventQuery(events[1]) == CUDA_ERROR_NOT_READY);
    float ms = -1;
    RANK_CHECK(cuEventElapsedTime(&ms, events[0], events[1]) == CUDA_ERROR_NOT_READY);
    usleep(2000);
    gate_open = true;
    RANK_CHECK(cuEventSynchronize(events[1]) == CUDA_SUCCESS);
    RANK_CHECK(cuEventElapsedTime(&ms, events[0], events[1]) == CUDA_SUCCESS && ms >= 2);
    RANK_CHECK(cudaGetLastError() == cudaSuccess);
  });
}

TEST(Errors, AfterAContextErrorNothingCompletes) {
  InOwnProcess([] {
    cudaStream_t stream, other;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    RANK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int* data = ToDevice(std::vector<int>(1, 0));
    CUevent event;
    RANK_CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
    gate_open = false;
    RANK_CUDA(cudaLaunchHostFunc(stream, Gate, nullptr));
    RANK_CHECK(standinFault(reinterpret_cast<CUstream>(stream), CUDA_ERROR_ILLEGAL_ADDRESS) == CUDA_SUCCESS);
    RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), stream));
    RANK_CHECK(cuEventRecord(event, reinterpret_cast<CUstream>(stream)) == CUDA_SUCCESS);
    gate_open = true;
    RANK_CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    RANK_CHECK(*data == 0);
    for (int i = 0; i < 2; ++i) {
      RANK_CHECK(cuEventQuery(event) == CUDA_ERROR_ILLEGAL_ADDRESS);
      RANK_CHECK(cudaStreamQuery(other) == cudaErrorIllegalAddress);
      RANK_CHECK(cuStreamQuery(reinterpret_cast<CUstream>(other)) == CUDA_ERROR_ILLEGAL_ADDRESS);
      RANK_CHECK(cuStreamSynchronize(reinterpret_cast<CUstream>(other)) == CUDA_ERROR_ILLEGAL_ADDRESS);
      RANK_CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
      RANK_CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress);
    }
    RANK_CUDA(cudaSetDevice(1));
    RANK_CUDA(cudaDeviceSynchronize());
  });
}

}  // namespace
}  // namespace standin_test
