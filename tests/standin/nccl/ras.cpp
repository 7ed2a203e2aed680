#include "tests/standin/nccl/ras.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "tests/standin/nccl/level.h"

namespace standin {

// The build compiles several files as one, so these names need a namespace of their own.
namespace ras {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFirstVersion = 22400, kFirstJsonVersion = 22807;
constexpr const char* kDefaultAddress = "localhost:28028";
constexpr std::array<const char*, kRasCounts> kCountNames = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                                             "AllReduce"};
constexpr size_t kMostDetailed = 10;

enum Status { kNoComm, kInit, kRunning, kFinalize, kAbort };
constexpr const char* kStatusNames[] = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};

struct RankState {
  int pid = 0, device = 0, async_error = 0;
  Status status = kRunning;
  std::array<uint64_t, kRasCounts> counts{};
};

// A communicator, as the members that answered report it.
struct CommState {
  std::vector<int> pids;  // PIDs of all members; 0 if unknown
  std::map<int, RankState> ranks;
};
// Indexed by hash and rank 0's process, because communicators may share a hash.
using Comms = std::map<std::pair<uint64_t, int>, CommState>;

struct Report {
  Comms comms;
  std::set<int> unanswered, dead;  // processes
  int processes = 0;
};

const char* AddressText() {
  const char* set = getenv("NCCL_RAS_ADDR");
  return set ? set : kDefaultAddress;
}

// Returns the name of a process's abstract socket, without the leading zero byte.
std::string OwnName(int pid) {
  std::string name = "standin-ras-" + std::to_string(getuid()) + "-" + AddressText() + "-";
  return pid > 0 ? name + std::to_string(pid) : name;
}

socklen_t UnixAddress(const std::string& name, sockaddr_un* to) {
  *to = {};
  to->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof to->sun_path - 1);
  memcpy(to->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool SendAll(int fd, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t now = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Format(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

// Returns one line for each of this process's communicators.
std::string OwnLines() {
  std::ostringstream out;
  for (const CommPtr& comm : AllComms()) {
    if (!comm->ras_ready.load(std::memory_order_acquire)) continue;
    const Status status = comm->aborted.load() ? kAbort : comm->finalized.load() ? kFinalize : kRunning;
    out << comm->hash << ' ' << comm->nranks << ' ' << comm->rank << ' ' << comm->device << ' ' << status << ' '
        << comm->async_result.load();
    for (const std::atomic<uint64_t>& count : comm->ras_counts) out << ' ' << count.load();
    for (int rank = 0; rank < comm->nranks; ++rank) out << ' ' << comm->segment->rank(rank).pid.load();
    out << '\n';
  }
  return out.str();
}

void AddLines(int pid, const std::string& lines, Comms* comms) {
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    uint64_t hash = 0;
    int size = 0, rank = 0, status = 0;
    RankState state;
    fields >> hash >> size >> rank >> state.device >> status >> state.async_error;
    for (uint64_t& count : state.counts) fields >> count;
    std::vector<int> pids(static_cast<size_t>(std::clamp(size, 0, kMaxRanks)));
    for (int& member : pids) fields >> member;
    if (!fields || pids.empty()) continue;
    state.pid = pid;
    state.status = static_cast<Status>(status);
    CommState& comm = (*comms)[{hash, pids[0]}];
    comm.pids = pids;
    comm.ranks[rank] = state;
  }
}

// Returns the PIDs of this user's other processes with the same address.
std::vector<int> OtherProcesses() {
  std::vector<int> pids;
  std::ifstream table("/proc/net/unix");
  const std::string prefix = "@" + OwnName(0);
  for (std::string line; std::getline(table, line);) {
    const size_t at = line.find(prefix);
    const int pid = at == line.npos ? 0 : atoi(line.c_str() + at + prefix.size());
    if (pid > 0 && pid != getpid()) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

int Connect(int pid) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t length = UnixAddress(OwnName(pid), &address);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
  close(fd);
  return -1;
}

// Reads an answer to its end, and closes the descriptor. After the deadline, only an answer that has already arrived
// counts.
std::optional<std::string> Answer(int fd, Clock::time_point deadline) {
  std::optional<std::string> answer;
  std::string text;
  while (fd >= 0 && !answer) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0))) != 1) break;
    char bytes[4096];
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got < 0) break;
    if (got == 0) answer = text;
    text.append(bytes, static_cast<size_t>(got));
  }
  if (fd >= 0) close(fd);
  return answer;
}

