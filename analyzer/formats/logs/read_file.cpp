#include "analyzer/formats/logs/read_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/frame.h"
#include "analyzer/formats/logs/json_line.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"

namespace lockstep::logs {
namespace {

constexpr size_t kMostLines = 1u << 19, kMostFingerprints = 4096, kMostNotices = 4096, kMostPlaced = 1u << 17,
                 kMostComms = 1u << 17, kMostCalls = 1u << 22;
constexpr size_t kFewPods = 2;  // two pods already show that a log is from several hosts
constexpr size_t kMostJsonBytes = 64u << 20, kMostBeginning = 256u << 10;

// Parses "world_size=8", "world size: 8", "WORLD_SIZE': '8'" or "3/4 clients joined"; 0 if there is none.
int32_t WorldSize(std::string_view text) {
  int32_t most = 0;
  for (const std::string_view word : {"orld", "ORLD"}) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) {
      std::string_view rest = text.substr(at + word.size(), 24);
      if (rest.empty() || !fr::Lower(rest.substr(1)).starts_with("size")) continue;
      rest.remove_prefix(5);
      while (!rest.empty() && std::string_view("=: '\"").find(rest[0]) != std::string_view::npos) rest.remove_prefix(1);
      const int64_t size = LeadingNumber(rest).value_or(0);
      if (size > 0 && size <= fr::kMaxRank) most = std::max(most, static_cast<int32_t>(size));
    }
  }
  if (const size_t joined = text.find(" clients joined"); joined != std::string_view::npos) {
    const size_t slash = text.substr(0, joined).rfind('/');
    const int64_t size = slash == std::string_view::npos ? 0 : LeadingNumber(text.substr(slash + 1)).value_or(0);
    if (size > 0 && size <= fr::kMaxRank) most = std::max(most, static_cast<int32_t>(size));
  }
  return most;
}

class Reader {
 public:
  explicit Reader(FileFacts* facts) : facts_(*facts) {}

  void Take(std::string_view whole, int64_t number) {
    const std::optional<std::string> text = TextOfJsonLine(whole);
    if (!text) return TakeText(whole, number);
    facts_.world = std::max(facts_.world, WorldSize(whole));
    std::string_view left = *text;
    if (left.ends_with('\n')) left.remove_suffix(1);
    for (size_t end; (end = left.find('\n')) != std::string_view::npos; left.remove_prefix(end + 1))
      TakeText(left.substr(0, end), number);
    TakeText(left, number);
  }

  void Finish() {
    EndWrapped();
    facts_.stalled = stalls_.Finish();
    facts_.ras = ras_.Finish();
    facts_.inspected = inspector_.Finish();
    facts_.failed = launcher_.Finish();
    facts_.terminated = launcher_.terminated();
    facts_.raised = exceptions_.Finish();
    for (PrintedStack& stack : stacks_.Finish()) facts_.stacks.push_back(std::move(stack));
  }

 private:
  void TakeText(std::string_view whole, int64_t number) {
    if (Holds(whole, "\x1b")) {
      const std::string plain = WithoutColors(whole);
      if (!Holds(plain, "\x1b")) return TakeText(plain, number);
    }
    if (wrapped_.lines > 0 && Continue(whole)) return;
    if (IsWrapped(whole)) {
      wrapped_ = {std::string(whole), number, 1};
    } else {
      TakeWhole(whole, number);
    }
  }

  // A line of PyTorch or NCCL that was split by a terminal, or when it was copied.
  struct Wrapped {
    std::string text;
    int64_t number = 0;
    int lines = 0;
  };

