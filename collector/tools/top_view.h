// The screen of `lockstep top` as lines of text. Pure. Everything in a JobStatus came over the network; control
// characters never reach the terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/wire.pb.h"

namespace lockstep {

enum class TopStyle { kPlain, kTitle, kHeading, kGood, kLate, kBad, kDim };

struct TopLine {
  std::string text;  // printable ASCII, at most as wide as the screen
  TopStyle style = TopStyle::kPlain;
  bool operator==(const TopLine& other) const = default;
};

// How the list in the middle is grouped. Roles are communicators with similar names (tp_*); rails are ranks with the
// same index on each host; stages are positions in a pipeline.
enum class TopGroup { kCommunicators, kRanks, kRoles, kHosts, kRails, kStages };
constexpr int kTopGroups = 6;
enum class TopOrder { kTrouble, kRank, kHost };
constexpr int kTopOrders = 3;

struct TopState {
  bool all_jobs = true;                // show the list of jobs; ignored if there is only one job
  size_t job = 0;                      // the open job, or the selected one
  std::vector<double> calls_a_second;  // rate of each job's busiest communicator; negative if unknown
  TopGroup group = TopGroup::kCommunicators;
  TopOrder order = TopOrder::kTrouble;  // order of the ranks
  size_t scroll = 0;                    // first visible line of the list, or of `text`
  std::vector<std::string> text;        // shown instead of the list if not empty: a verdict, stacks, a rank
  std::string text_title;
  bool help = false;
  std::string prompt;     // the last line: a question, the typed text, or the last message
  std::string endpoint;   // the collector's endpoint
  int64_t silent_ns = 0;  // since the last message from the collector; 0 if the collector answers
  int64_t now_real_ns = 0;
};

// Returns exactly `height` lines. `width` counts as at least 40, `height` as at least 10. If state.scroll is past the
// end, shows the last lines. Sets *first to the first visible line of the list.
std::vector<TopLine> RenderTop(const std::vector<JobStatus>& jobs, const TopState& state, size_t width, size_t height,
                               size_t* first = nullptr);

// Returns every line of every job, without a screen.
std::string TopText(const std::vector<JobStatus>& jobs, const TopState& state);
// Returns the job as one line of JSON, with the names of proto/wire.proto, and with "calls_a_second" and
// "slowest_ranks", which are null if unknown. Empty if the job cannot be written.
std::string TopJson(const JobStatus& job, double calls_a_second);

}  // namespace lockstep