// Asks this user's other processes with the same address. The report covers those that share a communicator with this
// process, directly or through others.
Report Gather(Clock::time_point deadline) {
  Report report;
  Comms all;
  std::set<int> answered = {getpid()}, silent;
  AddLines(getpid(), OwnLines(), &all);
  std::map<int, int> others;  // descriptors by process
  for (const int pid : OtherProcesses()) others[pid] = Connect(pid);
  for (const auto& [pid, fd] : others) {
    if (const std::optional<std::string> lines = Answer(fd, deadline)) {
      answered.insert(pid);
      AddLines(pid, *lines, &all);
    } else {
      silent.insert(pid);
    }
  }
  std::set<int> job = {getpid()};
  for (size_t known = 0; known != job.size();) {
    known = job.size();
    for (const auto& [id, comm] : all) {
      if (std::any_of(comm.pids.begin(), comm.pids.end(), [&](int pid) { return job.contains(pid); }))
        job.insert(comm.pids.begin(), comm.pids.end());
    }
  }
  job.erase(0);
  report.processes = static_cast<int>(job.size());
  for (const int pid : job) {
    if (!answered.contains(pid)) (silent.contains(pid) ? report.unanswered : report.dead).insert(pid);
  }
  for (auto& [id, comm] : all) {
    if (job.contains(comm.pids[0])) report.comms.emplace(id, std::move(comm));
  }
  return report;
}

std::string Place(int device, int pid) { return Format("GPU %d managed by process %d on node 127.0.0.1", device, pid); }

struct Judged {
  uint64_t hash = 0;
  const CommState* comm = nullptr;
  std::vector<int> missing, no_comm;  // ranks without an answer; ranks that answered, but not about this communicator
  bool mismatch = false, error = false;
  Status status = kRunning;

  std::string Errors() const {
    std::string text = missing.empty() ? "" : "INCOMPLETE";
    if (error) text += text.empty() ? "ERROR" : ",ERROR";
    if (mismatch) text += text.empty() ? "MISMATCH" : ",MISMATCH";
    return text.empty() ? "OK" : text;
  }
  // The report groups communicators with equal keys.
  std::tuple<int, int, std::string> Group() const { return {-static_cast<int>(comm->pids.size()), -status, Errors()}; }
};

Judged Judge(uint64_t hash, const CommState& comm, const Report& report) {
  Judged judged{hash, &comm, {}, {}};
  std::set<Status> seen;
  for (int rank = 0; rank < static_cast<int>(comm.pids.size()); ++rank) {
    const auto at = comm.ranks.find(rank);
    const int pid = comm.pids[static_cast<size_t>(rank)];
    if (at == comm.ranks.end()) {
      const bool gone = report.unanswered.contains(pid) || report.dead.contains(pid);
      (gone ? judged.missing : judged.no_comm).push_back(rank);
      if (!gone) seen.insert(kNoComm);
      continue;
    }
    seen.insert(at->second.status);
    judged.mismatch = judged.mismatch || at->second.counts != comm.ranks.begin()->second.counts;
    judged.error = judged.error || (at->second.async_error != ncclSuccess && at->second.async_error != ncclInProgress);
  }
  judged.mismatch = judged.mismatch || seen.size() > 1;
  judged.status = seen.empty() ? kRunning : *seen.rbegin();
  return judged;
}

bool Detailed(size_t count, size_t total, bool verbose) {
  if (count == 1) return true;
  return verbose ? 2 * count < total : count <= kMostDetailed && 4 * count <= total;
}

