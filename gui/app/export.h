// What leaves the window: pictures, tables, and the text for a ticket.
#ifndef LOCKSTEP_GUI_APP_EXPORT_H_
#define LOCKSTEP_GUI_APP_EXPORT_H_

#include <QSize>
#include <QString>
#include <QStringList>

#include "absl/status/status.h"
#include "gui/model/notes.h"
#include "gui/view/view.h"

namespace lockstep::gui {

// What the view can be written as: "png", "svg", "csv".
QStringList ExportFormats(View* view);
// The file's ending selects the format. Writes the whole file or nothing. Errors: InvalidArgument (an ending, or a form
// that the view does not have), Unavailable (cannot be written).
absl::Status ExportView(View* view, const QString& path, QSize size);

// "3 ranks: 0-2; AllReduce #41 of dp": the selection in one line; empty: nothing.
QString SelectionText(const Document& document, const Selection& selection);
// The verdict as `lockstep analyze` prints it, the selection, marks, and the place of the files.
QString TicketText(const Document& document, const Selection& selection, const Notes& notes);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_EXPORT_H_
