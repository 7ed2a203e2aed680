#include "analyzer/report/places.h"

#include <algorithm>

#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

constexpr size_t kMostFrames = 256;
constexpr size_t kMostBytes = 200;
constexpr std::string_view kStack = " stack: ", kBetween = " < ";

// Files of what jobs are built on: the line above them is the job's own.
constexpr std::string_view kLibraries[] = {
    "site-packages/", "dist-packages/", "lib/python3", "<frozen ",        "torch/",   "threading.py",
    "selectors.py",   "socket.py",      "queue.py",    "subprocess.py",   "asyncio/", "concurrent/",
    "contextlib.py",  "importlib/",     "pickle.py",   "multiprocessing", "<string>"};

// Everything that waits stands in one of these: they tell nothing apart.
constexpr std::string_view kWaiting[] = {
    "futex",           "poll",   "ppoll", "epoll_wait", "read",       "pread",   "pread64", "write",   "nanosleep",
    "clock_nanosleep", "usleep", "sleep", "select",     "wait4",      "waitpid", "pause",   "syscall", "sem_wait",
    "sched_yield",     "ioctl",  "fsync", "raise",      "sigsuspend", "accept",  "recv",    "send",    "recvmsg",
    "sendmsg",         "none"};
constexpr std::string_view kWaitingBegin[] = {"[kernel]",         "__", "pthread_", "do_syscall_64",
                                              "entry_SYSCALL_64", "0x", "??",       "libc.so"};

bool Holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string Cut(std::string_view frame) {
  const size_t offset = frame.find("+0x");
  if (offset != std::string_view::npos && offset > 0) frame = frame.substr(0, offset);
  return CleanUtf8(frame, kMostBytes);
}

bool IsPython(std::string_view frame) {
  return Holds(frame, ".py:") || Holds(frame, "<string>:") || Holds(frame, "<stdin>:");
}

bool IsLibrary(std::string_view frame) {
  return std::any_of(std::begin(kLibraries), std::end(kLibraries),
                     [frame](std::string_view library) { return Holds(frame, library); });
}

// Says nothing: a function that everything waits in, or a sentence in a stack's place.
bool Waits(std::string_view frame) {
  const std::string_view name = frame.substr(0, frame.find_first_of("(+@[<"));
  const size_t blank = name.find(' ');
  if (name.empty() || (blank != std::string_view::npos && blank + 1 < name.size())) return true;
  return std::find(std::begin(kWaiting), std::end(kWaiting), name.substr(0, blank)) != std::end(kWaiting) ||
         std::any_of(std::begin(kWaitingBegin), std::end(kWaitingBegin),
                     [frame](std::string_view begin) { return frame.substr(0, begin.size()) == begin; });
}

}  // namespace

std::string PlaceOfEvidence(std::string_view text) {
  const size_t at = text.find(kStack);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + kStack.size());
  std::string_view any_python, native;
  for (size_t frames = 0; !text.empty() && frames < kMostFrames; ++frames) {
    const size_t end = std::min(text.find(kBetween), text.size());
    const std::string_view frame = text.substr(0, end);
    text.remove_prefix(std::min(end + kBetween.size(), text.size()));
    if (frame.empty()) continue;
    if (IsPython(frame)) {
      if (!IsLibrary(frame)) return Cut(frame);
      if (any_python.empty()) any_python = frame;
    } else if (native.empty() && !Waits(frame)) {
      native = frame;
    }
  }
  return Cut(any_python.empty() ? native : any_python);
}

std::vector<std::string> PlacesOf(const Finding& finding, size_t limit) {
  std::vector<std::string> places;
  for (const Evidence& evidence : finding.evidence()) {
    if (places.size() >= limit) break;
    std::string place = PlaceOfEvidence(evidence.text());
    if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end())
      places.push_back(std::move(place));
  }
  return places;
}

}  // namespace lockstep
