#include "analyzer/formats/logs/ras.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/parse_json.h"
#include "analyzer/util/printable.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostReported = 4096, kMostClasses = 64, kMostListed = 4096, kMostGroups = 65536,
                 kMostAnswers = 1u << 17;

// Parses "Rank 7 .. -- GPU 3 managed by process 1650386 on node node1".
std::optional<RasRank> ListedRank(std::string_view text) {
  const size_t gpu = text.find(" -- GPU ");
  if (!text.starts_with("Rank ") || gpu == std::string_view::npos) return std::nullopt;
  RasRank out;
  out.rank = RankBehind(text, "Rank ");
  out.gpu = RankBehind(text.substr(gpu), "GPU ");
  out.pid = std::clamp<int64_t>(NumberBehind(text, "process ").value_or(0), 0, INT32_MAX);
  if (const size_t node = text.find(" on node "); node != std::string_view::npos)
    out.host = Printable(text.substr(node + 9), fr::kMostNameColumns);
  return out.rank < 0 ? std::nullopt : std::optional(std::move(out));
}

// Parses "launched up to operation 6650" or "not launched any operations"; kUnknown for any other text.
int64_t Launched(std::string_view text) {
  if (text.find("not launched any operations") != std::string_view::npos) return 0;
  const int64_t number = NumberBehind(text, "launched up to operation ").value_or(-1);
  return number < 0 || number > fr::kMaxCounter ? kUnknown : number;
}

// Parses the group and the ranks per communicator from a row of the table: group, communicators, nodes, ranks per node,
// ranks per communicator, ranks, status. Returns false for any other text.
bool ReadRow(std::string_view text, int64_t* group, int32_t* size) {
  int64_t numbers[6];
  for (int64_t& number : numbers) {
    text = fr::Strip(text);
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return false;
    // Ranks per node may be a range, "7-8".
    const std::string_view word = text.substr(0, blank);
    if (!fr::ParseNumber(word.substr(0, word.find('-')), &number)) return false;
    text = text.substr(blank);
  }
  if (numbers[0] < 0 || numbers[4] <= 0 || numbers[4] > fr::kMaxRank) return false;
  *group = numbers[0];
  *size = static_cast<int32_t>(numbers[4]);
  return true;
}

bool HoldsStatus(std::string_view text) {
  constexpr std::string_view kStatus[] = {"RUNNING", "INIT", "FINALIZE", "ABORT", "NOCOMM"};
  return std::any_of(std::begin(kStatus), std::end(kStatus),
                     [&](std::string_view status) { return text.find(status) != std::string_view::npos; });
}

constexpr char kRankProcess[] = "lockstep: rank ";

}  // namespace

std::string RankProcessLine(const RankProcess& process) {
  return absl::StrCat(kRankProcess, process.rank, " is process ", process.pid, " on ", process.host, "\n");
}

std::optional<RankProcess> ParseRankProcess(std::string_view text) {
  const size_t on = text.find(" on ");
  if (!text.starts_with(kRankProcess) || on == std::string_view::npos) return std::nullopt;
  RankProcess out;
  out.rank = RankBehind(text, kRankProcess);
  out.pid = std::clamp<int64_t>(NumberBehind(text, " is process ").value_or(0), 0, INT32_MAX);
  out.host = Printable(fr::Strip(text.substr(on + 4)), fr::kMostNameColumns);
  return out.rank < 0 || out.pid <= 0 ? std::nullopt : std::optional(std::move(out));
}

