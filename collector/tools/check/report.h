// The report of a check, as text and JSON.
#pragma once

#include <string>

#include "collector/tools/check/compare.h"
#include "collector/tools/check/job.h"

namespace lockstep::check {

struct CheckReport {
  Found found;
  JobEnd end;                  // for the last round
  int rounds = 1;              // number of rounds that ran
  std::string could_not;       // why there is no conclusion; empty if there is one
  std::string standins;        // the folder of the stand-ins; empty: this machine's libraries
  bool own_libraries = false;  // the user chose this machine's libraries
  std::string folder;          // folder of the records, if they are kept
};

std::string ReportAsText(const CheckReport& report);
std::string ReportAsJson(const CheckReport& report);

}  // namespace lockstep::check
