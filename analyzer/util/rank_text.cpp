#include "analyzer/util/rank_text.h"

#include "absl/strings/str_cat.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

std::string FoldRanks(std::vector<int32_t> ranks, size_t limit) {
  constexpr size_t kMinSpread = 5;  // fewer equally spaced ranks are listed one by one
  SortUnique(&ranks);
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    const int64_t step = i + 1 < ranks.size() ? int64_t{ranks[i + 1]} - ranks[i] : 0;
    size_t end = i;
    while (end + 1 < ranks.size() && int64_t{ranks[end + 1]} - ranks[end] == step) ++end;
    if (step > 1 && end - i + 1 < kMinSpread) end = i;
    std::string run = absl::StrCat(ranks[i]);
    if (end == i + 1) {
      absl::StrAppend(&run, ", ", ranks[end]);
    } else if (end > i) {
      absl::StrAppend(&run, "-", ranks[end]);
      if (step > 1) absl::StrAppend(&run, " in steps of ", step);
    }
    if (!text.empty() && text.size() + run.size() + 2 > limit)
      return absl::StrCat(text, ", .. (", ranks.size(), " in all)");
    absl::StrAppend(&text, text.empty() ? "" : ", ", run);
    i = end + 1;
  }
  return text;
}

std::string CountText(int64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > (value < 0 ? 4u : 3u);) text.insert(at -= 3, 1, ',');
  return text;
}

std::string Counted(int64_t count, const char* one, const char* several) {
  return absl::StrCat(CountText(count), " ", count == 1 ? one : several);
}

}  // namespace lockstep
