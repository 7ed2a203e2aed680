// What the first screen says, before it is laid out as text or as a page.
#ifndef LOCKSTEP_ANALYZER_REPORT_CONTENT_H_
#define LOCKSTEP_ANALYZER_REPORT_CONTENT_H_

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "analyzer/report/block.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct ReportContent {
  std::string verdict;              // "HUNG"
  std::string headline;             // "8 ranks, 31 s: rank 5 = ...: never entered ..."
  ReportBlock first;                // the root cause; no title, the headline has it
  std::vector<ReportBlock> others;  // findings that differ from those before them in more than names and numbers
  ReportBlock data;                 // what was read, what is missing, where the files are
};

ReportContent BuildReport(const Verdict& verdict, const Bundle& bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_REPORT_CONTENT_H_
