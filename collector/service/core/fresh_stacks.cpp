#include "collector/service/core/fresh_stacks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"

namespace lockstep {
namespace {

constexpr size_t kFreshRanks = 16;  // maximum number of ranks whose stacks are taken when a user asks
constexpr size_t kMostFresh = 16;
constexpr size_t kMostLines = 200;

}  // namespace

std::string FreshStacks::Ask(Job* job, const Address& to, uint64_t client_request) {
  if (requests_.size() >= kMostFresh) return "too many clients are already waiting for stacks";
  Request fresh;
  // First the ranks that the analysis names, then ranks that others wait for.
  if (job->detector.level() != Level::kMoving) {
    for (const RootView& root : job->detector.finding().roots) {
      if (fresh.wanted.size() < kFreshRanks) fresh.wanted.Add(root.rank);
    }
  }
  job->detector.progress().ForEachBehind([&](const MergedComm& comm) {
    if (fresh.wanted.size() >= kFreshRanks) return;
    for (const int32_t rank : job->detector.progress().Missing(comm.id).List(kFreshRanks)) {
      if (fresh.wanted.size() < kFreshRanks) fresh.wanted.Add(rank);
    }
  });
  if (fresh.wanted.empty())
    return "no rank is waiting for another rank, so there are no stacks to take (f finds a rank, d requests a dump)";
  fresh.to = to;
  fresh.client_request = client_request;
  fresh.request = shared_.NextRequest();
  fresh.until_ns = shared_.now + kEvidenceLimit;
  CollectRequest request;
  request.set_request(fresh.request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::EVIDENCE);
  fresh.wanted.To(request.mutable_merged());
  jobs_.AskHosts(*job, request, fresh.wanted);
  ClientReply reply;
  reply.set_request(client_request);
  reply.set_progress(absl::StrCat("taking stacks from ranks ", fresh.wanted.Text()));
  shared_.Send(to, wire::Type::kClientReply, reply);
  requests_.push_back(std::move(fresh));
  return "";
}

bool FreshStacks::Take(const StackReport& report) {
  for (Request& fresh : requests_) {
    if (fresh.request != report.request()) continue;
    fresh.tree.Merge(StackTree::FromMessage(report.tree(), 256));
    fresh.got.Unite(Ranks::FromOrNone(report.ranks()));
    for (const std::string& line : report.refused()) {
      if (fresh.refused.size() < 16) fresh.refused.push_back(CleanUtf8(line, 512));
    }
    return true;
  }
  return false;
}

void FreshStacks::Tick() {
  std::erase_if(requests_, [this](const Request& fresh) {
    if (!fresh.got.ContainsAll(fresh.wanted) && shared_.now < fresh.until_ns) return false;
    ClientReply reply;
    reply.set_request(fresh.client_request);
    Ranks left = fresh.wanted;
    left.Subtract(fresh.got);
    for (const std::string& line : fresh.tree.Lines(kMostLines)) reply.add_lines(line);
    for (const std::string& line : fresh.refused) reply.add_lines(line);
    if (!left.empty())
      reply.add_lines(absl::StrCat("nothing arrived from ranks ", left.Text(), " in ", DurationText(kEvidenceLimit)));
    reply.set_done(true);
    shared_.Send(fresh.to, wire::Type::kClientReply, reply);
    return true;
  });
}

}  // namespace lockstep
