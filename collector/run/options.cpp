#include "collector/run/options.h"

namespace lockstep {

RunOptions MakeRunOptions(const settings::ParsedOptions& parsed) {
  RunOptions options;
  options.ranks = static_cast<int>(parsed.Number("ranks"));
  options.collector = parsed.Text("collector");
  options.out = parsed.Text("out");
  options.kill_on_hang = parsed.Flag("kill-on-hang");
  options.gpu = parsed.Text("gpu");
  options.profiler = parsed.Flag("profiler");
  options.late_after_ns = parsed.Nanoseconds("late-after");
  options.hang_after_ns = parsed.Nanoseconds("hang-after");
  options.quiet = parsed.Flag("quiet");
  options.redact = ParseRedactLevel(parsed.Text("redact")).value();
  options.group = parsed.Text("group");
  options.on_verdict = parsed.Text("on-verdict");
  options.on_verdict_ns = parsed.Nanoseconds("on-verdict-timeout");
  options.command = parsed.operands();
  return options;
}

}  // namespace lockstep
