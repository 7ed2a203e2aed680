#include "gui/view/theme.h"

namespace lockstep::gui {
namespace {

// The hues are Okabe and Ito's, which stay apart for the common kinds of colour blindness; lightness differs beside them.
Theme MakeLight() {
  Theme theme;
  auto set = [&](ViewState state, const char* fill, const char* ink, char glyph, Qt::BrushStyle hatch = Qt::NoBrush) {
    theme.states[static_cast<size_t>(state)] = {QColor(fill), QColor(ink), QLatin1Char(glyph), hatch};
  };
  set(ViewState::kOutside, "#f4f4f2", "#8a8a86", ' ');
  set(ViewState::kCompleted, "#bcd7ea", "#2f5d80", ' ');
  set(ViewState::kOverwritten, "#dcdcd8", "#6c6c68", ' ', Qt::Dense6Pattern);
  set(ViewState::kIssued, "#d3d9de", "#4d5a63", ' ');
  set(ViewState::kEnqueued, "#56b4e9", "#0b3550", '.');
  set(ViewState::kStarted, "#0072b2", "#ffffff", '>');
  set(ViewState::kWaiting, "#f0c242", "#4a3900", '~');
  set(ViewState::kNoData, "#b8b8b8", "#4a4a4a", '?', Qt::BDiagPattern);
  set(ViewState::kFailed, "#8c4a9e", "#ffffff", '!');
  set(ViewState::kMismatch, "#cc4fa0", "#ffffff", 'x');
  set(ViewState::kMissing, "#c23b00", "#ffffff", 'o');
  theme.background = QColor("#ffffff");
  theme.text = QColor("#1b1b1b");
  theme.faint_text = QColor("#5c5c5c");
  theme.grid = QColor("#d8d8d4");
  theme.selection = QColor("#111111");
  theme.cursor = QColor("#000000");
  theme.alarm = QColor("#c23b00");
  theme.cause = QColor("#c23b00");
  theme.victim = QColor("#f0c242");
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
  set(ViewState::kOutside, "#1d1f21", "#8b8f92");
  set(ViewState::kCompleted, "#24506f", "#b9dcf5");
  set(ViewState::kOverwritten, "#34383b", "#9aa0a4");
  set(ViewState::kIssued, "#3c464d", "#b4bfc6");
  set(ViewState::kEnqueued, "#3a8fc4", "#ffffff");
  set(ViewState::kStarted, "#7cc4f2", "#06283d");
  set(ViewState::kWaiting, "#f0c242", "#3a2d00");
  set(ViewState::kNoData, "#565656", "#d0d0d0");
  set(ViewState::kFailed, "#a86cc0", "#140419");
  set(ViewState::kMismatch, "#f07fc4", "#2b0019");
  set(ViewState::kMissing, "#ff6a2b", "#2b0e00");
  theme.background = QColor("#17191a");
  theme.text = QColor("#eceff1");
  theme.faint_text = QColor("#a5adb2");
  theme.grid = QColor("#33383b");
  theme.selection = QColor("#ffffff");
  theme.cursor = QColor("#ffffff");
  theme.alarm = QColor("#ff6a2b");
  theme.cause = QColor("#ff6a2b");
  theme.link = QColor("#7cc4f2");
  return theme;
}

}  // namespace

bool IsDark(const QPalette& palette) { return palette.color(QPalette::Window).lightness() < 128; }

const Theme& LightTheme() {
  static const Theme& theme = *new Theme(MakeLight());
  return theme;
}

const Theme& DarkTheme() {
  static const Theme& theme = *new Theme(MakeDark());
  return theme;
}

}  // namespace lockstep::gui
