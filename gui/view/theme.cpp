#include "gui/view/theme.h"

namespace lockstep::gui {
namespace {

// Hues based on Okabe and Ito, adjusted so that deuteranopes, protanopes and tritanopes can distinguish the states
// (theme_test.cpp checks the distances). Faults also differ from all other states in lightness: dark in a light window,
// bright in a dark one.
Theme MakeLight() {
  Theme theme;
  auto set = [&](ViewState state, const char* fill, const char* ink, char glyph, Qt::BrushStyle hatch = Qt::NoBrush) {
    theme.states[static_cast<size_t>(state)] = {QColor(fill), QColor(ink), QLatin1Char(glyph), hatch};
  };
  set(ViewState::kOutside, "#f7fcfc", "#868a8a", ' ');
  set(ViewState::kCompleted, "#c7e4fa", "#2f5d80", ' ');
  set(ViewState::kOverwritten, "#e3d9cb", "#7a6f60", ' ', Qt::Dense6Pattern);
  set(ViewState::kIssued, "#b8c3ca", "#3c484f", ' ');
  set(ViewState::kEnqueued, "#7fc4ee", "#0b3550", '.');
  set(ViewState::kStarted, "#5897cf", "#04182a", '>');
  set(ViewState::kWaiting, "#f2c94c", "#4a3900", '~');
  set(ViewState::kNoData, "#b7ada0", "#453d33", '?', Qt::BDiagPattern);
  set(ViewState::kFailed, "#3a1f4d", "#ffffff", '!');
  set(ViewState::kMismatch, "#9c2f7f", "#ffffff", 'x');
  set(ViewState::kMissing, "#b02c00", "#ffffff", 'o');
  theme.background = QColor("#ffffff");
  theme.text = QColor("#1b1b1b");
  theme.faint_text = QColor("#5c5c5c");
  theme.grid = QColor("#d8d8d4");
  theme.selection = QColor("#111111");
  theme.cursor = QColor("#000000");
  theme.alarm = QColor("#b02c00");
  theme.cause = QColor("#b02c00");
  theme.victim = QColor("#f2c94c");
  theme.link = QColor("#00558a");
  return theme;
}

Theme MakeDark() {
  Theme theme = MakeLight();
  theme.dark = true;
  auto set = [&](ViewState state, const char* fill, const char* ink) {
    theme.states[static_cast<size_t>(state)].fill = QColor(fill);
    theme.states[static_cast<size_t>(state)].ink = QColor(ink);
  };
  set(ViewState::kOutside, "#1b1d1f", "#8b8f92");
  set(ViewState::kCompleted, "#1e4765", "#b9dcf5");
  set(ViewState::kOverwritten, "#3d3a34", "#a39c90");
  set(ViewState::kIssued, "#4b5761", "#c9d3da");
  set(ViewState::kEnqueued, "#1a6496", "#ffffff");
  set(ViewState::kStarted, "#3484c6", "#ffffff");
  set(ViewState::kWaiting, "#886a00", "#ffffff");
  set(ViewState::kNoData, "#6d645a", "#e6ded6");
  set(ViewState::kFailed, "#faebff", "#2a0638");
  set(ViewState::kMismatch, "#ffaae1", "#3a0026");
  set(ViewState::kMissing, "#ffa55d", "#331400");
  theme.background = QColor("#17191a");
  theme.text = QColor("#eceff1");
  theme.faint_text = QColor("#a5adb2");
  theme.grid = QColor("#33383b");
  theme.selection = QColor("#ffffff");
  theme.cursor = QColor("#ffffff");
  theme.alarm = QColor("#ffa55d");
  theme.cause = QColor("#ffa55d");
  theme.victim = QColor("#886a00");
  theme.link = QColor("#7cc4f2");
  return theme;
}

}  // namespace

bool IsDark(const QPalette& palette) { return palette.color(QPalette::Window).lightness() < 128; }

QFont Bold(QFont font) {
  font.setBold(true);
  return font;
}

const Theme& LightTheme() {
  static const Theme& theme = *new Theme(MakeLight());
  return theme;
}

const Theme& DarkTheme() {
  static const Theme& theme = *new Theme(MakeDark());
  return theme;
}

}  // namespace lockstep::gui