  // Returns whether a line has the beginning of a known message, but not the text that always follows in the same
  // message.
  static bool IsWrapped(std::string_view text) {
    constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
        {"Watchdog caught collective operation timeout", "before timing out"},
        {"error or timeout) detected", "ast completed"},
        {"failure detected by", "ast completed"},
        {"imeout at NCCL work", "ast completed"},
        {"a dump signal due to", "ast completed"},
        {"] ProcessGroupNCCL'", " got stuck for "},
        {" in store based barrier ", "timeout="},
        {"NCCL INFO ncclCommInit", " - "},
        {": opCount ", "[nranks="},
        {"DDP expects same model across all ranks, but ", " params."}};
    return std::any_of(std::begin(kWhole), std::end(kWhole),
                       [&](const auto& part) { return Holds(text, part.first) && !Holds(text, part.second); });
  }

  // Appends a line that continues the wrapped line. For any other line, ends the wrapped line and returns false.
  bool Continue(std::string_view whole) {
    constexpr int kMostLines = 4;
    const bool begins = TakePrefixes(whole).prefixed || whole.starts_with('[') || whole.starts_with('#') ||
                        Holds(whole, "ProcessGroupNCCL.cpp:") || fr::Strip(whole).empty();
    if (begins || wrapped_.lines == kMostLines || wrapped_.text.size() + whole.size() > kMostLineBytes) {
      EndWrapped();
      return false;
    }
    wrapped_.text.append(whole);
    ++wrapped_.lines;
    if (!IsWrapped(wrapped_.text)) EndWrapped();
    return true;
  }

  void EndWrapped() {
    if (wrapped_.lines == 0) return;
    const Wrapped wrapped = std::exchange(wrapped_, Wrapped());
    TakeWhole(wrapped.text, wrapped.number);
  }

  // Returns where a second line begins, if processes wrote two into one; otherwise 0.
  static size_t SecondLine(std::string_view text) {
    for (size_t at = 1; (at = text.find('[', at)) != std::string_view::npos; ++at) {
      std::string_view rest = text.substr(at);
      const size_t label = rest.starts_with("[rank") ? rest.find("]:[") : std::string_view::npos;
      if (label < 12) rest = rest.substr(label + 2);
      const bool begins = rest.size() > 2 && Holds("EFIW", rest.substr(1, 1)) &&
                          (rest[2] == ' ' || fr::IsDigit(rest[2])) &&
                          rest.substr(0, 64).find("ProcessGroup") != std::string_view::npos;
      if (begins && !fr::Strip(TakePrefixes(text.substr(0, at)).text).empty()) return at;
      if (label < 12) at += label + 2;
    }
    return 0;
  }

  void TakeWhole(std::string_view whole, int64_t number) {
    for (size_t second; (second = SecondLine(whole)) > 0; whole.remove_prefix(second))
      TakeOne(whole.substr(0, second), number);
    TakeOne(whole, number);
  }

  void TakeOne(std::string_view whole, int64_t number) {
    if (whole.starts_with('{')) inspector_.Take(whole, number);
    if (stalls_.Take(whole, number)) return;
    const Line line = TakePrefixes(whole);
    Speaker who{line.rank, line.task, line.local};
    if (who.rank < 0) who.rank = RankAnywhere(whole);
    if (line.local >= 0) {
      // torchrun numbers its own workers, and only some of their lines contain the rank. -1: several hosts in one log.
      const auto [at, fresh] = rank_of_local_.try_emplace(line.local, who.rank);
      if (at->second >= 0 && who.rank >= 0 && at->second != who.rank) at->second = -1;
      if (fresh && who.rank < 0)
        rank_of_local_.erase(at);
      else if (who.rank < 0)
        who.rank = at->second;
    }
    if (who.rank >= 0) facts_.ranks.insert(who.rank);
    if (who.task >= 0) facts_.tasks.insert(who.task);
    if (who.local >= 0) facts_.locals.insert(who.local);
    if (!line.pod.empty() && facts_.pods.size() < kFewPods) facts_.pods.emplace(line.pod);
    facts_.world = std::max(facts_.world, WorldSize(line.text));
    ras_.Take(line.text, number);
    if (auto process = ParseRankProcess(line.text); process && facts_.processes.size() < kMostPlaced)
      facts_.processes.push_back(*std::move(process));
    launcher_.Take(line.text);
    exceptions_.Take(line.text, who.rank, who.task, who.local, number);
    if (Holds(line.text, " terminated with exception: ")) {
      if (const auto ended = ParseEndedWatchdog(line.text)) {
        const bool unknown = who.rank < 0 && who.task < 0 && who.local < 0;
        exceptions_.TakeError(ended->error, unknown ? ended->rank_of_whole : who.rank, who.task, who.local, number);
      }
    }
    TakeHeading(line.text);
    stacks_.Take(line.text, who.rank >= 0 ? who.rank : line.task >= 0 ? line.task : heading_, line.local, number);
    if (Holds(line.text, "NCCL")) {
      if (const auto place = ParseNcclPlace(line.text)) {
        if (place->warning) Keep(WarningOf(*place), who, number, kMostNotices, &facts_.notices);
        return TakeNccl(*place, who, number);
      }
    }
    if (auto notice = notices_.Take(line.text)) Keep(*std::move(notice), who, number, kMostNotices, &facts_.notices);
    if (trace_of_ != SIZE_MAX && TakeTrace(line.text)) return;
    if (Holds(line.text, "Stack trace of the failed collective") && !Holds(line.text, "not found")) {
      const auto last = last_said_.find(who.rank);
      trace_of_ = last == last_said_.end() ? SIZE_MAX : last->second;
      return;
    }
    if (Holds(line.text, "ProcessGroup") || Holds(line.text, "GIL") || Holds(line.text, "eartbeat")) {
      if (auto said = ParseMonitor(line.text)) Keep(*said, who, number, kMostLines, &facts_.monitors);
    }
    if (Holds(line.text, " work") || Holds(line.text, "collective ")) {
      if (auto said = ParseWatchdog(line.text)) {
        if (Keep(std::move(*said), who, number, kMostLines, &facts_.watchdog)) {
          last_said_[who.rank] = facts_.watchdog.size() - 1;
        } else {
          last_said_.erase(who.rank);
        }
      }
    }
    if (Holds(line.text, "monitoredBarrier") || Holds(line.text, "] started ") || Holds(line.text, " collective #") ||
        Holds(line.text, "lagging ranks")) {
      if (auto said = ParseBarrier(line.text)) Keep(std::move(*said), who, number, kMostFingerprints, &facts_.barriers);
    }
    if (Holds(line.text, "store_based_barrier_key:")) {
      if (auto said = ParseStoreBarrier(line.text))
        Keep(*std::move(said), who, number, kMostLines, &facts_.store_barriers);
    }
    if (Holds(line.text, "CollectiveFingerPrint(") || Holds(line.text, "DDP expects same model")) {
      if (auto said = ParseFingerprints(line.text))
        Keep(std::move(*said), who, number, kMostFingerprints, &facts_.fingerprints);
    }
  }

  // Returns false if the limit is reached.
  template <typename What>
  bool Keep(What what, Speaker who, int64_t number, size_t most, std::vector<Said<What>>* out) {
    if (out->size() >= most) {
      facts_.cut = true;
      return false;
    }
    out->push_back({std::move(what), who, number});
    return true;
  }

  // Uses the innermost line that is not PyTorch's own, otherwise the innermost one. Returns false if the trace has
  // ended.
  bool TakeTrace(std::string_view text) {
    const auto frame = ParseTraceLine(text);
    if (!frame) {
      trace_of_ = SIZE_MAX;
      return false;
    }
    std::string& site = facts_.watchdog[trace_of_].what.call_site;
    if (site.empty() || !frame->torch) site = frame->place;
    if (!frame->torch) trace_of_ = SIZE_MAX;
    return true;
  }

  // A heading applies to the stacks below it, until more than kMostOthers lines in a row belong to no stack.
  void TakeHeading(std::string_view text) {
    constexpr int kMostOthers = 8;  // debuggers print up to this many lines before a stack
    if (const int32_t rank = RankInHeading(text); rank >= 0) {
      heading_ = rank;
      others_ = 0;
    } else if (heading_ >= 0) {
      const bool of_stack = text.empty() || text.starts_with(' ') || text.starts_with('#') || Holds(text, "hread ");
      others_ = of_stack ? 0 : others_ + 1;
      if (others_ > kMostOthers) heading_ = -1;
    }
  }

  // Parses "rank 3:" or "==== node1 rank=3 pid=12 ====": a heading that people write above a stack. -1 for any other
  // line. Only a decorated line may contain more than the rank.
  static int32_t RankInHeading(std::string_view text) {
    constexpr size_t kMostBytes = 120, kWord = 4;
    if (text.size() > kMostBytes) return -1;
    const auto is_word = [](char c) { return fr::IsWord(c); };
    const auto begin = std::find_if(text.begin(), text.end(), is_word);
    const auto end = std::find_if(text.rbegin(), text.rend(), is_word).base();
    if (begin >= end) return -1;
    const std::string inside = fr::Lower({&*begin, static_cast<size_t>(end - begin)});
    size_t at = inside.starts_with("rank") ? 0 : std::string::npos;
    const bool decorated = text[0] != ' ' && text.find_first_not_of("=-#*>~+ ") >= 2;
    if (decorated && at != 0 && (at = inside.find(" rank")) != std::string::npos) ++at;
    if (at == std::string::npos) return -1;
    std::string_view number = std::string_view(inside).substr(at + kWord);
    if (decorated) {
      number.remove_prefix(std::min(number.find_first_not_of(" =:_#"), number.size()));
      number = number.substr(0, number.find_first_not_of("0123456789"));
    }
    int32_t rank = -1;
    return fr::ParseNumber(fr::Strip(number), &rank) && rank >= 0 && rank <= fr::kMaxRank ? rank : -1;
  }

  // Finds the rank anywhere in the line, because tools may put any text before a process's output.
  static int32_t RankAnywhere(std::string_view text) {
    const size_t at = text.find("[rank");
    if (at == std::string_view::npos) return -1;
    const size_t close = text.find("]:", at);
    int32_t rank = -1;
    if (close == std::string_view::npos || !fr::ParseNumber(text.substr(at + 5, close - at - 5), &rank)) return -1;
    return rank <= fr::kMaxRank ? rank : -1;
  }

  void TakeNccl(const NcclPlace& place, const Speaker& who, int64_t number) {
    const auto call = ParseNcclCall(place.text);
    const std::optional<NcclInit> made = call ? std::nullopt : ParseNcclInit(place.text);
    const std::string host = Printable(place.host, fr::kMostNameColumns);
    const auto [known, fresh] = processes_.try_emplace({host, place.pid, place.gpu, who.rank}, facts_.nccl.size());
    if (fresh && (comms_.size() >= kMostComms || facts_.nccl.size() >= kMostComms)) {
      processes_.erase(known);
      facts_.cut = true;
      return;
    }
    if (fresh)
      facts_.nccl.push_back(
          {.host = host, .pid = place.pid, .gpu = place.gpu, .pci = {}, .who = who, .number = number, .comms = {}});
    if (!call && !made) return;
    NcclProcess& process = facts_.nccl[known->second];
    const NcclInit init = made.value_or(NcclInit());
    const std::pair<size_t, uint64_t> key{known->second, call ? call->comm : init.comm};
    auto at = comms_.find(key);
    if (at == comms_.end() || IsAnother(init, process.comms[at->second])) {
      if (comms_.size() >= kMostComms) {
        facts_.cut = true;
        return;
      }
      NcclComm& fresh_comm = process.comms.emplace_back();
      fresh_comm.address = key.second;
      fresh_comm.size = call ? call->size : init.size;
      at = comms_.insert_or_assign(key, process.comms.size() - 1).first;
    }
    NcclComm& comm = process.comms[at->second];
    if (made) return TakeInit(init, known->second, &process, &comm);
    if (call->global_rank >= 0) process.global_rank = call->global_rank;
    const int64_t number_in_process = process.calls++;
    if (ring::IsPointToPoint(call->kind)) return TakeTransfer(number_in_process, *call, &comm);
    if (comm.calls++ == 0) {
      comm.first_op_count = call->op_count;
    } else if (call->op_count <= comm.last_op_count) {
      comm.by_count = false;
    }
    comm.last_op_count = call->op_count;
    if (comm.newest.size() < kMostCallsKept && kept_ < kMostCalls) {
      comm.newest.emplace_back(number_in_process, *call);
      ++kept_;
    } else if (!comm.newest.empty()) {
      comm.newest[static_cast<size_t>(comm.calls - 1) % comm.newest.size()] = {number_in_process, *call};
    }
  }

  // Returns whether `init` creates a new communicator at the address of a destroyed one.
  static bool IsAnother(const NcclInit& init, const NcclComm& known) {
    const bool other_id = init.id != 0 && known.id != 0 && known.id != init.id;
    return other_id || (init.comm != 0 && init.what == NcclInit::What::kBegun && (known.begun || known.made));
  }

  void TakeInit(const NcclInit& init, size_t process_index, NcclProcess* process, NcclComm* comm) {
    if (init.what == NcclInit::What::kGone) return;
    comm->rank = init.rank;
    comm->size = init.size;
    if (!init.pci.empty()) process->pci = init.pci;
    if (init.id != 0) comm->id = init.id;
    if (init.call != ring::CallKind::kNone) comm->created_by = init.call;
    comm->made |= init.what == NcclInit::What::kMade;
    const bool first = !std::exchange(comm->begun, true);
    const auto parent = comms_.find({process_index, init.parent});
    if (!first || init.parent == 0 || parent == comms_.end()) return;
    comm->parent = parent->second;
    comm->ordinal = std::max(init.ordinal, ++process->comms[parent->second].splits);
    comm->color = init.color;
  }

  // The line's root is the peer.
  void TakeTransfer(int64_t number_in_process, const NcclCall& call, NcclComm* comm) {
    if (call.root < 0 || call.root >= call.size) return;
    const NcclTransfer transfer{number_in_process, ++comm->transfers[{call.kind, call.root}], call};
    const int64_t before = comm->all_transfers++;
    if (comm->newest_transfers.size() < kMostCallsKept && kept_ < kMostCalls) {
      comm->newest_transfers.push_back(transfer);
      ++kept_;
    } else if (!comm->newest_transfers.empty()) {
      comm->newest_transfers[static_cast<size_t>(before) % comm->newest_transfers.size()] = transfer;
    }
  }

  FileFacts& facts_;
  StackReader stacks_;
  RasReader ras_;
  LauncherReader launcher_;
  NoticeReader notices_;
  ExceptionReader exceptions_;
  InspectorReader inspector_;
  StallReader stalls_;
  int32_t heading_ = -1;  // rank in the newest heading
  int others_ = 0;        // consecutive lines below the heading that belong to no stack
  Wrapped wrapped_;
  std::map<std::tuple<std::string, int64_t, int32_t, int32_t>, size_t> processes_;
  std::map<std::pair<size_t, uint64_t>, size_t> comms_;  // maps process and address to the index in NcclProcess::comms
  size_t kept_ = 0;
  std::map<int32_t, int32_t> rank_of_local_;  // the rank in lines with this local rank
  std::map<int32_t, size_t> last_said_;       // maps a rank to the index of its last line in FileFacts::watchdog
  size_t trace_of_ = SIZE_MAX;                // index in FileFacts::watchdog of the trace's line; SIZE_MAX outside a
                                              // trace
};

}  // namespace

