#include "analyzer/formats/logs/ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/identity.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/util/rank_text.h"

namespace lockstep::logs {
namespace {

// Sets FileFacts::rank. Only the name of a single process's file contains the rank; other names may contain any
// numbers.
void NameFiles(std::vector<FileFacts>* files) {
  std::vector<fr::FileData> named(files->size());
  for (size_t i = 0; i < files->size(); ++i) named[i].rank.path = (*files)[i].path;
  fr::NameRanks(&named);
  // Ranks begin near 0; numbers of hosts and processes rarely do.
  constexpr int64_t kSparse = 4;
  std::map<std::string, int64_t> alike;  // number of files by the shape of their names
  std::vector<fr::FileName> names;
  for (const fr::FileData& file : named) {
    names.push_back(fr::ParseFileName(file.rank.path, file.rank.path.rfind('/') + 1));
    ++alike[names.back().shape];
  }
  for (size_t i = 0; i < named.size(); ++i) {
    int32_t& rank = named[i].rank.rank;
    const auto is_rank = [&](const fr::NamedNumber& number) { return number.after_rank && number.value == rank; };
    const bool after_rank = std::any_of(names[i].numbers.begin(), names[i].numbers.end(), is_rank);
    if (!after_rank && rank >= kSparse * alike[names[i].shape]) rank = -1;
  }
  for (size_t i = 0; i < files->size(); ++i) {
    FileFacts& file = (*files)[i];
    // A file with the lines of several ranks or processes is the log of a host.
    const bool processes = std::any_of(file.nccl.begin(), file.nccl.end(), [&](const NcclProcess& process) {
      return process.pid != file.nccl[0].pid || process.host != file.nccl[0].host;
    });
    if (processes || std::max({file.ranks.size(), file.tasks.size(), file.locals.size()}) > 1) continue;
    // A file that reports the failure of another rank is a launcher's log, so the number in its name is not a rank.
    const auto other = [&](const FailedWorker& worker) {
      return worker.rank >= 0 && worker.rank != named[i].rank.rank;
    };
    if (std::any_of(file.failed.begin(), file.failed.end(), other)) continue;
    if (files->size() > 1) {
      file.rank = named[i].rank.rank;
      continue;
    }
    const fr::FileName name = fr::ParseFileName(file.path, file.path.rfind('/') + 1);
    for (const fr::NamedNumber& number : name.numbers) {
      if (number.after_rank && number.value >= 0) file.rank = number.value;
    }
  }
}

}  // namespace

int32_t FirstKnown(std::initializer_list<int32_t> ranks) {
  for (const int32_t rank : ranks) {
    if (rank >= 0) return rank;
  }
  return -1;
}

std::string RanksText(const std::set<int32_t>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FoldRanks({ranks.begin(), ranks.end()}));
}

fr::FileData* Ranks::Of(int32_t rank, const std::string& path) {
  const auto [at, fresh] = ranks.try_emplace(rank);
  fr::FileData& data = at->second;
  if (fresh) {
    data.usable = true;
    data.rank.rank = rank;
    data.rank.path = path;
    data.rank.source = Source::kFlightRecorder;
  }
  return &data;
}

uint32_t Ranks::GroupOf(fr::FileData* rank, const std::string& name, const std::string& desc) {
  for (uint32_t i = 0; i < rank->used.size(); ++i) {
    if (rank->used[i].name == name && rank->used[i].desc == desc) return i;
  }
  fr::UsedGroup group;
  group.name = name;
  group.desc = desc;
  rank->used.push_back(std::move(group));
  return static_cast<uint32_t>(rank->used.size() - 1);
}

void Ranks::AddStuck(fr::FileData* rank, const std::string& group, ring::CallKind kind, const std::string& name) {
  const uint32_t index = GroupOf(rank, group, "");
  fr::Progress& progress = rank->used[index].progress;
  progress.issued = rank->used[index].collectives = 1;
  progress.completed = kNone;
  Op& op = AddOp(rank, index, 1, kind, name);
  op.retired = true;
  op.name = Intern(rank, name);
}

Op& Ranks::AddOp(fr::FileData* rank, uint32_t group, int64_t seq, ring::CallKind kind, const std::string& name) {
  Op op;
  op.membership = group;
  op.seq = seq;
  op.kind = kind == ring::CallKind::kNone ? ring::CallKind::kOtherCollective : kind;
  op.state = OpState::kIncomplete;
  op.record_id = op.index = static_cast<int64_t>(rank->rank.ops.size());
  if (op.kind == ring::CallKind::kOtherCollective) op.name = Intern(rank, name);
  return rank->rank.ops.emplace_back(op);
}

