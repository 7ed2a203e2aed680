// Colors and signs of states, for light and dark windows, safe for color-blind users.
#pragma once

#include <QColor>
#include <QFont>
#include <QPalette>
#include <QString>

#include <array>

#include "analyzer/viewdata/state.h"

namespace lockstep::gui {

struct StateStyle {
  QColor fill;
  QColor ink;   // for a sign or hatch on `fill`, with a contrast of at least 3:1
  QChar glyph;  // drawn in cells of at least 10 pixels; a space for none
  // In addition to the fill, so that "no data" is not mistaken for a fault.
  Qt::BrushStyle hatch = Qt::NoBrush;
};

struct Theme {
  bool dark = false;
  std::array<StateStyle, static_cast<size_t>(ViewState::kCount)> states;
  QColor background, text, faint_text, grid, selection, cursor, alarm, cause, victim, link;

  const StateStyle& Of(ViewState state) const { return states[static_cast<size_t>(state)]; }
};

// Qt 6.4 does not report a dark desktop, so the lightness of the window color decides.
bool IsDark(const QPalette& palette);
const Theme& LightTheme();
const Theme& DarkTheme();
QFont Bold(QFont font);
inline const Theme& ThemeFor(const QPalette& palette) { return IsDark(palette) ? DarkTheme() : LightTheme(); }

}  // namespace lockstep::gui
