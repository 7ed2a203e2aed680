// What a check found, as text and JSON.
#pragma once

#include <string>

#include "collector/tools/check/compare.h"
#include "collector/tools/check/job.h"

namespace lockstep::check {

struct CheckReport {
  Found found;
  JobEnd end;                  // of the last round
  int rounds = 1;              // number of rounds that ran
  std::string could_not;       // why nothing can be said; empty if something can
  std::string standins;        // their folder; empty: the libraries of this machine
  bool own_libraries = false;  // the user chose the libraries of this machine
  std::string folder;          // of the records, if they are kept
};

std::string ReportAsText(const CheckReport& report);
std::string ReportAsJson(const CheckReport& report);

}  // namespace lockstep::check
