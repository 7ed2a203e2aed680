// A box in which a few letters find a command, or a rank, host or communicator.
#ifndef LOCKSTEP_GUI_APP_PALETTE_H_
#define LOCKSTEP_GUI_APP_PALETTE_H_

#include <QDialog>
#include <QLineEdit>
#include <QListWidget>

#include <functional>
#include <vector>

namespace lockstep::gui {

struct PaletteItem {
  QString text;
  QString hint;  // shown faint: a key, a category
  std::function<void()> run;
  QString also = {};  // further search words; their matches come after those of the text
};

// Closes, then runs what Enter or a click chose. Shows the best kMostShown of any number of items.
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

#endif  // LOCKSTEP_GUI_APP_PALETTE_H_
