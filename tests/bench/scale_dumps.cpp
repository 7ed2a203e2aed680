// Writes the dumps of a large job (scale_job.h) as its agents would: one .lsd file for each node.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/formats/lsd/writer.h"
#include "scale_job.h"

namespace lockstep {
namespace {

absl::Status WriteNode(const ScaleJob& job, int node, int records, const std::string& folder) {
  const Bundle bundle = job.Node(node, records);
  std::vector<size_t> all;
  for (size_t i = 0; i < bundle.ranks.size(); ++i) all.push_back(i);
  DumpHeader header;
  header.set_tool_version("scale");
  header.set_host(bundle.ranks[0].host);
  header.set_captured_real_ns(bundle.ranks[0].captured_ns + bundle.ranks[0].real_minus_mono_ns);
  return WriteLsd(bundle, all, header, absl::StrFormat("%s/node%05d.lsd", folder, node));
}

int Help() {
  fprintf(stderr,
          "Usage: scale_dumps --out DIR %s [--jobs N]\n"
          "Writes one .lsd file for every 8 ranks of a job. N is a multiple of 8 x pp.\n",
          kScaleUsage);
  return 2;
}

int Main(int argc, char** argv) {
  ScaleOptions options;
  std::string out;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--out")
      out = argv[i + 1];
    else if (name == "--jobs")
      jobs = static_cast<unsigned>(std::max(1, atoi(argv[i + 1])));
    else if (!options.Take(name, argv[i + 1]))
      return Help();
  }
  if (argc % 2 == 0 || out.empty() || !options.Sound()) return Help();
  const ScaleJob job(options);
  mkdir(out.c_str(), 0777);
  std::atomic<int> next{0}, failed{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      for (int node; (node = next++) < job.nodes() && failed == 0;) {
        const absl::Status status = WriteNode(job, node, options.records, out);
        if (status.ok()) continue;
        fprintf(stderr, "scale_dumps: %s\n", std::string(status.message()).c_str());
        failed = 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failed;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
