// States that NCCL's profiler interface reports. Values never change, because ring files and dumps contain them.
#pragma once

#include <cstdint>

namespace lockstep::ring {

// What one step of a network operation waits for.
enum class ProxyState : uint8_t {
  kNone = 0,           // no step is in progress
  kPosted = 1,         // a step has begun, and no later state is known
  kSendGpuWait = 2,    // waits for this GPU to fill the buffer
  kSendPeerWait = 3,   // waits for space at the peer
  kSendWait = 4,       // waits for the network to take the data
  kRecvWait = 5,       // waits for data from the peer over the network
  kRecvFlushWait = 6,  // waits for received data to reach the GPU's memory
  kRecvGpuWait = 7,    // waits for this GPU to read the data
};
inline constexpr uint8_t kLastProxyState = 7;

// NCCL's names, as in its own traces, except for kNone.
constexpr const char* ProxyStateName(ProxyState state) {
  switch (state) {
    case ProxyState::kNone: return "no step under way";
    case ProxyState::kPosted: return "Posted";
    case ProxyState::kSendGpuWait: return "SendGPUWait";
    case ProxyState::kSendPeerWait: return "SendPeerWait";
    case ProxyState::kSendWait: return "SendWait";
    case ProxyState::kRecvWait: return "RecvWait";
    case ProxyState::kRecvFlushWait: return "RecvFlushWait";
    case ProxyState::kRecvGpuWait: return "RecvGPUWait";
  }
  return "unknown state";
}

// Returns whether the step waits for the peer or the network, not for its own GPU.
constexpr bool WaitsForNetwork(ProxyState state) {
  return state == ProxyState::kSendPeerWait || state == ProxyState::kSendWait || state == ProxyState::kRecvWait;
}

}  // namespace lockstep::ring