// Returns the classes of ranks with equal values, largest first. `told_one` and `told_many` describe a value of one
// rank or of several ranks.
std::string Classes(const std::map<uint64_t, std::vector<int>>& classes, const CommState& comm, bool verbose,
                    const std::function<std::string(uint64_t)>& told_one,
                    const std::function<std::string(uint64_t)>& told_many) {
  std::vector<std::pair<uint64_t, std::vector<int>>> order(classes.begin(), classes.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text;
  for (const auto& [value, ranks] : order) {
    if (ranks.size() > 1) text += Format("  %zu ranks %s\n", ranks.size(), told_many(value).c_str());
    if (!Detailed(ranks.size(), comm.pids.size(), verbose)) continue;
    for (const int rank : ranks) {
      const auto at = comm.ranks.find(rank);
      const std::string place = at == comm.ranks.end() ? Place(rank, comm.pids[static_cast<size_t>(rank)])
                                                       : Place(at->second.device, at->second.pid);
      text +=
          Format("  Rank %d%s -- %s\n", rank, ranks.size() > 1 ? "" : (" " + told_one(value)).c_str(), place.c_str());
    }
  }
  return text;
}

std::string MismatchText(const Judged& judged, bool verbose) {
  const CommState& comm = *judged.comm;
  std::map<uint64_t, std::vector<int>> by_status;
  for (const auto& [rank, state] : comm.ranks) by_status[state.status].push_back(rank);
  if (!judged.no_comm.empty()) by_status[kNoComm] = judged.no_comm;
  std::string text;
  if (by_status.size() > 1) {
    text += "  Communicator ranks have different status\n";
    text += Classes(
        by_status, comm, verbose, [](uint64_t status) { return std::string("has status ") + kStatusNames[status]; },
        [](uint64_t status) { return std::string("have status ") + kStatusNames[status]; });
  }
  for (size_t op = 0; op < kRasCounts; ++op) {
    std::map<uint64_t, std::vector<int>> by_count;
    for (const auto& [rank, state] : comm.ranks) by_count[state.counts[op]].push_back(rank);
    if (by_count.size() < 2) continue;
    const auto told = [](const char* have, uint64_t count) {
      return std::string(have) + (count == 0
                                      ? " not launched any operations"
                                      : Format(" launched up to operation %lu", static_cast<unsigned long>(count)));
    };
    text += Format("  Communicator ranks have different %s operation counts\n", kCountNames[op]);
    text += Classes(
        by_count, comm, verbose, [&](uint64_t count) { return told("has", count); },
        [&](uint64_t count) { return told("have", count); });
    text += "\n";
  }
  return text;
}

std::string Text(const Report& report, bool verbose, double seconds) {
  std::string text =
      Format("NCCL version %d.%d.%d compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\n",
             kVersion / 10000, kVersion / 100 % 100, kVersion % 100);
  text +=
      "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
      "(total)   per node  per process    (total)  (total)\n";
  text += Format("%7d  %9d  %11d  %9d  %7d\n", 1, report.processes, 1, report.processes, report.processes);
  text += Format("\nCommunicators... (%.2fs)\n=============\n\n", seconds);
  if (report.comms.empty()) return text + "No communicator data collected!\n";
  std::vector<Judged> order;
  for (const auto& [id, comm] : report.comms) order.push_back(Judge(id.first, comm, report));
  std::stable_sort(order.begin(), order.end(), [](const Judged& a, const Judged& b) { return a.Group() < b.Group(); });
  std::vector<std::string> names;
  text +=
      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n";
  for (size_t begin = 0, group = 0; begin < order.size(); ++group) {
    size_t end = begin;
    std::set<int> pids;
    for (; end < order.size() && order[end].Group() == order[begin].Group(); ++end) {
      names.push_back(Format("#%zu-%zu (%016lx)", group, end - begin, static_cast<unsigned long>(order[end].hash)));
      for (const auto& [rank, state] : order[end].comm->ranks) pids.insert(state.pid);
    }
    const size_t size = order[begin].comm->pids.size();
    text += Format("%5zu  %8zu  %8d  %8zu  %8zu  %8zu  %8s  %6s\n", group, end - begin, 1, size, size, pids.size(),
                   kStatusNames[order[begin].status], order[begin].Errors().c_str());
    begin = end;
  }
  text += "\nErrors\n======\n\n";
  const auto processes = [&text](const std::set<int>& pids) {
    for (const int pid : pids) text += Format("  Process %d on node 127.0.0.1 managing GPU 0\n", pid);
    text += "\n";
  };
  if (const size_t count = report.unanswered.size(); count > 0) {
    text += Format("INCOMPLETE\n  Missing communicator data from %zu job process%s\n", count, count > 1 ? "es" : "");
    processes(report.unanswered);
  }
  if (const size_t count = report.dead.size(); count > 0) {
    text += Format("DEAD\n  %zu job process%s considered dead (unreachable via the RAS network)\n", count,
                   count > 1 ? "es are" : " is");
    processes(report.dead);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Judged& judged = order[i];
    if (!judged.missing.empty()) {
      text += Format("%s INCOMPLETE\n  Missing communicator data from %zu rank%s\n", names[i].c_str(),
                     judged.missing.size(), judged.missing.size() > 1 ? "s" : "");
      for (const int rank : judged.missing)
        text += Format("  Rank %d -- %s\n", rank, Place(rank, judged.comm->pids[static_cast<size_t>(rank)]).c_str());
      text += "\n";
    }
    if (!judged.error) continue;
    text += names[i] + " ERROR\n";
    for (const auto& [rank, state] : judged.comm->ranks) {
      if (state.async_error == ncclSuccess || state.async_error == ncclInProgress) continue;
      text += Format("  Asynchronous error on 1 rank\n  Rank %d reported %s -- %s\n", rank,
                     state.async_error == ncclRemoteError ? "Remote process error" : "Unhandled CUDA error",
                     Place(state.device, state.pid).c_str());
    }
    text += "\n";
  }
  text += "Warnings\n========\n\n";
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].mismatch) text += names[i] + " MISMATCH\n" + MismatchText(order[i], verbose);
  }
  return text;
}

