// Prints how often healthy jobs are called SLOW, and how often stragglers and slow links are found, by form of the
// times, fault and size. Then prints how often findings of each confidence were right.
//   slow_table [--healthy N] [--each N] [--seed S] [--form NAME] [--show] [--check | --sample] [--graded FILE]
//              [HEALTHY_FOLDER...]
// --healthy: number of healthy jobs (1000). --each: stragglers of each form, fault, share and size (4). --form: only
// this form of times. --show: print each job with a wrong verdict. Each folder below a HEALTHY_FOLDER has the dumps of
// one healthy job.
// Columns: "set": the culprit among others; "part": the first finding names only some ranks of the culprit host.
// --check fails if more than one healthy job in 1,000 is called SLOW, or if the confidence of at least 30 findings is
// too high by more than three standard deviations. --sample runs 63 healthy jobs and 24 stragglers of 50 %, and fails
// if a healthy job is called SLOW or fewer than 20 stragglers are found. --graded writes the input of
// tests/bench/accuracy/calibrate.py.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/load/load.h"
#include "tests/bench/slow/jobs.h"

namespace lockstep::slow {
namespace {

struct Row {
  int jobs = 0, slow = 0, right = 0, set = 0, part = 0, wrong = 0, missed = 0;
};

struct Band {
  int findings = 0, right = 0;
  double stated = 0;
};

class Table {
 public:
  // Returns what is wrong with the verdict; empty if it is right.
  std::string Add(const std::string& name, const Bundle& bundle, const std::vector<int32_t>& culprits) {
    Row& row = rows_[name];
    if (row.jobs++ == 0) order_.push_back(name);
    const Verdict verdict = Analyze(bundle);
    std::vector<const Finding*> found;
    for (const Finding& f : verdict.findings()) {
      if (f.kind() == STRAGGLER || f.kind() == SLOW_HOST || f.kind() == SLOW_LINK) found.push_back(&f);
    }
    row.slow += !found.empty();
    const auto holds = [&](const Finding& f) {
      const auto& named = f.culprit_ranks();
      return !culprits.empty() && std::all_of(culprits.begin(), culprits.end(), [&](int32_t r) {
        return std::find(named.begin(), named.end(), r) != named.end();
      });
    };
    const auto exact = [&](const Finding& f) {
      return holds(f) && static_cast<size_t>(f.culprit_ranks_size()) == culprits.size();
    };
    const auto honest = [&](const Finding& f) {
      return holds(f) && f.culprit_ranks_size() <= 4 && f.confidence() < 0.9;
    };
    // Several findings may together name the ranks of a host.
    const auto part = [&](const Finding& f) {
      return std::all_of(f.culprit_ranks().begin(), f.culprit_ranks().end(),
                         [&](int32_t r) { return std::find(culprits.begin(), culprits.end(), r) != culprits.end(); });
    };
    for (const Finding* f : found) {
      Band& band = bands_[static_cast<int>(f->confidence() * 100 + 0.5)];
      ++band.findings;
      band.stated += f->confidence();
      band.right += exact(*f) || honest(*f);
      const bool framework = bundle.ranks[0].source == Source::kFlightRecorder;
      if (!graded_.empty()) graded_ += ", ";
      graded_ += "[\"" + Grade_Name(f->grade()).substr(6) + "\", \"" + Reason_Name(f->reason()).substr(7) + "\", " +
                 (f->culprit_ranks_size() > 1 ? "true, " : "false, ") + (framework ? "true, " : "false, ") +
                 std::to_string(f->confidence()) + (holds(*f) || part(*f) ? ", true]" : ", false]");
    }
    if (culprits.empty()) {
      healthy_ += 1;
      alarms_ += !found.empty();
    } else if (found.empty()) {
      ++row.missed;
    } else {
      const Finding& first = *found[0];
      ++(exact(first) ? row.right : honest(first) ? row.set : part(first) ? row.part : row.wrong);
    }
    if (culprits.empty() ? found.empty() : !found.empty() && exact(*found[0])) return "";
    std::string text = "culprits";
    for (const int32_t r : culprits) text += " " + std::to_string(r);
    for (const Finding* f : found) {
      text += ", named";
      for (const int32_t r : f->culprit_ranks()) text += " " + std::to_string(r);
    }
    return text;
  }

