// The words of the query language, for its parser, its scan and what completes them in a search box.
#ifndef LOCKSTEP_GUI_MODEL_QUERY_WORDS_H_
#define LOCKSTEP_GUI_MODEL_QUERY_WORDS_H_

#include <QString>
#include <QStringList>
#include <QStringView>

namespace lockstep::gui {

QStringList QueryKeyWords();    // rank, host, ..
QStringList QueryStateWords();  // after state:
QStringList QueryClassWords();  // after class:

// * matches any text, ? one character. Not `whole`: the pattern may match anywhere in the text.
bool QueryPatternMatches(const QString& pattern, QStringView text, bool whole);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_QUERY_WORDS_H_
