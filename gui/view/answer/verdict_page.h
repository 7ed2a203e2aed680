// The text of the verdict as markup with links, without widgets.
#pragma once

#include <QString>

#include "gui/model/document.h"

namespace lockstep::gui {

// "HUNG"; "READING" while there is no verdict yet.
QString VerdictWord(const Document& document);
// "8 ranks, 31 s: rank 5 = ..: never called ..", printable, not escaped.
QString VerdictHeadline(const Document& document);
// "high", or "medium, a hypothesis"; empty if the verdict has no findings.
QString VerdictSureness(const Document& document);

// Returns what explains the finding: stack, call sites, what to do, evidence, and links to the other findings; in two
// columns if `columns` is true. Links: "finding:F", "evidence:F:E", "chain:F:L", "missing".
QString VerdictPage(const Document& document, int finding, bool columns);

// Returns what a link of the page selects; empty for links without a target. If the link leads to a finding, stores its
// number in *finding.
Selection VerdictLink(const Document& document, const QString& link, int* finding = nullptr);

}  // namespace lockstep::gui
