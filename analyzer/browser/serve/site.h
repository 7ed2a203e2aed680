// The answers of a server: the list of incidents, and each incident's explore page, report and verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/browser/serve/http.h"
#include "analyzer/browser/serve/listing.h"
#include "analyzer/browser/serve/live.h"
#include "analyzer/browser/serve/readers.h"
#include "analyzer/report/roofline.h"

namespace lockstep::serve {

// Pages that are costly to make, up to a number of bytes.
class PageCache {
 public:
  explicit PageCache(size_t most_bytes) : most_bytes_(most_bytes) {}
  using Page = std::shared_ptr<const std::string>;
  Page Find(const std::string& key);  // null if the cache does not have the page
  void Add(const std::string& key, Page page);

 private:
  struct Entry {
    std::string key;
    Page page;
  };
  const size_t most_bytes_;
  size_t bytes_ = 0;
  std::vector<Entry> entries_;  // the most recently used one is last
};

struct LargeIncident;

// Thread-safe.
class Site {
 public:
  // `live`: the collector whose jobs are at /TOKEN/live; null for none.
  Site(std::vector<std::string> folders, std::string token, std::unique_ptr<LiveJobs> live = nullptr);
  // For readers with keys: the addresses have no token. `secret` is for the names of incidents in addresses, which stay
  // the same for the same secret.
  Site(std::vector<std::string> folders, std::unique_ptr<Readers> readers, std::string secret,
       std::unique_ptr<LiveJobs> live = nullptr);

  // /TOKEN/, /TOKEN/live, and in /TOKEN/ID/ explore.html, report.html, verdict.json and what the page of a large job
  // asks for: grids.json, calls.json. Nothing else. Nothing without the token or a reader's key, and with a token
  // nothing if the Host field is not one of this machine's own names.
  Response Answer(const Request& request);

  // What the speeds of incidents are compared with. Before the first request.
  void SetRoofline(Roofline roofline) { roofline_ = std::move(roofline); }

  Listing& listing() { return listing_; }

 private:
  // Status 200, or the answer for who may not read. Removes the token from the path.
  Response Admit(const Request& request, std::string_view* path);
  Response Incident(std::string_view id, std::string_view file, std::string_view query);
  // A page made from the folder's data, or a cached one.
  absl::StatusOr<PageCache::Page> Made(const Listed& incident, std::string_view file);
  // The incident's index, if it has one that is up to date, and the job is so large that its page asks for calls.
  std::shared_ptr<const LargeIncident> Large(const Listed& incident);
  // The page of a large incident, the states of its calls, or calls of some ranks.
  Response LargePart(const LargeIncident& large, std::string_view file, std::string_view query);

  const std::string token_;  // empty with readers
  const std::string root_;   // of all addresses: "/TOKEN/" or "/"
  const std::unique_ptr<Readers> readers_;
  Listing listing_;
  const std::unique_ptr<LiveJobs> live_;
  Roofline roofline_;
  std::mutex making_;  // one page at a time: an incident may take much memory
  std::mutex mutex_;
  PageCache cache_;  // guarded by mutex_
  std::mutex opening_;
  std::vector<std::shared_ptr<const LargeIncident>> large_;  // guarded by opening_; the newest is last
};

// The list as a page. `query` chooses the order: "by=job", "by=job&down=1". `root` begins all addresses. `live`: with a
// link to the running jobs.
std::string ListPage(std::vector<Listed> incidents, std::string_view query, const std::string& root, bool live = false);
// The running jobs as a page that loads itself again. `incidents`: those that a job's last incident can link to.
std::string LivePage(const LiveJobs::Answer& answer, const std::vector<Listed>& incidents, const std::string& root,
                     int64_t now_real_ns);
// The Content-Security-Policy of these pages.
std::string ListPolicy();

}  // namespace lockstep::serve
