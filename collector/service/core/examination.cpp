#include "collector/service/core/examination.h"

#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

constexpr int64_t kLimit = 40 * kSecond;  // an agent gives up after 30 s
constexpr int64_t kPause = 10 * kSecond;  // minimum time between the starts of two examinations
constexpr size_t kMostName = 256;
constexpr size_t kMostKept = size_t{128} << 20;  // in bytes

}  // namespace

std::string Examination::Begin(const ClientRequest& request, const Address& to) {
  if (request_ != 0 && request.request() == client_request_) {  // repeated, perhaps after a reconnection
    to_ = to;
    for (const ClientReply& reply : kept_) shared_.Send(to_, wire::Type::kClientReply, reply);
    return "";
  }
  if (request_ != 0) return "another job is being examined; try again when that is done";
  if (began_ns_ != 0 && shared_.now - began_ns_ < kPause)
    return absl::StrCat("the last examination began less than ", DurationText(kPause), " ago; try again then");
  if (request.job().size() > kMostName || request.slurm().size() > kMostName) return "the job's name is too long";
  const std::vector<uint64_t> reporters = shared_.actions->Reporters();
  if (reporters.empty()) return "no agent is connected to this collector";
  to_ = to;
  client_request_ = request.request();
  request_ = shared_.NextRequest();
  began_ns_ = shared_.now;
  left_ = static_cast<int64_t>(reporters.size());
  answered_.clear();
  kept_.clear();
  kept_bytes_ = 0;
  CollectRequest collect;
  collect.set_request(request_);
  collect.mutable_job()->set_job(request.job());
  collect.set_slurm(request.slurm());
  collect.set_phase(CollectRequest::EXAMINE);
  for (const uint64_t peer : reporters) shared_.Send({peer, {}}, wire::Type::kCollect, collect);
  shared_.Say(absl::StrCat("an operator (connection ", to.peer, ") has ", left_,
                           " agents and relays examine the processes of job '", Printable(request.job(), kMostName),
                           "'", request.slurm().empty() ? "" : ", Slurm ", Printable(request.slurm(), kMostName)));
  return "";
}

bool Examination::Take(const wire::Received& received) {
  HostEvidence evidence;
  // Decodes nothing while no examination is in progress. Unreadable messages are counted elsewhere.
  if (request_ == 0 || !wire::DecodeBody(received.message, &evidence).ok() || evidence.request() != request_)
    return false;
  if ((evidence.last() || evidence.asked() > 0) &&
      answered_.insert(Address{received.peer, received.message.header.route}).second)
    left_ += evidence.asked() > 0 ? int64_t{evidence.asked()} - 1 : -1;
  ClientReply reply;
  reply.set_request(client_request_);
  reply.mutable_examined()->Swap(&evidence);
  shared_.Send(to_, wire::Type::kClientReply, reply);
  if (const size_t bytes = reply.ByteSizeLong(); kept_bytes_ + bytes <= kMostKept) {
    kept_bytes_ += bytes;
    kept_.push_back(std::move(reply));
  }
  return true;
}

void Examination::Tick() {
  if (request_ == 0 || (left_ > 0 && shared_.now - began_ns_ < kLimit)) return;
  shared_.Say(absl::StrCat("the examination ended after ", DurationText(shared_.now - began_ns_),
                           left_ > 0 ? absl::StrCat("; ", left_, " did not answer") : ""));
  ClientReply reply;
  reply.set_request(client_request_);
  if (left_ > 0)
    reply.set_progress(absl::StrCat(left_, left_ == 1 ? " agent or relay" : " agents or relays", " did not answer"));
  reply.set_done(true);
  shared_.Send(to_, wire::Type::kClientReply, reply);
  request_ = 0;
  kept_ = {};
}

}  // namespace lockstep
