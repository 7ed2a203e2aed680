// Plays malicious agents that send well-formed messages to a collector. An input is a series of messages, each with
// type and sender (one byte each), time since the previous message (one byte, tenths of a second), length (three bytes,
// little endian) and body. The corpus starts with real messages of the agents of a hung job.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "collector/common/say.h"
#include "collector/service/core/core.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/folder.h"

namespace {

using namespace lockstep;

constexpr int64_t kTick = 100'000'000;
constexpr int kMostMessages = 512, kMostTicks = 3000, kTicksAfter = 100;
// The message types that the server accepts from an agent.
constexpr wire::Type kTypes[] = {wire::Type::kHello,  wire::Type::kHeartbeat, wire::Type::kLate,
                                 wire::Type::kEnded,  wire::Type::kDigest,    wire::Type::kEvidence,
                                 wire::Type::kStacks, wire::Type::kChunk,     wire::Type::kBye};

// Runs all actions of the core immediately and sends nothing.
class Collector : public CoreActions {
 public:
  Collector() {
    CoreOptions options;
    options.out = FuzzFolder() + "/incidents";
    options.version = "fuzz";
    options.instance = 7;
    options.quota = 64 << 20;
    options.store.host = options.store.incident = 16 << 20;
    options.store.reserve = 0;
    std::filesystem::create_directory(options.out);
    core_ = std::make_unique<CollectorCore>(options, this);
  }
  ~Collector() override {
    core_.reset();
    std::filesystem::remove_all(FuzzFolder() + "/incidents");
  }
  void Tick(int count) {
    for (; count > 0 && ticks_ < kMostTicks + kTicksAfter; --count, ++ticks_) {
      now_ += kTick;
      core_->Tick(now_, 1'700'000'000'000'000'000 + now_);
      Run();
    }
  }
  void Receive(wire::Type type, uint64_t peer, std::string body) {
    wire::Received received;
    received.peer = peer;
    received.role = wire::Role::kAgent;
    received.message.header.type = type;
    received.message.header.raw_bytes = static_cast<uint32_t>(body.size());
    received.message.body = std::move(body);
    core_->Receive(now_, received);
    Run();
  }
  const CoreCounters& counters() const { return core_->counters(); }
  int ticks() const { return ticks_; }

  void Send(uint64_t, const wire::Message&) override {}
  std::vector<uint64_t> Reporters() const override { return {}; }
  void Work(CoreTask task) override { tasks_.push_back(std::move(task)); }
  void Say(const std::string&) override {}
  void Print(const std::string&) override {}
  void Decided(const Decision&, const std::string&, int64_t) override {}
  void OnVerdict(const std::string&, const std::string&, const std::string&) override {}
  absl::Status Finalise(const std::string&, Incident*) override { return absl::UnavailableError("not here"); }

 private:
  void Run() {
    while (!tasks_.empty()) {
      const CoreTask task = std::move(tasks_.front());
      tasks_.pop_front();
      task.run();
      task.done(now_);
    }
  }

  std::unique_ptr<CollectorCore> core_;
  std::deque<CoreTask> tasks_;
  int64_t now_ = 1'000'000'000'000;
  int ticks_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    SilenceLibraries();
    return true;
  }();
  (void)quiet;
  Collector collector;
  int messages = 0;
  for (size_t at = 0; at + 6 <= size && messages < kMostMessages && collector.ticks() < kMostTicks; ++messages) {
    const size_t length =
        std::min<size_t>(data[at + 3] | data[at + 4] << 8 | static_cast<size_t>(data[at + 5]) << 16, size - at - 6);
    collector.Tick(data[at + 2]);
    collector.Receive(kTypes[data[at] % std::size(kTypes)], 1 + data[at + 1] % 8,
                      std::string(reinterpret_cast<const char*>(data) + at + 6, length));
    at += 6 + length;
  }
  collector.Tick(kTicksAfter);
  fuzz_accepted += collector.counters().heartbeats > 0 ? 1 : 0;
  // All files must be inside incident folders, even if messages contain other paths.
  for (const auto& entry : std::filesystem::directory_iterator(FuzzFolder())) {
    if (entry.path().filename() != "incidents") abort();
  }
  for (const auto& entry : std::filesystem::directory_iterator(FuzzFolder() + "/incidents")) {
    if (entry.path().filename().string().rfind("lockstep-incident-", 0) != 0) abort();
  }
  return 0;
}
