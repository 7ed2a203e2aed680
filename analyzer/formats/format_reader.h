// The seam between files and the analysis: one class for each dump format. analyzer/load/registry.cpp lists them.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FORMAT_READER_H_
#define LOCKSTEP_ANALYZER_FORMATS_FORMAT_READER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Result for the first bytes of a file. kYes: a magic number, so that later damage is reported as damage. kMaybe: the
// beginning fits the format.
enum class Claim { kNo, kMaybe, kYes };

struct LoadLimits {
  uint64_t all = 8'000'000;      // up to this many operations in all are loaded as a whole
  uint64_t newest = 4'000'000;   // otherwise this many, the newest, shared among the ranks
  uint64_t history = 2'000'000;  // and up to this many of the older ones
  uint32_t at_least = 32;        // of each rank
  std::string job;               // the job to load; empty: there is one
};

struct ReadControl {
  const std::atomic<bool>* cancel = nullptr;  // if it becomes true, no further file is read; the records are useless
                                              // then
  LoadLimits limits;
  std::function<void(int pass)> file_done;  // after each file, in each pass (from 1), on any thread; may be empty

  bool Cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
  void Done(int pass) const {
    if (file_done) file_done(pass);
  }
};

// The results of all readers of one load.
struct Records {
  BundleBuilder library;  // calls of NCCL, in communicators with identities
  // Calls of the framework, whose groups have only names: joined with `library` afterwards. Filled by one source.
  Bundle framework;
  std::vector<Problem> problems;       // files of which nothing could be read, and notes on the load as a whole
  std::vector<std::string> unclaimed;  // files that turned out to be of no format
};

// Stateless: several threads may use one at the same time.
class FormatReader {
 public:
  virtual ~FormatReader() = default;

  // For messages: "ring file", and how its files begin: "\"LOCKSTEP RING\"", quotes included.
  virtual const char* name() const = 0;
  virtual const char* beginning() const = 0;
  // The usual end of its file names: an unreadable file with such a name is always reported.
  virtual const char* ending() const { return ""; }
  // The rank in a file's name, for problems of unreadable files; -1: none.
  virtual int32_t RankOf(const std::string&) const { return -1; }

  // `head`: the first 512 bytes of the file, or all of a shorter one. Never by the file's name.
  virtual Claim Claims(std::string_view head) const = 0;
  // Rank::source of its ranks, from which the analysis knows what their records can show. Formats with the same source
  // hold the same records in other bytes: the first of them reads the files of all in one call.
  virtual Source source() const = 0;
  // How often Read() reads each file.
  virtual int passes() const { return 1; }
  // Adds the contents of the files, which are sorted by path. Files are not trusted: damage becomes problems.
  virtual void Read(const std::vector<std::string>& paths, const ReadControl& control, Records* records) const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_FORMAT_READER_H_
