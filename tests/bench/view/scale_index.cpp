// Writes the index of a large incident (scale_job.h) for the viewer: index.lsi and verdict.json in a folder without
// dumps. As for real dumps of this size, the facts come from an analysis of each rank's newest operations.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/report/report.h"
#include "analyzer/viewdata/facts.h"
#include "scale_job.h"

namespace lockstep {
namespace {

constexpr int kNewest = 64;  // per rank, for the analysis

// Adds the node's ranks to the job; communicators with equal IDs become one.
void Join(Bundle node, absl::flat_hash_map<std::string, uint32_t>* comms, Bundle* job) {
  std::vector<uint32_t> place;
  for (Communicator& comm : node.comms) {
    const auto [it, fresh] = comms->try_emplace(comm.id, static_cast<uint32_t>(job->comms.size()));
    place.push_back(it->second);
    if (fresh) job->comms.push_back(std::move(comm));
  }
  for (Rank& rank : node.ranks) {
    for (Membership& m : rank.memberships) m.comm = place[m.comm];
    job->ranks.push_back(std::move(rank));
  }
  job->job = node.job;
  job->ranks_expected = node.ranks_expected;
}

// Adds pairs of neighbors with completed work, because other jobs have more communicators than this one.
void AddPairs(size_t communicators, Bundle* job) {
  for (size_t i = 0; job->comms.size() < communicators; ++i) {
    const size_t first = i * 2 % (job->ranks.size() / 2 * 2);
    Communicator comm;
    comm.id = "pair-" + std::to_string(i);
    comm.name = "pair_" + std::to_string(i);
    comm.size = 2;
    for (int member = 0; member < 2; ++member) {
      Rank& rank = job->ranks[first + static_cast<size_t>(member)];
      comm.members.push_back(rank.rank);
      Membership m;
      m.comm = static_cast<uint32_t>(job->comms.size());
      m.member_rank = member;
      m.issued = m.launched = m.started = m.completed = 5;
      rank.memberships.push_back(m);
    }
    job->comms.push_back(std::move(comm));
  }
}

absl::Status Write(const ScaleOptions& options, size_t communicators, const std::string& folder) {
  const ScaleJob job(options);
  mkdir(folder.c_str(), 0777);
  Bundle all;
  absl::flat_hash_map<std::string, uint32_t> comms;
  for (int node = 0; node < job.nodes(); ++node) Join(job.Node(node, kNewest), &comms, &all);
  AddPairs(communicators, &all);
  const Verdict verdict = Analyze(all);
  std::ofstream(folder + "/verdict.json") << ReportJson(verdict);
  // Number of operations that each rank recorded.
  std::vector<uint64_t> operations;
  for (const Rank& rank : all.ranks) operations.push_back(rank.ops.size() + rank.not_loaded);
  const std::string path = folder + "/index.lsi";
  auto writer = IndexWriter::Create(all, operations, FingerprintSources({folder}), path);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = (*writer)->SetFacts(BuildViewFacts(all, verdict).SerializeAsString()); !status.ok())
    return status;
  size_t row = 0;
  for (int node = 0; node < job.nodes(); ++node) {
    for (const Rank& rank : job.Node(node, options.records).ranks) {
      if (absl::Status status = (*writer)->AddRank(row++, rank.ops); !status.ok()) return status;
    }
  }
  return (*writer)->Commit();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::ScaleOptions options;
  std::string out;
  size_t communicators = 0;
  bool sound = argc % 2 == 1;
  for (int i = 1; sound && i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--out")
      out = argv[i + 1];
    else if (name == "--communicators")
      communicators = static_cast<size_t>(atoll(argv[i + 1]));
    else
      sound = options.Take(name, argv[i + 1]);
  }
  if (!sound || out.empty() || !options.Sound() || communicators > 1'000'000) {
    fprintf(stderr, "Usage: scale_index --out DIR [--communicators N at least] %s\n", lockstep::kScaleUsage);
    return 2;
  }
  const absl::Status status = lockstep::Write(options, communicators, out);
  if (!status.ok()) fprintf(stderr, "scale_index: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