uint32_t Ranks::Intern(fr::FileData* rank, const std::string& text) {
  // Searches only the newest strings. If a string gets several indexes, these become one when the ranks are merged.
  constexpr size_t kMostCompared = 64;
  const size_t size = rank->strings.size();
  for (size_t i = size; i-- > size - std::min(size, kMostCompared);) {
    if (rank->strings[i] == text) return static_cast<uint32_t>(i);
  }
  rank->strings.push_back(text);
  return static_cast<uint32_t>(rank->strings.size() - 1);
}

void Ranks::AddPlace(int32_t rank, std::string_view host, int64_t pid, const std::string& pci) {
  const std::string name(host.substr(0, host.find('.')));
  places_[{name, 0, ""}].insert(rank);
  for (const std::string& of : {name, std::string()}) {
    if (pid > 0) places_[{of, pid, ""}].insert(rank);
    if (!pci.empty()) places_[{of, 0, pci}].insert(rank);
  }
}

const std::set<int32_t>& Ranks::At(std::string_view host, int64_t pid, const std::string& pci) const {
  static const std::set<int32_t> kNobody;
  const std::string name(host.substr(0, host.find('.')));
  if (name.empty() && pid <= 0 && pci.empty()) return kNobody;
  const auto found = places_.find({name, pci.empty() ? std::max<int64_t>(pid, 0) : 0, pci});
  return found == places_.end() ? kNobody : found->second;
}

std::string Ranks::HostIn(const std::string& path) const {
  const size_t name = path.rfind('/');
  const size_t folder = name == std::string::npos || name == 0 ? name : path.rfind('/', name - 1);
  const std::string_view end = std::string_view(path).substr(folder == std::string::npos ? 0 : folder + 1);
  std::string best;
  for (const auto& [place, ranks] : places_) {
    const auto& [host, pid, pci] = place;
    if (pid == 0 && pci.empty() && host.size() > best.size() && Holds(end, host)) best = host;
  }
  return best;
}

void Ranks::Report(const std::string& path, std::string text, int32_t rank, bool note, const std::string& like) {
  problems.push_back({.path = path, .text = std::move(text), .rank = rank, .note = note, .like = like});
}

void Ranks::Tell(const std::string& path, std::string text, int32_t rank, const std::string& like) {
  told.push_back({.path = path, .text = std::move(text), .rank = rank, .like = like});
}

namespace {

// Returns whether the stack begins with the program's own module, or what Python runs after it. Other threads also
// begin in threading.py.
bool IsRoot(const PrintedStack& stack) {
  const std::string& outermost = stack.frames.back();
  if (stack.native)
    return outermost.starts_with("_start") || outermost.starts_with("__libc_start") || outermost.starts_with("main");
  return outermost.starts_with("<module> (") || Holds(outermost, "atexit") ||
         (Holds(outermost, "threading.py:") && !outermost.starts_with("_bootstrap"));
}

// Returns whether most stacks are complete. If so, stacks without their outermost frame are truncated.
bool MostAreWhole(const std::vector<FileFacts>& files) {
  size_t whole = 0, all = 0;
  for (const FileFacts& file : files) {
    for (const PrintedStack& stack : file.stacks) ++all, whole += IsRoot(stack);
  }
  return whole * 2 > all;
}

// Returns the ranks of files with stacks that are named after hosts and GPUs: ranks follow this order. Empty unless all
// hosts have the same GPUs, and each GPU has one file.
std::map<std::string, int32_t> RanksByGpus(const std::vector<FileFacts>& files) {
  std::map<std::pair<size_t, std::string>, std::map<int32_t, std::string>>
      paths;  // by the name before the GPU, with its length; then by GPU
  for (const FileFacts& file : files) {
    if (file.stacks.empty()) continue;
    const std::string name = fr::Lower(file.path.substr(file.path.rfind('/') + 1));
    int32_t gpu = -1;
    size_t at = std::string::npos;
    for (const std::string_view word : {"gpu", "local_rank", "local-rank", "localrank"}) {
      if (gpu >= 0 || (at = name.rfind(word)) == std::string::npos || at + word.size() >= name.size()) continue;
      const std::string number = name.substr(at + word.size() + (fr::IsDigit(name[at + word.size()]) ? 0 : 1));
      // Hosts may be named gpu003.
      if (number.size() < 2 || number[0] != '0' || !fr::IsDigit(number[1])) gpu = RankBehind(number, "");
    }
    // A longer name sorts later: node10 after node9.
    if (gpu < 0 || !paths[{at, name.substr(0, at)}].emplace(gpu, file.path).second) return {};
  }
  std::map<std::string, int32_t> ranks;
  for (const auto& [host, of_gpu] : paths) {
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    const auto& first = paths.begin()->second;
    if (!std::equal(of_gpu.begin(), of_gpu.end(), first.begin(), first.end(), same)) return {};
    if (paths.size() > 1 && of_gpu.rbegin()->first + 1 != std::ssize(of_gpu)) return {};
    const auto before = static_cast<int32_t>(ranks.size());
    for (const auto& [gpu, path] : of_gpu) ranks.emplace(path, before + gpu);
  }
  return ranks;
}

}  // namespace

