#include "gui/app/session/appearance.h"

#include <QApplication>
#include <QFont>
#include <QPalette>
#include <QToolTip>

#include <algorithm>

namespace lockstep::gui {
namespace {

QPalette Made(bool dark) {
  const QColor window = dark ? QColor("#232629") : QColor("#f2f2f0"),
               base = dark ? QColor("#17191a") : QColor("#ffffff");
  const QColor text = dark ? QColor("#eceff1") : QColor("#1b1b1b"),
               faint = dark ? QColor("#a5adb2") : QColor("#5c5c5c");
  QPalette palette(dark ? QColor("#31363b") : QColor("#e6e6e3"), window);
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText})
    palette.setColor(role, text);
  palette.setColor(QPalette::BrightText, dark ? QColor("#ffffff") : QColor("#000000"));
  palette.setColor(QPalette::Base, base);
  palette.setColor(QPalette::AlternateBase, dark ? QColor("#1f2224") : QColor("#f7f7f5"));
  palette.setColor(QPalette::ToolTipBase, dark ? QColor("#31363b") : QColor("#ffffff"));
  palette.setColor(QPalette::PlaceholderText, faint);
  palette.setColor(QPalette::Highlight, dark ? QColor("#2f6d9c") : QColor("#00558a"));
  palette.setColor(QPalette::HighlightedText, QColor("#ffffff"));
  palette.setColor(QPalette::Link, dark ? QColor("#7cc4f2") : QColor("#00558a"));
  palette.setColor(QPalette::LinkVisited, dark ? QColor("#7cc4f2") : QColor("#00558a"));
  for (const QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    palette.setColor(QPalette::Disabled, role, dark ? QColor("#7c8387") : QColor("#8a8a86"));
  return palette;
}

}  // namespace

QString AppearanceName(Appearance appearance) {
  return appearance == Appearance::kLight ? "light" : appearance == Appearance::kDark ? "dark" : "desktop";
}

Appearance AppearanceByName(const QString& name) {
  return name == "light" ? Appearance::kLight : name == "dark" ? Appearance::kDark : Appearance::kDesktop;
}

void ApplyAppearance(Appearance appearance) {
  static const QPalette desktop = QApplication::palette();
  const QPalette palette = appearance == Appearance::kDesktop ? desktop : Made(appearance == Appearance::kDark);
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);
}

void ApplyTextPercent(int percent) {
  static const QFont desktop = QApplication::font();
  percent = std::clamp(percent, 50, 300);
  QFont font = desktop;
  if (desktop.pointSizeF() > 0) {
    font.setPointSizeF(desktop.pointSizeF() * percent / 100);
  } else {
    font.setPixelSize(std::max(1, desktop.pixelSize() * percent / 100));
  }
  if (font != QApplication::font()) QApplication::setFont(font);
}

}  // namespace lockstep::gui
