// Exports of the window: pictures, tables, and the text for a ticket.
#pragma once

#include <QByteArray>
#include <QSize>
#include <QString>
#include <QStringList>

#include "absl/status/status.h"
#include "gui/model/notes/notes.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// Returns the formats in which the view can be exported: "png", "svg", "csv".
QStringList ExportFormats(View* view);
// The file's extension selects the format. Writes the whole file or nothing. Errors: InvalidArgument (unknown
// extension, or a format that the view does not support), Unavailable (no picture), those of AtomicFile.
absl::Status ExportView(View* view, const QString& path, QSize size);

// "3 ranks: 0-2; AllReduce #41 of dp": the selection in one line; empty if nothing is selected.
QString SelectionText(const Document& document, const Selection& selection);
// The verdict as `lockstep analyze` prints it, the selection, the marks, and the path of the files.
QString TicketText(const Document& document, const Selection& selection, const Notes& notes);

// The state of the window for scripts and tests: {"title", "ranks": [..] selected, "communicator": ID or "",
// "sequence": number or -1, "selected": text, "verdict": "HUNG", "report": text, "anomalies": count}; ends in a
// newline.
QByteArray DescribeJson(const Document& document, const Selection& selection);

}  // namespace lockstep::gui
