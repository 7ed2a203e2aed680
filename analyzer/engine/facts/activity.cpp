#include "analyzer/engine/facts/activity.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/evidence/activity_rules.h"
#include "analyzer/evidence/frames.h"

namespace lockstep {
namespace {

using activity::kCheckpointPaths;
using activity::kIdleBytesPerSecond;
using activity::kIdleCpuShare;
using activity::kNative;
using activity::kPythonFiles;
using activity::kPythonNames;
using activity::kWrites;
using activity::Rule;

// Prefixes of kernel functions in which a thread waits for storage: page cache and block layer, journals, NFS and
// SunRPC, Lustre, Ceph, FUSE, CIFS, ZFS, GPFS, BeeGFS.
constexpr absl::string_view kStorageWaits[] = {"io_schedule",
                                               "folio_wait",
                                               "wait_on_page",
                                               "balance_dirty_pages",
                                               "wait_on_buffer",
                                               "jbd2_",
                                               "xfs_",
                                               "ext4_",
                                               "btrfs_",
                                               "blkdev_",
                                               "blk_",
                                               "submit_bio_wait",
                                               "rpc_wait_bit",
                                               "nfs_",
                                               "nfs4_",
                                               "cl_sync_io_wait",
                                               "ll_",
                                               "osc_",
                                               "ptlrpc_",
                                               "ldlm_",
                                               "ceph_",
                                               "request_wait_answer",
                                               "fuse_",
                                               "cifs_",
                                               "smb2_",
                                               "wait_for_response",
                                               "txg_wait",
                                               "dmu_tx_wait",
                                               "cxiWait",
                                               "FhgfsOps",
                                               "filemap_fdatawait",
                                               "vfs_fsync",
                                               "do_fsync",
                                               "dio_",
                                               "iomap_dio"};

// Prefixes of functions of GPU and network drivers. Uninterruptible sleep in them is not a wait for storage.
constexpr absl::string_view kDriverWaits[] = {"nv_",  "nvidia", "uvm_",  "os_acquire", "amdgpu",
                                              "kfd_", "ib_",    "mlx5_", "rdma_",      "cma_"};

// Returns an empty string if the text is not a kernel frame.
std::string KernelName(const std::string& text) {
  Frame frame = ParseFrame(text);
  return frame.kind() == StackFrame::KERNEL ? std::move(*frame.mutable_function()) : "";
}

bool StartsWithAny(absl::string_view name, const auto& list) {
  return std::any_of(std::begin(list), std::end(list), [&](absl::string_view p) { return absl::StartsWith(name, p); });
}

bool HoldsAny(absl::string_view text, const auto& list) {
  return std::any_of(std::begin(list), std::end(list), [&](absl::string_view p) { return absl::StrContains(text, p); });
}

std::string Shortened(absl::string_view text) {
  constexpr size_t kMost = 120;
  return text.size() <= kMost ? std::string(text) : absl::StrCat(text.substr(0, kMost), "...");
}

struct Match {
  Stall stall = Stall::kUnknown;
  std::string frame;
};

// The innermost frame that matches a rule shows what the code is doing. Its callers only show how the code got there.
Match InnermostPython(const std::vector<std::string>& stack) {
  for (size_t i = 0; i < std::min<size_t>(stack.size(), kMostStackFrames); ++i) {
    std::string frame = stack[i];
    std::replace(frame.begin(), frame.end(), '\\', '/');
    for (const Rule& rule : kPythonFiles) {
      if (absl::StrContains(frame, rule.part)) return {rule.stall, Shortened(stack[i])};
    }
    for (const Rule& rule : kPythonNames) {
      if (absl::StrContains(frame, rule.part)) return {rule.stall, Shortened(stack[i])};
    }
  }
  return {};
}

Match InnermostNative(const std::vector<std::string>& stack) {
  for (size_t i = 0; i < std::min<size_t>(stack.size(), kMostStackFrames); ++i) {
    for (const Rule& rule : kNative) {
      if (absl::StrContains(stack[i], rule.part)) return {rule.stall, Shortened(stack[i])};
    }
  }
  return {};
}

// Returns the kernel function in which the process waits for storage, or an empty string.
std::string StorageWait(const Process& process) {
  if (StartsWithAny(process.wchan, kStorageWaits)) return process.wchan;
  for (size_t i = 0; i < std::min<size_t>(process.stack.size(), kMostStackFrames); ++i) {
    std::string name = KernelName(process.stack[i]);
    if (!name.empty() && StartsWithAny(name, kStorageWaits)) return name;
  }
  return "";
}

bool DriverWait(const Process& process) {
  if (StartsWithAny(process.wchan, kDriverWaits)) return true;
  return std::ranges::any_of(process.stack, [](const std::string& frame) {
    const std::string name = KernelName(frame);
    return !name.empty() && StartsWithAny(name, kDriverWaits);
  });
}

bool Writes(const Process& process) {
  for (size_t i = 0; i < std::min<size_t>(process.stack.size(), kMostStackFrames); ++i) {
    if (HoldsAny(process.stack[i], kWrites)) return true;
  }
  return false;
}

void Motion(const Process& process, ActivityView* view) {
  const bool sampled = process.sample_gap_ns > 0;
  const double seconds = static_cast<double>(process.sample_gap_ns) / 1e9;
  const bool cpu_known = sampled && process.cpu_ns_between_samples >= 0;
  const bool io_known = sampled && process.io_bytes_between_samples >= 0;
  const double cpu = static_cast<double>(process.cpu_ns_between_samples) / 1e9,
               bytes = static_cast<double>(process.io_bytes_between_samples);
  const bool stacks = !process.stack.empty() && !process.stack_later.empty();
  const bool cpu_moves = cpu_known && cpu > kIdleCpuShare * seconds,
             io_moves = io_known && bytes > kIdleBytesPerSecond * seconds;
  const bool moves = cpu_moves || io_moves || (stacks && process.stack != process.stack_later);
  if (!moves && !cpu_known && !stacks) return;
  view->moving = moves ? Moving::kYes : Moving::kNo;
  view->motion.set_kind(Evidence::MOTION);
  Detail* detail = view->motion.mutable_detail();
  detail->set_flag(moves);
  if (stacks) detail->set_number(process.stack == process.stack_later ? 1 : 2);
  ProcessSample* sample = view->motion.mutable_process();
  sample->set_between_ns(process.sample_gap_ns);
  // For an active process, sets only the values that show activity; otherwise all known values.
  sample->set_cpu_ns((moves ? cpu_moves : cpu_known) ? process.cpu_ns_between_samples : -1);
  sample->set_io_bytes((moves ? io_moves : io_known) ? process.io_bytes_between_samples : -1);
}

bool WaitsForFiles(Stall stall) { return stall == Stall::kCheckpoint || stall == Stall::kStorage; }

// For each activity, evidence lists at most this many ranks and counts the rest.
constexpr size_t kRanksShown = 3;

}  // namespace

const char* StallName(Stall stall) {
  switch (stall) {
    case Stall::kUnknown: return "";
    case Stall::kCheckpoint: return "checkpoint";
    case Stall::kStorage: return "storage";
    case Stall::kDataLoading: return "data loading";
    case Stall::kCompilation: return "compilation";
    case Stall::kGarbageCollection: return "garbage collection";
    case Stall::kInterpreterLock: return "interpreter lock";
    case Stall::kRendezvous: return "rendezvous";
  }
  return "";
}

const char* MovingName(Moving moving) {
  return moving == Moving::kYes ? "moving" : moving == Moving::kNo ? "not moving" : "";
}

size_t CheckpointFile(const Process& process) {
  size_t file = 0;
  while (file < process.written_files.size() &&
         !HoldsAny(absl::AsciiStrToLower(process.written_files[file]), kCheckpointPaths))
    ++file;
  return file;
}

std::string MountOfCheckpoint(const Process& process) {
  const size_t file = CheckpointFile(process);
  return file < process.written_files.size() && file < process.written_mounts.size() ? process.written_mounts[file]
                                                                                     : "";
}

ActivityView ClassifyActivity(const Process& process) {
  ActivityView view;
  Motion(process, &view);
  view.uninterruptible = process.state == "D" || process.threads_in_d > 0;
  const Match native = InnermostNative(process.stack);
  // A garbage collection or a wait for the interpreter lock may be short. The thread counts as stuck in it only if both
  // samples show it.
  const bool brief = !process.stack_later.empty() && InnermostNative(process.stack_later).stall != native.stall;
  const Match python = InnermostPython(process.python_stack);
  const std::string wait = StorageWait(process);
  const bool storage = !wait.empty() || (view.uninterruptible && !DriverWait(process));
  const size_t open = CheckpointFile(process);
  const std::string* file = open < process.written_files.size() ? &process.written_files[open] : nullptr;

  Detail detail;
  // Some native frames take precedence. A garbage collection, a wait for the interpreter lock, or a wait for another
  // process can occur at any Python line.
  if (native.stall == Stall::kRendezvous ||
      ((native.stall == Stall::kGarbageCollection || native.stall == Stall::kInterpreterLock) && !brief) ||
      (native.stall == Stall::kCompilation && python.stall == Stall::kUnknown)) {
    view.stall = native.stall;
    detail.mutable_call()->set_site(native.frame);
  } else if (python.stall != Stall::kUnknown) {
    view.stall = python.stall;
    detail.mutable_call()->set_site(python.frame);
  } else if (file != nullptr && (storage || Writes(process) || view.moving == Moving::kYes)) {
    view.stall = Stall::kCheckpoint;
  } else if (storage) {
    view.stall = Stall::kStorage;
  }
  if (view.stall == Stall::kUnknown) return view;
  detail.set_name(StallName(view.stall));
  if (view.stall == Stall::kCheckpoint && file != nullptr) detail.set_other_name(Shortened(*file));
  if (storage && view.uninterruptible) detail.set_number(std::max<uint32_t>(process.threads_in_d, 1));
  view.evidence.set_kind(Evidence::ACTIVITY);
  *view.evidence.mutable_detail() = std::move(detail);
  if (storage) view.evidence.mutable_process()->set_kernel_function(wait);
  return view;
}

bool SameStall(Stall a, Stall b) {
  return a == b || a == Stall::kUnknown || b == Stall::kUnknown || (WaitsForFiles(a) && WaitsForFiles(b));
}

void DescribeStall(const Bundle& bundle, const std::vector<int32_t>& ranks, Finding* finding) {
  std::map<Stall, std::vector<std::pair<int32_t, Evidence>>> by_stall;  // pairs of rank and evidence
  // Number of named ranks on each host, and of those that wait for files.
  std::map<std::string, int32_t> on_host, waiting_for_files;
  int32_t moving = 0, still = 0;
  std::string mount;
  Evidence motion;
  const auto add = [finding](Evidence::Kind kind) {
    Evidence* evidence = finding->add_evidence();
    evidence->set_kind(kind);
    return evidence->mutable_detail();
  };
  for (int32_t index : ranks) {
    const Rank& rank = bundle.ranks[index];
    const ActivityView view = ClassifyActivity(rank.process);
    ++on_host[rank.host];
    // A rank that waits for its peers does nothing else, no matter which code called the wait.
    const bool waits = view.stall != Stall::kRendezvous && PlaceOfProcess(rank.process).where == Whereabouts::kWaits;
    if (view.stall == Stall::kCheckpoint && !waits && mount.empty()) mount = MountOfCheckpoint(rank.process);
    if (view.stall != Stall::kUnknown && !waits) by_stall[view.stall].push_back({rank.rank, view.evidence});
    if (WaitsForFiles(view.stall) && !waits && !rank.host.empty()) ++waiting_for_files[rank.host];
    moving += view.moving == Moving::kYes;
    still += view.moving == Moving::kNo;
    if (motion.kind() == Evidence::MOTION || view.moving == Moving::kUnknown) continue;
    motion = view.motion;
    motion.mutable_detail()->add_ranks(rank.rank);
  }
  if (moving + still > 0) {
    finding->set_moving(MovingName(moving > 0 ? Moving::kYes : Moving::kNo));
    if (moving > 0 && still > 0) {
      motion.mutable_detail()->set_count(moving);
      motion.mutable_detail()->set_of(still);
    }
    *finding->add_evidence() = std::move(motion);
  }
  if (by_stall.empty()) return;
  // The activity of most ranks. If that is storage and any rank is writing a checkpoint, "checkpoint" is used because
  // it is more specific.
  const auto most = std::ranges::max_element(by_stall, [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.first > b.first;
  });
  const Stall stall =
      most->first == Stall::kStorage && by_stall.contains(Stall::kCheckpoint) ? Stall::kCheckpoint : most->first;
  finding->set_activity(StallName(stall));
  if (stall == Stall::kCheckpoint) finding->set_activity_mount(mount);
  for (const auto& [kind, seen] : by_stall) {
    for (size_t i = 0; i < seen.size() && i < kRanksShown; ++i) {
      Evidence* evidence = finding->add_evidence();
      *evidence = seen[i].second;
      evidence->add_ranks(seen[i].first);
      evidence->mutable_detail()->add_ranks(seen[i].first);
      if (i + 1 == kRanksShown && seen.size() > kRanksShown)
        evidence->mutable_detail()->set_count(static_cast<int64_t>(seen.size() - kRanksShown));
    }
  }
  const bool files = WaitsForFiles(stall);
  if (files && waiting_for_files.size() > 1) {
    // If several hosts wait for files, the problem is the file server's, so no host should be drained.
    int32_t waiting = 0;
    for (const auto& [host, count] : waiting_for_files) waiting += count;
    Detail* detail = add(Evidence::FILES_ON_HOSTS);
    detail->set_count(waiting);
    detail->set_of(static_cast<int64_t>(waiting_for_files.size()));
    finding->set_activity_hosts(static_cast<int32_t>(waiting_for_files.size()));
  }
  // A wait for files usually affects all ranks of a host. If some left no data, the finding is less certain.
  if (files && bundle.ranks_expected > static_cast<int64_t>(bundle.ranks.size())) {
    std::map<std::string, int32_t> present;
    int32_t most = 0;
    for (const Rank& rank : bundle.ranks) most = std::max(most, rank.host.empty() ? 0 : ++present[rank.host]);
    for (const auto& [host, count] : on_host) {
      const int32_t here = host.empty() ? most : present[host];
      if (here >= most) continue;
      finding->set_grade(std::min(finding->grade(), GRADE_GOOD));
      Detail* detail = add(Evidence::HOST_IN_PART);
      detail->set_name(host);
      detail->set_count(here);
      detail->set_of(most);
    }
  }
  if (files && on_host.size() == 1 && ranks.size() > 1 && !on_host.begin()->first.empty() &&
      !finding->has_common_factor()) {
    CommonFactor* factor = finding->mutable_common_factor();
    factor->set_kind("host");
    factor->set_name(on_host.begin()->first);
    factor->set_culprits(static_cast<int32_t>(ranks.size()));
    int32_t members = 0;
    for (const Rank& rank : bundle.ranks) members += rank.host == on_host.begin()->first;
    factor->set_members(members);
  }
}

}  // namespace lockstep