void AddStacks(std::vector<FileFacts>* files, Ranks* ranks) {
  const bool most_are_whole = MostAreWhole(*files);
  // Files may be named after processes instead, or after GPUs.
  bool named_by_rank = false;
  for (const FileFacts& file : *files) {
    for (const PrintedStack& stack : file.stacks) named_by_rank |= stack.pid != file.rank;
  }
  const std::map<std::string, int32_t> gpus = RanksByGpus(*files);
  for (FileFacts& file : *files) {
    for (PrintedStack& stack : file.stacks) {
      int32_t rank = stack.rank;
      const auto gpu = gpus.find(file.path);
      if (rank < 0 && gpu == gpus.end() && named_by_rank) rank = file.rank;
      if (rank < 0 && stack.pid > 0) {
        const std::set<int32_t>& of = ranks->At("", stack.pid, "");
        if (of.size() == 1) rank = *of.begin();
      }
      if (rank < 0) rank = stack.local;
      if (rank < 0 && gpu != gpus.end()) rank = gpu->second;
      if (rank < 0) {
        ranks->Report(
            file.path,
            absl::StrCat(stack.line > 0 ? absl::StrCat("line ", stack.line, ": ") : "",
                         "a stack without a rank; name the file rank_3.txt, or put [rank3]: before its lines"));
        continue;
      }
      fr::FileData* const data = ranks->Of(rank, file.path);
      if (most_are_whole && !IsRoot(stack)) {
        ranks->Report(file.path, "the outermost frames of the stack are missing, so it is not used", rank);
        continue;
      }
      (stack.native ? data->rank.process.stack : data->rank.process.python_stack) = std::move(stack.frames);
      if (stack.pid > 0 && stack.pid <= INT32_MAX) data->rank.pid = static_cast<int32_t>(stack.pid);
    }
  }
}

namespace {

// Adds the places that lines other than NCCL's own name.
void AddPlaces(const std::vector<FileFacts>& files, Ranks* ranks) {
  for (const FileFacts& file : files) {
    for (const RankProcess& process : file.processes) ranks->AddPlace(process.rank, process.host, process.pid, "");
    for (const FailedWorker& worker : file.failed) {
      if (worker.rank >= 0) ranks->AddPlace(worker.rank, worker.host, worker.pid, "");
    }
    if (file.ras.largest < file.ras.gpus) continue;
    for (const auto& [process, rank] : file.ras.largest_ranks) ranks->AddPlace(rank, process.first, process.second, "");
  }
}

// Assigns the kernel's messages to ranks: by process if they name one, otherwise by GPU. If a message names no host
// (dmesg), the file's name may.
void AddKernelEvents(std::vector<FileFacts>* files, const Ranks& ranks, KernelEvents* kernel) {
  for (FileFacts& file : *files) {
    for (Said<Notice>& said : file.notices) {
      Notice& what = said.what;
      if (what.event == nullptr) continue;
      if (what.host.empty()) what.host = ranks.HostIn(file.path);
      const std::set<int32_t>& at = ranks.At(what.host, what.pid, what.pid > 0 ? "" : what.pci);
      if (at.size() != 1 || (what.pid <= 0 && what.pci.empty())) continue;
      std::shared_ptr<ProcessEvidence>& of = (*kernel)[*at.begin()];
      if (of == nullptr) of = std::make_shared<ProcessEvidence>();
      HardwareEvent* const event = of->add_hardware();
      *event = *what.event;
      event->set_age_ns(-1);  // unknown
    }
  }
}

}  // namespace

