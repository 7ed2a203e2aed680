// The words of the query language, for its parser, its scan and the completion in the search box.
#pragma once

#include <QString>
#include <QStringList>
#include <QStringView>

namespace lockstep::gui {

QStringList QueryKeyWords();    // rank, host, ..
QStringList QueryStateWords();  // after state:
QStringList QueryClassWords();  // after class:

// * matches any text, ? one character. If `whole` is false, the pattern may match anywhere in the text.
bool QueryPatternMatches(const QString& pattern, QStringView text, bool whole);

}  // namespace lockstep::gui
