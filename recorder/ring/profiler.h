// States that NCCL's profiler interface reports. Ring files and dumps contain the values: they are only added to.
#ifndef LOCKSTEP_RECORDER_RING_PROFILER_H_
#define LOCKSTEP_RECORDER_RING_PROFILER_H_

#include <cstdint>

namespace lockstep::ring {

// What one step of a network operation waits for.
enum class ProxyState : uint8_t {
  kNone = 0,           // no step is under way
  kPosted = 1,         // a step has begun; no later state is known
  kSendGpuWait = 2,    // for this GPU to fill the buffer
  kSendPeerWait = 3,   // for space at the peer
  kSendWait = 4,       // for the network to take the data
  kRecvWait = 5,       // for data from the peer over the network
  kRecvFlushWait = 6,  // for received data to reach the GPU's memory
  kRecvGpuWait = 7,    // for this GPU to read the data
};
inline constexpr uint8_t kLastProxyState = 7;

// NCCL's names, as its own traces have them.
constexpr const char* ProxyStateName(ProxyState state) {
  switch (state) {
    case ProxyState::kNone:
      return "no step under way";
    case ProxyState::kPosted:
      return "Posted";
    case ProxyState::kSendGpuWait:
      return "SendGPUWait";
    case ProxyState::kSendPeerWait:
      return "SendPeerWait";
    case ProxyState::kSendWait:
      return "SendWait";
    case ProxyState::kRecvWait:
      return "RecvWait";
    case ProxyState::kRecvFlushWait:
      return "RecvFlushWait";
    case ProxyState::kRecvGpuWait:
      return "RecvGPUWait";
  }
  return "unknown state";
}

// True while the step waits for the other end or for the network, not for its own GPU.
constexpr bool WaitsForNetwork(ProxyState state) {
  return state == ProxyState::kSendPeerWait || state == ProxyState::kSendWait || state == ProxyState::kRecvWait;
}

}  // namespace lockstep::ring

#endif  // LOCKSTEP_RECORDER_RING_PROFILER_H_
