#include "analyzer/formats/logs/exceptions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostPrefixes = 1u << 16, kMostTextColumns = 160, kMostTraceFrames = 64;
constexpr int64_t kMostBehind = 32;  // a process may print this many messages and warnings at its end

// Exception types of launchers, and of processes that lost another process: DistBackendError, DistStoreError,
// ChildFailedError, RendezvousError and others.
constexpr std::string_view kTypesOfOthers[] = {"torch.distributed.Dist",
                                               "torch._C._Dist",
                                               "torch.distributed.elastic.",
                                               "torch.multiprocessing.spawn.",
                                               "ray.exceptions.",
                                               "subprocess.CalledProcessError",
                                               "KeyboardInterrupt",
                                               "SystemExit"};

// Texts of a RuntimeError that PyTorch's process groups and stores raise if a peer has ended or is late. Releases
// before 2.0 have no types for these.
constexpr std::string_view kTextsOfOthers[] = {"NCCL error",
                                               "NCCL Error",
                                               "NCCL communicator was aborted",
                                               "Watchdog caught collective operation timeout",
                                               "gloo/",
                                               "Gloo connectFullMesh",
                                               "monitoredBarrier",
                                               "store based barrier",
                                               "store->get(",
                                               "Detected mismatch between collectives",
                                               "DDP expects same model across all ranks",
                                               "Socket Timeout",
                                               "Socket Closed",
                                               "The client socket has ",
                                               "Stop_waiting response"};
constexpr std::string_view kSocketTexts[] = {"Broken pipe", "Connection closed by peer", "Connection reset by peer",
                                             "Connection refused", "Interrupted system call"};

// Reasons in an NCCL error that concern the process itself: its GPU or its arguments.
constexpr std::string_view kOwnNcclErrors[] = {"unhandled cuda error", "invalid usage", "invalid argument"};

constexpr std::string_view kPipeErrors[] = {"EOFError", "BrokenPipeError", "ConnectionResetError",
                                            "ConnectionRefusedError"};

template <size_t N>
bool HoldsAny(std::string_view text, const std::string_view (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts), [&](std::string_view part) { return Holds(text, part); });
}

template <size_t N>
bool StartsWithAny(std::string_view text, const std::string_view (&starts)[N]) {
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](std::string_view start) { return text.starts_with(start); });
}

// Returns whether the text can be an exception, such as "torch.OutOfMemoryError: CUDA out of memory" or
// "RayTaskError(ValueError)": a name with dots, followed by the end or a colon.
bool IsException(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return !name.empty() && !fr::IsDigit(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return fr::IsWord(c) || c == '_' || c == '.' || c == '(' || c == ')';
  });
}

// Returns whether PyTorch's or NCCL's own threads print this line while a process ends.
bool IsOfLibrary(std::string_view text) {
  const bool glog = text.size() > 2 && text[0] == '[' && Holds("EFIW", text.substr(1, 1));
  return text.empty() || glog || text.starts_with("frame #") || text.starts_with("terminate called") ||
         text.starts_with("  what()") || text.starts_with("Exception raised from ") || Holds(text, "] NCCL ");
}

// Returns "RuntimeError: Connection closed by peer" for "RuntimeError: [/src/gloo/transport/tcp/pair.cc:561] Connection
// closed by peer". A place in a library's source does not help a user.
std::string WithoutSource(std::string_view text) {
  const size_t open = text.find(": [/"), close = text.find("] ", std::min(open, text.size()));
  if (close == std::string_view::npos) return std::string(text);
  return std::string(text.substr(0, open + 2)) + std::string(text.substr(close + 2));
}

}  // namespace

bool IsOfLauncher(std::string_view text) {
  constexpr std::string_view kTypes[] = {"torch.distributed.elastic.",
                                         "torch.multiprocessing.spawn.",
                                         "ray.exceptions.",
                                         "subprocess.",
                                         "KeyboardInterrupt",
                                         "SystemExit"};
  return StartsWithAny(text, kTypes);
}

bool IsOfOthers(std::string_view text, std::string_view innermost) {
  const std::string_view type = text.substr(0, text.find(':'));
  if (HoldsAny(text, kOwnNcclErrors) && Holds(text, "NCCL")) return false;
  if (StartsWithAny(type, kTypesOfOthers)) return true;
  if (type == "RuntimeError" || type == "TimeoutError" || type == "ValueError") {
    if (HoldsAny(text, kTextsOfOthers)) return true;
  }
  // A socket error's message must begin with the text.
  if (type == "RuntimeError")
    return text.size() > type.size() + 2 && StartsWithAny(text.substr(type.size() + 2), kSocketTexts);
  // These errors show that the process at the other end of a pipe has ended.
  return StartsWithAny(type, kPipeErrors) && Holds(innermost, "(multiprocessing/connection.py:");
}

void ExceptionReader::Begin(const Prefix& prefix, Writer* writer) {
  constexpr size_t kMostUnplaced = 1024;
  // Several processes print lines without a prefix. A process that lost another one ends soon after its exception.
  const bool unplaced = prefix == Prefix(-1, -1, -1) && writer->last.of_others && writer->behind <= kMostBehind;
  if (!writer->chained && unplaced && unplaced_.size() < kMostUnplaced) unplaced_.push_back(std::move(writer->last));
  if (!writer->chained) *writer = Writer();
  writer->chained = false;
  writer->behind = 0;
  writer->part = Part::kFrames;
}

