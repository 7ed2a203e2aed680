// Colours and text size of the whole program.
#ifndef LOCKSTEP_GUI_APP_APPEARANCE_H_
#define LOCKSTEP_GUI_APP_APPEARANCE_H_

#include <QString>

#include <cstdint>

namespace lockstep::gui {

enum class Appearance : uint8_t { kDesktop, kLight, kDark };

QString AppearanceName(Appearance appearance);     // "desktop", "light", "dark"
Appearance AppearanceByName(const QString& name);  // kDesktop for others
void ApplyAppearance(Appearance appearance);
// Of the text size that the desktop gives: 50 to 300.
void ApplyTextPercent(int percent);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_APPEARANCE_H_
