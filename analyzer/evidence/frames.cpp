#include "analyzer/evidence/frames.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostPlaceBytes = 200;
constexpr std::string_view kKernel = "[kernel] ";

// Parts of paths of libraries and frameworks, which are not the user's code.
constexpr std::string_view kLibraryParts[] = {"site-packages/", "dist-packages/", "lib/python3", "/torch/"};
// Beginnings of such paths, as some tools shorten them. redact.h has the packages.
constexpr std::string_view kLibraryBegins[] = {
    "<frozen ", "<string>",    "threading.py",  "selectors.py", "socket.py", "queue.py",        "subprocess.py",
    "asyncio/", "concurrent/", "contextlib.py", "importlib/",   "pickle.py", "multiprocessing/"};

// Functions in which any thread may wait: they do not show what it waits for.
constexpr std::string_view kWaiting[] = {
    "futex",           "poll",   "ppoll", "epoll_wait", "read",       "pread",   "pread64", "write",   "nanosleep",
    "clock_nanosleep", "usleep", "sleep", "select",     "wait4",      "waitpid", "pause",   "syscall", "sem_wait",
    "sched_yield",     "ioctl",  "fsync", "raise",      "sigsuspend", "accept",  "recv",    "send",    "recvmsg",
    "sendmsg",         "none"};
constexpr std::string_view kWaitingBegin[] = {"[kernel]",         "__", "pthread_", "do_syscall_64",
                                              "entry_SYSCALL_64", "0x", "??",       "libc.so"};

bool Holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool IsPython(std::string_view frame) {
  return Holds(frame, ".py:") || Holds(frame, "<string>:") || Holds(frame, "<stdin>:");
}

bool IsLibrary(std::string_view file) {
  return IsPublicPackage(file) ||
         std::ranges::any_of(kLibraryParts, [file](std::string_view part) { return Holds(file, part); }) ||
         std::ranges::any_of(kLibraryBegins, [file](std::string_view begin) { return file.starts_with(begin); });
}

// Returns whether a frame is uninformative: a function in which everything waits, or a sentence instead of a frame.
bool Waits(std::string_view frame) {
  const std::string_view name = frame.substr(0, frame.find_first_of("(+@[<"));
  const size_t blank = name.find(' ');
  if (name.empty() || (blank != std::string_view::npos && blank + 1 < name.size())) return true;
  return std::find(std::begin(kWaiting), std::end(kWaiting), name.substr(0, blank)) != std::end(kWaiting) ||
         std::any_of(std::begin(kWaitingBegin), std::end(kWaitingBegin),
                     [frame](std::string_view begin) { return frame.substr(0, begin.size()) == begin; });
}

// Sets file and line from the place in a frame: "train.py:88", "io.c:12".
void SetPlace(std::string_view place, Frame* frame) {
  const size_t colon = place.rfind(':');
  uint32_t line = 0;
  if (colon != std::string_view::npos &&
      absl::SimpleAtoi(absl::string_view(place.data() + colon + 1, place.size() - colon - 1), &line)) {
    frame->set_line(line);
    place = place.substr(0, colon);
  }
  frame->set_file(std::string(place));
}

}  // namespace

std::string_view WithoutOffset(std::string_view text) {
  const size_t offset = text.find("+0x");
  return offset == std::string_view::npos || offset == 0 ? text : text.substr(0, offset);
}

bool IsSystemCallEntry(std::string_view text) {
  return Holds(text, "do_syscall_64") || Holds(text, "entry_SYSCALL_64");
}

Frame ParseFrame(std::string_view text) {
  Frame frame;
  frame.set_text(std::string(text));
  if (text.substr(0, kKernel.size()) == kKernel) {
    frame.set_kind(StackFrame::KERNEL);
    text.remove_prefix(kKernel.size());
    frame.set_function(std::string(text.substr(0, text.find('+'))));
    return frame;
  }
  frame.set_kind(IsPython(text) ? StackFrame::PYTHON : StackFrame::NATIVE);
  text = WithoutOffset(text);
  const size_t open = text.rfind(" ("), blank = text.find(' ');
  if (open != std::string_view::npos && text.back() == ')') {
    frame.set_function(std::string(text.substr(0, open)));
    SetPlace(text.substr(open + 2, text.size() - open - 3), &frame);
  } else if (frame.kind() == StackFrame::PYTHON) {
    SetPlace(text.substr(0, blank), &frame);
    if (blank != std::string_view::npos) frame.set_function(std::string(text.substr(blank + 1)));
  } else {
    frame.set_function(std::string(text));
  }
  return frame;
}

std::string PlaceText(std::string_view text) {
  const Frame frame = ParseFrame(text);
  std::string place = frame.function();
  if (!place.empty() && place.back() != ')' && place.back() != '>') place += "()";
  if (frame.file().empty()) return place;
  if (!place.empty()) place += " at ";
  place += frame.file().substr(frame.file().rfind('/') + 1);
  if (frame.line() > 0) place += ":" + std::to_string(frame.line());
  return place;
}

int CodeFrame(const google::protobuf::RepeatedPtrField<Frame>& frames) {
  int any_python = -1, native = -1;
  for (int i = 0; i < std::min(frames.size(), kMostStackFrames); ++i) {
    const std::string_view text = frames[i].text();
    if (text.empty()) continue;
    if (frames[i].kind() == StackFrame::PYTHON) {
      if (!IsLibrary(frames[i].file())) return i;
      if (any_python < 0) any_python = i;
    } else if (native < 0 && !Waits(text)) {
      native = i;
    }
  }
  return any_python < 0 ? native : any_python;
}

std::string CodePlace(const google::protobuf::RepeatedPtrField<Frame>& frames) {
  const int frame = CodeFrame(frames);
  return frame < 0 ? "" : CleanUtf8(WithoutOffset(frames[frame].text()), kMostPlaceBytes);
}

}  // namespace lockstep
