#include "gui/app/commands/fuzzy.h"

#include <algorithm>

namespace lockstep::gui {
namespace {

// Takes each letter at its first occurrence at or after `from`. Returns -1 if a letter is missing.
int Greedy(const QString& pattern, QStringView text, qsizetype from) {
  int score = 0;
  qsizetype at = from, last = -2;
  for (const QChar wanted : pattern) {
    if (wanted.isSpace()) continue;
    while (at < text.size() && text[at].toCaseFolded() != wanted.toCaseFolded()) ++at;
    if (at == text.size()) return -1;
    const bool start = at == 0 || !text[at - 1].isLetterOrNumber();
    score += 10 + (at == last + 1 ? 15 : 0) + (start ? 12 : 0);
    last = at++;
  }
  return score - static_cast<int>(std::min<qsizetype>(from, 20));
}

}  // namespace

int FuzzyScore(const QString& pattern, QStringView text) {
  const auto first = std::find_if(pattern.begin(), pattern.end(), [](QChar c) { return !c.isSpace(); });
  if (first == pattern.end()) return 0;
  int best = -1, tries = 0;
  for (qsizetype i = 0; i < text.size() && tries < 8; ++i) {
    if (text[i].toCaseFolded() != first->toCaseFolded()) continue;
    const int score = Greedy(pattern, text, i);
    if (score < 0) break;  // the letters do not follow, so no later start matches either
    best = std::max(best, score);
    ++tries;
  }
  return best < 0 ? -1 : std::max(0, best * 4 - static_cast<int>(std::min<qsizetype>(text.size(), 100)) + 200);
}

}  // namespace lockstep::gui
