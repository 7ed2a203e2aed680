// The interface between files and the analysis. analyzer/formats/load/registry.cpp lists the dump formats.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

struct LoadLimits {
  uint64_t all = 2'000'000;      // if all files together have at most this many operations, all are loaded
  uint64_t newest = 1'000'000;   // otherwise, this many of the newest operations, shared equally among the ranks,
  uint64_t history = 1'000'000;  // and up to this many older operations, where hashes of calls differ
  uint32_t at_least = 40;        // minimum number of newest operations for each rank
  // Shared equally among Flight Recorder dumps: one with more than twice its share keeps about its share, the newest.
  uint64_t entries = 500'000;
  std::string job;  // the job to load; empty if there is only one
};

struct ReadControl {
  const std::atomic<bool>* cancel = nullptr;  // once it is true, reading stops and the records are incomplete
  LoadLimits limits;
  std::function<void(int pass)> file_done;  // called after each file in each pass (from 1), on any thread; may be empty

  bool Cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  void Done(int pass) const {
    if (file_done) file_done(pass);
  }
};

// By rank: what kernel logs report about its process or GPU.
using KernelEvents = std::map<int32_t, std::shared_ptr<ProcessEvidence>>;

struct Records {
  BundleBuilder library;  // NCCL calls, in communicators with unique ids
  // The framework's calls, from its dumps or logs. Its groups have no unique ids, and are later joined with `library`.
  Bundle framework;
  // The rank that a launcher's log reports as the first to abort, if no log line shows whether a watchdog ended it
  // because of another rank.
  std::optional<Rank> aborted_first;
  KernelEvents kernel;
  std::vector<Problem> problems;       // files that could not be read at all, and notes about the whole load
  std::vector<std::string> unclaimed;  // text files without a line that the reader recognizes
  // No file shows a rank's state, but a problem reports what the files show, so the load still succeeds.
  bool explained = false;
};

// One dump format.
struct FormatReader {
  // For messages: the format ("ring file"), and how its files begin ("\"LOCKSTEP RING\"", "any text").
  const char *name, *beginning;
  // Returns whether a file may have this format. `head` is its first 512 bytes, or all of a shorter file. The decision
  // does not depend on the file name.
  bool (*claims)(std::string_view head);
  // Rank::source of the format's ranks. If several formats have one source, the first of them reads the files of all of
  // them in one call.
  Source source;
  // Adds the contents of the files, which are sorted by path. The files are untrusted; damage becomes a problem in
  // `records`. Several threads may call it at the same time.
  void (*read)(const std::vector<std::string>& paths, const ReadControl& control, Records* records);
  bool certain = false;     // files begin with a magic number, so later damage is reported as damage
  const char* ending = "";  // the usual extension of the files; an unreadable file with it is always reported
  int passes = 1;           // how often `read` reads each file
};

}  // namespace lockstep