absl::Status ReadFile(const std::string& path, const std::function<bool()>& go_on, FileFacts* facts) {
  facts->path = path;
  const UniqueFd fd = OpenToRead(path);
  if (!fd.ok()) return absl::UnavailableError(absl::StrCat("cannot be opened: ", std::strerror(errno)));
  char head[512];
  const ssize_t got = pread(fd.get(), head, sizeof head, 0);
  const std::string_view first(head, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (const bool py_spy = IsPySpyJson(first); py_spy || IsRasJson(first)) {
    const absl::StatusOr<std::string> text = ReadWholeFile(fd.get(), path, kMostJsonBytes);
    if (!text.ok()) return text.status();
    if (py_spy) {
      absl::StatusOr<PrintedStack> stack = ReadPySpyJson(*text);
      if (stack.ok()) facts->stacks.push_back(*std::move(stack));
      return stack.status();
    }
    absl::StatusOr<RasReports> reports = ReadRasJson(*text);
    if (reports.ok()) facts->ras = *std::move(reports);
    return reports.status();
  }
  std::string beginning(kMostBeginning, '\0');
  const ssize_t begun = pread(fd.get(), beginning.data(), beginning.size(), 0);
  beginning.resize(static_cast<size_t>(std::max<ssize_t>(begun, 0)));
  Reader reader(facts);
  Unframer unframer(FrameOf(beginning),
                    [&reader](std::string_view line, int64_t number) { reader.Take(line, number); });
  absl::Status status =
      ForEachLine(fd.get(), go_on, [&unframer](std::string_view line, int64_t number) { unframer.Add(line, number); });
  unframer.Finish();
  reader.Finish();
  return status;
}

}  // namespace lockstep::logs
