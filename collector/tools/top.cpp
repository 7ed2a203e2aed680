#include "collector/tools/top.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

constexpr size_t kMostJobs = 256;
constexpr size_t kMostTextLines = 20000;

std::string FullName(const JobIdentity& job) {
  return absl::StrCat(job.job(), "/", job.step(), "/", job.restart_count());
}

void SplitInto(const std::string& text, std::vector<std::string>* lines) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (lines->size() >= kMostTextLines) return;
    lines->emplace_back(line);
  }
}

}  // namespace

void TopSession::Step(int64_t mono_ns) {
  if (started_ns_ == 0) started_ns_ = mono_ns;
  const bool anew = client_->Tick(mono_ns);
  if (anew || !greeted_) {
    Hello hello = wire::MakeHello(role_, static_cast<uint64_t>(getpid()) << 32 ^ static_cast<uint64_t>(started_ns_));
    hello.set_host(HostName());
    greeted_ = client_->Send(wire::Type::kHello, hello).ok();
    asked_ns_ = 0;
  }
  while (const std::optional<wire::Message> message = client_->Receive()) {
    if (message->header.type == wire::Type::kWelcome) {
      Welcome welcome;
      if (wire::DecodeBody(*message, &welcome).ok() && !welcome.refused().empty()) error_ = welcome.refused();
    } else if (message->header.type == wire::Type::kClientReply) {
      ClientReply reply;
      if (wire::DecodeBody(*message, &reply).ok()) Take(reply, mono_ns);
    }
  }
  if (greeted_ && (asked_ns_ == 0 || mono_ns - asked_ns_ >= kSecond)) {
    ClientRequest request;
    request.set_kind(ClientRequest::STATUS);
    request.set_job(job_);
    request.set_request(status_request_ = next_request_++);
    client_->Send(wire::Type::kClientRequest, request).IgnoreError();
    asked_ns_ = mono_ns;
  }
}

int64_t TopSession::silent_ns(int64_t mono_ns) const {
  const int64_t since = mono_ns - std::max(heard_ns_, started_ns_);
  return since > 3 * kSecond ? since : 0;
}

std::string TopSession::TakeError() { return std::exchange(error_, std::string()); }

void TopSession::Take(const ClientReply& reply, int64_t mono_ns) {
  if (reply.request() == question_ && question_ != 0) {
    if (!reply.error().empty()) lines_.push_back(reply.error());
    if (!reply.progress().empty()) lines_.push_back(reply.progress());
    for (const std::string& line : reply.lines()) SplitInto(line, &lines_);
    if (reply.has_incident()) {
      if (!reply.incident().text().empty()) SplitInto(reply.incident().text(), &lines_);
      if (!reply.incident().path().empty()) lines_.push_back(absl::StrCat("incident: ", reply.incident().path()));
    }
    if (lines_.size() > kMostTextLines) lines_.resize(kMostTextLines);
    answered_ |= reply.done() || !reply.error().empty();
    return;
  }
  // Accepts answers to earlier status requests, too.
  if (reply.request() == 0 || reply.request() > status_request_) return;
  const int64_t passed_ns = mono_ns - std::exchange(heard_ns_, mono_ns);
  if (!reply.error().empty()) {
    error_ = reply.error();
    return;
  }
  std::vector<JobStatus> jobs(reply.jobs().begin(), reply.jobs().begin() + std::min<int>(reply.jobs_size(), kMostJobs));
  rates_.clear();
  for (const JobStatus& job : jobs) rates_.push_back(CallsASecond(job, passed_ns));
  jobs_ = std::move(jobs);
  ++states_;
}

double TopSession::CallsASecond(const JobStatus& now, int64_t passed_ns) const {
  const auto before = std::find_if(jobs_.begin(), jobs_.end(), [&now](const JobStatus& job) {
    return FullName(job.job()) == FullName(now.job()) && job.job().life() == now.job().life();
  });
  if (before == jobs_.end() || passed_ns <= 0) return -1;
  std::map<uint64_t, uint64_t> calls;
  for (const CommunicatorStatus& comm : before->communicators()) calls[comm.id()] = comm.issued_max();
  double most = -1;
  for (const CommunicatorStatus& comm : now.communicators()) {
    const auto then = calls.find(comm.id());
    if (then == calls.end() || comm.issued_max() < then->second) continue;
    most = std::max(most, static_cast<double>(comm.issued_max() - then->second) * 1e9 / static_cast<double>(passed_ns));
  }
  return most;
}

void TopSession::Ask(ClientRequest request, const JobStatus& job) {
  lines_.clear();
  answered_ = false;
  request.set_job(FullName(job.job()));
  request.set_request(question_ = next_request_++);
  if (const absl::Status status = client_->Send(wire::Type::kClientRequest, request); !status.ok()) {
    lines_.push_back(std::string(status.message()));
    answered_ = true;
  }
}

void TopSession::AskStacks(const JobStatus& job, bool fresh) {
  ClientRequest request;
  request.set_kind(ClientRequest::DETAIL);
  request.set_missing_stacks(true);
  request.set_fresh(fresh);
  Ask(std::move(request), job);
}

void TopSession::AskRank(const JobStatus& job, int32_t rank) {
  ClientRequest request;
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(rank);
  Ask(std::move(request), job);
}

void TopSession::Dump(const JobStatus& job) {
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  Ask(std::move(request), job);
}

}  // namespace lockstep
