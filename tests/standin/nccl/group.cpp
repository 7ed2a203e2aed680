// Implements groups: calls are only queued, and the end of the outermost group does the work.
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "tests/standin/nccl/comm.h"

namespace standin {

namespace {

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  int blocking = -1;  // blocking mode of the group's communicators; -1: no communicator yet
  std::vector<Job> jobs;
  std::vector<Task> tasks;
};

thread_local Group group;

// Runs the jobs in parallel, because jobs of one process may wait for each other.
ncclResult_t RunJobs(const std::vector<Job>& jobs) {
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  if (jobs.size() == 1) {
    results[0] = jobs[0].run();
  } else {
    std::mutex mutex;
    std::condition_variable ended;
    size_t left = jobs.size();
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto body = [&, i] {
        results[i] = jobs[i].run();
        const std::lock_guard lock(mutex);
        --left;
        ended.notify_one();
      };
      if (!StartThread(body)) {
        results[i] = ncclSystemError;
        const std::lock_guard lock(mutex);
        --left;
      }
    }
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return left == 0; });
  }
  ncclResult_t first = ncclSuccess;
  for (const ncclResult_t result : results) {
    if (first == ncclSuccess) {
      first = result;
    }
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].finish(results[i]);
  }
  return first;
}

ncclResult_t RunGroup(std::vector<Job> jobs, std::vector<Task> tasks) {
  ncclResult_t result = jobs.empty() ? ncclSuccess : RunJobs(jobs);
  if (result != ncclSuccess) {
    return result;
  }
  // Launches one communicator after another, in hash order and not in program order, as NCCL does.
  std::vector<CommPtr> comms;
  for (const Task& task : tasks) {
    if (std::find(comms.begin(), comms.end(), task.comm) == comms.end()) {
      comms.push_back(task.comm);
    }
  }
  std::stable_sort(comms.begin(), comms.end(), [](const CommPtr& a, const CommPtr& b) { return a->hash < b->hash; });
  for (const CommPtr& comm : comms) {
    std::vector<Task> own;
    for (Task& task : tasks) {
      if (task.comm == comm) {
        own.push_back(std::move(task));
        task.comm = nullptr;
      }
    }
    const ncclResult_t launched = Launch(comm, std::move(own));
    if (result == ncclSuccess) {
      result = launched;
    }
  }
  return result;
}

// Delays a non-blocking communicator's background work, so that callers must wait in tests.
void AsyncDelay() {
  static const useconds_t delay = [] {
    const char* text = getenv("STANDIN_ASYNC_DELAY_US");
    return static_cast<useconds_t>(text ? atoi(text) : 0);
  }();
  if (delay) {
    usleep(delay);
  }
}

ncclResult_t RunInBackground(std::vector<Job> jobs, std::vector<Task> tasks) {
  std::vector<CommPtr> comms;
  for (const Job& job : jobs) {
    comms.push_back(job.comm);
  }
  for (const Task& task : tasks) {
    comms.push_back(task.comm);
  }
  std::sort(comms.begin(), comms.end());
  comms.erase(std::unique(comms.begin(), comms.end()), comms.end());
  for (const CommPtr& comm : comms) {
    comm->async_result.store(ncclInProgress);
  }
  auto shared = std::make_shared<std::pair<std::vector<Job>, std::vector<Task>>>(std::move(jobs), std::move(tasks));
  const bool started = StartThread([shared, comms] {
    AsyncDelay();
    const ncclResult_t result = RunGroup(std::move(shared->first), std::move(shared->second));
    for (const CommPtr& comm : comms) {
      comm->async_result.store(result, std::memory_order_release);
    }
  });
  if (!started) {
    for (const CommPtr& comm : comms) {
      comm->async_result.store(ncclSystemError);
    }
    return ncclSystemError;
  }
  return ncclInProgress;
}

ncclResult_t Note(bool blocking) {
  const int value = blocking ? 1 : 0;
  if (group.blocking < 0) {
    group.blocking = value;
  }
  if (group.blocking != value) {
    Warn(nullptr, "blocking and non-blocking communicators are mixed in one group");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

}  // namespace

int GroupDepth() { return group.depth; }

ncclResult_t GroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t GroupError(ncclResult_t result) {
  if (group.depth > 0 && result != ncclSuccess && result != ncclInProgress && group.error == ncclSuccess) {
    group.error = result;
  }
  return result;
}

namespace {

ncclResult_t EndOutermost(bool simulate);

}  // namespace

ncclResult_t GroupEnd(bool simulate) {
  if (group.depth == 0) {
    Warn(nullptr, "ncclGroupEnd: no group is open");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) {
    return ncclSuccess;
  }
  ProfilerBeginGroupEnd();
  const ncclResult_t result = EndOutermost(simulate);
  ProfilerEndGroup();
  return result;
}

namespace {

ncclResult_t EndOutermost(bool simulate) {
  Group ended = std::move(group);
  group = Group{};
  if (ended.error != ncclSuccess) {
    for (const Job& job : ended.jobs) {
      if (job.drop) {
        job.drop();
      } else {
        job.finish(ended.error);
      }
    }
    return ended.error;
  }
  if (ended.jobs.empty() && ended.tasks.empty()) {
    return ncclSuccess;
  }
  if (ended.blocking == 0) {
    return RunInBackground(std::move(ended.jobs), std::move(ended.tasks));
  }
  if (simulate) {
    ended.tasks.clear();
  }
  return RunGroup(std::move(ended.jobs), std::move(ended.tasks));
}

}  // namespace

ncclResult_t AddTask(Task task) {
  const bool alone = group.depth == 0;
  if (alone) {
    GroupStart();
  }
  ProfilerBeginCall(task, alone ? 1 : group.depth + 1);
  ncclResult_t result = Note(task.comm->blocking);
  if (result == ncclSuccess) {
    group.tasks.push_back(std::move(task));
  } else {
    GroupError(result);
  }
  ProfilerEndCall();
  return alone ? GroupEnd(false) : result;
}

ncclResult_t AddJob(Job job) {
  const bool alone = group.depth == 0;
  if (alone) {
    GroupStart();
  }
  const ncclResult_t result = Note(job.comm->blocking);
  if (result == ncclSuccess) {
    group.jobs.push_back(std::move(job));
  } else {
    GroupError(result);
  }
  return alone ? GroupEnd(false) : result;
}

}  // namespace standin

STANDIN_API(ncclResult_t, ncclGroupStart, ()) { return standin::GroupStart(); }
STANDIN_API(ncclResult_t, ncclGroupEnd, ()) { return standin::GroupEnd(false); }
STANDIN_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info)) {
  if (info) {
    // Callers built with other versions may pass a shorter structure.
    size_t size = 0;
    memcpy(&size, info, sizeof size);
    if (size < 16 || info->magic != NCCL_SIM_INFO_MAGIC) {
      standin::Warn(nullptr, "ncclSimInfo_t is not initialized; use NCCL_SIM_INFO_INITIALIZER");
      return standin::GroupError(ncclInvalidArgument);
    }
    if (size >= offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float)) {
      info->estimatedTime = 1.0f;
    }
  }
  return standin::GroupEnd(true);
}