std::string Json(const Report& report, double seconds) {
  const auto flag = [](bool set) { return set ? "true" : "false"; };
  time_t now = time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char stamp[64];
  strftime(stamp, sizeof stamp, "%F %T", &local);
  std::ostringstream out;
  out << "{\n  \"nccl_version\": \"" << kVersion / 10000 << '.' << kVersion / 100 % 100 << '.' << kVersion % 100
      << "\",\n  \"cuda_runtime_version\": 13000,\n  \"cuda_driver_version\": 13000,\n  \"timestamp\": \"" << stamp
      << "\",\n  \"communicators_count\": " << report.comms.size() << ",\n  \"communicators\": [\n";
  const char* comma = "";
  for (const auto& [id, comm] : report.comms) {
    out << comma << "    {\n      \"hash\": \"0x" << std::hex << id.first << "\",\n      \"secondary_hash\": \"0x1:0x"
        << id.second << std::dec << "\",\n      \"size\": " << comm.pids.size()
        << ",\n      \"ranks_count\": " << comm.ranks.size()
        << ",\n      \"missing_ranks_count\": " << comm.pids.size() - comm.ranks.size() << ",\n      \"ranks\": [\n";
    comma = "";
    for (const auto& [rank, state] : comm.ranks) {
      out << comma << "        {\n          \"rank\": " << rank
          << ",\n          \"host\": \"127.0.0.1\",\n          \"pid\": " << state.pid
          << ",\n          \"cuda_dev\": " << state.device << ",\n          \"nvml_dev\": " << state.device
          << ",\n          \"status\": {\n            \"init_state\": 0,\n            \"async_error\": "
          << state.async_error << ",\n            \"finalize_called\": " << flag(state.status == kFinalize)
          << ",\n            \"destroy_flag\": false,\n            \"abort_flag\": " << flag(state.status == kAbort)
          << "\n          },\n          \"collective_counts\": {\n";
      for (size_t op = 0; op < kRasCounts; ++op) {
        out << "            \"" << kCountNames[op] << "\": " << state.counts[op]
            << (op + 1 < kRasCounts ? ",\n" : "\n");
      }
      out << "          }\n        }";
      comma = ",\n";
    }
    out << "\n      ],\n      \"missing_ranks\": [\n";
    comma = "";
    for (int rank = 0; rank < static_cast<int>(comm.pids.size()); ++rank) {
      if (comm.ranks.contains(rank)) continue;
      const int pid = comm.pids[static_cast<size_t>(rank)];
      const bool dead = report.dead.contains(pid);
      out << comma << "        {\n          \"rank\": " << rank
          << ",\n          \"host\": \"127.0.0.1\",\n          \"pid\": " << pid
          << ",\n          \"cuda_dev\": " << rank << ",\n          \"nvml_dev\": " << rank
          << ",\n          \"status\": {\n            \"unresponsive\": "
          << flag(dead || report.unanswered.contains(pid)) << ",\n            \"considered_dead\": " << flag(dead)
          << "\n          }\n        }";
      comma = ",\n";
    }
    out << "\n      ]\n    }";
    comma = ",\n";
  }
  out << "\n  ],\n  \"ras\": {\n    \"collection_time_sec\": " << Format("%.3f", seconds)
      << ",\n    \"timeouts_count\": " << report.unanswered.size() << "\n  }\n}\n";
  return out.str();
}

