#include "analyzer/formats/ring/format_reader.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/input_file.h"
#include "analyzer/formats/ring/loader.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

std::string ReadSmall(const std::string& path) {
  const InputFile file(path);
  if (file.fd() < 0) return "";
  char bytes[4096];
  const ssize_t n = read(file.fd(), bytes, sizeof(bytes));
  return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "";
}

// What this host says of the process behind a ring: nothing, unless the ring was recorded on this boot and in this
// process-number space.
Process LookFor(const ring::ProcessInfo& info) {
  Process process;
  std::string boot = ReadSmall("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && (boot.back() == '\n' || boot.back() == ' ')) boot.pop_back();
  if (boot.empty() || boot != info.boot_id || info.pid <= 0) return process;
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0 ||
      (info.pid_namespace_inode != 0 && info.pid_namespace_inode != space.st_ino))
    return process;
  const std::string stat_line = ReadSmall(absl::StrCat("/proc/", info.pid, "/stat"));
  // The name in parentheses may hold anything; the fields after its last parenthesis are state and 19 up to start time.
  const size_t name_end = stat_line.rfind(')');
  char state = 0;
  unsigned long long start_ticks = 0;
  const bool there = name_end != std::string::npos &&
                     sscanf(stat_line.c_str() + name_end + 1,
                            " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                            &start_ticks) == 2 &&
                     start_ticks == info.start_ticks;
  if (!there || state == 'Z' || state == 'X') {
    process.life = Life::kGone;
  } else {
    process.life = Life::kRunning;
    process.state = std::string(1, state);
  }
  return process;
}

class RingReader final : public FormatReader {
 public:
  const char* name() const override { return "ring file"; }
  const char* beginning() const override { return "\"LOCKSTEP RING\""; }
  const char* ending() const override { return ".ring"; }
  Claim Claims(std::string_view head) const override {
    return ring::LooksLikeRing(head.data(), head.size()) ? Claim::kYes : Claim::kNo;
  }
  Source source() const override { return Source::kRing; }
  void Read(const std::vector<std::string>& paths, const ReadControl& control, Records* records) const override {
    std::vector<RingInput> rings;
    for (const std::string& path : paths) {
      if (control.Cancelled()) return;
      const InputFile file(path);
      RingInput input;
      std::string error;
      if (file.fd() < 0) {
        records->problems.push_back({path, -1, absl::StrCat("cannot be read: ", strerror(errno)), -1});
      } else if (!ring::ReadRing(file.fd(), {}, &input.snapshot, &error)) {
        records->problems.push_back({path, -1, CleanUtf8(error, 512), -1});
      } else {
        input.path = path;
        input.process = LookFor(input.snapshot.process);
        rings.push_back(std::move(input));
      }
      control.Done(1);
    }
    AddRings(std::move(rings), &records->library);
  }
};

}  // namespace

const FormatReader& RingFormat() {
  static const RingReader reader;
  return reader;
}

}  // namespace lockstep