std::vector<fr::FileData> ToRanks(std::vector<FileFacts> files, std::vector<Problem>* problems,
                                  std::optional<Rank>* aborted_first, KernelEvents* kernel) {
  NameFiles(&files);
  Ranks ranks;
  std::set<std::pair<std::string, int64_t>> processes;
  for (const FileFacts& file : files) {
    ranks.said = std::max({ranks.said, file.world, file.ras.largest, file.ras.gpus});
    for (const NcclProcess& process : file.nccl) {
      processes.insert({process.host, process.pid});
      for (const NcclComm& comm : process.comms) ranks.said = std::max(ranks.said, comm.size);
    }
  }
  ranks.said = std::max(ranks.said, static_cast<int32_t>(processes.size()));
  AddWatchdog(files, &ranks);
  AddFingerprints(files, &ranks);
  AddBarriers(files, &ranks);
  AddStoreBarriers(files, &ranks);
  AddStalled(files, &ranks);
  AddCalls(files, &ranks);
  AddCounts(files, &ranks);
  AddCompleted(files, &ranks);
  AddPlaces(files, &ranks);
  AddKernelEvents(&files, ranks, kernel);
  AddStacks(&files, &ranks);
  AddEnds(files, &ranks);
  AddSeen(files, &ranks);
  for (const FileFacts& file : files) {
    if (file.cut)
      ranks.Report(file.path,
                   "the file contains more data than the limit for one file; split it, or remove older lines");
  }
  // The job has at least this many ranks: one more than the highest rank that a line names.
  int32_t world = ranks.world;
  if (!ranks.ranks.empty()) world = std::max(world, ranks.ranks.rbegin()->first + 1);
  for (const FileFacts& file : files) {
    if (!file.ranks.empty()) world = std::max(world, *file.ranks.rbegin() + 1);
    for (const auto& line : file.watchdog) world = std::max(world, line.what.signalled_by + 1);
  }
  // No group has more members than the job has ranks.
  for (const auto& [rank, data] : ranks.ranks) {
    for (const fr::UsedGroup& group : data.used) world = std::max(world, std::min(group.size_hint, fr::kMaxRank + 1));
  }
  // If `said` is smaller, it is only the size of some group.
  ranks.sized |= ranks.said >= world;
  world = std::max(world, ranks.said);
  // If the size is unknown, a single rank's report identifies no culprit, because any number of others may be
  // missing.
  if (!ranks.sized && ranks.ranks.size() == 1 && !ranks.ranks.begin()->second.rank.ops.empty()) {
    fr::FileData& only = ranks.ranks.begin()->second;
    for (const fr::UsedGroup& group : only.used) {
      if (group.may_have_more && only.claims.empty())
        only.claims.push_back({group.name, group.desc, std::vector{only.rank.rank}});
    }
  }
  size_t memberships = 0;
  for (const auto& [rank, data] : ranks.ranks) memberships += data.used.size();
  std::map<std::string, size_t> claimed;  // size by name
  for (const auto& [rank, data] : ranks.ranks) {
    for (const fr::GroupClaim& claim : data.claims) claimed[claim.name] = claim.members.size();
  }
  for (const auto& [rank, events] : *kernel) {
    if (const auto of = ranks.ranks.find(rank); of != ranks.ranks.end()) of->second.rank.process.evidence = events;
  }
  std::vector<fr::FileData> out;
  int64_t entries = 0;
  std::map<std::string, bool> listed;  // whether there is room for the members, by name
  bool unsized = false;
  for (auto& [rank, data] : ranks.ranks) {
    if (ranks.sized) data.rank.world_size = world;
    for (fr::UsedGroup& group : data.used) {
      if (group.desc == kWholeDesc) group.size_hint = std::max(group.size_hint, world);
      // A listed group may have more members if the job is larger than the list.
      const auto counted = claimed.find(group.name);
      const bool smaller = group.desc != kWholeDesc && counted != claimed.end() &&
                           counted->second < static_cast<size_t>(std::max(world, 0));
      group.may_have_more &= !ranks.sized || smaller;
      unsized |= group.may_have_more && !ranks.sized;
      // Member lists as long as the file claims might exhaust the memory.
      const auto [at, fresh] = listed.try_emplace(group.name, entries + group.size_hint <= MostListed(memberships));
      if (!at->second) group.size_hint = 0;
      if (fresh) entries += std::max(group.size_hint, 0);
    }
    std::stable_sort(data.claims.begin(), data.claims.end(),
                     [](const fr::GroupClaim& a, const fr::GroupClaim& b) { return a.name < b.name; });
    out.push_back(std::move(data));
  }
  if (unsized) {
    ranks.Tell(files[0].path, absl::StrCat(ranks.waited.empty() ? "ranks waited" : RanksText(ranks.waited) + " waited",
                                           " until a timeout, and no line shows how many ranks the job has: a rank "
                                           "that is in no log may be the one that they waited for"));
  }
  for (std::vector<Problem>* from : {&ranks.told, &ranks.problems}) {
    for (Problem& problem : *from) problems->push_back(std::move(problem));
  }
  *aborted_first = std::move(ranks.aborted_first);
  return out;
}

}  // namespace lockstep::logs
