// Scores how well a few letters match a text, for the command palette.
#pragma once

#include <QString>
#include <QStringView>

namespace lockstep::gui {

// Returns the score of a text that contains the pattern's letters in order; ignores case and blanks. Adjacent letters,
// word starts, early matches and short texts score higher. -1 if it does not match. An empty pattern gives all texts
// the same score.
int FuzzyScore(const QString& pattern, QStringView text);

}  // namespace lockstep::gui
