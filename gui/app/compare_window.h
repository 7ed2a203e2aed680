// Two incidents side by side. While `linked` is checked, selection, filters, grouping and visible part of one also
// apply to the other, by rank, communicator and sequence number.
#pragma once

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
  // Each side is one or more paths.
  void Open(const QStringList& left, const QStringList& right);
  MainWindow* side(int i) const { return sides_[static_cast<size_t>(i)]; }
  QCheckBox* linked() const { return linked_; }
  bool Idle() const { return sides_[0]->Idle() && sides_[1]->Idle(); }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Follow(int leader);
  void Title();

  std::array<MainWindow*, 2> sides_;
  QCheckBox* linked_;
  QLabel* difference_;
  bool following_ = false;
  int used_ = -1;  // the half that received the last click, wheel or key; only its scrolling is followed; -1: none
};

}  // namespace lockstep::gui
