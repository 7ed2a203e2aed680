// Payloads that reveal a torn record: every field follows from the communicator and the sequence number, so a mix of
// two records is always detected.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/core/ops.h"
#include "recorder/ring/snapshot.h"

namespace lockstep::recorder::torn {

inline constexpr uint64_t kStreams = 16;
inline constexpr uint64_t kCallers = 64;
inline constexpr int32_t kPeers = 3;
// Sequence numbers of a writer's second communicator begin here, so that a number shows its communicator.
inline constexpr uint64_t kSecond = uint64_t{1} << 40;

constexpr uint64_t Key(uint64_t comm, uint64_t channel, uint64_t seq) {
  uint64_t x = (comm << 56 ^ channel << 48 ^ seq) + 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 3; ++i) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
  }
  return x ^ x >> 32;
}
// Channels of a communicator: its collectives, and each peer's sends and receives.
constexpr uint64_t Channel(bool receive, int32_t peer) {
  return 1 + 2 * static_cast<uint64_t>(peer) + (receive ? 1 : 0);
}

constexpr ring::CallKind CollectiveKind(uint64_t key) { return static_cast<ring::CallKind>(1 + key % 8); }
constexpr int32_t Datatype(uint64_t key) { return static_cast<int32_t>(key >> 8 & 7); }
constexpr int32_t Reduction(uint64_t key) { return static_cast<int32_t>((key >> 16) % 5); }
constexpr int32_t Root(uint64_t key) { return static_cast<int32_t>(key >> 20 & 0xfff); }
constexpr uint64_t Count(uint64_t key) { return key >> 22 & ring::kMemberMaxCount; }
constexpr uint64_t SendAddress(uint64_t key) { return key * 3 | 1; }
constexpr uint64_t RecvAddress(uint64_t key) { return key * 5 | 1; }
constexpr uint64_t StreamHandle(uint64_t key) { return 0x5000 + 64 * (key >> 32 & (kStreams - 1)); }
constexpr uint64_t Caller(uint64_t key) { return 0x1000 + 16 * (key >> 40 & (kCallers - 1)); }
// Both results count as accepted, so that the sequence continues.
constexpr int Result(uint64_t key) { return (key >> 50 & 1) != 0 ? kNcclInProgress : kNcclSuccess; }
// The contents of a thread's group, by the group's number.
constexpr uint64_t GroupSends(uint64_t group) { return 3 + group % 4; }
constexpr bool GroupHasCollective(uint64_t group) { return group % 3 == 0; }
constexpr uint64_t GroupCount(uint64_t group) { return GroupSends(group) + (GroupHasCollective(group) ? 1 : 0); }
constexpr ring::CallKind WaitKind(uint64_t key) { return static_cast<ring::CallKind>(64 + key % 6); }

// Checks snapshots and keeps the first few errors.
class Checker {
 public:
  void Look(const ring::Snapshot& snapshot);
  const std::vector<std::string>& wrong() const { return wrong_; }
  uint64_t records() const { return records_; }
  uint64_t unfinished() const { return unfinished_; }

 private:
  void Op(const ring::OpSnapshot& op, const ring::Snapshot& snapshot, bool recent);
  void Comms(const ring::Snapshot& snapshot);
  void Threads(const ring::Snapshot& snapshot);
  void Expect(bool good, const std::string& what, uint64_t seq);

  std::map<uint32_t, uint64_t> handles_;  // handles of the streams
  std::map<uint32_t, ring::CommSnapshot> last_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> hashes_;  // (communicator, sequence) -> rolling hash
  std::vector<std::string> wrong_;
  uint64_t records_ = 0, unfinished_ = 0;
};

}  // namespace lockstep::recorder::torn
