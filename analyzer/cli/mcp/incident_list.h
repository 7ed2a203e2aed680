// The incidents that a server shows: only those named when it was started.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct OpenedIncident {
  std::string name;
  int64_t changed_ns = 0;
  Bundle bundle;
  Verdict verdict;
  MergedStacks stacks;
};

class IncidentList {
 public:
  // `paths` names incidents, anything else that LoadPaths reads, or folders of incidents.
  IncidentList(std::vector<std::string> paths, Redactor redactor) : paths_(std::move(paths)), redactor_(redactor) {}

  struct Listed {
    std::string name, path;
    int64_t changed_ns = 0;
  };
  // Returns the incidents, newest first, at most 1,000.
  std::vector<Listed> List() const;
  // Loads the incident with this name; with an empty name, the newest. It stays loaded until it changes or another one
  // is requested.
  absl::StatusOr<const OpenedIncident*> Open(const std::string& name);

 private:
  const std::vector<std::string> paths_;
  const Redactor redactor_;
  std::unique_ptr<OpenedIncident> opened_;
};

}  // namespace lockstep