void RasReader::Take(std::string_view text, int64_t number) {
  text = fr::Strip(text);
  // Below "(total) .. (total)", the first number is that of hosts, and the last one that of GPUs.
  if (std::exchange(totals_, text.starts_with("(total)") && text.ends_with("(total)"))) {
    int32_t gpus = 0;
    if (fr::ParseNumber(text.substr(text.rfind(' ') + 1), &gpus) && gpus > 0 && gpus <= fr::kMaxRank) {
      reports_.gpus = gpus;
      reports_.hosts = static_cast<int32_t>(std::clamp<int64_t>(LeadingNumber(text).value_or(0), 0, gpus));
    }
    return;
  }
  if (text == "DEAD") {
    open_ = incomplete_ = false;
    dead_ = true;
    return;
  }
  if (!open_ && !dead_ && !incomplete_ && !text.starts_with('#') && !HoldsStatus(text)) return;
  if (text.starts_with('#')) {
    open_ = dead_ = incomplete_ = false;
    const std::optional<int64_t> group = LeadingNumber(text.substr(1));
    const size_t begin = text.find('('), end = text.find(')');
    if (!group || begin == std::string_view::npos || end == std::string_view::npos || end < begin) return;
    const auto size = sizes_.find(*group);
    size_ = size == sizes_.end() ? 0 : size->second;
    id_ = Printable(text.substr(begin + 1, end - begin - 1), 32);
    incomplete_ = text.find(" INCOMPLETE", end) != std::string_view::npos;
    if (text.find(" MISMATCH", end) == std::string_view::npos || reports_.comms.size() >= kMostReported) return;
    reports_.comms.push_back({id_, "", size_, {}, number});
    open_ = true;
    return;
  }
  if (int64_t group = 0; HoldsStatus(text)) {
    if (int32_t size = 0; ReadRow(text, &group, &size) && sizes_.size() < kMostGroups) {
      sizes_[group] = size;
      reports_.largest = std::max(reports_.largest, size);
    }
    constexpr std::string_view kHas = " has status ";
    const size_t has = text.find(kHas);
    if (std::optional<RasRank> rank = ListedRank(text); rank && has != std::string_view::npos) {
      const std::string_view status = text.substr(has + kHas.size());
      AddOdd(*std::move(rank), Printable(status.substr(0, status.find(' ')), 32));
    }
    return;
  }
  if (dead_ && text.starts_with("Process ")) {
    const size_t node = text.find(" on node ");
    if (node == std::string_view::npos || reports_.dead.size() >= kMostListed) return;
    const std::string_view host = text.substr(node + 9);
    reports_.dead.emplace(Printable(host.substr(0, host.find(' ')), fr::kMostNameColumns),
                          NumberBehind(text, "Process ").value_or(0));
    return;
  }
  if (text.empty()) dead_ = incomplete_ = false;
  if (incomplete_) {
    if (std::optional<RasRank> rank = ListedRank(text)) AddOdd(*std::move(rank), "");
    return;
  }
  if (!open_) return;
  RasComm& comm = reports_.comms.back();
  constexpr std::string_view kDifferent = "have different ";
  if (const size_t op = text.find(kDifferent); op != std::string_view::npos) {
    const std::string_view name = text.substr(op + kDifferent.size());
    comm.op = Printable(name.substr(0, name.find(' ')), 32);
    if (comm.op == "collective") comm.op.clear();
    return;
  }
  const int64_t launched = Launched(text);
  std::optional<RasRank> rank = ListedRank(text);
  if (launched != kUnknown && comm.classes.size() < kMostClasses) {
    const int64_t count = rank ? 1 : LeadingNumber(text).value_or(0);
    if (count <= 0 || count > fr::kMaxRank) return;
    comm.classes.push_back({launched, count, {}});
    if (rank) comm.classes.back().ranks.push_back(*std::move(rank));
  } else if (rank && !comm.classes.empty() && comm.classes.back().ranks.size() < kMostListed) {
    comm.classes.back().ranks.push_back(*std::move(rank));
  } else if (text.empty()) {
    open_ = false;
  }
}

void RasReader::AddOdd(RasRank rank, std::string status) {
  if (reports_.odd.size() < kMostListed) reports_.odd.push_back({id_, std::move(rank), size_, std::move(status)});
}

RasReports RasReader::Finish() {
  std::erase_if(reports_.comms, [](const RasComm& comm) { return comm.classes.size() < 2; });
  return std::move(reports_);
}

