// How well a few letters name a text, for the command palette.
#ifndef LOCKSTEP_GUI_APP_FUZZY_H_
#define LOCKSTEP_GUI_APP_FUZZY_H_

#include <QString>
#include <QStringView>

namespace lockstep::gui {

// The score of a text that contains the pattern's letters in order; ignores case and blanks. Higher is better: adjacent
// letters, beginnings of words, early, in a short text. -1: no match. An empty pattern scores all equally.
int FuzzyScore(const QString& pattern, QStringView text);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_FUZZY_H_
