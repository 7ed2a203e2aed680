#include "analyzer/formats/logs/stacks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostFrames = 512, kMostThreads = 512, kMostProcesses = 1u << 16;
constexpr size_t kMostNameBytes = 256;

std::string FrameText(std::string_view function, std::string_view file, int64_t line) {
  return absl::StrCat(Printable(function, kMostNameBytes), " (", Printable(file, kMostNameBytes), ":", line, ")");
}

// Parses faulthandler's `  File "train.py", line 12 in forward`. A traceback has a comma before "in".
std::optional<std::string> FaultHandlerFrame(std::string_view text) {
  text = fr::Strip(text);
  if (!text.starts_with("File \"")) return std::nullopt;
  text.remove_prefix(6);
  constexpr std::string_view kLine = "\", line ";
  const size_t quote = text.find(kLine);
  if (quote == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(quote + kLine.size());
  const size_t in = rest.find(" in ");
  int64_t line = 0;
  // An unknown line number is printed as "???".
  if (in == std::string_view::npos || (!fr::ParseNumber(rest.substr(0, in), &line) && rest.substr(0, in) != "???"))
    return std::nullopt;
  return FrameText(rest.substr(in + 4), text.substr(0, quote), line);
}

// Parses py-spy's `    forward (model.py:12)`; native frames have no line number or a different file extension.
std::optional<std::string> PySpyFrame(std::string_view text) {
  if (!text.starts_with("    ")) return std::nullopt;
  text = fr::Strip(text);
  const size_t open = text.rfind(" (");
  if (open == std::string_view::npos || open == 0 || !text.ends_with(')')) return std::nullopt;
  const std::string_view place = text.substr(open + 2, text.size() - open - 3);
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return FrameText(text.substr(0, open), place, 0);
  int64_t line = 0;
  if (!fr::ParseNumber(place.substr(colon + 1), &line)) return std::nullopt;
  return FrameText(text.substr(0, open), place.substr(0, colon), line);
}

// Returns the part before the arguments: "f<void (int)>(int) const" of "f<void (int)>(int) const (this=0x1, x=2)".
std::string_view WithoutArguments(std::string_view call) {
  int depth = 0;
  for (size_t i = 1; i + 1 < call.size(); ++i) {
    depth += call[i] == '<' ? 1 : call[i] == '>' && call[i - 1] != '-' ? -1 : 0;
    if (call[i] == ' ' && call[i + 1] == '(' && depth <= 0) return call.substr(0, i);
  }
  return call;
}

// Parses gdb's "#3  0x00007f01 in ncclAllReduce () from /lib/libnccl.so.2" and "#0  read (fd=3) at ../read.c:26", and
// eu-stack's "#3 0x00007f01 ncclAllReduce - /lib/libnccl.so.2". Omits addresses, because they differ between processes.
struct NativeFrame {
  int64_t number = 0;
  std::string text;
};
std::optional<NativeFrame> ParseNativeFrame(std::string_view text) {
  text = fr::Strip(text);
  NativeFrame out;
  const size_t blank = text.find(' ');
  if (!text.starts_with('#') || blank == std::string_view::npos ||
      !fr::ParseNumber(text.substr(1, blank - 1), &out.number))
    return std::nullopt;
  text = fr::Strip(text.substr(blank));
  if (text.starts_with("0x")) text = fr::Strip(text.substr(std::min(text.find(' '), text.size())));
  const bool gdb = text.starts_with("in ");
  if (gdb) text.remove_prefix(3);
  std::string_view name = text, place;
  for (const std::string_view mark : {" from ", ") at ", " - ", "- "}) {
    const size_t at = mark == "- " && !text.starts_with(mark) ? std::string_view::npos : text.rfind(mark);
    if (at == std::string_view::npos) continue;
    place = fr::Strip(text.substr(at + mark.size()));
    name = text.substr(0, at + (mark[0] == ')' ? 1 : 0));
    break;
  }
  name = fr::Strip(WithoutArguments(name));
  place = place.substr(place.rfind('/') + 1);
  out.text = Printable(name.empty() ? "??" : name, kMostNameBytes);
  if (!place.empty()) absl::StrAppend(&out.text, " (", Printable(place, kMostNameBytes), ")");
  return out;
}

bool IsModule(const std::vector<std::string>& frames) {
  return !frames.empty() && frames.back().starts_with("<module> (");
}

}  // namespace

