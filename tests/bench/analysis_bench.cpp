// Measures how long `lockstep analyze` takes for dumps of any kind, and which part takes the time.
//   analysis_bench [--runs N] [--row NAME] ANALYZE PATH...     ANALYZE is the lockstep-analyze program
// --row prints a row of the tables in results/analysis-speed.md (performance.py makes them) instead of lines.
// Each run is its own process; the kernel provides wall time, processor time and peak memory, and the fastest of
// several runs is printed. For the shares, one more process does the work in parts: reading files, aligning calls by
// communicator and number, reasoning, reporting. All files are read once beforehand, so that they are in the page
// cache.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/report.h"
#include "analyzer/util/large_pages.h"

namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Reads the files below the paths; returns their bytes and number.
void Warm(const std::vector<std::string>& paths, uint64_t* bytes, size_t* files) {
  std::vector<char> buffer(1 << 20);
  const auto take = [&](const std::filesystem::path& path) {
    FILE* file = fopen(path.c_str(), "rb");
    if (file == nullptr) return;
    while (size_t got = fread(buffer.data(), 1, buffer.size(), file)) *bytes += got;
    fclose(file);
    ++*files;
  };
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      take(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) take(entry.path());
    }
  }
}

struct Run {
  double wall = 0, user = 0, system = 0, mebibytes = 0;
  int status = -1;
};

Run RunOnce(const std::string& program, const std::vector<std::string>& paths) {
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& path : paths) arguments.push_back(const_cast<char*>(path.c_str()));
  arguments.push_back(nullptr);
  Run run;
  const double begin = Now();
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("GLIBC_TUNABLES");
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return run;
  run.wall = Now() - begin;
  run.user = Seconds(usage.ru_utime);
  run.system = Seconds(usage.ru_stime);
  run.mebibytes = static_cast<double>(usage.ru_maxrss) / 1024;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

// Runs in a child process, which releases its memory at the end. With `row`, prints the end of a table's row.
int PrintShares(const std::vector<std::string>& paths, bool row) {
  fflush(stdout);
  const pid_t child = fork();
  if (child != 0) {
    int status = 1;
    waitpid(child, &status, 0);
    return status;
  }
  const double begin = Now();
  const auto bundle = lockstep::LoadPaths(paths);
  if (!bundle.ok()) {
    fprintf(stderr, "%s\n", std::string(bundle.status().message()).c_str());
    _exit(1);
  }
  const double loaded = Now();
  size_t operations = 0;
  for (const lockstep::Rank& rank : bundle->ranks) operations += rank.ops.size();
  { const lockstep::Model model(*bundle, {}); }
  const double aligned = Now();
  const lockstep::Verdict verdict = lockstep::Analyze(*bundle);
  const double analyzed = Now();
  if (verdict.findings().empty()) {
    fprintf(stderr, "the analysis found nothing: how long it took says nothing\n");
    _exit(1);
  }
  const size_t text = lockstep::ReportText(verdict, *bundle).size();
  const double reported = Now();
  // Analyze() builds the model too, so its time is subtracted.
  const double reading = loaded - begin, aligning = aligned - loaded, reasoning = analyzed - aligned - aligning;
  const double reporting = reported - analyzed, all = reading + aligning + reasoning + reporting;
  if (row) {
    printf(" %.0f / %.0f / %.0f / %.0f %% |\n", 100 * reading / all, 100 * aligning / all, 100 * reasoning / all,
           100 * reporting / all);
    fflush(stdout);
    _exit(0);
  }
  printf("%zu ranks, %zu operations, %zu bytes of report\n", bundle->ranks.size(), operations, text);
  printf(
      "reading %.3f s (%.0f %%), aligning %.3f s (%.0f %%), reasoning %.3f s (%.0f %%), reporting %.3f s (%.0f %%)\n",
      reading, 100 * reading / all, aligning, 100 * aligning / all, reasoning, 100 * reasoning / all, reporting,
      100 * reporting / all);
  fflush(stdout);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::UseLargePages(argv);  // for PrintShares; lockstep-analyze does this itself
  int runs = 5;
  const char* row = nullptr;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--row") == 0 && i + 1 < argc) {
      row = argv[++i];
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  if (paths.size() < 2 || runs < 1) {
    fprintf(stderr, "analysis_bench [--runs N] [--row NAME] ANALYZE PATH...\n");
    return 2;
  }
  const std::string program = paths.front();
  paths.erase(paths.begin());
  uint64_t bytes = 0;
  size_t files = 0;
  Warm(paths, &bytes, &files);
  if (row == nullptr)
    printf("%zu files, %.0f MB, %ld processors\n", files, static_cast<double>(bytes) * 1e-6,
           sysconf(_SC_NPROCESSORS_ONLN));
  Run best;
  std::vector<double> walls;
  double mebibytes = 0;  // the maximum of all runs, in MiB
  for (int i = 0; i < runs; i++) {
    const Run run = RunOnce(program, paths);
    if (run.status < 0 || run.status > 1) {
      fprintf(stderr, "%s ended with %d\n", program.c_str(), run.status);
      return 1;
    }
    if (i == 0 || run.wall < best.wall) best = run;
    walls.push_back(run.wall);
    mebibytes = std::max(mebibytes, run.mebibytes);
  }
  if (row != nullptr) {
    std::sort(walls.begin(), walls.end());
    printf("| %s | %zu | %.0f MB | %.2f s (%.2f s) | %.2f + %.2f s | %.0f MiB | %.0f MB/s |", row, files,
           static_cast<double>(bytes) * 1e-6, best.wall, walls[walls.size() / 2], best.user, best.system, mebibytes,
           static_cast<double>(bytes) * 1e-6 / best.wall);
    return PrintShares(paths, true);
  }
  printf("wall %.2f s, processor %.2f s (user %.2f, system %.2f), peak memory %.0f MiB, %.0f MB/s (best of %d)\n",
         best.wall, best.user + best.system, best.user, best.system, mebibytes,
         static_cast<double>(bytes) * 1e-6 / best.wall, runs);
  return PrintShares(paths, false);
}
