// Writes the incident folder.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct ExitRecord {
  int rank = -1;  // -1: the command itself, not a rank that lockstep started
  int pid = 0;
  std::string text;  // "exited 0", "killed by signal 9", "running"
};

struct IncidentFacts {
  std::string job;
  std::vector<std::string> command;
  std::vector<ExitRecord> exits;
  int64_t captured_real_ns = 0;
  std::string note;                    // for example why nothing was recorded; may be empty
  std::vector<std::string> decisions;  // JSON lines (decision_log.h), written as decisions.jsonl; empty: no such file
};

// Writes manifest.json, verdict.json, verdict.txt, report.html, decisions.jsonl (if there are any) and one HOST.lsd per
// host into `folder`. Creates the folder (0700) if missing. Each file is written under a temporary name, flushed to
// disk and renamed. The manifest comes last, so a folder without a manifest is not complete. The first error, which
// names the file, is returned after all files were tried. The manifest is written even then: the analysis needs it for
// the remaining files, and it keeps the next incident from overwriting them.
absl::Status WriteIncident(const std::string& folder, const Bundle& bundle, const Verdict& verdict,
                           const IncidentFacts& facts);

// Writes explore.html into the folder and prints where it is (with `tell`), or why it is missing. Call it last: it
// takes about as long as the analysis, and nothing depends on it.
void WriteExplorePage(const std::string& folder, const Bundle& bundle, const Verdict& verdict,
                      const MergedStacks& stacks, bool tell);

// Calls WriteIncident, then WriteExplorePage. Prints where the incident is (with `tell`), or that it is not complete.
// Returns whether it is complete.
bool StoreIncident(const std::string& folder, const Bundle& bundle, const Verdict& verdict, const IncidentFacts& facts,
                   bool tell);

// Returns the name of a host's file in the folder: the host name, made safe, with ".lsd".
std::string DumpFileName(const std::string& host);

struct EarlierIncident {
  std::string moved_to;   // new name of an earlier incident with a finding; empty: there was none
  bool replaced = false;  // the folder contained a healthy job's incident, whose files were removed
};
// Makes room in `folder` for a new incident. An earlier incident with a finding is renamed to FOLDER.DATE-TIME, by its
// capture time; the files of a healthy job's incident are removed. Other files, and folders without a manifest, stay.
absl::StatusOr<EarlierIncident> SetEarlierIncidentAside(const std::string& folder);

// Returns why `folder` (created if missing) cannot store an incident, if that is visible without writing; otherwise
// empty.
std::string WhyNoIncidentFolder(const std::string& folder);

// Returns "lockstep-incident-JOB-20260131-235959" below the current folder.
std::string DefaultIncidentFolder(const std::string& job, int64_t real_ns);

}  // namespace lockstep
