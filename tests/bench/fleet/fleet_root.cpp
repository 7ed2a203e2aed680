// Measures each step of a collector that receives the digests of a hang, alone on one core, to show which step grows
// faster than the number of ranks. One rank of the job has stopped. Real agent code makes the digests, which arrive in
// random order: once from all hosts, and once without those of random hosts, which do not answer.
//   fleet_root [--runs N] [--silent N] RANKS...
// Prints a table with the median of N runs of each size. About one host in --silent (8) does not answer.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "analyzer/model/rank_set.h"
#include "collector/detect/lateness.h"
#include "collector/detect/progress.h"
#include "collector/service/core/digest_round.h"
#include "collector/service/core/flying.h"
#include "collector/service/core/known_members.h"
#include "collector/wire/frame.h"
#include "tests/bench/fleet/synthetic_host.h"
#include "tests/bench/fleet/synthetic_job.h"

namespace lockstep::fleet {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

enum Step { kUnpack, kUnite, kMembers, kAdd, kAnalyse, kFlying, kChoose, kSample, kSteps };
constexpr const char* kNames[] = {"unpack",  "whose they are",    "who is missing where",     "add",
                                  "analyse", "what is in flight", "whom to ask for evidence", "judge a sample"};

struct Run {
  double ms[kSteps] = {};
  bool named = false;
};

Run RunOnce(const std::vector<wire::Message>& digests, const MergedProgress& progress, const Ranks& silent, int ranks,
            int fault_rank) {
  Run run;
  DigestRound round;
  Ranks got;
  Ranks wanted = Ranks::Between(0, ranks - 1);
  wanted.Subtract(silent);
  const int64_t asked = Now(CLOCK_MONOTONIC);
  const auto timed = [&run](Step step, const std::function<void()>& work) {
    const int64_t begin = Now(CLOCK_THREAD_CPUTIME_ID);
    work();
    run.ms[step] += static_cast<double>(Now(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e6;
  };
  std::vector<std::unique_ptr<DigestEnvelope>> envelopes(digests.size());
  timed(kUnpack, [&] {
    for (size_t i = 0; i < digests.size(); i++) {
      envelopes[i] = std::make_unique<DigestEnvelope>();
      if (!wire::DecodeBody(digests[i], envelopes[i].get()).ok()) abort();
    }
  });
  timed(kUnite, [&] {
    for (const auto& envelope : envelopes) {
      Ranks of;
      for (const std::string& packed : envelope->ranks()) of.Add(RankOfDigest(packed));
      got.Unite(of);
    }
    if (!got.ContainsAll(wanted)) abort();
  });
  DigestRound::Facts facts;
  if (!silent.empty()) {
    timed(kMembers, [&] { facts.members = MembersWith(progress, silent); });
    facts.holes.push_back({"digests did not arrive in time", "", silent, 0});
  }
  timed(kAdd, [&] {
    for (const auto& envelope : envelopes) round.Add(*envelope, asked);
  });
  facts.job = "fleet";
  facts.ranks_expected = ranks;
  facts.asked_ns = asked;
  timed(kAnalyse, [&] { round.Analyse(facts); });
  timed(kFlying, [&] { (void)FlyingOf(round.bundle()); });
  timed(kChoose, [&] { (void)round.StackRanks(256, round.EvidenceRanks(64)); });
  const auto at = std::find_if(envelopes.begin(), envelopes.end(), [&](const auto& envelope) {
    return std::any_of(envelope->ranks().begin(), envelope->ranks().end(),
                       [&](const std::string& packed) { return RankOfDigest(packed) == fault_rank; });
  });
  timed(kSample, [&] {
    round.Sample(**at, asked + kSecond, asked + kSecond);
    round.LookForRoot();
  });
  const Verdict& verdict = round.verdict();
  run.named = verdict.findings_size() > 0 && verdict.findings(0).culprit_ranks_size() == 1 &&
              verdict.findings(0).culprit_ranks(0) == fault_rank;
  return run;
}

// Measures one size and prints its row. About one host in `silent_one_in` does not answer; with 0, all hosts answer.
// Returns whether every run named exactly the rank that stopped.
bool Size(int ranks, int runs, int silent_one_in) {
  const bool holes = silent_one_in > 0;
  SyntheticJob job(ranks, ranks < 4096 ? 8 : 16, kSecond);
  std::mt19937 random(static_cast<unsigned>(ranks));
  const int fault_rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
  job.Restart(0, Now(CLOCK_MONOTONIC) - 40 * kSecond, fault_rank, 16);  // the rank has been stuck for more than 20 s
  const SyntheticHostOptions options;
  std::vector<wire::Message> digests;
  MergedProgress progress;
  Ranks silent;
  size_t bytes = 0, raw = 0;
  for (int host = 0; host < ranks / kRanksPerHost; host++) {
    MemoryStore store;
    SyntheticHost source(options, job, host, &store);
    if (holes) {
      const int64_t now = Now(CLOCK_MONOTONIC);
      source.Look(now);
      std::vector<RingView> rings;
      for (const RankSight& sight : source.ranks(0)) rings.push_back({sight.rank, sight.digest});
      HostProgress here;
      here.Observe(rings);
      for (const CommBeat& beat : here.Take(now, Lateness())) progress.Apply(static_cast<uint32_t>(host), now, beat);
      if (random() % static_cast<unsigned>(silent_one_in) == 0 && fault_rank / kRanksPerHost != host) {
        for (int i = 0; i < kRanksPerHost; i++) silent.Add(host * kRanksPerHost + i);
        continue;
      }
    }
    CollectRequest request;
    *request.mutable_job() = source.job(0);
    Digest digest;
    digest.set_host(job.HostOf(host));
    digest.set_parts(1);
    source.FillDigest(request, &digest);
    absl::StatusOr<wire::Message> message = wire::Encode(wire::Type::kDigest, digest);
    if (!message.ok()) return false;
    bytes += message->body.size();
    raw += message->header.raw_bytes;
    digests.push_back(*std::move(message));
  }
  std::shuffle(digests.begin(), digests.end(), random);
  std::vector<Run> all;
  for (int i = 0; i < runs; i++) all.push_back(RunOnce(digests, progress, silent, ranks, fault_rank));
  printf("| %d", ranks);
  if (holes) printf(", one host in %d silent", silent_one_in);
  printf(" | %.1f (%.1f) ", static_cast<double>(bytes) / 1e6, static_cast<double>(raw) / 1e6);
  double sum = 0;
  for (int step = 0; step < kSteps; step++) {
    std::vector<double> values;
    for (const Run& run : all) values.push_back(run.ms[step]);
    std::nth_element(values.begin(), values.begin() + runs / 2, values.end());
    const double median = values[static_cast<size_t>(runs / 2)];
    sum += median;
    printf("| %.1f (%.2f) ", median, 1e3 * median / ranks);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const bool named = std::all_of(all.begin(), all.end(), [](const Run& run) { return run.named; });
  printf("| %.0f (%.2f) | %ld | %s |\n", sum, 1e3 * sum / ranks, usage.ru_maxrss / 1024, named ? "yes" : "NO");
  fflush(stdout);
  return named;
}

int Main(int argc, char** argv) {
  int runs = 3, silent = 8;
  std::vector<int> sizes;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--silent") == 0 && i + 1 < argc) {
      silent = atoi(argv[++i]);
    } else {
      sizes.push_back(atoi(argv[i]));
    }
  }
  const bool good = std::all_of(sizes.begin(), sizes.end(), [](int ranks) {
    return ranks >= kRanksPerHost * 16 && ranks <= 1 << 20 && ranks % (kRanksPerHost * 16) == 0;
  });
  if (runs < 1 || silent < 2 || sizes.empty() || !good) {
    fputs("Usage: fleet_root [--runs N] [--silent N] RANKS...\nRANKS: multiples of 128\n", stderr);
    return 2;
  }
  printf("Milliseconds of one core (microseconds a rank):\n\n| ranks | digests: MB (unpacked) ");
  for (const char* name : kNames) printf("| %s ", name);
  printf("| all | MiB at most | rank named |\n|");
  for (int i = 0; i < kSteps + 5; i++) printf(" --- |");
  printf("\n");
  bool named = true;
  for (const int one_in : {0, silent}) {
    for (const int ranks : sizes)
      named &= Size(ranks, runs, one_in) || one_in > 0;  // the finding may also name silent ranks
  }
  return named ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::fleet

int main(int argc, char** argv) { return lockstep::fleet::Main(argc, argv); }
