// A preloaded library that counts the calls of a few NCCL functions and forwards them.
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>

namespace {

template <class F>
F Next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT std::atomic<int> standin_seen_broadcast;
EXPORT std::atomic<int> standin_seen_unique_id;
EXPORT std::atomic<int> standin_seen_async_error;
EXPORT std::atomic<int> standin_seen_register;
EXPORT std::atomic<int> standin_seen_deregister;
std::atomic<int> standin_seen_broadcast;
std::atomic<int> standin_seen_unique_id;
std::atomic<int> standin_seen_async_error;
std::atomic<int> standin_seen_register;
std::atomic<int> standin_seen_deregister;

EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  standin_seen_broadcast.fetch_add(1);
  return Next<decltype(&ncclBroadcast)>("ncclBroadcast")(send, recv, count, type, root, comm, stream);
}
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  standin_seen_unique_id.fetch_add(1);
  return Next<decltype(&ncclGetUniqueId)>("ncclGetUniqueId")(id);
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  standin_seen_async_error.fetch_add(1);
  return Next<decltype(&ncclCommGetAsyncError)>("ncclCommGetAsyncError")(comm, result);
}
EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  standin_seen_register.fetch_add(1);
  return Next<decltype(&ncclCommRegister)>("ncclCommRegister")(comm, buffer, size, handle);
}
EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  standin_seen_deregister.fetch_add(1);
  return Next<decltype(&ncclCommDeregister)>("ncclCommDeregister")(comm, handle);
}
