// Colors and signs of states, for light and dark windows, safe for color-blind eyes.
#ifndef LOCKSTEP_GUI_VIEW_THEME_H_
#define LOCKSTEP_GUI_VIEW_THEME_H_

#include <QColor>
#include <QPalette>
#include <QString>

#include <array>

#include "analyzer/viewdata/state.h"

namespace lockstep::gui {

struct StateStyle {
  QColor fill;
  QColor ink;                          // of a sign or hatch on `fill`, contrast >= 3:1
  QChar glyph;                         // drawn in cells of 10 pixels and more; a space: none
  Qt::BrushStyle hatch = Qt::NoBrush;  // beside the fill, so that "no data" is never taken for a proven fault
};

struct Theme {
  bool dark = false;
  std::array<StateStyle, static_cast<size_t>(ViewState::kCount)> states;
  QColor background, text, faint_text, grid, selection, cursor, alarm, cause, victim, link;

  const StateStyle& Of(ViewState state) const { return states[static_cast<size_t>(state)]; }
};

// Qt 6.4 does not report a dark desktop: the window's own lightness decides.
bool IsDark(const QPalette& palette);
const Theme& LightTheme();
const Theme& DarkTheme();
inline const Theme& ThemeFor(const QPalette& palette) {
  return IsDark(palette) ? DarkTheme() : LightTheme();
}

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_THEME_H_
