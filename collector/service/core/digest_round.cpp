#include "collector/service/core/digest_round.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/convert.h"
#include "analyzer/formats/lsd/format.h"
#include "collector/detect/ends.h"
#include "collector/incident/incident.h"
#include "collector/wire/shape.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/wire_format_lite.h"

namespace lockstep {
namespace {

constexpr size_t kMostMembershipsPerRank = 65536;
constexpr size_t kMostMemberships = size_t{1} << 24;
constexpr int kMostProblems = 64;
constexpr size_t kReusedBytes = 65536;  // larger digests are not decoded into the reused message

// Converts a digest's own communicator numbers to indexes into `memberships`, and removes invalid references.
void CheckReferences(const RankDigest& digest, Rank* rank) {
  absl::flat_hash_map<uint32_t, uint32_t> place;
  bool same = true;
  for (int i = 0; i < digest.communicators_size(); ++i) {
    const uint32_t index = digest.communicators(i).index();
    same &= index == static_cast<uint32_t>(i);
    place.try_emplace(index, static_cast<uint32_t>(i));
  }
  const auto place_of = [&](uint32_t index) {
    if (index == kNoIndex) return kNoIndex;
    if (same) return index < rank->memberships.size() ? index : kNoIndex;
    const auto found = place.find(index);
    return found == place.end() ? kNoIndex : found->second;
  };
  std::erase_if(rank->ops, [&](Op& op) {
    if (op.membership == kNoIndex) return false;
    op.membership = place_of(op.membership);
    return op.membership == kNoIndex;
  });
  for (Op& op : rank->ops) {
    if (op.stream >= rank->streams.size()) op.stream = kNoIndex;
    if (op.thread >= rank->threads.size()) op.thread = kNoIndex;
    if (op.replayed && ReplayOf(op) >= rank->replays.size()) op.replayed = false;
    if (op.addresses >= rank->addresses.size()) op.addresses = kNoIndex;
  }
  for (ring::ThreadSnapshot& thread : rank->threads) thread.comm = place_of(thread.comm);
  for (NetworkOp& op : rank->network) op.membership = place_of(op.membership);
  std::erase_if(rank->network, [](const NetworkOp& op) { return op.membership == kNoIndex; });
}

// Returns whether `told` is true for all listed members. False if no member is listed, or more than `most` are.
template <typename Told>
bool AllMembers(const CommunicatorInfo& info, uint64_t most, const Told& told) {
  uint64_t named = 0;
  for (const MemberRun& run : info.members()) {
    named += run.count();
    if (named > most) return false;
    for (uint32_t k = 0; k < run.count(); ++k) {
      if (!told(run.first_rank() + int64_t{k} * run.stride())) return false;
    }
  }
  return named > 0;
}

// Returns whether the ring has facts about the communicator that an analysis uses, besides position and progress. The
// rest (device, generation, times of individual peers) would make up a fifth of the round at 100,000 ranks, and is in
// the host's file.
bool AnalysisNeeds(const ring::CommSnapshot& recorded) {
  return !recorded.blocking || recorded.peers_lost != 0 || recorded.async_error_ns != 0 || !recorded.excluded.empty() ||
         std::any_of(recorded.peers.begin(), recorded.peers.end(),
                     [](const ring::PeerProgress& peer) { return peer.signals != 0 || peer.waited != 0; });
}

RankMotion MotionIn(const RankDigest& digest) {
  RankMotion motion;
  if (digest.progress_age_ns() > 0) motion.progress_age_ns = digest.progress_age_ns();
  if (digest.activity_age_ns() > 0) motion.activity_age_ns = digest.activity_age_ns();
  if (digest.idle_ns() > 0) motion.idle_ns = digest.idle_ns();
  return motion;
}

}  // namespace

int32_t RankOfDigest(const std::string& packed) {
  using google::protobuf::internal::WireFormatLite;
  using google::protobuf::io::CodedInputStream;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(packed.data()), static_cast<int>(packed.size()));
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != (1 << 3 | 2)) {
      if (!WireFormatLite::SkipField(&in, tag)) return -1;
      continue;
    }
    uint32_t length = 0;
    if (!in.ReadVarint32(&length) || length > packed.size()) return -1;
    const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(length));
    while (const uint32_t inner = in.ReadTag()) {
      uint64_t value = 0;
      if (inner != (1 << 3 | 0)) {
        if (!WireFormatLite::SkipField(&in, inner)) return -1;
        continue;
      }
      return in.ReadVarint64(&value) ? static_cast<int32_t>(value) : -1;
    }
    in.PopLimit(limit);
    return 0;  // Protobuf omits zeros
  }
  return -1;
}

