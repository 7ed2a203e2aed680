// Writes the pages for the browser test. Usage: report_html_pages FOLDER
#include <cstdio>
#include <string>

#include "analyzer/report/report.h"
#include "analyzer/testing/report_samples.h"

namespace {

bool Write(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool whole = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && whole;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  lockstep::Bundle rich, hostile, huge;
  const lockstep::Verdict of_rich = lockstep::MakeRich(&rich), of_hostile = lockstep::MakeHostile(&hostile),
                          of_huge = lockstep::MakeHuge(&huge);
  lockstep::Verdict healthy;
  healthy.set_verdict(lockstep::VERDICT_HEALTHY);
  healthy.set_ranks_read(16);
  healthy.set_ranks_expected(16);
  const bool written = Write(folder + "/rich.html", lockstep::ReportHtml(of_rich, rich)) &&
                       Write(folder + "/hostile.html", lockstep::ReportHtml(of_hostile, hostile)) &&
                       Write(folder + "/huge.html", lockstep::ReportHtml(of_huge, huge)) &&
                       Write(folder + "/healthy.html", lockstep::ReportHtml(healthy, rich));
  return written ? 0 : 1;
}
