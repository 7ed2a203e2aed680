// The responses of a server: the list of incidents, and each incident's explore page, report and verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/browser/serve/listing.h"
#include "analyzer/browser/serve/live.h"
#include "analyzer/browser/serve/readers.h"
#include "analyzer/report/roofline.h"
#include "analyzer/util/http/message.h"

namespace lockstep::serve {

using http::Request;
using http::Response;

// Caches pages that are expensive to create, up to a total size.
class PageCache {
 public:
  explicit PageCache(size_t most_bytes) : most_bytes_(most_bytes) {}
  using Page = std::shared_ptr<const std::string>;
  Page Find(const std::string& key);  // null if the page is not cached
  void Add(const std::string& key, Page page);

 private:
  struct Entry {
    std::string key;
    Page page;
  };
  const size_t most_bytes_;
  size_t bytes_ = 0;
  std::vector<Entry> entries_;  // the most recently used is last
};

struct LargeIncident;

// Thread-safe.
class Site {
 public:
  // `live` is the collector whose jobs /TOKEN/live shows; null for none.
  Site(std::vector<std::string> folders, std::string token, std::unique_ptr<LiveJobs> live = nullptr);
  // For readers with keys; addresses contain no token. Incident ids depend only on the path and `secret`.
  Site(std::vector<std::string> folders, std::unique_ptr<Readers> readers, std::string secret,
       std::unique_ptr<LiveJobs> live = nullptr);

  // Serves /TOKEN/, /TOKEN/live, and in /TOKEN/ID/ explore.html, report.html, verdict.json and the files that a large
  // job's page requests: grids.json, calls.json. Serves nothing without the token or a reader's key. With a token,
  // the Host field must also be a loopback name or address.
  Response Answer(const Request& request);

  // Sets what the incidents' speeds are compared with. Call it before the first request.
  void SetRoofline(Roofline roofline) { roofline_ = std::move(roofline); }

  Listing& listing() { return listing_; }

 private:
  // Returns status 200, or a refusal for a client who may not read. Removes the token from the path.
  Response Admit(const Request& request, std::string_view* path);
  Response Incident(std::string_view id, std::string_view file, std::string_view query);
  // Returns the cached page with this key, or makes it.
  absl::StatusOr<PageCache::Page> Cached(const std::string& key,
                                         const std::function<absl::StatusOr<std::string>()>& make);
  // Returns a page made from the folder's data.
  absl::StatusOr<PageCache::Page> Made(const Listed& incident, std::string_view file);
  // Returns the incident's index, if it is up to date and the job is so large that its page requests calls.
  std::shared_ptr<const LargeIncident> Large(const Listed& incident);
  // Returns a large incident's page, the states of its calls, or some ranks' calls.
  Response LargePart(const LargeIncident& large, std::string_view file, std::string_view query);

  const std::string token_;  // empty if readers have keys
  const std::string root_;   // prefix of all addresses: "/TOKEN/" or "/"
  const std::unique_ptr<Readers> readers_;
  Listing listing_;
  const std::unique_ptr<LiveJobs> live_;
  Roofline roofline_;
  std::mutex making_;  // one page at a time, because an incident may need much memory
  std::mutex mutex_;
  PageCache cache_;  // guarded by mutex_
  std::mutex opening_;
  std::vector<std::shared_ptr<const LargeIncident>> large_;  // guarded by opening_; the newest is last
};

// Returns the list as a page. `query` chooses the order: "by=job", "by=job&down=1". `root` is the prefix of all
// addresses. With `live`, the page links to the running jobs.
std::string ListPage(std::vector<Listed> incidents, std::string_view query, const std::string& root, bool live = false);
// Returns the running jobs as a page that reloads itself. `incidents` are the link targets for each job's latest
// incident.
std::string LivePage(const LiveJobs::Answer& answer, const std::vector<Listed>& incidents, const std::string& root,
                     int64_t now_real_ns);
// Returns the Content-Security-Policy of these pages.
std::string ListPolicy();

}  // namespace lockstep::serve
