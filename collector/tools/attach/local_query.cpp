#include "collector/tools/attach/local_query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

// Returns the inodes of the sockets that listen on that port.
std::set<std::string> Listeners(const std::string& folder, int port) {
  std::set<std::string> inodes;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    const std::string text = ReadSmallFile(folder + table, 16 << 20);
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      // "  0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 12345 .."
      const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (fields.size() < 10 || fields[3] != "0A") continue;
      const size_t colon = fields[1].rfind(':');
      int listens = 0;
      if (colon != absl::string_view::npos && absl::SimpleHexAtoi(fields[1].substr(colon + 1), &listens) &&
          listens == port)
        inodes.insert(std::string(fields[9]));
    }
  }
  return inodes;
}

}  // namespace

bool ListensOn(const std::vector<pid_t>& pids, int port) {
  const std::string own = LinkTarget("/proc/self/ns/net");
  std::set<std::string> inodes;
  for (const pid_t pid : pids) {
    const std::string folder = absl::StrCat("/proc/", pid);
    if (LinkTarget(folder + "/ns/net") != own) continue;
    if (inodes.empty()) inodes = Listeners(folder, port);
    if (inodes.empty()) return false;
    for (const int fd : NumbersIn(folder + "/fd")) {
      const std::string link = LinkTarget(absl::StrCat(folder, "/fd/", fd));
      if (link.starts_with("socket:[") && inodes.contains(link.substr(8, link.size() - 9))) return true;
    }
  }
  return false;
}

std::string QueryLocal(int port, std::string_view question, size_t most, int64_t limit_ns) {
  const int64_t deadline = MonotonicNs() + limit_ns;
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (!fd.ok() ||
      (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS))
    return "";
  std::string answer;
  for (bool asked = false; answer.size() < most;) {
    const int64_t left = deadline - MonotonicNs();
    pollfd ready = {fd.get(), static_cast<short>(asked ? POLLIN : POLLOUT), 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) break;
    if (!asked) {
      if (send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(question.size()))
        return "";
      asked = true;
      continue;
    }
    char bytes[65536];
    const ssize_t got = recv(fd.get(), bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) break;
    answer.append(bytes, static_cast<size_t>(got));
  }
  return answer;
}

}  // namespace lockstep