void DigestRound::Add(const DigestEnvelope& digest, int64_t received_ns) {
  if (!digest.host().empty() && (!digest.rack().empty() || !digest.leaf_switch().empty())) {
    builder_.AddPlace(
        {CleanUtf8(digest.host(), 256), CleanUtf8(digest.rack(), 256), CleanUtf8(digest.leaf_switch(), 256)});
  }
  if (!digest.refused().empty()) {
    builder_.AddProblem(
        {.text = absl::StrCat(CleanUtf8(digest.host(), 256), " sent no digest: ", CleanUtf8(digest.refused(), 512)),
         .like = "no digest"});
  }
  for (const std::string& packed : digest.ranks()) AddRank(digest, packed, received_ns);
  // Skips a communicator's member list if all its ranks have sent digests, because there may be thousands of lists.
  const auto told = [this](int64_t rank) {
    return rank >= 0 && rank < kMaxRanks && motion_.contains(static_cast<int32_t>(rank));
  };
  for (const std::string& packed : digest.communicators()) {
    CommunicatorInfo info;
    if (!wire::CheckShape(packed, info).ok() || !info.ParseFromString(packed)) continue;
    if (!AllMembers(info, static_cast<uint64_t>(digest.ranks_size()), told))
      builder_.AddComm(FactsOf(info), MembersOf(info));
  }
}

void DigestRound::AddRank(const DigestEnvelope& host, const std::string& packed, int64_t received_ns) {
  const google::protobuf::LogSilencer silencer;
  RankDigest large;
  RankDigest& digest = packed.size() <= kReusedBytes ? digest_ : large;
  const auto refuse = [&](const std::string& why) {
    if (++malformed_ <= kMostProblems) {
      builder_.AddProblem(
          {.text = absl::StrCat("a digest from ", CleanUtf8(host.host(), 256), " cannot be used: ", why),
           .like = "unusable digest"});
    }
  };
  if (!wire::CheckShape(packed, digest).ok() || !digest.ParseFromString(packed)) return refuse("it is not a digest");
  const auto comms = static_cast<size_t>(digest.communicators_size());
  if (comms > kMostMembershipsPerRank || memberships_ + comms > kMostMemberships)
    return refuse("too many communicators");
  if (digest.in_flight().count() > kLsdMaxChunkOps) return refuse("too many operations in flight");
  memberships_ += comms;
  LooseRank loose;
  loose.rank = DecodeRank(digest.rank());
  if (loose.rank.host.empty()) loose.rank.host = CleanUtf8(host.host(), 256);
  if (loose.rank.boot_id.empty()) loose.rank.boot_id = CleanUtf8(host.boot_id(), 256);
  loose.rank.memberships.reserve(comms);
  for (const RankCommunicator& message : digest.communicators()) {
    loose.rank.memberships.push_back(DecodeMembership(message));
    if (Membership& membership = loose.rank.memberships.back(); !AnalysisNeeds(*membership.recorded))
      membership.recorded.Clear();
    loose.comms.push_back(FactsOf(message));
  }
  if (absl::Status status = DecodeOps(digest.in_flight(), {}, &loose.rank); !status.ok()) {
    loose.rank.ops.clear();
    loose.rank.damaged = true;
  }
  CheckReferences(digest, &loose.rank);
  loose.rank.path = DumpFileName(loose.rank.host);
  const int32_t rank = loose.rank.rank;
  if (!loose.rank.boot_id.empty() && loose.rank.captured_ns > 0)
    answered_.emplace_back(loose.rank.boot_id, loose.rank.captured_ns);
  motion_[rank] = {MotionIn(digest), 0, received_ns};
  builder_.AddRank(std::move(loose));
}