void ReadCommand(std::string_view command, PrintedStack* stack) {
  for (const std::string_view key : {" --rank ", " --rank=", " RANK="}) {
    if (stack->rank < 0) stack->rank = RankBehind(command, key);
  }
  for (const std::string_view key :
       {" --local-rank ", " --local-rank=", " --local_rank ", " --local_rank=", "_TP", "_tp"}) {
    if (stack->local < 0) stack->local = RankBehind(command, key);
  }
}

StackReader::Process* StackReader::Of(const Writer& writer) {
  const auto known = open_.find(writer);
  return known == open_.end() ? nullptr : &processes_[known->second];
}

void StackReader::Begin(std::string_view command, int64_t pid, const Writer& writer, int64_t number) {
  if (processes_.size() >= kMostProcesses) return;
  Process process;
  process.stack.rank = writer.first;
  process.stack.local = writer.second;
  ReadCommand(command, &process.stack);
  process.stack.pid = pid;
  process.stack.line = number;
  open_[writer] = processes_.size();
  processes_.push_back(std::move(process));
}

// Parses gdb's `Thread 2 (Thread 0x7f01 (LWP 412) "python"):`, where 1 is the main thread, and eu-stack's "TID 412:".
bool StackReader::TakeNativeThread(std::string_view text, const Writer& writer, int64_t number) {
  const bool gdb = text.starts_with("Thread ") && text.ends_with("):") && Holds(text, "LWP ");
  if (!gdb && (!text.starts_with("TID ") || !text.ends_with(':'))) return false;
  const std::optional<int64_t> id = LeadingNumber(text.substr(gdb ? 7 : 4));
  if (!id || *id <= 0) return false;
  Process* process = Of(writer);
  // gdb numbers threads down to 1 or up from 1, so a new process begins after 1 or at 1.
  const int64_t last = process == nullptr ? 0 : process->number;
  const bool python = process != nullptr && !process->stack.native && !process->threads.empty();
  const bool other = gdb && ((last == 1 && (*id != 2 || process->threads.size() > 1)) || (*id == 1 && last > 2));
  if (process == nullptr || other || python || process->threads.size() >= kMostThreads) {
    Begin("", 0, writer, number);
    process = Of(writer);
    if (process == nullptr) return true;
  }
  if (gdb) process->number = *id;
  PrintedStack& stack = process->stack;
  stack.native = true;
  const bool main = gdb ? *id == 1 : stack.pid == 0 || stack.pid == *id;
  if (main && stack.pid == 0) stack.pid = gdb ? NumberBehind(text, "LWP ").value_or(0) : *id;
  process->threads.push_back({{}, main, false});
  process->in_thread = true;
  return true;
}

