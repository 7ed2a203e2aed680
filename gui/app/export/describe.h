// The state of the window, for scripts and tests, as one JSON object.
#pragma once

#include <QByteArray>

#include "gui/model/document.h"
#include "gui/model/navigator.h"

namespace lockstep::gui {

// {"title", "ranks": [..] selected, "communicator": ID or "", "sequence": number or -1, "selected": text, "verdict":
// "HUNG", "report": text, "anomalies": count}; ends in a newline.
QByteArray DescribeJson(const Document& document, const Selection& selection);

}  // namespace lockstep::gui
