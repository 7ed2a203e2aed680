#include "collector/evidence/stacks/stack_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/frames.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/unique_fd.h"
#include "collector/evidence/child_pipe.h"
#include "collector/evidence/stacks/proc_maps.h"
#include "collector/evidence/stacks/process_helper.h"
#include "collector/evidence/stacks/ptrace_permission.h"
#include "collector/evidence/stacks/python_frames.h"
#include "collector/evidence/stacks/remote_memory.h"
#include "collector/evidence/stacks/source_hash.h"
#include "collector/evidence/stacks/stack_capture.h"
#include "collector/evidence/stacks/stack_merge.h"
#include "collector/evidence/stacks/stack_unwind.h"
#include "collector/host/owner_rights.h"
#include "collector/host/proc.h"
#include "collector/host/reading_child.h"

namespace lockstep {
namespace {

constexpr size_t kMostSources = 128;
constexpr int64_t kSourcesLimit = 300'000'000;
constexpr int64_t kSendEvery = 150'000'000;

struct Python {
  PythonLayout layout;
  std::vector<PythonThread> threads;
};

int MinorInName(const std::string& path) {
  const size_t at = path.rfind("python3.");
  int minor = 0;
  if (at == std::string::npos) return -1;
  size_t end = at + strlen("python3.");
  while (end < path.size() && path[end] >= '0' && path[end] <= '9') ++end;
  return absl::SimpleAtoi(path.substr(at + strlen("python3."), end - at - strlen("python3.")), &minor) ? minor : -1;
}

// Addresses of the interpreter's state in the process, from the symbols of the interpreter's file.
struct PythonSymbols {
  int32_t file = kNoFile;  // index of the interpreter's file
  // kNotRead: could not switch to the process's user.
  static constexpr int32_t kNoFile = -1, kNotRead = -2;
  uint64_t runtime = 0, version = 0;
};

PythonSymbols FindSymbols(const std::vector<MappedFile>& files, Unwinder* unwinder) {
  // Tries the library first, then the program itself. A program with another name may also contain the interpreter.
  std::vector<const MappedFile*> order;
  for (const MappedFile& file : files) {
    if (file.executable && absl::StrContains(file.path, "libpython3.")) order.push_back(&file);
  }
  for (const MappedFile& file : files) {
    const size_t slash = file.path.rfind('/');
    if (file.executable && slash != std::string::npos && absl::StartsWith(file.path.substr(slash + 1), "python"))
      order.push_back(&file);
  }
  if (order.empty() && !files.empty()) order.push_back(&files.front());
  for (const MappedFile* file : order) {
    const uint64_t runtime = unwinder->Symbol(*file, "_PyRuntime");
    if (runtime == 0) continue;
    return {static_cast<int32_t>(file - files.data()), runtime, unwinder->Symbol(*file, "Py_Version")};
  }
  return {};
}

// Runs FindSymbols in a separate process without privileges, because the file is hostile input. This process still
// needs its privileges: next, it stops the threads and reads their Python frames.
PythonSymbols FindSymbolsWithoutRights(pid_t pid, const std::vector<MappedFile>& files, Unwinder* unwinder,
                                       int64_t limit_ns) {
  const pid_t parent = getpid();
  const auto find = [&](int to) {
    const bool dropped = TakeOwnersRights(pid).empty();
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // after TakeOwnersRights, because a change of user clears it
    if (getppid() != parent) return;
    const PythonSymbols found = dropped ? FindSymbols(files, unwinder) : PythonSymbols{.file = PythonSymbols::kNotRead};
    (void)!write(to, &found, sizeof found);
  };
  PythonSymbols symbols;
  const std::string told = ReadingChild(find).Take(MonotonicNs() + limit_ns, sizeof symbols);
  if (told.size() == sizeof symbols) memcpy(&symbols, told.data(), sizeof symbols);
  return symbols.file < static_cast<int32_t>(files.size()) ? symbols : PythonSymbols();
}

// The addresses come from a hostile file, so everything that is read there is checked.
std::optional<Python> ReadPython(const RemoteMemory& memory, const std::vector<MappedFile>& files,
                                 const PythonSymbols& symbols, ProcessEvidence* evidence) {
  if (symbols.file == PythonSymbols::kNotRead) {
    evidence->set_python_refused(
        "the interpreter's file may be read only as the process's user, which needs CAP_SETUID and "
        "CAP_SETGID here");
  }
  if (symbols.file < 0) return std::nullopt;
  const MappedFile& file = files[static_cast<size_t>(symbols.file)];
  int minor = -1;
  uint64_t version = 0;
  if (symbols.version != 0 && memory.Get(symbols.version, &version) && version >> 24 == 3)
    minor = static_cast<int>(version >> 16 & 0xff);
  if (minor < 0) minor = MinorInName(file.path);
  for (size_t i = 0; minor < 0 && i < files.size(); ++i) minor = MinorInName(files[i].path);
  if (minor < 0) {
    evidence->set_python_refused(absl::StrCat("its Python version is unknown (", file.path, ")"));
    return std::nullopt;
  }
  evidence->set_python_version(absl::StrCat("3.", minor));
  bool free_threaded = false;
  std::optional<PythonLayout> layout = LayoutFromDebugOffsets(memory, symbols.runtime, &free_threaded);
  if (free_threaded) {
    evidence->set_python_refused(absl::StrCat(
        "Python 3.", minor, " is a free-threaded build (no interpreter lock), whose frames cannot be read"));
    return std::nullopt;
  }
  if (!layout) layout = LayoutOf(minor);
  if (!layout) {
    evidence->set_python_refused(absl::StrCat("Python 3.", minor, " has an unsupported frame layout; supported are 3.",
                                              kOldestPython, " to 3.", kNewestPython));
    return std::nullopt;
  }
  Python python{*layout, ReadPythonThreads(memory, *layout, symbols.runtime)};
  if (python.threads.empty()) evidence->set_python_refused("its list of threads could not be read");
  return python;
}

// Finds the interpreter's thread for this kernel thread, first by the thread pointer. Otherwise by the kernel's thread
// number: as the interpreter stores it (after a fork, that may be the parent's), or as glibc stores it in the thread's
// structure.
const PythonThread* FindThread(const Python& python, const RemoteMemory& memory, const ThreadCapture& thread) {
  for (const PythonThread& known : python.threads) {
    if (thread.thread_pointer != 0 && known.thread_id == thread.thread_pointer) return &known;
    // For architectures whose thread pointer is after the structure, not at its start.
    if (thread.thread_pointer > known.thread_id && thread.thread_pointer - known.thread_id < 4096) return &known;
  }
  constexpr uint64_t kTidInGlibcThread = 720;
  for (const PythonThread& known : python.threads) {
    if (known.native_id != 0 && known.native_id == static_cast<uint64_t>(thread.inner_tid)) return &known;
    int32_t tid = 0;
    if (known.native_id == 0 && memory.Get(known.thread_id + kTidInGlibcThread, &tid) && tid == thread.inner_tid)
      return &known;
  }
  return nullptr;
}

struct PythonStack {
  std::vector<PythonFrameRef> frames;
  bool truncated = false, holds_lock = false;
};

class StackChild {
 public:
  StackChild(pid_t pid, const StackChildOptions& options, int out)
      : pid_(pid), options_(options), out_(out), helper_(OpenHelper()), memory_(pid, helper_.get()) {}

