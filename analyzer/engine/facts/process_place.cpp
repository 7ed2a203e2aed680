#include "analyzer/engine/facts/process_place.h"

#include <algorithm>

#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/gpu_wait.h"
#include "analyzer/evidence/activity_rules.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/evidence/process_evidence.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

constexpr int kMostThreads = 512;
constexpr double kIdle = 0.05, kSpins = 0.9;  // shares of a core

std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }
bool Holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Returns the outermost wait and its callers. If the results for two samples are equal, the process is in the same
// wait.
std::vector<std::string> WaitAndCallers(const std::vector<std::string>& stack) {
  return OutermostAndCallers(stack, IsPeerWait);
}

bool IsBackward(const std::string& frame) {
  return Holds(frame, "_engine_run_backward") || Holds(frame, "torch::autograd::Engine::execute");
}

// PyTorch runs the backward pass on a separate thread while the main thread waits for it.
std::vector<std::string> WaitInBackward(const Process& process, const std::vector<std::string>& stack) {
  if (process.evidence == nullptr || std::ranges::none_of(stack, IsBackward)) return {};
  int looked = 0;
  for (const ThreadStack& thread : process.evidence->threads()) {
    if (++looked > kMostThreads) break;
    const std::vector<std::string> frames = StackTexts(thread, *process.evidence);
    const auto worker = [](const std::string& frame) { return Holds(frame, "torch::autograd::Engine::thread_"); };
    if (std::ranges::none_of(frames, worker)) continue;
    if (std::vector<std::string> wait = WaitAndCallers(frames); !wait.empty()) return wait;
  }
  return {};
}

bool OnlyKernel(const std::vector<std::string>& stack) {
  return std::ranges::all_of(stack,
                             [](const std::string& frame) { return ParseFrame(frame).kind() == StackFrame::KERNEL; });
}

}  // namespace

std::vector<std::string> OutermostAndCallers(const std::vector<std::string>& stack, bool (*is)(std::string_view)) {
  const size_t most = std::min<size_t>(stack.size(), kMostStackFrames);
  for (size_t i = most; i-- > 0;) {
    if (is(stack[i])) return {stack.begin() + static_cast<ptrdiff_t>(i), stack.begin() + static_cast<ptrdiff_t>(most)};
  }
  return {};
}

bool IsPeerWait(std::string_view text) {
  const Frame frame = ParseFrame(text);
  if (frame.kind() == StackFrame::KERNEL) return false;
  const std::string_view function = frame.function();
  if (frame.kind() == StackFrame::NATIVE) {
    if (GpuWaitOf(function) != ring::CallKind::kNone) return true;
    for (const absl::string_view begin : activity::kPeerWaitBegins) {
      if (function.starts_with(Std(begin))) return true;
    }
  }
  for (const activity::FunctionOfFile& wait : activity::kGpuWaitsOfPython) {
    if (function == Std(wait.function) && std::string_view(frame.file()).ends_with(Std(wait.file))) return true;
  }
  return std::any_of(std::begin(activity::kPeerWaits), std::end(activity::kPeerWaits),
                     [text](absl::string_view part) { return Holds(text, Std(part)); });
}

google::protobuf::RepeatedPtrField<Frame> ParseFrames(const std::vector<std::string>& stack) {
  google::protobuf::RepeatedPtrField<Frame> frames;
  for (const std::string& text : stack) *frames.Add() = ParseFrame(text);
  return frames;
}

bool HasCalls(const Rank& rank) {
  return !rank.ops.empty() || std::ranges::any_of(rank.memberships, [](const Membership& ms) { return ms.issued > 0; });
}

ProcessPlace PlaceOfProcess(const Process& process) {
  ProcessPlace out;
  if (HasEnded(process)) {
    out.where = Whereabouts::kEnded;
    return out;
  }
  if (process.state == "T" || process.state == "t") {
    out.where = Whereabouts::kStopped;
    return out;
  }
  // If reading the stack was refused, `stack` contains only the kernel function.
  const bool refused = !process.stack_refused.empty() || OnlyKernel(process.stack);
  const std::vector<std::string>& stack = refused ? process.python_stack : process.stack;
  if (stack.empty()) return out;
  out.twice = !refused && !process.stack_later.empty();
  std::vector<std::string> wait = WaitAndCallers(stack);
  if (wait.empty()) wait = WaitAndCallers(process.python_stack);
  const bool in_main = !wait.empty();
  if (!in_main) wait = WaitInBackward(process, stack);
  if (wait.empty()) {
    // Python frames do not show whether the backward pass, or a sharded or replicated module, waits for other ranks.
    const auto may_wait = [](const std::string& frame) {
      return IsBackward(frame) || Holds(frame, "torch/nn/parallel/") || Holds(frame, "torch/distributed/fsdp/") ||
             Holds(frame, "torch/distributed/tensor/");
    };
    if (refused && !stack.empty() && may_wait(stack[0])) return out;
    out.where = Whereabouts::kElsewhere;
    out.moved = ClassifyActivity(process).moving == Moving::kYes;
    return out;
  }
  out.where = Whereabouts::kWaits;
  out.wait = ParseFrame(wait[0]).function();
  // A waiting thread either sleeps or spins all the time.
  const double busy = process.sample_gap_ns <= 0 ? 0
                                                 : static_cast<double>(process.cpu_ns_between_samples) /
                                                       static_cast<double>(process.sample_gap_ns);
  out.works = busy > kIdle && busy < kSpins;
  // Only the last sample contains the backward pass's thread.
  out.moved = out.twice && in_main && WaitAndCallers(process.stack_later) != wait;
  return out;
}

namespace {

// Returns whether evidence was taken from the process itself. A kernel log alone does not count.
bool LookedAt(const Process& process) {
  const ProcessEvidence* const evidence = process.evidence.get();
  return evidence != nullptr &&
         (evidence->hardware().empty() || !evidence->threads().empty() || evidence->has_memory());
}

}  // namespace

bool OnlyProcessesKnown(const Bundle& bundle) {
  bool stacks = false;
  for (const Rank& rank : bundle.ranks) {
    if (rank.source != Source::kFlightRecorder || HasCalls(rank)) return false;
    stacks |= !rank.process.stack.empty() || !rank.process.python_stack.empty() || LookedAt(rank.process);
  }
  return stacks;
}

bool ProcessesLookedAt(const Bundle& bundle) {
  const auto looked_at = [](const Rank& rank) { return LookedAt(rank.process); };
  return std::ranges::any_of(bundle.ranks, looked_at) && std::ranges::all_of(bundle.ranks, [&](const Rank& rank) {
           return rank.source == Source::kFlightRecorder &&
                  (looked_at(rank) || PlaceOfProcess(rank.process).where == Whereabouts::kEnded);
         });
}

}  // namespace lockstep
