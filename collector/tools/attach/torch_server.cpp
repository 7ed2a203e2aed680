#include "collector/tools/attach/torch_server.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "collector/tools/attach/local_query.h"

namespace lockstep {
namespace {

constexpr size_t kMostPage = 64 << 20;
constexpr int32_t kMostTorchRank = 1 << 20;
// The pages with JSON dumps of NCCL, and of CPU backends such as gloo (torch.distributed.debug of PyTorch 2.15).
constexpr const char* kPages[] = {"/fr_trace_nccl_json", "/fr_trace_json"};

bool HoldsCalls(const std::map<int32_t, std::string>& dumps) {
  return std::any_of(dumps.begin(), dumps.end(), [](const auto& dump) {
    return dump.second.find("\"last_enqueued_collective\"") != dump.second.npos ||
           dump.second.find("\"collective_seq_id\"") != dump.second.npos;
  });
}

}  // namespace

// For each rank, the page has "<h2>Rank 3: http://..</h2>", then "<pre>{..}</pre>" or an error text that is not an
// object.
std::map<int32_t, std::string> DumpsInPage(std::string_view page) {
  constexpr std::string_view kRank = "<h2>Rank ", kBegin = "<pre>", kEnd = "</pre>";
  std::map<int32_t, std::string> dumps;
  for (size_t at = page.find(kRank); at != page.npos;) {
    const size_t next = page.find(kRank, at + 1);
    const std::string_view section = page.substr(at + kRank.size(), next - at - kRank.size());
    at = next;
    int32_t rank = -1;
    const std::string_view number = section.substr(0, std::min<size_t>(section.find(':'), 16));
    const size_t begin = section.find(kBegin), end = section.rfind(kEnd);
    if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &rank) || rank < 0 ||
        rank > kMostTorchRank || begin == section.npos || end == section.npos || end <= begin + kBegin.size())
      continue;
    const std::string_view text = section.substr(begin + kBegin.size(), end - begin - kBegin.size());
    if (text.front() == '{' && text.back() == '}') dumps.try_emplace(rank, text);
  }
  return dumps;
}

std::map<int32_t, std::string> AskTorchServer(const std::vector<pid_t>& pids, int64_t limit_ns, int port) {
  if (!ListensOn(pids, port)) return {};
  const int64_t deadline = MonotonicNs() + limit_ns;
  for (const char* page : kPages) {
    const int64_t left = deadline - MonotonicNs();
    if (left <= 0) break;
    const std::string question = absl::StrCat("GET ", page, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
    std::map<int32_t, std::string> dumps = DumpsInPage(QueryLocal(port, question, kMostPage, left));
    if (HoldsCalls(dumps)) return dumps;
  }
  return {};
}

}  // namespace lockstep