// Parses `  File "/app/train.py", line 12, in forward`, outermost first. In a chain, the frames are those of the first
// exception.
void ExceptionReader::TakeFrame(std::string_view text, Writer* writer) {
  const std::string_view frame = fr::Strip(text);
  constexpr std::string_view kLine = "\", line ";
  const size_t quote = frame.find(kLine), in = frame.find(", in ");
  if (!frame.starts_with("File \"") || quote == std::string_view::npos || in == std::string_view::npos) return;
  if (!writer->last.text.empty() || writer->last.frames.size() >= kMostTraceFrames) return;
  std::string_view file = frame.substr(6, quote - 6);
  // The folder name distinguishes libraries from the user's code.
  const size_t slash = file.rfind('/'),
               folder = slash == std::string_view::npos || slash == 0 ? slash : file.rfind('/', slash - 1);
  if (folder != std::string_view::npos && fr::IsTorchFile(file))
    file = file.substr(file.rfind("torch/") == std::string_view::npos ? folder + 1 : file.rfind("torch/"));
  else if (folder != std::string_view::npos && slash != 0)
    file = file.substr(folder + 1);
  writer->last.frames.push_back(absl::StrCat(Printable(frame.substr(in + 5), fr::kMostNameColumns), " (",
                                             Printable(file, fr::kMostNameColumns), ":",
                                             LeadingNumber(frame.substr(quote + kLine.size())).value_or(0), ")"));
}

void ExceptionReader::TakeMessage(std::string_view text, const Prefix& prefix, int64_t number, Writer* writer) {
  writer->part = Part::kMessage;
  if (!IsException(text)) return;
  Raised& last = writer->last;
  const std::string innermost = last.frames.empty() ? "" : last.frames.back();
  last.of_others |= IsOfOthers(text, innermost);
  std::tie(last.rank, last.task, last.local) = prefix;
  last.number = number;
  std::string before = std::exchange(last.text, Printable(WithoutSource(text), kMostTextColumns));
  if (!before.empty()) absl::StrAppend(&last.text, " (after ", before.substr(0, before.find(" (after ")), ")");
}

ExceptionReader::Prefix ExceptionReader::WriterOf(const Prefix& prefix) {
  constexpr Prefix kNone(-1, -1, -1);
  ++lines_;
  const auto known = writers_.find(labeled_);
  const bool follows = prefix == kNone && labeled_ != kNone && lines_ == labeled_at_ + 1 && known != writers_.end() &&
                       known->second.part == Part::kFrames;
  if (follows) labeled_at_ = lines_;
  return follows ? labeled_ : prefix;
}

void ExceptionReader::Take(std::string_view text, int32_t rank, int32_t task, int32_t local, int64_t number) {
  const Prefix prefix = WriterOf({rank, task, local});
  const auto known = writers_.find(prefix);
  // The first lines of a log may be missing.
  const bool frame = text.starts_with(' ') && fr::Strip(text).starts_with("File \"") && Holds(text, ", in ");
  const bool headless = frame && (known == writers_.end() || known->second.part != Part::kFrames);
  const bool begins = headless || Holds(text, "Traceback (most recent call last):");
  if (known == writers_.end() && (!begins || writers_.size() >= kMostPrefixes)) return;
  Writer& writer = known == writers_.end() ? writers_[prefix] : known->second;
  if (begins) Begin(prefix, &writer);
  if (begins && !headless) {
    labeled_ = prefix;
    labeled_at_ = lines_;
  }
  if (begins && !headless) return;
  if (writer.part == Part::kFrames) {
    if (text.starts_with(' ') || text.empty()) return TakeFrame(text, &writer);
    return TakeMessage(text, prefix, number, &writer);
  }
  // The line follows an exception: it continues the chain, or is later output.
  if (text.starts_with("During handling of the above exception") ||
      text.starts_with("The above exception was the direct cause")) {
    writer.chained = true;
  } else if (!IsOfLibrary(text)) {
    ++writer.behind;
  }
}

void ExceptionReader::TakeError(std::string_view error, int32_t rank, int32_t task, int32_t local, int64_t number) {
  if (errors_.size() >= kMostPrefixes) return;
  errors_.push_back({.rank = rank,
                     .task = task,
                     .local = local,
                     .text = Printable(error, kMostTextColumns),
                     .frames = {},
                     .number = number,
                     .of_others = IsOfOthers("RuntimeError: " + std::string(error), "")});
}

// If a rank also printed a traceback, the traceback comes last.
std::vector<Raised> ExceptionReader::Finish() {
  std::vector<Raised> out = std::exchange(errors_, {});
  for (Raised& raised : unplaced_) out.push_back(std::move(raised));
  unplaced_.clear();
  for (Raised& raised : out) std::reverse(raised.frames.begin(), raised.frames.end());
  for (auto& [prefix, writer] : writers_) {
    const bool cut_off = writer.part == Part::kFrames && !writer.last.frames.empty();
    if ((writer.last.text.empty() && !cut_off) || writer.behind > kMostBehind) continue;
    if (cut_off) {
      writer.last.text.clear();
      std::tie(writer.last.rank, writer.last.task, writer.last.local) = prefix;
    }
    std::reverse(writer.last.frames.begin(), writer.last.frames.end());
    out.push_back(std::move(writer.last));
  }
  writers_.clear();
  return out;
}

}  // namespace lockstep::logs
