// Reports what a log shows besides the progress of ranks.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/formats/logs/format_reader.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/util/rank_text.h"

namespace lockstep::logs {
namespace {

constexpr char kCollect[] = "Run `lockstep attach` while it hangs, or collect Flight Recorder dumps";

// Reports watchdogs that do not return from a call, and processes that lost their store.
void ReportMonitors(const std::vector<FileFacts>& files, Ranks* ranks) {
  struct Of {
    std::set<int32_t> ranks;
    const std::string* path = nullptr;
    int64_t seconds = 0;
  };
  std::map<MonitorLine::What, Of> said;
  for (const FileFacts& file : files) {
    for (const auto& line : file.monitors) {
      Of& of = said[line.what.what];
      const int32_t rank = FirstKnown({line.who.rank, line.what.rank_of_whole, line.who.task, file.rank});
      if (rank >= 0) of.ranks.insert(rank);
      if (of.path == nullptr) of.path = &file.path;
      of.seconds = std::max(of.seconds, line.what.seconds);
    }
  }
  for (const auto& [what, of] : said) {
    const std::string who = of.ranks.empty() ? "some ranks" : RanksText(of.ranks);
    switch (what) {
      case MonitorLine::What::kStuck:
        ranks->Tell(*of.path, absl::StrCat("the watchdogs of ", who, " were stuck",
                                           of.seconds > 0 ? absl::StrCat(" for ", of.seconds, " s") : "",
                                           ": a CUDA or NCCL call did not return there. These lines name no operation, "
                                           "so no rank is named. Native stacks of these processes show the call"));
        break;
      case MonitorLine::What::kLocked:
        ranks->Tell(*of.path,
                    absl::StrCat("Python's interpreter lock was not free on ", who,
                                 ": a thread held it in a call that did not return. Native stacks show that thread"));
        break;
      case MonitorLine::What::kNoStore:
        ranks->Tell(*of.path, absl::StrCat(who,
                                           " lost the store, because the process that serves it on the first host had "
                                           "ended. This also happens at the normal end of a job"));
        break;
    }
  }
}

const char* SaidBy(Notice::By by) {
  switch (by) {
    case Notice::By::kGloo: return "gloo reported";
    case Notice::By::kNccl: return "NCCL warned";
    case Notice::By::kKernel: return "the kernel reported";
    case Notice::By::kScheduler: return "the scheduler reported";
    case Notice::By::kShell: return "the shell reported";
    case Notice::By::kXla: return "XLA reported";
    case Notice::By::kGpu: return "the GPU runtime reported";
  }
  return "";
}

// Returns the other end of the connection in an NCCL warning: "remote peer node7<51159>". Empty if it names none.
std::string PeerIn(std::string_view text) {
  for (const std::string_view key : {"remote peer ", "from peer "}) {
    const size_t at = text.find(key);
    if (at == std::string_view::npos) continue;
    const std::string_view peer = text.substr(at + key.size());
    return std::string(peer.substr(0, peer.find_first_of("< ")));
  }
  return "";
}

// Reports how many processes lost their connections to which peers. The peer that most processes lost is the first
// place to look.
void ReportPeers(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::map<std::string, std::set<std::pair<std::string, int64_t>>> by_peer;
  const std::string* path = nullptr;
  for (const FileFacts& file : files) {
    for (const auto& said : file.notices) {
      if (said.what.by != Notice::By::kNccl) continue;
      const std::string peer = PeerIn(said.what.text);
      if (peer.empty()) continue;
      by_peer[peer].insert({said.what.host, said.what.pid});
      if (path == nullptr) path = &file.path;
    }
  }
  std::vector<std::pair<size_t, std::string>> peers;
  size_t most = 0;
  for (const auto& [peer, processes] : by_peer) {
    peers.emplace_back(processes.size(), peer);
    most = std::max(most, processes.size());
  }
  if (most < 2) return;
  std::sort(peers.begin(), peers.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  constexpr size_t kMostShown = 4;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(kMostShown, peers.size()); ++i)
    texts.push_back(absl::StrCat("to ", peers[i].second, " in ", CountText(static_cast<int64_t>(peers[i].first)),
                                 peers[i].first == 1 ? " process" : " processes"));
  ranks->Tell(
      *path, absl::StrCat(
                 "NCCL's connections failed ", absl::StrJoin(texts, ", "),
                 peers.size() > kMostShown ? absl::StrCat(", and to ", peers.size() - kMostShown, " more peers") : ""));
}

// Reports errors of processes, GPUs, hosts and links. These errors identify no culprit, because the cause of most is in
// another line.
void ReportNotices(const std::vector<FileFacts>& files, Ranks* ranks) {
  struct Of {
    std::set<int32_t> ranks;
    std::set<const std::set<int32_t>*> at;  // ranks of the places that lines name
    std::set<std::string> processes;        // processes whose rank is unknown
    const std::string* path = nullptr;
  };
  // Key: whether it is about others, who reported it, and the text.
  std::map<std::tuple<bool, Notice::By, std::string>, Of> said;
  std::set<std::pair<std::string, int64_t>> ended;
  for (const FileFacts& file : files) {
    for (const auto& [what, who, number] : file.notices) {
      // Several kernel lines report one end.
      if (what.by == Notice::By::kKernel && what.exit_code != 0 && !ended.insert({what.host, what.pid}).second)
        continue;
      Of& to = said[{what.of_others, what.by, what.text}];
      if (to.path == nullptr) to.path = &file.path;
      const int32_t rank = FirstKnown({who.rank, who.task, file.rank});
      if (rank >= 0 && what.by != Notice::By::kKernel && what.by != Notice::By::kScheduler) {
        to.ranks.insert(rank);
        continue;
      }
      const bool gpu = what.by == Notice::By::kKernel && !what.pci.empty();
      const std::set<int32_t>& at = ranks->At(what.host, what.pid, gpu && what.pid <= 0 ? what.pci : "");
      if (!at.empty()) {
        to.at.insert(&at);
      } else if (!what.host.empty()) {
        const std::string gpu_text = what.gpu >= 0 ? absl::StrCat(" (GPU ", what.gpu, ")") : "";
        to.processes.insert(what.pid > 0 ? absl::StrCat("process ", what.pid, " on ", what.host, gpu_text) : what.host);
      }
    }
  }
  constexpr int kMostShown = 8;
  std::map<Notice::By, int> shown;
  bool peers_told = false;
  // Notices about ranks come before those about other processes.
  std::vector<std::pair<const std::tuple<bool, Notice::By, std::string>*, Of*>> order;
  for (auto& [key, of] : said) order.emplace_back(&key, &of);
  std::stable_partition(order.begin(), order.end(), [](const auto& entry) {
    const Of& of = *entry.second;
    return !std::get<bool>(*entry.first) && of.processes.empty() && (!of.ranks.empty() || !of.at.empty());
  });
  for (const auto& [key, told] : order) {
    Of& of = *told;
    const auto& [of_others, by, text] = *key;
    // A process's own failure is reported first.
    if (of_others && !std::exchange(peers_told, true)) ReportPeers(files, ranks);
    if (++shown[by] > kMostShown) continue;
    for (const std::set<int32_t>* at : of.at) of.ranks.insert(at->begin(), at->end());
    std::string about = !of.ranks.empty() ? RanksText(of.ranks) : !of.processes.empty() ? *of.processes.begin() : "";
    if (of.ranks.empty() && of.processes.size() > 1) absl::StrAppend(&about, " and ", of.processes.size() - 1, " more");
    const bool network = by == Notice::By::kNccl && Holds(text, "NET/");
    ranks->Tell(*of.path, absl::StrCat(SaidBy(by), about.empty() ? "" : ", about ", about, ": ", text), -1,
                network ? kNetworkFailed : "");
  }
  if (!peers_told) ReportPeers(files, ranks);
  for (const auto& [by, count] : shown) {
    if (count > kMostShown) ranks->Report(files[0].path, absl::StrCat(count - kMostShown, " more lines like these"));
  }
}

// Reports barriers whose leader ended or gave up before it could report which ranks are missing.
void ReportLeaders(const std::vector<FileFacts>& files, Ranks* ranks) {
  std::set<int32_t> arrived;
  const std::string* path = nullptr;
  for (const FileFacts& file : files) {
    for (const auto& said : file.barriers) {
      if (!said.what.missing.empty()) return;
      arrived.insert(said.what.arrived.begin(), said.what.arrived.end());
      path = &file.path;
    }
  }
  if (!arrived.empty() && !arrived.contains(0))
    ranks->Tell(*path, absl::StrCat(RanksText(arrived),
                                    " reached monitored_barrier, but rank 0, which checks who arrives, ended or gave "
                                    "up earlier; its lines name the missing rank"));
}

}  // namespace

void AddSeen(const std::vector<FileFacts>& files, Ranks* ranks) {
  ReportMonitors(files, ranks);
  ReportLeaders(files, ranks);
  ReportNotices(files, ranks);
  if (!ranks->ranks.empty()) return;
  std::set<int32_t> named;
  for (const FileFacts& file : files) named.insert(file.ranks.begin(), file.ranks.end());
  const bool nothing = std::all_of(files.begin(), files.end(), [](const FileFacts& file) { return file.Empty(); });
  if (!files.empty() && nothing) {
    ranks->Report(
        files[0].path,
        absl::StrCat("a log", named.empty() ? "" : absl::StrCat(" of ", RanksText(named)),
                     " without any timeout, exception, NCCL call or stack; it does not show a hang. ", kCollect),
        -1, false, kNothingInLog);
  } else if (!files.empty() && ranks->problems.empty() && ranks->told.empty()) {
    ranks->Report(files[0].path, absl::StrCat("a log that does not show how far any rank is. ", kCollect));
  }
}

}  // namespace lockstep::logs
