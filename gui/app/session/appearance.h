// Colors and text size of the whole program.
#pragma once

#include <QString>

#include <cstdint>

namespace lockstep::gui {

enum class Appearance : uint8_t { kDesktop, kLight, kDark };

QString AppearanceName(Appearance appearance);     // "desktop", "light" or "dark"
Appearance AppearanceByName(const QString& name);  // kDesktop for unknown names
void ApplyAppearance(Appearance appearance);
// Percentage of the desktop's text size: 50 to 300.
void ApplyTextPercent(int percent);

}  // namespace lockstep::gui