  int Run() {
    // If memory runs out, the kernel kills this process first.
    if (const UniqueFd fd(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)); fd.ok())
      (void)!write(fd.get(), "1000", 4);
    std::vector<Mapping> maps = ReadMaps(pid_);
    if (maps.empty() && helper_ != nullptr) maps = ParseMaps(helper_->Maps());
    if (maps.empty() && access(absl::StrCat("/proc/", pid_).c_str(), F_OK) != 0) {
      evidence_.set_stacks_refused("the process is gone");
      return Send() ? 0 : 1;
    }
    Unwinder unwinder(pid_, maps, helper_.get());
    std::optional<Python> python;
    if (!maps.empty()) {
      const std::vector<MappedFile> files = MappedFiles(maps);
      python = ReadPython(memory_, files, FindSymbolsWithoutRights(pid_, files, &unwinder, options_.limit_ns / 4),
                          &evidence_);
    }
    Take(maps, python ? &*python : nullptr);
    if (!Describe(python ? &*python : nullptr)) return 1;
    root_ = UniqueFd(OpenRootOf(pid_));
    if (const std::string why = TakeOwnersRights(pid_); !why.empty()) {
      // A file that misleads the unwinder must never be read with root's rights.
      evidence_.set_stacks_refused(absl::StrCat(evidence_.stacks_refused(),
                                                evidence_.stacks_refused().empty() ? "" : "; ",
                                                "native stacks were not unwound: ", why));
      return Send() ? 0 : 1;
    }
    if (!Unwind(&unwinder)) return 1;
    return AddLines(&unwinder) && AddSources() ? 0 : 1;
  }

