// What the window shows, for scripts and tests: one JSON object.
#ifndef LOCKSTEP_GUI_APP_DESCRIBE_H_
#define LOCKSTEP_GUI_APP_DESCRIBE_H_

#include <QByteArray>

#include "gui/model/document.h"
#include "gui/model/navigator.h"

namespace lockstep::gui {

// {"title", "ranks": [..] selected, "communicator": identity or "", "sequence": or -1, "verdict": "HUNG", "report":
// text, "anomalies": count}; ends in a newline.
QByteArray DescribeJson(const Document& document, const Selection& selection);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_DESCRIBE_H_
