#include "analyzer/browser/serve/site.h"

#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/browser/explore/explore.h"
#include "analyzer/engine/replay/conclude.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/report/report.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/http/address.h"
#include "analyzer/util/printable.h"
#include "analyzer/viewdata/facts.h"

namespace lockstep::serve {
namespace {

using http::TextResponse;

constexpr size_t kMostCached = 128 << 20, kMostFile = 64 << 20;
// The page of a job with at least this many ranks requests calls on demand, if there is an index. Other pages contain
// them.
constexpr size_t kLargeFrom = 1025;
constexpr size_t kMostLarge = 2;  // open indexes
constexpr size_t kMostAskedRows = 256;
constexpr const char* kHtml = "text/html; charset=utf-8";
// Anyone may have written the folder's report.html, so scripts are forbidden, and "sandbox" also prevents redirects.
constexpr const char* kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; sandbox";

// Returns whether the Host field contains a loopback name or address. Otherwise a page of another site whose name
// resolves to this machine could read the responses.
bool OwnHost(std::string_view host) {
  const bool six = host.substr(0, 6) == "[::1]:" || host == "[::1]";
  if (six) host.remove_prefix(5);
  const size_t colon = host.find(':');
  const std::string_view port = colon == std::string_view::npos ? "0" : host.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string_view::npos) return false;
  if (six) return true;
  const std::optional<http::Address> address = http::ParseAddress(std::string(host.substr(0, colon)));
  return address && address->loopback;
}

// Reads "17,4,900": row indexes of ranks. Returns false if the text is invalid or lists too many.
bool ParseRows(std::string_view query, size_t ranks, std::vector<size_t>* rows) {
  while (!query.empty() && rows->size() < kMostAskedRows) {
    const size_t comma = std::min(query.find(','), query.size());
    uint64_t row = 0;
    if (comma > 7 || !absl::SimpleAtoi(absl::string_view(query.data(), comma), &row) || row >= ranks) return false;
    rows->push_back(static_cast<size_t>(row));
    query.remove_prefix(std::min(comma + 1, query.size()));
  }
  return query.empty() && !rows->empty();
}

// Removes and returns the first part of a path: "a" of "/a/b/c", which leaves "b/c".
std::string_view TakePart(std::string_view* path) {
  if (!path->empty() && path->front() == '/') path->remove_prefix(1);
  const size_t slash = std::min(path->find('/'), path->size());
  const std::string_view part = path->substr(0, slash);
  path->remove_prefix(slash);
  return part;
}

}  // namespace

struct LargeIncident {
  LargeIncident(std::string key, std::unique_ptr<IndexReader> index, ViewFacts facts)
      : key(std::move(key)),
        index(std::move(index)),
        facts(std::move(facts)),
        frame(FrameOfIndex(*this->index, this->facts)),
        calls(*this->index) {}

  const std::string key;  // identifies the version of the file
  const std::unique_ptr<IndexReader> index;
  const ViewFacts facts;
  const Bundle frame;
  const IndexCalls calls;
};

PageCache::Page PageCache::Find(const std::string& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (found == entries_.end()) return nullptr;
  std::rotate(found, found + 1, entries_.end());
  return entries_.back().page;
}

void PageCache::Add(const std::string& key, Page page) {
  bytes_ += page->size();
  entries_.push_back({key, std::move(page)});
  size_t gone = 0;
  for (; bytes_ > most_bytes_ && gone < entries_.size(); ++gone) bytes_ -= entries_[gone].page->size();
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(gone));
}

Site::Site(std::vector<std::string> folders, std::string token, std::unique_ptr<LiveJobs> live)
    : token_(std::move(token)),
      root_(absl::StrCat("/", token_, "/")),
      listing_(std::move(folders), token_),
      live_(std::move(live)),
      cache_(kMostCached) {}

Site::Site(std::vector<std::string> folders, std::unique_ptr<Readers> readers, std::string secret,
           std::unique_ptr<LiveJobs> live)
    : root_("/"),
      readers_(std::move(readers)),
      listing_(std::move(folders), std::move(secret)),
      live_(std::move(live)),
      cache_(kMostCached) {}

Response Site::Admit(const Request& request, std::string_view* path) {
  if (readers_ == nullptr) {
    if (!OwnHost(request.host)) return TextResponse(421, "Open this server as 127.0.0.1 or localhost.\n");
    const std::string_view token = TakePart(path);
    if (token.size() != token_.size() || sodium_memcmp(token.data(), token_.data(), token_.size()) != 0)
      return TextResponse(403, "The address must contain the token that lockstep serve printed.\n");
    return {};
  }
  // A browser also sends the key with requests from other sites' pages.
  if (request.embedded) return TextResponse(403, "Requests from other sites' pages are refused.\n");
  if (readers_->Admit(request.authorization)) return {};
  Response response = TextResponse(401, "Enter any name, and your reader's key as the password.\n");
  response.more = "WWW-Authenticate: Basic realm=\"Lockstep: any name, and your key\", charset=\"UTF-8\"\r\n";
  return response;
}

Response Site::Answer(const Request& request) {
  std::string_view path = request.path;
  if (Response refused = Admit(request, &path); refused.status != 200) return refused;
  const std::string_view id = TakePart(&path), file = TakePart(&path);
  if (live_ != nullptr && id == "live" && file.empty() && path.empty()) {
    Response response = TextResponse(200, LivePage(live_->Get(), listing_.All(), root_, RealtimeNs()));
    response.type = kHtml;
    response.policy = ListPolicy();
    return response;
  }
  if (!id.empty() && path.empty()) return Incident(id, file, request.query);
  if (!id.empty() || !file.empty() || !path.empty()) return TextResponse(404, "No such page.\n");
  Response response = TextResponse(200, ListPage(listing_.All(), request.query, root_, live_ != nullptr));
  response.type = kHtml;
  response.policy = ListPolicy();
  return response;
}

