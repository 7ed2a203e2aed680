// The contents of a report, before they are formatted as text or HTML.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "analyzer/report/block.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct ReportContent {
  std::string verdict;              // "HUNG"
  std::string lasted;               // "18 s"; empty if unknown or nothing is stuck
  std::string headline;             // "rank 5 (node03, GPU 1) never called ..."
  std::string waiting;              // "7 other ranks are waiting for it."; may be empty
  std::string also;                 // "Also at fault: rank 20."; may be empty
  ReportBlock first;                // the root cause; has no title, because the headline names it
  std::vector<ReportBlock> others;  // findings that differ from earlier ones in more than names and numbers
  ReportBlock data;                 // what was read, what is missing, where the files are

  std::string Sentences() const;  // headline, waiting and also
};

// The verdict must have its circumstances (analyzer/report/circumstances.h).
ReportContent BuildReport(const Verdict& verdict, const Bundle& bundle);

}  // namespace lockstep