namespace {

std::optional<RasRank> RankIn(const nlohmann::json& object) {
  const int64_t rank = JsonInteger(object, "rank", int64_t{-1});
  if (rank < 0 || rank > fr::kMaxRank) return std::nullopt;
  RasRank out;
  out.rank = static_cast<int32_t>(rank);
  out.host = Printable(JsonText(object, "host"), fr::kMostNameColumns);
  out.pid = std::clamp<int64_t>(JsonInteger(object, "pid", int64_t{-1}), 0, INT32_MAX);
  out.gpu = static_cast<int32_t>(std::clamp<int64_t>(JsonInteger(object, "nvml_dev", int64_t{-1}), -1, INT16_MAX));
  return out;
}

void TakeComm(const nlohmann::json& object, RasReports* reports) {
  const int64_t size = JsonInteger(object, "size", int64_t{-1});
  if (size <= 0 || size > fr::kMaxRank) return;
  const std::string id = Printable(JsonText(object, "hash"), fr::kMostNameColumns);
  reports->largest = std::max(reports->largest, static_cast<int32_t>(size));
  std::map<std::string, std::map<int64_t, RasClass>> classes;  // indexed by operation and count
  for (const nlohmann::json& item : JsonList(object, "ranks")) {
    const std::optional<RasRank> rank = RankIn(item);
    const nlohmann::json& counts = JsonMember(item, "collective_counts");
    if (!rank || !counts.is_object()) continue;
    for (const auto& [name, count] : counts.items()) {
      if (!count.is_number_integer()) continue;
      const int64_t launched = count.get<int64_t>();
      if (launched < 0 || launched > fr::kMaxCounter) continue;
      RasClass& of = classes[Printable(name, 32)][launched];
      of.launched = launched;
      ++of.count;
      of.ranks.push_back(*rank);
    }
  }
  for (auto& [op, by_count] : classes) {
    if (by_count.size() < 2 || reports->comms.size() >= kMostReported) continue;
    RasComm comm{id, op, static_cast<int32_t>(size), {}, 0};
    for (auto& [launched, of] : by_count) comm.classes.push_back(std::move(of));
    reports->comms.push_back(std::move(comm));
  }
  for (const nlohmann::json& item : JsonList(object, "missing_ranks")) {
    std::optional<RasRank> rank = RankIn(item);
    if (!rank || reports->odd.size() >= kMostListed) continue;
    if (JsonFlag(JsonMember(item, "status"), "considered_dead")) reports->dead.emplace(rank->host, rank->pid);
    reports->odd.push_back({id, *std::move(rank), static_cast<int32_t>(size), ""});
  }
  std::map<int32_t, std::string> hosts;  // by rank
  const bool largest = size == reports->largest;
  if (largest) reports->largest_ranks.clear();
  for (const char* list : {"ranks", "missing_ranks"}) {
    for (const nlohmann::json& item : JsonList(object, list)) {
      const std::optional<RasRank> rank = RankIn(item);
      if (!rank || reports->processes.size() >= kMostAnswers) continue;
      reports->processes[{rank->host, rank->pid}].insert(rank->gpu);
      hosts[rank->rank] = rank->host;
      if (largest) reports->largest_ranks[{rank->host, rank->pid}] = rank->rank;
    }
  }
  std::vector<std::string> order;
  std::set<std::string> known;
  for (auto& [rank, host] : hosts) {
    if (known.insert(host).second) order.push_back(std::move(host));
  }
  if (order.size() > reports->host_order.size()) reports->host_order = std::move(order);
}

}  // namespace

bool IsRasJson(std::string_view head) {
  return fr::Strip(head).starts_with('{') && head.find("\"nccl_version\"") != std::string_view::npos &&
         head.find("\"communicators_count\"") != std::string_view::npos;
}

namespace {

// Returns the end of the first JSON object: reports follow each other, each on one line or on many.
size_t EndOfObject(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text[i] == '{')
      ++depth;
    else if (!quoted && text[i] == '}' && --depth == 0)
      return i + 1;
  }
  return text.size();
}

}  // namespace

absl::StatusOr<RasReports> ReadRasJson(std::string_view text) {
  RasReports reports;
  while (!fr::Strip(text).empty()) {
    const std::string_view one = text.substr(0, EndOfObject(text));
    text.remove_prefix(one.size());
    const nlohmann::json json = ParseJson(one);
    if (!json.is_object()) return absl::DataLossError("is damaged: an ncclras report in JSON that ends early");
    for (const nlohmann::json& comm : JsonList(json, "communicators")) TakeComm(comm, &reports);
  }
  for (const auto& [process, gpus] : reports.processes) reports.gpus += static_cast<int32_t>(gpus.size());
  reports.hosts = static_cast<int32_t>(reports.host_order.size());
  return reports;
}

}  // namespace lockstep::logs
