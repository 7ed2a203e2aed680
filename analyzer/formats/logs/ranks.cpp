#include "analyzer/formats/logs/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/file_names.h"
#include "analyzer/formats/fr/identity.h"

namespace lockstep::logs {
namespace {

constexpr int64_t kMostSignal = 64, kMostStatus = 255;

// A file of one process names its rank; one log of all has numbers of any kind in its name.
void NameFiles(std::vector<FileFacts>* files) {
  std::vector<fr::FileData> named(files->size());
  for (size_t i = 0; i < files->size(); ++i) named[i].rank.path = (*files)[i].path;
  fr::NameRanks(&named);
  for (size_t i = 0; i < files->size(); ++i) {
    FileFacts& file = (*files)[i];
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

uint32_t Ranks::Intern(fr::FileData* rank, const std::string& text) {
  const auto at = std::find(rank->strings.begin(), rank->strings.end(), text);
  if (at != rank->strings.end()) return static_cast<uint32_t>(at - rank->strings.begin());
  rank->strings.push_back(text);
  return static_cast<uint32_t>(rank->strings.size() - 1);
}

void Ranks::Report(const std::string& path, std::string text, int32_t rank, bool note) {
  problems.push_back({.path = path, .text = std::move(text), .rank = rank, .note = note});
}

void AddStacks(std::vector<FileFacts>* files, Ranks* ranks) {
  // Files are named after processes, too.
  bool named_by_rank = false;
  for (const FileFacts& file : *files) {
    for (const PythonStack& stack : file.stacks) named_by_rank |= stack.pid != file.rank;
  }
  for (FileFacts& file : *files) {
    for (PythonStack& stack : file.stacks) {
      int32_t rank = stack.rank;
      if (rank < 0 && named_by_rank) rank = file.rank;
      if (rank < 0) rank = stack.local;
      if (rank < 0) {
        ranks->Report(file.path,
                      absl::StrCat(stack.line > 0 ? absl::StrCat("line ", stack.line, ": ") : "",
                                   "a Python stack without its rank: name the file rank_3.txt, or put [rank3]: before "
                                   "its lines"));
        continue;
      }
      fr::FileData* const data = ranks->Of(rank, file.path);
      data->rank.process.python_stack = std::move(stack.frames);
      if (stack.pid > 0 && stack.pid <= INT32_MAX) data->rank.pid = static_cast<int32_t>(stack.pid);
    }
  }
}

void AddEnds(const std::vector<FileFacts>& files, Ranks* ranks) {
  const FailedWorker* first = nullptr;
  const std::string* path = nullptr;
  for (const FileFacts& file : files) {
    for (const FailedWorker& worker : file.failed) {
      if (first != nullptr && first->time <= worker.time) continue;
      first = &worker;
      path = &file.path;
    }
  }
  if (first == nullptr || ranks->ranks.contains(first->rank)) return;
  Rank& rank = ranks->Of(first->rank, *path)->rank;
  rank.host = first->host;
  if (first->pid > 0 && first->pid <= INT32_MAX) rank.pid = static_cast<int32_t>(first->pid);
  const bool killed = first->exit_code < 0;
  rank.process.life = killed ? Life::kKilled : Life::kExited;
  (killed ? rank.process.signal : rank.process.exit_code) =
      static_cast<int32_t>(std::abs(std::clamp<int64_t>(first->exit_code, -kMostSignal, kMostStatus)));
}

std::vector<fr::FileData> ToRanks(std::vector<FileFacts> files, std::vector<Problem>* problems) {
  NameFiles(&files);
  Ranks ranks;
  AddWatchdog(files, &ranks);
  AddFingerprints(files, &ranks);
  AddBarriers(files, &ranks);
  AddCalls(files, &ranks);
  AddCounts(files, &ranks);
  AddStacks(&files, &ranks);
  AddEnds(files, &ranks);
  for (const FileFacts& file : files) {
    if (file.cut)
      ranks.Report(file.path, "more than is kept of one file was in it: split it, or leave older lines out");
  }
  // The size of the job, as far as any line reports it. Ranks without other lines count.
  int32_t world = ranks.world, said = 0;
  if (!ranks.ranks.empty()) world = std::max(world, ranks.ranks.rbegin()->first + 1);
  for (const FileFacts& file : files) {
    said = std::max(said, file.world);
    if (!file.ranks.empty()) world = std::max(world, *file.ranks.rbegin() + 1);
    for (const auto& line : file.watchdog) world = std::max(world, line.what.signalled_by + 1);
  }
  // A smaller size is that of some group.
  ranks.sized |= said >= world;
  world = std::max(world, said);
  // A single rank's report names no culprit if the size is unknown: any number of others may be missing.
  if (!ranks.sized && ranks.ranks.size() == 1 && !ranks.ranks.begin()->second.rank.ops.empty()) {
    fr::FileData& only = ranks.ranks.begin()->second;
    for (const fr::UsedGroup& group : only.used) {
      if (group.may_have_more && only.claims.empty()) only.claims.push_back({group.name, group.desc, {only.rank.rank}});
    }
  }
  std::vector<fr::FileData> out;
  int64_t entries = 0;
  std::set<std::string> sized;
  bool unsized = false;
  for (auto& [rank, data] : ranks.ranks) {
    for (fr::UsedGroup& group : data.used) {
      if (group.desc == kWholeDesc) group.size_hint = std::max(group.size_hint, world);
      group.may_have_more &= !ranks.sized;
      unsized |= group.may_have_more;
      // Member lists as long as the file claims would fill the memory.
      if (entries > kMaxMemberEntries) group.size_hint = 0;
      if (sized.insert(group.name).second) entries += std::max(group.size_hint, 0);
    }
    std::stable_sort(data.claims.begin(), data.claims.end(),
                     [](const fr::GroupClaim& a, const fr::GroupClaim& b) { return a.name < b.name; });
    out.push_back(std::move(data));
  }
  if (unsized) {
    ranks.Report(files[0].path,
                 "no line says how many ranks the job has: a rank that is in no log may be missing from "
                 "what the others wait in");
  }
  for (Problem& problem : ranks.problems) problems->push_back(std::move(problem));
  return out;
}

}  // namespace lockstep::logs