void StackReader::Take(std::string_view text, int32_t rank, int32_t local, int64_t number) {
  const Writer writer(rank, local);
  if (text.starts_with("PID ") && text.ends_with(" - process"))
    return Begin("", std::max<int64_t>(LeadingNumber(text.substr(4)).value_or(0), 0), writer, number);
  if (TakeNativeThread(text, writer, number)) return;
  // py-spy: `Process 403: python -m serve --rank 3`.
  if (text.starts_with("Process ")) {
    const std::optional<int64_t> pid = LeadingNumber(text.substr(8));
    const size_t colon = text.find(": ");
    if (pid && colon != std::string_view::npos && *pid > 0) return Begin(text.substr(colon + 1), *pid, writer, number);
  }
  Process* process = Of(writer);
  // py-spy: `Thread 403 (active+gil): "MainThread"`; faulthandler: `Thread 0x00007f.. (most recent call first):`, and
  // `Current thread ..` for the thread with the fault.
  const bool current = text.starts_with("Current thread ");
  if (current || text.starts_with("Thread ")) {
    const bool first = text.find("(most recent call first)") != std::string_view::npos;
    const bool spied = !current && text.find("): \"") != std::string_view::npos;
    const bool unnamed = !current && !first && text.size() < 64 && text.ends_with(')') && LeadingNumber(text.substr(7));
    if (!first && !spied && !unnamed) return;
    // faulthandler prints no separator between two dumps of a process, so both become one list of threads.
    if (process == nullptr || process->stack.native || (first && process->threads.size() >= kMostThreads)) {
      Begin("", 0, writer, number);
      process = Of(writer);
      if (process == nullptr) return;
    }
    if (process->threads.size() < kMostThreads) {
      process->threads.push_back({{}, text.find("\"MainThread\"") != std::string_view::npos, current});
      process->in_thread = true;
    } else {
      process->in_thread = false;
    }
    return;
  }
  if (process == nullptr || !process->in_thread) return;
  Thread& thread = process->threads.back();
  if (process->stack.native) {
    std::optional<NativeFrame> native = ParseNativeFrame(text);
    // Lines that a narrow terminal wraps are indented.
    process->in_thread = native || text.starts_with(' ');
    if (!native || thread.frames.size() >= kMostFrames) return;
    thread.gap |= native->number != static_cast<int64_t>(thread.frames.size());
    thread.frames.push_back(std::move(native->text));
    return;
  }
  std::optional<std::string> frame = FaultHandlerFrame(text);
  if (!frame) frame = PySpyFrame(text);
  if (!frame) {
    process->in_thread = fr::Strip(text).starts_with("...") || text.starts_with("    ");
    return;
  }
  if (thread.frames.size() < kMostFrames) thread.frames.push_back(*std::move(frame));
}

// Chooses the main thread by its name, otherwise the last thread that runs the program's own module, then the thread
// with the fault, then the last thread, because faulthandler prints the newest first. Debuggers number the main thread.
PrintedStack StackReader::Whole(Process&& process) {
  Thread* best = nullptr;
  int best_score = -1;
  for (Thread& thread : process.threads) {
    if (thread.frames.empty() || (process.stack.native && (!thread.main || thread.gap))) continue;
    const int score = thread.main ? 3 : IsModule(thread.frames) ? 2 : thread.current ? 1 : 0;
    if (score >= best_score) best = &thread, best_score = score;
  }
  if (best != nullptr) process.stack.frames = std::move(best->frames);
  return std::move(process.stack);
}

std::vector<PrintedStack> StackReader::Finish() {
  std::vector<PrintedStack> out;
  for (Process& process : processes_) {
    PrintedStack stack = Whole(std::move(process));
    if (!stack.frames.empty()) out.push_back(std::move(stack));
  }
  processes_.clear();
  open_.clear();
  return out;
}

bool IsPySpyJson(std::string_view head) {
  head = fr::Strip(head);
  if (!head.starts_with('[')) return false;
  head = fr::Strip(head.substr(1));
  return head.starts_with('{') && head.find("\"pid\"") != std::string_view::npos &&
         (head.find("\"thread_id\"") != std::string_view::npos ||
          head.find("\"thread_name\"") != std::string_view::npos);
}

absl::StatusOr<PrintedStack> ReadPySpyJson(std::string_view text) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_array()) return absl::DataLossError("is damaged: it is not a JSON list of threads");
  PrintedStack best;
  bool found = false, main = false;
  for (const nlohmann::json& thread : json) {
    if (main || !JsonMember(thread, "frames").is_array()) continue;
    PrintedStack stack;
    for (const nlohmann::json& frame : JsonList(thread, "frames")) {
      if (!frame.is_object() || stack.frames.size() >= kMostFrames) continue;
      stack.frames.push_back(
          FrameText(JsonText(frame, "name"), JsonText(frame, "filename"), JsonInteger(frame, "line")));
    }
    stack.pid = JsonInteger(thread, "pid", stack.pid);
    if (const nlohmann::json& info = JsonMember(thread, "process_info"); info.is_object())
      ReadCommand(" " + JsonText(info, "command_line"), &stack);
    main = JsonText(thread, "thread_name") == "MainThread";
    if (stack.frames.empty() || (found && !main && !IsModule(stack.frames))) continue;
    best = std::move(stack);
    found = true;
  }
  if (!found) return absl::DataLossError("contains no thread with frames, as py-spy dump --json writes them");
  return best;
}

}  // namespace lockstep::logs
