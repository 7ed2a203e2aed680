// The pages behind `?`: every key, generated from the actions, and the search language.
#pragma once

#include <QDialog>
#include <QString>

#include "gui/app/commands/actions.h"

namespace lockstep::gui {

QString KeysHtml(const Actions& actions);
QString QueryHelpHtml();
// Returns a window that opens next to the main one, so that users can read it while they try the keys.
QDialog* MakeHelpPage(const QString& title, const QString& html, QWidget* parent);

}  // namespace lockstep::gui
