// How well a few letters name a text, for the command palette.
#ifndef LOCKSTEP_GUI_APP_FUZZY_H_
#define LOCKSTEP_GUI_APP_FUZZY_H_

#include <QString>
#include <QStringView>

namespace lockstep::gui {

// The letters must stand in the text in their order, case aside, blanks too; higher is better: together, at the
// beginnings of words, early, in a short text. -1: they do not. An empty pattern fits all alike.
int FuzzyScore(const QString& pattern, QStringView text);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_FUZZY_H_