 private:
  std::unique_ptr<ProcessHelper> OpenHelper() {
    return ProcessHelper::Open(options_.ring, options_.limit_ns / 4, &no_helper_);
  }

  std::string Refusal() const {
    std::string reason = ExplainPtraceRefusal(ReadPtraceFacts(pid_, capture_.error));
    if (capture_.error == ESRCH) return reason;
    if (helper_ != nullptr) return absl::StrCat(reason, ". Lockstep used the recorder's helper in the process instead");
    if (!no_helper_.empty()) return absl::StrCat(reason, "; ", no_helper_);
    return options_.ring < 0
               ? reason
               : absl::StrCat(reason, "; or start the job with LOCKSTEP_HELPER=on, so that its recorder can read them");
  }

  bool Send() { return WriteEvidence(out_, evidence_); }

  void Take(const std::vector<Mapping>& maps, const Python* python) {
    CaptureOptions options;
    options.may_stop = options_.may_stop;
    options.total_limit_ns = options_.limit_ns / 3;
    options.helper = helper_.get();
    options.while_stopped = [&](ThreadCapture* thread) {
      const PythonThread* known = python == nullptr ? nullptr : FindThread(*python, memory_, *thread);
      if (known == nullptr) return;
      PythonStack& stack = python_[thread->tid];
      stack.holds_lock = known->holds_lock;
      stack.frames = ReadPythonFrames(memory_, python->layout, known->state, kMostStackFrames, &stack.truncated);
    };
    capture_ = CaptureThreads(pid_, maps, options);
    evidence_.set_threads_total(static_cast<uint32_t>(capture_.total));
    for (const ThreadCapture& thread : capture_.threads) {
      evidence_.set_longest_stop_ns(std::max(evidence_.longest_stop_ns(), thread.stopped_ns));
    }
    if (capture_.error != 0) evidence_.set_stacks_refused(CleanUtf8(Refusal(), 2048));
    if (capture_.threads.empty() && capture_.error == 0)
      evidence_.set_stacks_refused("all threads of the process have exited");
  }

  // First collects everything that needs no foreign file: Python texts, kernel frames, states.
  bool Describe(const Python* python) {
    std::optional<PythonCode> code;
    if (python != nullptr) code.emplace(memory_, python->layout);
    for (const ThreadCapture& thread : capture_.threads) {
      ThreadStack* out = evidence_.add_threads();
      out->set_tid(thread.tid);
      out->set_inner_tid(thread.inner_tid);
      out->set_name(CleanUtf8(thread.name, 64));
      out->set_state(thread.state);
      out->set_wchan(CleanUtf8(thread.wchan, 256));
      out->set_refused(CleanUtf8(thread.refused, 512));
      out->set_stopped_ns(thread.stopped_ns);
      const auto found = python_.find(thread.tid);
      if (found != python_.end()) {
        out->set_holds_interpreter_lock(found->second.holds_lock);
        out->set_truncated(found->second.truncated);
        for (const PythonFrameRef& ref : found->second.frames) {
          if (std::optional<PythonFrame> frame = code->Describe(ref)) {
            frame->function = CleanUtf8(frame->function, 512);
            frame->file = CleanUtf8(frame->file, 1024);
            if (absl::StartsWith(frame->path, "/") && sources_.size() < kMostSources)
              sources_.insert(CleanUtf8(frame->path, 1024));
            described_[thread.tid].push_back(std::move(*frame));
          } else if (ref.outermost_of_call && !described_[thread.tid].empty()) {
            described_[thread.tid].back().outermost_of_call = true;
          }
        }
      }
      PutFrames(thread, {}, out);
    }
    if (python != nullptr && described_.empty() && evidence_.python_refused().empty()) {
      evidence_.set_python_refused(capture_.error != 0 ? "reading its memory was refused"
                                                       : "none of its threads runs Python code");
    }
    return Send();
  }

