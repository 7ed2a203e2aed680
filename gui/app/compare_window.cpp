#include "gui/app/compare_window.h"
#include "gui/model/safe_text.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QSplitter>
#include <QVBoxLayout>

#include "gui/app/session/place_mapping.h"

namespace lockstep::gui {

CompareWindow::CompareWindow(const WindowOptions& options) {
  setObjectName("compare");
  setAccessibleName("Two incidents");
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  splitter->setAccessibleName("Two incidents");
  splitter->setChildrenCollapsible(false);
  for (size_t i = 0; i < sides_.size(); ++i) {
    WindowOptions half = options;
    half.embedded = true;
    half.size = {};
    sides_[i] = new MainWindow(half, splitter);
    sides_[i]->setWindowFlags(Qt::Widget);
    sides_[i]->setAccessibleName(i == 0 ? "Left incident" : "Right incident");
    splitter->addWidget(sides_[i]);
    const int leader = static_cast<int>(i);
    connect(sides_[i]->navigator(), &Navigator::SelectionChanged, this, [this, leader] { Follow(leader); });
    connect(sides_[i]->navigator(), &Navigator::PlaceChanged, this, [this, leader] { Follow(leader); });
    connect(sides_[i], &MainWindow::DocumentShown, this, &CompareWindow::Title);
    // A third incident replaces the incident in the other half.
    connect(sides_[i], &MainWindow::CompareWanted, this,
            [this, leader](const QStringList& paths) { side(1 - leader)->Open(paths); });
  }
  linked_ = new QCheckBox("Keep both at the same &position", this);
  linked_->setAccessibleName("Keep both at the same position");
  linked_->setToolTip(
      "Selection, filters, grouping and zoom of one incident apply to the other, by rank, communicator "
      "and sequence number");
  linked_->setChecked(true);
  difference_ = new QLabel(this);
  difference_->setAccessibleName("Difference");
  difference_->setTextFormat(Qt::PlainText);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(8, 4, 8, 4);
  row->addWidget(linked_);
  row->addStretch(1);
  row->addWidget(difference_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addLayout(row);
  layout->addWidget(splitter, 1);
  resize(1600, 900);
  qApp->installEventFilter(this);
  Title();
}

void CompareWindow::Open(const QStringList& left, const QStringList& right) {
  side(0)->Open(left);
  side(1)->Open(right);
}

bool CompareWindow::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonPress || event->type() == QEvent::Wheel ||
      event->type() == QEvent::KeyPress) {
    const auto* widget = qobject_cast<QWidget*>(watched);
    for (int i = 0; i < 2 && widget != nullptr; ++i) {
      if (side(i) == widget || side(i)->isAncestorOf(widget)) used_ = i;
    }
  }
  return QWidget::eventFilter(watched, event);
}

void CompareWindow::Follow(int leader) {
  MainWindow* from = side(leader);
  MainWindow* to = side(1 - leader);
  if (following_ || !linked_->isChecked() || from->document() == nullptr || to->document() == nullptr) return;
  // Copies nothing until both halves have settled, because a half with a new document has no position yet.
  if (!from->Settled() || !to->Settled()) return;
  following_ = true;
  const Place& was = to->navigator()->place();
  Place place = MapPlace(*from->document(), *to->document(), from->navigator()->place(), false);
  const bool leads = used_ < 0 || used_ == leader;
  place.matrix = leads ? MapMatrix(*from->document(), *to->document(), from->navigator()->place(), place)
                 : place.matrix_mode == was.matrix_mode && place.matrix_comm == was.matrix_comm ? was.matrix
                                                                                                : Viewport();
  place.finding = was.finding;
  place.timeline =
      leads ? MapTimeline(*from->document(), *to->document(), from->navigator()->place().timeline) : was.timeline;
  const bool moved = place.selection != was.selection;
  Place scrolled = was;
  scrolled.matrix = place.matrix;
  scrolled.timeline = place.timeline;
  if (scrolled == place)
    to->navigator()->Scroll(std::move(place));
  else
    to->navigator()->Go(std::move(place));
  // If the pictures show everything, there is no scrolling to copy, so the selection is scrolled into view.
  const Place& now = to->navigator()->place();
  if (moved && now.matrix == Viewport() && now.timeline == Viewport()) {
    if (auto* view = qobject_cast<View*>(to->tabs()->currentWidget())) view->CentreOnSelection();
  }
  following_ = false;
}

void CompareWindow::Title() {
  const DocumentPtr &left = side(0)->document(), &right = side(1)->document();
  const auto name = [](const DocumentPtr& document) { return document == nullptr ? QString("..") : document->title(); };
  setWindowTitle(QString("%1 and %2 - Lockstep").arg(name(left), name(right)));
  if (left == nullptr || right == nullptr) return difference_->clear();
  std::vector<int32_t> a, b;
  for (int row = 0; row < left->rank_count(); ++row) {
    if (right->RowOf(left->RankAt(row)) < 0) a.push_back(left->RankAt(row));
  }
  for (int row = 0; row < right->rank_count(); ++row) {
    if (left->RowOf(right->RankAt(row)) < 0) b.push_back(right->RankAt(row));
  }
  difference_->setText(a.empty() && b.empty() ? QString("the same ranks in both")
                                              : QString("only left: %1; only right: %2")
                                                    .arg(a.empty() ? "none" : RankList(Ranks::Of(a), 40),
                                                         b.empty() ? "none" : RankList(Ranks::Of(b), 40)));
}

}  // namespace lockstep::gui
