#include "gui/app/commands/palette.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include <algorithm>

#include "gui/app/commands/fuzzy.h"
#include "gui/view/view.h"

namespace lockstep::gui {
namespace {

constexpr qsizetype kFewestLetters = 3;
constexpr int kHintRole = Qt::UserRole + 1, kIndexRole = Qt::UserRole;

// Draws the hint at the right end of its line.
class HintDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    const QPalette::ColorRole role =
        (option.state & QStyle::State_Selected) != 0 ? QPalette::HighlightedText : QPalette::PlaceholderText;
    painter->setPen(option.palette.color(role));
    painter->drawText(option.rect.adjusted(8, 0, -8, 0), Qt::AlignRight | Qt::AlignVCenter,
                      index.data(kHintRole).toString());
  }
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QSize size = QStyledItemDelegate::sizeHint(option, index);
    size.setHeight(option.fontMetrics.height() * 3 / 2);
    return size;
  }
};

}  // namespace

Palette::Palette(const QString& name, std::vector<PaletteItem> items, QWidget* parent)
    : QDialog(parent), items_(std::move(items)) {
  setObjectName("palette");
  setWindowTitle(name);
  setAccessibleName(name);
  setModal(true);
  field_ = new QLineEdit(this);
  field_->setPlaceholderText(name);
  Announce(field_, name, "Type a few letters of the name, in order; Up and Down move, Enter selects");
  field_->installEventFilter(this);
  list_ = new QListWidget(this);
  list_->setAccessibleName("Found");
  list_->setUniformItemSizes(true);
  list_->setItemDelegate(new HintDelegate(list_));
  list_->setFocusPolicy(Qt::NoFocus);
  auto* layout = new QVBoxLayout(this);
  layout->addWidget(field_);
  layout->addWidget(list_);
  const int line = fontMetrics().height();
  resize(line * 34, line * 22);
  if (parent != nullptr) {
    const QRect over = parent->window()->geometry();
    move(over.center().x() - width() / 2, over.top() + over.height() / 8);
  }
  connect(field_, &QLineEdit::textChanged, this, &Palette::Fill);
  connect(list_, &QListWidget::itemClicked, this, &Palette::Choose);
  Fill();
}

void Palette::Fill() {
  std::vector<std::pair<int, size_t>> best;
  const QString pattern = field_->text(), words = pattern.simplified();
  for (size_t i = 0; i < items_.size(); ++i) {
    int score = FuzzyScore(pattern, items_[i].text);
    if (score < 0 && words.size() >= kFewestLetters && items_[i].also.contains(words, Qt::CaseInsensitive)) score = 0;
    if (score >= 0) best.emplace_back(-score, i);
  }
  const size_t shown = std::min(best.size(), static_cast<size_t>(kMostShown));
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(shown), best.end());
  list_->clear();
  for (size_t i = 0; i < shown; ++i) {
    const PaletteItem& item = items_[best[i].second];
    auto* row = new QListWidgetItem(item.text, list_);
    row->setData(kIndexRole, static_cast<qulonglong>(best[i].second));
    row->setData(kHintRole, item.hint);
    row->setData(Qt::AccessibleTextRole, item.hint.isEmpty() ? item.text : item.text + ", " + item.hint);
  }
  if (shown > 0) return list_->setCurrentRow(0);
  auto* nothing = new QListWidgetItem("Nothing matches these letters", list_);
  nothing->setFlags(Qt::NoItemFlags);
  list_->setCurrentItem(nullptr);
}

void Palette::Choose() {
  const QListWidgetItem* row = list_->currentItem();
  if (row == nullptr || !row->flags().testFlag(Qt::ItemIsEnabled)) return;
  const std::function<void()> run = items_[static_cast<size_t>(row->data(kIndexRole).toULongLong())].run;
  accept();
  if (run) run();
}

bool Palette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::KeyPress) return QDialog::eventFilter(watched, event);
  auto* key = static_cast<QKeyEvent*>(event);
  switch (key->key()) {
    case Qt::Key_Up:
    case Qt::Key_Down:
    case Qt::Key_PageUp:
    case Qt::Key_PageDown: QCoreApplication::sendEvent(list_, event); return true;
    case Qt::Key_Return:
    case Qt::Key_Enter: Choose(); return true;
    default: return QDialog::eventFilter(watched, event);
  }
}

}  // namespace lockstep::gui