  void PutFrames(const ThreadCapture& thread, const std::vector<StackFrame>& native, ThreadStack* out) {
    out->clear_frames();
    for (const std::string& name : thread.kernel) {
      StackFrame* frame = out->add_frames();
      frame->set_kind(StackFrame::KERNEL);
      frame->set_function(CleanUtf8(name, 256));
    }
    const auto python = described_.find(thread.tid);
    for (StackFrame& frame :
         MergeStacks(native, python == described_.end() ? std::vector<PythonFrame>() : python->second)) {
      *out->add_frames() = std::move(frame);
    }
  }

  bool Unwind(Unwinder* unwinder) {
    int64_t sent = MonotonicNs();
    for (size_t i = 0; i < capture_.threads.size(); ++i) {
      const ThreadCapture& thread = capture_.threads[i];
      ThreadStack* out = evidence_.mutable_threads(static_cast<int>(i));
      if (thread.have_pc) {
        Unwinder::Addresses addresses = unwinder->Unwind(thread, kMostStackFrames);
        std::vector<StackFrame> native;
        for (uint64_t pc : addresses.pcs) native.push_back(unwinder->Describe(pc));
        PutFrames(thread, native, out);
        out->set_truncated(out->truncated() || addresses.truncated);
        if (!addresses.problem.empty() && !addresses.truncated) {
          out->set_refused(absl::StrCat(out->refused(), out->refused().empty() ? "" : "; ",
                                        "stack is cut off: ", CleanUtf8(addresses.problem, 200)));
        }
        pcs_.push_back(std::move(addresses.pcs));
      } else {
        pcs_.emplace_back();
      }
      if (MonotonicNs() - sent > kSendEvery) {
        SetModules(unwinder);
        if (!Send()) return false;
        sent = MonotonicNs();
      }
    }
    SetModules(unwinder);
    return Send();
  }

  bool AddLines(Unwinder* unwinder) {
    // Innermost frames come first, because those are the most useful if time runs out.
    std::set<uint64_t> done;
    for (size_t depth = 0; depth < kMostStackFrames; ++depth) {
      for (const std::vector<uint64_t>& pcs : pcs_) {
        if (depth < pcs.size() && done.insert(pcs[depth]).second) unwinder->AddLine(pcs[depth]);
      }
    }
    for (size_t i = 0; i < capture_.threads.size(); ++i) {
      if (pcs_[i].empty()) continue;
      std::vector<StackFrame> native;
      for (uint64_t pc : pcs_[i]) native.push_back(unwinder->Describe(pc));
      PutFrames(capture_.threads[i], native, evidence_.mutable_threads(static_cast<int>(i)));
    }
    return Send();
  }

  bool AddSources() {
    if (sources_.empty()) return true;
    const auto write_hashes = [this](int to) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(out_);  // otherwise its reader would not see the end of the pipe
      for (const std::string& path : sources_) {
        const std::string line = SourceHash(pid_, root_.get(), path) + "\n";
        if (write(to, line.data(), line.size()) < 0) break;
      }
    };
    constexpr size_t kMostLine = 128;
    const std::string hashes = ReadingChild(write_hashes).Take(MonotonicNs() + kSourcesLimit, kMostSources * kMostLine);
    size_t at = 0;
    for (const std::string& path : sources_) {
      StackModule* module = evidence_.add_modules();
      module->set_path(path);
      const size_t newline = hashes.find('\n', at);
      if (newline == hashes.npos) continue;
      module->set_build_id(hashes.substr(at, newline - at));
      at = newline + 1;
    }
    return Send();
  }

  void SetModules(Unwinder* unwinder) {
    evidence_.clear_modules();
    for (StackModule& module : unwinder->Modules()) {
      module.set_path(CleanUtf8(module.path(), 1024));
      *evidence_.add_modules() = std::move(module);
    }
  }

  const pid_t pid_;
  const StackChildOptions options_;
  const int out_;
  std::string no_helper_;  // why the helper cannot be used; empty if it can
  const std::unique_ptr<ProcessHelper> helper_;
  const ProcessMemory memory_;
  ProcessEvidence evidence_;
  Capture capture_;
  std::map<pid_t, PythonStack> python_;
  std::map<pid_t, std::vector<PythonFrame>> described_;
  std::vector<std::vector<uint64_t>> pcs_;
  std::set<std::string> sources_;  // Python files that appear in frames
  UniqueFd root_;                  // the process's root folder
};

}  // namespace

int RunStackChild(pid_t pid, const StackChildOptions& options, int out) { return StackChild(pid, options, out).Run(); }

}  // namespace lockstep