Response Site::Incident(std::string_view id, std::string_view file, std::string_view query) {
  const bool explore = file == "explore.html", report = file == "report.html", json = file == "verdict.json",
             part = file == "grids.json" || file == "calls.json";
  if (!explore && !report && !json && !part) return TextResponse(404, "No such page.\n");
  const absl::StatusOr<Listed> incident = listing_.Find(id);
  if (!incident.ok()) return TextResponse(404, "This incident no longer exists.\n");
  if (explore || part) {
    if (const auto large = Large(*incident); large != nullptr) return LargePart(*large, file, query);
    if (part) return TextResponse(404, "The incident has no up-to-date index.\n");
  }
  Response response;
  response.type = json ? "application/json; charset=utf-8" : kHtml;
  if (explore) response.policy = ExplorePolicy();
  if (report) response.policy = kReportPolicy;
  const std::string name(file);
  // Serves the page in the folder, unless data is newer or another version wrote the page.
  absl::StatusOr<std::string> kept = ReadFileOf(*incident, name.c_str(), kMostFile);
  if (kept.ok() && explore &&
      (WrittenNs(*incident, "explore.html") < NewestDataNs(*incident) || !IsExplorePage(*kept))) {
    kept = absl::NotFoundError("");
  }
  if (kept.ok()) {
    response.body = std::make_shared<const std::string>(*std::move(kept));
    return response;
  }
  absl::StatusOr<PageCache::Page> made = Made(*incident, file);
  if (!made.ok()) return TextResponse(500, Printable(std::string(made.status().message())) + "\n");
  response.body = *std::move(made);
  return response;
}

std::shared_ptr<const LargeIncident> Site::Large(const Listed& incident) {
  absl::StatusOr<UniqueFd> file = OpenFileOf(incident, "index.lsi");
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0) return nullptr;
  const uint64_t source = FingerprintSources({incident.path});
  const std::string key = absl::StrCat(incident.id, " ", source, " ", info.st_dev, " ", info.st_ino, " ", info.st_size,
                                       " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
  const std::lock_guard lock(opening_);
  for (auto known = large_.begin(); known != large_.end(); ++known) {
    if ((*known)->key != key) continue;
    std::rotate(known, known + 1, large_.end());
    return large_.back();
  }
  auto index = IndexReader::Open(*std::move(file), "index.lsi");
  if (!index.ok() || (*index)->source() != source || (*index)->ranks().size() < kLargeFrom) return nullptr;
  absl::StatusOr<ViewFacts> facts = ReadViewFacts(**index);
  if (!facts.ok()) return nullptr;
  SetRooflines(roofline_, facts->mutable_verdict());
  if (large_.size() >= kMostLarge) large_.erase(large_.begin());
  large_.push_back(std::make_shared<const LargeIncident>(key, *std::move(index), *std::move(facts)));
  return large_.back();
}

Response Site::LargePart(const LargeIncident& large, std::string_view file, std::string_view query) {
  Response response;
  response.type = file == "explore.html" ? kHtml : "application/json; charset=utf-8";
  if (file == "explore.html") response.policy = ExploreServedPolicy();
  if (file == "calls.json") {
    std::vector<size_t> rows;
    if (!ParseRows(query, large.frame.ranks.size(), &rows)) return TextResponse(404, "No such ranks.\n");
    response.body = std::make_shared<const std::string>(ExploreCalls(large.frame, large.facts, large.calls, rows));
    return response;
  }
  response.body = *Cached(absl::StrCat(large.key, " ", std::string(file)), [&]() -> absl::StatusOr<std::string> {
    return file == "explore.html" ? ExploreServedHtml(large.frame, large.facts, large.calls)
                                  : ExploreGrids(large.frame, large.facts, large.calls);
  });
  return response;
}

absl::StatusOr<PageCache::Page> Site::Cached(const std::string& key,
                                             const std::function<absl::StatusOr<std::string>()>& make) {
  const auto find = [&] {
    const std::lock_guard lock(mutex_);
    return cache_.Find(key);
  };
  if (PageCache::Page page = find()) return page;
  const std::lock_guard making(making_);
  if (PageCache::Page page = find()) return page;
  absl::StatusOr<std::string> made = make();
  if (!made.ok()) return made.status();
  auto page = std::make_shared<const std::string>(*std::move(made));
  const std::lock_guard lock(mutex_);
  cache_.Add(key, page);
  return page;
}

absl::StatusOr<PageCache::Page> Site::Made(const Listed& incident, std::string_view file) {
  const std::string key = absl::StrCat(incident.id, " ", std::string(file), " ", FingerprintSources({incident.path}));
  return Cached(key, [&]() -> absl::StatusOr<std::string> {
    const absl::StatusOr<Bundle> bundle = LoadPaths({incident.path});
    if (!bundle.ok()) return bundle.status();
    Verdict verdict = replay::Conclude(*bundle);
    SetRooflines(roofline_, &verdict);
    const MergedStacks stacks = StacksOf(incident.path);
    return file == "explore.html"  ? ExplorePage(*bundle, verdict, stacks)
           : file == "report.html" ? ReportHtml(verdict, *bundle, &stacks)
                                   : ReportJson(verdict);
  });
}

}  // namespace lockstep::serve