void DigestRound::MarkEnds(const HostClocks& clocks, int64_t ends_follow_ns) {
  std::vector<HostEnd> ends;
  for (Rank& rank : bundle_.ranks) {
    if (!HasEnded(rank.process)) continue;
    HostEnd end;
    end.process = &rank.process;
    end.host = rank.boot_id.empty() ? rank.host : rank.boot_id;
    if (const std::optional<Moment> moment = clocks.At(rank.boot_id, rank.process.ended_mono_ns)) {
      end.shared_ns = moment->ns;
      end.uncertainty_ns = moment->uncertainty_ns;
    }
    ends.push_back(std::move(end));
  }
  EndingFacts facts;
  facts.launcher = true;  // the launcher of a job on many hosts kills the job if a rank fails
  facts.ending_since_ns = ends_follow_ns;
  if (!ends.empty()) FindFirstEnds(facts, ends);
}

void DigestRound::Analyse(const Facts& facts) {
  for (const DigestHole& hole : facts.holes) builder_.AddProblem({"", -1, hole.text, -1});
  if (malformed_ > kMostProblems)
    builder_.AddProblem({"", -1, absl::StrCat("in total, ", malformed_, " digests could not be used"), -1});
  builder_.ExpectRanks(facts.ranks_expected);
  bundle_ = builder_.Finish();
  FillMembers(facts.members, &bundle_);
  asked_ns_ = now_ns_ = facts.asked_ns;
  if (bundle_.job.empty()) bundle_.job = facts.job;
  place_.reserve(bundle_.ranks.size());
  for (size_t i = 0; i < bundle_.ranks.size(); ++i) place_[bundle_.ranks[i].rank] = i;
  for (const DigestHole& hole : facts.holes) {
    for (int32_t rank : hole.ranks.List(65536)) motion_[rank].then.silent_ns = hole.silent_ns;
  }
  HostClocks clocks = facts.clocks;
  for (const auto& [boot_id, ns] : answered_) clocks.Answered(boot_id, facts.asked_ns, ns);
  answered_.clear();
  MarkEnds(clocks, facts.ends_follow_ns);
  options_.late_after_ns = facts.late_after_ns;
  const int64_t still = TimeWithoutProgress(bundle_, [this](int32_t rank) { return MotionOfRank(rank); });
  bundle_.known_stalled = still >= facts.dead_settle_ns;
  bundle_.stalled_ns = bundle_.known_stalled ? still : 0;
  verdict_ = Analyze(bundle_, options_);
  LookForRoot();
}

void DigestRound::Adopt(Bundle bundle) {
  bundle_ = std::move(bundle);
  place_.clear();
  place_.reserve(bundle_.ranks.size());
  for (size_t i = 0; i < bundle_.ranks.size(); ++i) place_[bundle_.ranks[i].rank] = i;
}

void DigestRound::Reanalyse(int64_t stalled_ns) {
  if (stalled_ns > 0) {
    bundle_.known_stalled = true;
    bundle_.stalled_ns = stalled_ns;
  }
  verdict_ = Analyze(bundle_, options_);
  LookForRoot();
}

void DigestRound::SetFolder(const std::string& folder) {
  for (Rank& rank : bundle_.ranks) rank.path = absl::StrCat(folder, "/", DumpFileName(rank.host));
}

void DigestRound::RaiseStalledTime(int64_t stalled_ns) {
  bundle_.known_stalled = true;
  bundle_.stalled_ns = std::max(bundle_.stalled_ns, stalled_ns);
  verdict_.set_stalled_ns(bundle_.stalled_ns);
}

void DigestRound::LookForRoot() {
  root_ = FindRoot(verdict_, bundle_, [this](int32_t rank) { return MotionOfRank(rank); });
  root_.as_of_ns = now_ns_;
}

// Extends the rank's ages to the time of the newest sample.
RankMotion DigestRound::MotionOfRank(int32_t rank) const {
  const auto found = motion_.find(rank);
  if (found == motion_.end()) return {};
  RankMotion motion = found->second.then;
  const int64_t asked = found->second.asked_ns == 0 ? asked_ns_ : found->second.asked_ns;
  const int64_t since = std::max<int64_t>(0, now_ns_ - std::max(asked, found->second.received_ns));
  motion.after_ns = std::max<int64_t>(0, found->second.received_ns - now_ns_);
  if (motion.progress_age_ns >= 0) motion.progress_age_ns += now_ns_ - asked;
  if (motion.activity_age_ns >= 0) motion.activity_age_ns += since;
  if (motion.idle_ns >= 0) motion.idle_ns += since;
  if (motion.silent_ns > 0) motion.silent_ns += since;
  return motion;
}

