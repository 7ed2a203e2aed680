// The line above the pictures: the progress of a load, or its error.
#pragma once

#include <QAction>
#include <QFrame>
#include <QLabel>
#include <QProgressBar>
#include <QToolButton>

namespace lockstep::gui {

class Strip : public QFrame {
  Q_OBJECT

 public:
  Strip(QAction* cancel, QWidget* parent);
  void ShowProgress(const QString& phase, double fraction, qint64 done, qint64 total);
  // Stays until it is closed or the next load starts.
  void ShowError(const QString& text);
  void Done();  // a load ended: hides the progress, keeps an error
  bool error() const { return error_; }
  QString text() const { return label_->text(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void Colour();

  QLabel* label_;
  QProgressBar* bar_;
  QToolButton *cancel_, *close_;
  bool error_ = false;
};

}  // namespace lockstep::gui
