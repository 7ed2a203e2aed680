// The window without an incident: how to open an incident, and recent ones.
#pragma once

#include <QAction>
#include <QStringList>
#include <QVBoxLayout>
#include <QWidget>

namespace lockstep::gui {

class StartPage : public QWidget {
  Q_OBJECT

 public:
  StartPage(QAction* open, QAction* open_folder, QWidget* parent);
  void SetRecent(const QList<QStringList>& recent);

 Q_SIGNALS:
  void Chosen(const QStringList& paths);

 private:
  QVBoxLayout* list_;
};

// "/data/incident-7", or "/data/a.lsd and 3 more".
QString PathsText(const QStringList& paths);

}  // namespace lockstep::gui