void DigestRound::Sample(const DigestEnvelope& host, int64_t asked_ns, int64_t received_ns) {
  const google::protobuf::LogSilencer silencer;
  for (const std::string& packed : host.ranks()) {
    RankDigest digest;
    if (!wire::CheckShape(packed, digest).ok() || !digest.ParseFromString(packed)) continue;
    const auto found = place_.find(digest.rank().rank());
    if (found == place_.end()) continue;
    Rank& rank = bundle_.ranks[found->second];
    Motion& motion = motion_[rank.rank];
    if (motion.asked_ns > asked_ns) continue;
    now_ns_ = std::max(now_ns_, asked_ns);
    const bool consequence = rank.process.consequence;
    Process process = DecodeRank(digest.rank()).process;
    process.consequence = consequence;
    if (process.stack.empty()) process.stack = std::move(rank.process.stack);
    if (process.python_stack.empty()) process.python_stack = std::move(rank.process.python_stack);
    rank.process = std::move(process);
    motion = {MotionIn(digest), asked_ns, received_ns};
  }
}

void DigestRound::TakeEvidence(const HostEvidence& evidence) {
  for (const EvidenceReport& report : evidence.reports()) {
    const auto found = place_.find(report.rank());
    if (found == place_.end()) continue;
    RankHeader header;
    *header.mutable_process() = report.process();
    Process seen = DecodeRank(header).process;
    Process& process = bundle_.ranks[found->second].process;
    // A digest contains only the kernel's part of the stack.
    if (seen.evidence != nullptr && !seen.stack.empty()) {
      process.stack.clear();
      process.stack_later.clear();
      process.stack_refused.clear();
    }
    if (process.stack.empty()) process.stack = std::move(seen.stack);
    if (process.python_stack.empty()) process.python_stack = std::move(seen.python_stack);
    if (process.stack_later.empty()) process.stack_later = std::move(seen.stack_later);
    if (process.stack_refused.empty()) process.stack_refused = std::move(seen.stack_refused);
    if (process.sample_gap_ns == 0) {
      process.sample_gap_ns = seen.sample_gap_ns;
      process.cpu_ns_between_samples = seen.cpu_ns_between_samples;
      process.io_bytes_between_samples = seen.io_bytes_between_samples;
    }
    if (process.written_files.empty()) {
      process.written_files = std::move(seen.written_files);
      process.written_mounts = std::move(seen.written_mounts);
    }
    if (seen.evidence != nullptr) process.evidence = std::move(seen.evidence);
  }
}

std::vector<int32_t> DigestRound::EvidenceRanks(size_t most) const {
  std::vector<int32_t> ranks;
  std::set<int32_t> taken;
  const auto take = [&](int32_t rank) {
    if (ranks.size() < most && place_.contains(rank) && taken.insert(rank).second) ranks.push_back(rank);
  };
  for (const Finding& finding : verdict_.findings()) {
    for (int i = 0; i < std::min(finding.culprit_ranks_size(), 16); ++i) take(finding.culprit_ranks(i));
  }
  for (const Finding& finding : verdict_.findings()) {
    // Takes up to four ranks of each chain link that waits directly for a culprit, and one of each other link.
    const std::set<int32_t> culprits(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
    for (const ChainLink& link : finding.chain()) {
      const bool next = std::any_of(link.waits_for().begin(), link.waits_for().end(),
                                    [&](int32_t r) { return culprits.count(r) != 0; });
      for (int i = 0; i < std::min(link.ranks_size(), next ? 4 : 1); ++i) take(link.ranks(i));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<int32_t> DigestRound::StackRanks(size_t most, const std::vector<int32_t>& others) const {
  constexpr int kOfEachClass = 32;
  std::set<int32_t> ranks;
  const std::set<int32_t> left_out(others.begin(), others.end());
  for (const Finding& finding : verdict_.findings()) {
    for (const ChainLink& link : finding.chain()) {
      // Takes ranks spread over the link, because neighbors share a host and often a state.
      const int count = std::min(link.ranks_size(), kOfEachClass);
      for (int i = 0; i < count && ranks.size() < most; ++i) {
        const int32_t rank = link.ranks(static_cast<int>(int64_t{i} * link.ranks_size() / count));
        if (place_.contains(rank) && left_out.count(rank) == 0) ranks.insert(rank);
      }
    }
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace lockstep
