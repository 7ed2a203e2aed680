// Two incidents side by side: what is selected, filtered and shown in one is shown in the other, by rank, communicator and
// sequence number.
#ifndef LOCKSTEP_GUI_APP_COMPARE_WINDOW_H_
#define LOCKSTEP_GUI_APP_COMPARE_WINDOW_H_

#include <QCheckBox>
#include <QLabel>
#include <QWidget>

#include <array>

#include "gui/app/main_window.h"

namespace lockstep::gui {

class CompareWindow : public QWidget {
  Q_OBJECT

 public:
  explicit CompareWindow(const WindowOptions& options);
  // Each of one or several paths.
  void Open(const QStringList& left, const QStringList& right);
  MainWindow* side(int i) const { return sides_[static_cast<size_t>(i)]; }
  QCheckBox* linked() const { return linked_; }
  bool Idle() const { return sides_[0]->Idle() && sides_[1]->Idle(); }

 private:
  void Follow(int leader);
  void Title();

  std::array<MainWindow*, 2> sides_;
  QCheckBox* linked_;
  QLabel* difference_;
  bool following_ = false;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_COMPARE_WINDOW_H_