// Serves one client of the line protocol, until it asks for a report or closes.
void Serve(int client) {
  std::string pending;
  bool json = false;
  int timeout = 5;
  for (char bytes[256];;) {
    const ssize_t got = recv(client, bytes, sizeof bytes, 0);
    if (got <= 0) return;
    pending.append(bytes, static_cast<size_t>(got));
    for (size_t end; (end = pending.find('\n')) != pending.npos; pending.erase(0, end + 1)) {
      std::string line = pending.substr(0, end);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      std::transform(line.begin(), line.end(), line.begin(),
                     [](unsigned char c) { return static_cast<char>(tolower(c)); });
      if (line.starts_with("client protocol ")) {
        SendAll(client, "SERVER PROTOCOL 2\n");
      } else if (line.starts_with("timeout ")) {
        timeout = std::clamp(atoi(line.c_str() + 8), 0, 600);
        SendAll(client, "OK\n");
      } else if (line == "set format text" || (line == "set format json" && kVersion >= kFirstJsonVersion)) {
        json = line == "set format json";
        SendAll(client, "OK\n");
      } else if (line == "status" || line == "verbose status") {
        const Clock::time_point began = Clock::now();
        const Report report = Gather(began + std::chrono::seconds(timeout > 0 ? timeout : 5));
        const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
        SendAll(client, json ? Json(report, seconds) : Text(report, line == "verbose status", seconds));
        return;
      } else {
        SendAll(client, "ERROR: Unknown command '" + line + "'\n");
      }
    }
  }
}

int Listen(int family, const sockaddr* address, socklen_t length) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0 && family == AF_INET) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd >= 0 && bind(fd, address, length) == 0 && listen(fd, 512) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// The process that starts first binds the address; the others only answer it.
int ListenForClients() {
  const std::string text = AddressText();
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(colon == text.npos ? 28028 : atoi(text.c_str() + colon + 1)));
  if (inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &address.sin_addr) != 1) return -1;
  return Listen(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof address);
}

void Run(int peers, int clients) {
  pthread_setname_np(pthread_self(), "NCCL RAS");
  for (;;) {
    pollfd ready[] = {{peers, POLLIN, 0}, {clients, POLLIN, 0}};
    if (poll(ready, clients >= 0 ? 2 : 1, -1) <= 0) continue;
    if (ready[0].revents != 0) {
      const int one = accept4(peers, nullptr, nullptr, SOCK_CLOEXEC);
      SendAll(one, OwnLines());
      close(one);
    }
    if (clients >= 0 && ready[1].revents != 0) {
      const int one = accept4(clients, nullptr, nullptr, SOCK_CLOEXEC);
      const timeval limit{2, 0};
      setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      Serve(one);
      close(one);
    }
  }
}

bool Wanted() {
  const char* enabled = getenv("NCCL_RAS_ENABLE");
  if (kVersion < kFirstVersion || (enabled && *enabled == '0')) return false;
  return getenv("NCCL_RAS_ADDR") || (enabled && *enabled == '1');
}

bool Start() {
  sockaddr_un address;
  const socklen_t length = UnixAddress(OwnName(getpid()), &address);
  const int peers = Listen(AF_UNIX, reinterpret_cast<sockaddr*>(&address), length);
  const int clients = ListenForClients();
  if (clients >= 0) Info("RAS client listening socket at %s", AddressText());
  return peers >= 0 && StartThread([peers, clients] { Run(peers, clients); });
}

}  // namespace
}  // namespace ras

void RasJoin(ncclComm& comm) {
  comm.ras_ready.store(true, std::memory_order_release);
  static const bool started = ras::Wanted() && ras::Start();
  static_cast<void>(started);
}

void RasCount(ncclComm& comm, Kind kind) {
  constexpr std::pair<Kind, size_t> kPlaces[] = {{Kind::kBroadcast, 0},
                                                 {Kind::kReduce, 1},
                                                 {Kind::kAllGather, 2},
                                                 {Kind::kReduceScatter, 3},
                                                 {Kind::kAllReduce, 4}};
  for (const auto& [counted, place] : kPlaces) {
    if (kind == counted) comm.ras_counts[place].fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace standin