  // Returns whether the rate of false alarms and the confidences are within their limits.
  bool Print() const {
    std::printf(
        "| job | jobs | SLOW | right | set | part | wrong | missed |\n| --- | --- | --- | --- | --- | --- | --- | --- "
        "|\n");
    for (const std::string& name : order_) {
      const Row& row = rows_.at(name);
      std::printf("| %s | %d | %d | %d | %d | %d | %d | %d |\n", name.c_str(), row.jobs, row.slow, row.right, row.set,
                  row.part, row.wrong, row.missed);
    }
    std::printf("\n%d healthy jobs, %d called SLOW\n\n| confidence | findings | right |\n| --- | --- | --- |\n",
                healthy_, alarms_);
    bool good = alarms_ * 1000 <= std::max(healthy_, 1000);
    for (const auto& [percent, band] : bands_) {
      const double stated = band.stated / band.findings, share = static_cast<double>(band.right) / band.findings;
      const double stray = std::sqrt(stated * (1 - stated) / band.findings);
      const bool off = band.findings >= 30 && share < stated - 3 * stray;
      std::printf("| %.2f | %d | %.2f%s |\n", stated, band.findings, share, off ? ", off by more than chance" : "");
      good &= !off;
    }
    return good;
  }

  const std::string& graded() const { return graded_; }
  int alarms() const { return alarms_; }
  int right() const {
    int sum = 0;
    for (const auto& [name, row] : rows_) sum += row.right;
    return sum;
  }

 private:
  std::map<std::string, Row> rows_;
  std::vector<std::string> order_;
  std::map<int, Band> bands_;  // key: confidence in percent
  std::string graded_;         // all findings, in calibrate.py's input format
  int healthy_ = 0, alarms_ = 0;
};

int Main(int argc, char** argv) {
  int healthy = 1000, each = 4;
  uint64_t seed = 1;
  bool check = false, sample = false, show = false;
  std::string graded, only;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool valued =
        word == "--healthy" || word == "--each" || word == "--seed" || word == "--graded" || word == "--form";
    if (valued && i + 1 == argc) return std::fprintf(stderr, "slow_table: %s needs a value\n", word.c_str()), 2;
    if (word == "--healthy") {
      healthy = std::atoi(argv[++i]);
    } else if (word == "--each") {
      each = std::atoi(argv[++i]);
    } else if (word == "--seed") {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--graded") {
      graded = argv[++i];
    } else if (word == "--form") {
      only = argv[++i];
    } else if (word == "--show") {
      show = true;
    } else if (word == "--check") {
      check = true;
    } else if (word == "--sample") {
      sample = true;
      healthy = 63, each = 3;
    } else {
      folders.push_back(word);
    }
  }
  Table table;
  const auto add = [&](const std::string& name, Form form, Fault fault, double share, int ranks, double jitter,
                       uint64_t number) {
    if (!only.empty() && only != FormName(form)) return;
    const auto job = MakeJob(form, fault, share, ranks, jitter, number);
    if (!job) return;
    const std::string wrong = table.Add(name, job->bundle, job->culprits);
    if (!show || wrong.empty()) return;
    std::printf("%s, %d ranks, jitter %.2f, seed %llu: %s\n", name.c_str(), ranks, jitter,
                static_cast<unsigned long long>(number), wrong.c_str());
  };
  constexpr int kSizes[] = {8, 16, 64};
  for (int i = 0; i < healthy; ++i) {
    const Form form = kForms[static_cast<size_t>(i) % std::size(kForms)];
    const int ranks = kSizes[i / 7 % 10 == 9 ? 2 : i / 7 % 2];
    const double jitter = 0.05 * (i / 7 % 11);
    add(std::string("healthy: ") + FormName(form), form, Fault::kNone, 0, ranks, jitter,
        seed * 1'000'000 + static_cast<uint64_t>(i));
  }
  for (const std::string& folder : folders) {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
      const absl::StatusOr<Bundle> bundle = LoadPaths({entry.path().string()});
      if (bundle.ok()) table.Add("healthy: " + folder, *bundle, {});
    }
  }
  uint64_t number = seed * 1'000'000 + 500'000;
  for (const Fault fault : kFaults) {
    for (const int percent : {10, 20, 50}) {
      for (const Form form : kForms) {
        for (const int ranks : kSizes) {
          const bool easy =
              percent == 50 && ranks == 8 && (fault == Fault::kRank || fault == Fault::kHost) &&
              (form == Form::kEvents || form == Form::kPolled || form == Form::kDurations || form == Form::kOwnDump);
          for (int i = 0; i < each; ++i) {
            if (sample && !easy) continue;
            add(std::string(FaultName(fault)) + " +" + std::to_string(percent) + " %: " + FormName(form), form, fault,
                percent / 100.0, ranks, 0.02, ++number);
          }
        }
      }
    }
  }
  const bool good = table.Print();
  if (!graded.empty()) std::ofstream(graded) << "{\"graded\": [" << table.graded() << "]}\n";
  if (sample) return table.alarms() == 0 && table.right() >= 20 ? 0 : 1;
  return check && !good ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::slow

int main(int argc, char** argv) { return lockstep::slow::Main(argc, argv); }
