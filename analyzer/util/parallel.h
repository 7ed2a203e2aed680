// Work on all cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

inline size_t WorkerCount(size_t items) {
  return std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), std::max<size_t>(items, 1));
}

// Calls work(item, worker) once for every item below `count`. `worker` is below WorkerCount(count), and each worker
// handles one item at a time. Returns when everything is done. If a call throws (out of memory), skips the items that
// have not begun, and rethrows.
template <typename Work>
void Parallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  auto run = [&](size_t worker) {
    try {
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i, worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      thrown = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(WorkerCount(count));
    for (size_t worker = 1; worker < WorkerCount(count); ++worker) others.emplace_back(run, worker);
  } catch (const std::exception&) {
    // Threads or memory are limited, so the existing threads do all the work.
  }
  run(0);
  for (std::thread& other : others) other.join();
  if (thrown) std::rethrow_exception(thrown);
}

// Divides [0, count) into equal parts and calls work(first, last) once for each.
template <typename Work>
void InParts(int count, int parts, const Work& work) {
  const auto bound = [&](size_t part) { return static_cast<int>(int64_t{count} * static_cast<int64_t>(part) / parts); };
  Parallel(static_cast<size_t>(parts), [&](size_t part, size_t) { work(bound(part), bound(part + 1)); });
}

}  // namespace lockstep
