// The pages behind `?`: every key, made from the actions themselves, and the search language.
#ifndef LOCKSTEP_GUI_APP_HELP_PAGE_H_
#define LOCKSTEP_GUI_APP_HELP_PAGE_H_

#include <QDialog>
#include <QString>

#include "gui/app/actions.h"

namespace lockstep::gui {

QString KeysHtml(const Actions& actions);
QString QueryHelpHtml();
// Shown beside the window, not above it: one reads it while trying.
QDialog* MakeHelpPage(const QString& title, const QString& html, QWidget* parent);

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_HELP_PAGE_H_
