// A dialog that finds a command, a rank, a host or a communicator from a few letters.
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QListWidget>

#include <functional>
#include <vector>

namespace lockstep::gui {

struct PaletteItem {
  QString text;
  QString hint;  // shown in a faint color: a key or a category
  std::function<void()> run;
  QString also = {};  // more search words; their matches rank below those of the text
};

// Closes, then runs the item that was chosen by Enter or a click. Shows the best kMostShown of any number of items.
class Palette : public QDialog {
  Q_OBJECT

 public:
  Palette(const QString& name, std::vector<PaletteItem> items, QWidget* parent);
  QLineEdit* field() const { return field_; }
  QListWidget* list() const { return list_; }
  static constexpr int kMostShown = 100;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Fill();
  void Choose();

  std::vector<PaletteItem> items_;
  QLineEdit* field_;
  QListWidget* list_;
};

}  // namespace lockstep::gui
