// What `lockstep top` shows, as lines of text: pure, so that tests see what people see. Everything in a JobStatus came
// over the network; control characters never reach the terminal.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_TOP_VIEW_H_
#define LOCKSTEP_COLLECTOR_TOOLS_TOP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/wire.pb.h"

namespace lockstep {

enum class TopStyle { kPlain, kTitle, kHeading, kGood, kLate, kBad, kDim };

struct TopLine {
  std::string text;  // printable ASCII, no longer than the width
  TopStyle style = TopStyle::kPlain;
  bool operator==(const TopLine& other) const = default;
};

// How the list in the middle is put together. Roles are communicators of like names (tp_*); rails are the ranks at the
// same place of each host; stages are places in a pipeline.
enum class TopGroup { kCommunicators, kRoles, kHosts, kRails, kStages };
constexpr int kTopGroups = 5;
const char* TopGroupName(TopGroup group);

struct TopState {
  size_t job = 0;
  TopGroup group = TopGroup::kCommunicators;
  size_t scroll = 0;              // first line shown of the list, or of `text`
  std::vector<std::string> text;  // shown instead of the list when not empty: a verdict, stacks, a rank
  std::string text_title;
  bool report = false;  // `text` is a verdict's: lines that were broken for a wider window are put together and broken
                        // for this one
  bool help = false;
  std::string prompt;     // last line: a question, the typed text, or the last message
  std::string endpoint;   // where the figures come from
  int64_t silent_ns = 0;  // since the collector was heard; 0: it answers
  int64_t now_real_ns = 0;
};

// Exactly `height` lines. `width` counts as at least 40, `height` as at least 10. state.scroll may be past the end: the
// last lines are shown then.
std::vector<TopLine> RenderTop(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, size_t height);

// Without a screen, every line of every job.
std::string TopText(const std::vector<JobStatus>& jobs, int64_t now_real_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_TOOLS_TOP_VIEW_H_
