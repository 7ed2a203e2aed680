#include "gui/view/answer/view.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QScrollArea>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/answer/pane.h"
#include "gui/view/answer/verdict_page.h"
#include "gui/view/link_pane.h"

namespace lockstep::gui {
namespace {

constexpr int kColumnsFrom = 110;     // width in average characters from which the text has two columns
constexpr double kMostPicture = 0.5;  // share of the height

}  // namespace

AnswerView::AnswerView(Navigator* navigator, QWidget* parent) : View(navigator, "Answer", parent) {
  setAccessibleDescription("Which rank stopped at which call, what its peers do, its stack and what to do");
  scroll_ = new QScrollArea(this);
  scroll_->setAccessibleName("Last calls");
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setWidgetResizable(true);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFocusPolicy(Qt::NoFocus);
  pane_ = new AnswerPane(navigator, scroll_);
  scroll_->setWidget(pane_);
  page_ = new LinkPane("Answer text", "Stack, call sites, what to do, evidence as links, what is unknown", this);
  page_->document()->setDocumentMargin(8);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(scroll_);
  layout->addWidget(page_, 1);
  ways_ = new QHBoxLayout;
  ways_->setContentsMargins(8, 2, 8, 4);
  ways_->addStretch(1);
  layout->addLayout(ways_);
  setFocusProxy(pane_);
  connect(navigator, &Navigator::PlaceChanged, this, [this] {
    if (this->navigator()->place().finding != finding_) Fill(false);
  });
  connect(page_, &LinkPane::Recoloured, this, [this] { Fill(true); });
  connect(page_, &LinkPane::Followed, this, &AnswerView::Follow);
  connect(pane_, &AnswerPane::CursorMoved, this, [this] {
    const QRect at = pane_->RectOf({pane_->cursor().row, -1}).toRect();
    scroll_->ensureVisible(0, at.center().y(), 0, at.height());
  });
  Fill(false);
}

void AnswerView::SetWays(const QList<QAction*>& actions) {
  for (QAction* action : actions) {
    auto* button = new QToolButton(this);
    const QString text = QString(action->text()).remove('&');
    button->setText(QString("%1 (%2)").arg(text, action->shortcut().toString(QKeySequence::NativeText)));
    Announce(button, text, action->statusTip());
    button->setToolTip(action->toolTip());
    button->setAutoRaise(true);
    button->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
    button->setMinimumWidth(1);  // buttons may be clipped in a narrow half of a comparison
    connect(button, &QToolButton::clicked, action, &QAction::trigger);
    ways_->insertWidget(ways_->count() - 1, button);
  }
}

void AnswerView::SetDocument(DocumentPtr document) {
  // If the new document is the same incident with more data, the page keeps its scroll position.
  const bool keep = document != nullptr && document_ != nullptr && document->paths() == document_->paths();
  document_ = std::move(document);
  Fill(keep);
}

bool AnswerView::Columns() const {
  return page_->viewport()->width() >= kColumnsFrom * page_->fontMetrics().averageCharWidth();
}

void AnswerView::Fill(bool keep) {
  finding_ = navigator()->place().finding;
  columns_ = Columns();
  pane_->Show(document_, document_ == nullptr ? nullptr : FocusOf(*document_, finding_));
  page_->Show(document_ == nullptr ? QString() : VerdictPage(*document_, finding_, columns_), keep);
  FitPicture();
}

void AnswerView::FitPicture() {
  const int wanted = pane_->HeightFor(static_cast<int>(height() * kMostPicture));
  pane_->setMinimumHeight(wanted);
  scroll_->setFixedHeight(std::min(wanted, height() * 3 / 5));
  scroll_->setVisible(wanted > 0);
}

void AnswerView::Follow(const QString& link) {
  if (document_ == nullptr) return;
  Place place = navigator()->place();
  place.selection = VerdictLink(*document_, link, &place.finding);
  if (!place.selection.empty()) navigator()->Go(std::move(place));
}

QString AnswerView::CopyText() const {
  if (document_ == nullptr) return {};
  if (page_->hasFocus() && page_->textCursor().hasSelection())
    return page_->textCursor().selectedText().replace(QChar(QChar::ParagraphSeparator), '\n');
  QString out;
  const Focus* focus = pane_->focus();
  for (int i = 0; focus != nullptr && i < focus->rows_size(); ++i) {
    const Focus::Row& row = focus->rows(i);
    QStringList cells;
    for (const std::string* text : {&row.label(), &row.place(), &row.state(), &row.site()})
      cells << TsvCell(Plain(*text, 400));
    out += cells.join('\t') + '\n';
  }
  return out;
}

QString AnswerView::Csv() const {
  const Focus* focus = pane_->focus();
  if (focus == nullptr) return {};
  QString out = "row,place,named,state,site,calls_after_fault,call\n";
  for (const Focus::Row& row : focus->rows()) {
    QStringList cells;
    for (const std::string* text : {&row.label(), &row.place()}) cells << CsvCell(Plain(*text, 400));
    cells << (row.culprit() ? "1" : "0");
    for (const std::string* text : {&row.state(), &row.site()}) cells << CsvCell(Plain(*text, 400));
    const QString begin = cells.join(',');
    if (row.cells().empty()) out += begin + ",,\n";
    for (int column = 0; column < row.cells_size(); ++column) {
      if (row.cells(column).state() == static_cast<uint32_t>(ViewState::kOutside)) continue;
      out += QString("%1,%2,%3\n")
                 .arg(begin)
                 .arg(column - focus->fault_column())
                 .arg(CsvCell(Plain(row.cells(column).text(), 400)));
    }
  }
  return out;
}

bool AnswerView::Paint(QPainter* painter, const QSize& size) {
  if (pane_->focus() == nullptr) return false;
  pane_->Draw(painter, size, true);
  return true;
}

void AnswerView::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  if (document_ != nullptr && Columns() != columns_) return Fill(true);
  FitPicture();
}

void AnswerView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::FontChange) Fill(true);
}

}  // namespace lockstep::gui
