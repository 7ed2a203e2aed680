#include "gui/view/theme.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::gui {
namespace {

double Luminance(const QColor& color) {
  auto linear = [](double c) { return c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

// WCAG 2.1, "contrast ratio".
double Contrast(const QColor& a, const QColor& b) {
  const double la = Luminance(a), lb = Luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

TEST(ThemeTest, TextAndSignsCanBeRead) {
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    EXPECT_GE(Contrast(theme->text, theme->background), 7);
    EXPECT_GE(Contrast(theme->faint_text, theme->background), 4.5);
    EXPECT_GE(Contrast(theme->link, theme->background), 4.5);
    for (int i = 0; i < static_cast<int>(ViewState::kCount); ++i) {
      const StateStyle& style = theme->Of(static_cast<ViewState>(i));
      EXPECT_GE(Contrast(style.fill, style.ink), 3) << ViewStateName(static_cast<ViewState>(i)) << (theme->dark ? " dark" : " light");
    }
  }
}

TEST(ThemeTest, DarkIsToldByTheWindow) {
  QPalette palette;
  palette.setColor(QPalette::Window, QColor("#202020"));
  EXPECT_TRUE(IsDark(palette));
  palette.setColor(QPalette::Window, QColor("#efefef"));
  EXPECT_FALSE(IsDark(palette));
}

}  // namespace
}  // namespace lockstep::gui
