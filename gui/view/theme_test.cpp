#include "gui/view/theme.h"

#include <gtest/gtest.h>

#include <array>
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

TEST(ThemeTest, TextAndSignsHaveEnoughContrast) {
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    EXPECT_GE(Contrast(theme->text, theme->background), 7);
    EXPECT_GE(Contrast(theme->faint_text, theme->background), 4.5);
    EXPECT_GE(Contrast(theme->link, theme->background), 4.5);
    for (int i = 0; i < static_cast<int>(ViewState::kCount); ++i) {
      const StateStyle& style = theme->Of(static_cast<ViewState>(i));
      EXPECT_GE(Contrast(style.fill, style.ink), 3)
          << ViewStateName(static_cast<ViewState>(i)) << (theme->dark ? " dark" : " light");
    }
  }
}

using Triple = std::array<double, 3>;

double Linear(double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); }

// Dichromats at full severity: G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, "A Physiologically-based Model for
// Simulation of Color Vision Deficiency", IEEE TVCG 15(6), 2009, table 1; on linear RGB.
struct Vision {
  const char* name;
  std::array<Triple, 3> matrix;
};
const Vision kVisions[] = {
    {"trichromat", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanope",
     {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranope",
     {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}}},
    {"tritanope",
     {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}},
};

// Returns CIE L*a*b* (D65) of the color as that eye sees it.
Triple Seen(const QColor& color, const Vision& vision) {
  const Triple rgb = {Linear(color.redF()), Linear(color.greenF()), Linear(color.blueF())};
  Triple out{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) out[i] += vision.matrix[i][j] * rgb[j];
    out[i] = std::min(std::max(out[i], 0.0), 1.0);
  }
  const double x = (0.4124564 * out[0] + 0.3575761 * out[1] + 0.1804375 * out[2]) / 0.95047;
  const double y = 0.2126729 * out[0] + 0.7151522 * out[1] + 0.0721750 * out[2];
  const double z = (0.0193339 * out[0] + 0.1191920 * out[1] + 0.9503041 * out[2]) / 1.08883;
  auto f = [](double t) { return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116; };
  return {116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))};
}

double Distance(const Triple& a, const Triple& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

// Any two states can be adjacent. A distance of 2.3 is just noticeable; patches of a few pixels need several times as
// much.
TEST(ThemeTest, ColorBlindReadersCanDistinguishStates) {
  auto fault = [](size_t s) { return s >= static_cast<size_t>(ViewState::kFailed); };
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    for (const Vision& vision : kVisions) {
      for (size_t a = 0; a < theme->states.size(); ++a) {
        for (size_t b = 0; b < a; ++b) {
          const Triple one = Seen(theme->states[a].fill, vision), other = Seen(theme->states[b].fill, vision);
          const std::string pair = std::string(ViewStateName(static_cast<ViewState>(a))) + " beside " +
                                   ViewStateName(static_cast<ViewState>(b)) + " for a " + vision.name +
                                   (theme->dark ? ", dark" : ", light");
          EXPECT_GE(Distance(one, other), 14) << pair;
          if (fault(a) == fault(b)) continue;
          EXPECT_GE(Distance(one, other), 26) << pair;
          EXPECT_GE(std::abs(one[0] - other[0]), 14) << pair << ": lightness";
        }
      }
    }
  }
}

TEST(ThemeTest, MissingDataDoesNotLookLikeAFault) {
  for (const Theme* theme : {&LightTheme(), &DarkTheme()}) {
    EXPECT_NE(theme->Of(ViewState::kNoData).hatch, Qt::NoBrush);
    for (const ViewState state : {ViewState::kFailed, ViewState::kMismatch, ViewState::kMissing}) {
      EXPECT_EQ(theme->Of(state).hatch, Qt::NoBrush);
      EXPECT_NE(theme->Of(state).glyph, ' ');
    }
  }
}

TEST(ThemeTest, TheWindowColorDecidesWhetherTheThemeIsDark) {
  QPalette palette;
  palette.setColor(QPalette::Window, QColor("#202020"));
  EXPECT_TRUE(IsDark(palette));
  palette.setColor(QPalette::Window, QColor("#efefef"));
  EXPECT_FALSE(IsDark(palette));
}

}  // namespace
}  // namespace lockstep::gui
