// The part of CollectorCore that takes stacks when a user asks.
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/time_text.h"
#include "collector/service/core.h"

namespace lockstep {
namespace {

constexpr size_t kMostFresh = 16;
constexpr size_t kMostLines = 200;

}  // namespace

// Returns why the request is not possible. Empty if stacks were requested, and the answer follows.
std::string CollectorCore::AskFreshStacks(Job* job, const Address& to, uint64_t client_request) {
  if (fresh_.size() >= kMostFresh) return "too many clients already wait for stacks";
  FreshStacks fresh;
  // Takes the ranks that the analysis names or, without them, the ranks that others wait for.
  if (job->detector.level() != Level::kMoving) {
    for (const RootView& root : job->detector.finding().roots) {
      if (fresh.wanted.size() < options_.fresh_ranks) fresh.wanted.Add(root.rank);
    }
  }
  job->detector.progress().ForEachBehind([&](const MergedComm& comm) {
    if (fresh.wanted.size() >= options_.fresh_ranks) return;
    for (const int32_t rank : RanksOf(job->detector.progress().Missing(comm.id), options_.fresh_ranks)) {
      if (fresh.wanted.size() < options_.fresh_ranks) fresh.wanted.Add(rank);
    }
  });
  if (fresh.wanted.empty())
    return "no rank keeps others waiting, so there are no stacks to take (f finds a rank, d takes a dump)";
  fresh.to = to;
  fresh.client_request = client_request;
  fresh.request = NextRequest();
  fresh.until_ns = now_ + options_.evidence_ns;
  CollectRequest request;
  request.set_request(fresh.request);
  *request.mutable_job() = job->identity;
  request.set_phase(CollectRequest::EVIDENCE);
  fresh.wanted.To(request.mutable_merged());
  AskHosts(job, request, fresh.wanted);
  ClientReply reply;
  reply.set_request(client_request);
  reply.set_progress(absl::StrCat("taking stacks of ranks ", fresh.wanted.Text()));
  Send(to, wire::Type::kClientReply, reply);
  fresh_.push_back(std::move(fresh));
  return "";
}

void CollectorCore::TickFreshStacks() {
  std::erase_if(fresh_, [this](const FreshStacks& fresh) {
    if (!fresh.got.ContainsAll(fresh.wanted) && now_ < fresh.until_ns) return false;
    ClientReply reply;
    reply.set_request(fresh.client_request);
    Ranks left = fresh.wanted;
    left.Subtract(fresh.got);
    for (const std::string& line : fresh.tree.Lines(kMostLines)) reply.add_lines(line);
    for (const std::string& line : fresh.refused) reply.add_lines(line);
    if (!left.empty())
      reply.add_lines(
          absl::StrCat("nothing arrived from ranks ", left.Text(), " in ", DurationText(options_.evidence_ns)));
    reply.set_done(true);
    Send(fresh.to, wire::Type::kClientReply, reply);
    return true;
  });
}

}  // namespace lockstep
