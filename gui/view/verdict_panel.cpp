#include "gui/view/verdict_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QStyle>
#include <QStyleOptionFocusRect>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

#include "gui/model/safe_text.h"
#include "gui/view/link_pane.h"
#include "gui/view/verdict_page.h"

namespace lockstep::gui {
namespace {

constexpr int kColumnsFrom = 70;  // average characters of width from which the text has two columns

// The verdict's word, as a sign. The word is the message; the color only helps.
class Badge : public QLabel {
 public:
  explicit Badge(QWidget* parent) : QLabel(parent) {
    setTextFormat(Qt::PlainText);
    setAlignment(Qt::AlignCenter);
    setObjectName("verdict word");
  }
  void Set(const QString& word, VerdictKind kind) {
    kind_ = kind;
    setText(word);
    setAccessibleName("Verdict: " + word);
    Colour();
  }
  void Colour() {
    const Theme& theme = ThemeFor(palette());
    const ViewState like = kind_ == VERDICT_HEALTHY                                           ? ViewState::kStarted
                           : kind_ == VERDICT_LATE || kind_ == VERDICT_SLOW                   ? ViewState::kWaiting
                           : kind_ == VERDICT_UNSPECIFIED || kind_ == VERDICT_INCOMPLETE_DATA ? ViewState::kNoData
                                                                                              : ViewState::kMissing;
    fill_ = theme.Of(like).fill;
    ink_ = theme.Of(like).ink;
    update();
  }
  QSize sizeHint() const override {
    const QFontMetrics metrics(Bold());
    return {metrics.horizontalAdvance(text()) + metrics.height(), metrics.height() + metrics.height() / 2};
  }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(fill_);
    painter.drawRoundedRect(rect(), height() / 5.0, height() / 5.0);
    painter.setPen(ink_);
    painter.setFont(Bold());
    painter.drawText(rect(), Qt::AlignCenter, text());
  }

 private:
  QFont Bold() const {
    QFont bold = font();
    bold.setBold(true);
    return bold;
  }
  VerdictKind kind_ = VERDICT_UNSPECIFIED;
  QColor fill_, ink_;
};

// A label breaks lines at spaces alone: a name without any gets places to break at.
QString Breakable(const QString& text) {
  constexpr int kLongest = 40;
  QString out;
  int run = 0;
  for (const QChar c : text) {
    run = c.isSpace() ? 0 : run + 1;
    out += c;
    if (run == kLongest && !c.isHighSurrogate()) out += QChar(0x200b), run = 0;
  }
  return out;
}

// The headline: a click, or Enter, selects its cells.
class Sentence : public QLabel {
 public:
  Sentence(QWidget* parent, std::function<void()> follow) : QLabel(parent), follow_(std::move(follow)) {
    setTextFormat(Qt::PlainText);
    setWordWrap(true);
    setFocusPolicy(Qt::StrongFocus);
    setCursor(Qt::PointingHandCursor);
    setObjectName("headline");
    QFont strong = font();
    strong.setWeight(QFont::DemiBold);
    setFont(strong);
  }

 protected:
  void mouseReleaseEvent(QMouseEvent* event) override {
    if (event->button() == Qt::LeftButton && rect().contains(event->pos())) follow_();
  }
  void keyPressEvent(QKeyEvent* event) override {
    if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter || event->key() == Qt::Key_Space)
      return follow_();
    QLabel::keyPressEvent(event);
  }
  void focusInEvent(QFocusEvent* event) override { QLabel::focusInEvent(event), update(); }
  void focusOutEvent(QFocusEvent* event) override { QLabel::focusOutEvent(event), update(); }
  void paintEvent(QPaintEvent* event) override {
    QLabel::paintEvent(event);
    if (!hasFocus()) return;
    QPainter painter(this);
    QStyleOptionFocusRect option;
    option.initFrom(this);
    option.backgroundColor = palette().color(backgroundRole());
    style()->drawPrimitive(QStyle::PE_FrameFocusRect, &option, &painter, this);
  }

 private:
  std::function<void()> follow_;
};

}  // namespace

struct VerdictPanel::Impl {
  explicit Impl(VerdictPanel* p) : panel(p) {}

  VerdictPanel* panel;
  DocumentPtr document;
  Badge* badge = nullptr;
  Sentence* headline = nullptr;
  QLabel* sure = nullptr;
  QToolButton* copy = nullptr;
  QToolButton* fold = nullptr;
  LinkPane* page = nullptr;
  QWidget* head = nullptr;
  std::set<int> unfolded;
  bool collapsed = false;
  bool columns = false;
  QWidget* window = nullptr;

  bool Columns() const {
    return page->viewport()->width() >= kColumnsFrom * 2 * page->fontMetrics().averageCharWidth();
  }
  int HeadHeight() const {
    return head->heightForWidth(panel->width()) > 0 ? head->heightForWidth(panel->width()) : head->sizeHint().height();
  }
  void Fill(bool keep);
  void Follow(const QString& link);
  void Fit();
};

void VerdictPanel::Impl::Fill(bool keep) {
  if (document == nullptr) {
    badge->Set("NOTHING OPEN", VERDICT_UNSPECIFIED);
    headline->setText("Open an incident to see who stalled and why.");
    sure->clear();
    page->Show({}, false);
  } else {
    badge->Set(VerdictWord(*document), document->verdict().verdict());
    const QString sentence = VerdictHeadline(*document);
    headline->setText(Breakable(Plain(sentence, 320)));
    headline->setToolTip(sentence.size() > 320 ? Html(sentence, 2000) : QString());
    const QString sureness = VerdictSureness(*document);
    sure->setText(sureness.isEmpty() ? QString() : "confidence " + sureness);
    columns = Columns();
    page->Show(VerdictPage(*document, unfolded, columns), keep);
  }
  headline->setAccessibleName(headline->text().remove(QChar(0x200b)));
  headline->setMinimumHeight(badge->sizeHint().height());
  sure->setMinimumHeight(badge->sizeHint().height());
  sure->setVisible(!sure->text().isEmpty());
  copy->setEnabled(document != nullptr);
  fold->setEnabled(document != nullptr);
  page->setVisible(!collapsed && document != nullptr);
  fold->setArrowType(collapsed ? Qt::RightArrow : Qt::DownArrow);
  const QString what = collapsed ? "Show the evidence and what to do" : "Show the one sentence only";
  fold->setToolTip(what);
  fold->setAccessibleName(what);
  Fit();
}

// At most a third of the window, and never more than there is to read.
void VerdictPanel::Impl::Fit() {
  const int head_height = HeadHeight();
  head->setMinimumHeight(head_height);  // the page gives way, not the sentence
  const int third = std::max(panel->window()->height() / 3, head_height);
  const int content = page->isHidden() ? 0 : page->ContentHeight() + 6;
  panel->setMaximumHeight(panel->window() == panel ? QWIDGETSIZE_MAX : std::min(head_height + content, third));
  panel->updateGeometry();
}

void VerdictPanel::Impl::Follow(const QString& link) {
  if (document == nullptr) return;
  if (link.startsWith("fold:")) {
    const int section = link.mid(5).toInt();
    if (unfolded.erase(section) == 0) unfolded.insert(section);
    return Fill(true);
  }
  const Selection selection = VerdictLink(*document, link);
  if (!selection.empty()) panel->navigator()->Select(selection);
}

VerdictPanel::VerdictPanel(Navigator* navigator, QWidget* parent)
    : View(navigator, "Verdict", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription("What happened, who caused it, how sure that is, what shows it and what to do");
  Impl& p = *impl_;
  p.head = new QWidget(this);
  p.badge = new Badge(p.head);
  p.badge->setAccessibleDescription("What happened to the job, in one word");
  p.headline = new Sentence(p.head, [this] { impl_->Follow("finding:0"); });
  p.headline->setAccessibleDescription("The verdict in one sentence; Enter selects its cells");
  p.sure = new QLabel(p.head);
  p.sure->setTextFormat(Qt::PlainText);
  p.sure->setObjectName("confidence");
  p.sure->setAccessibleName("Confidence");
  p.sure->setAccessibleDescription("How sure the verdict is");
  p.copy = new QToolButton(p.head);
  p.copy->setText("Copy report");
  p.copy->setObjectName("copy report");
  p.copy->setAccessibleName("Copy report");
  p.copy->setAccessibleDescription("Copies the whole report as plain text, fit for a ticket");
  p.copy->setToolTip("Copy the report as plain text, for a ticket");
  p.copy->setAutoRaise(true);
  p.fold = new QToolButton(p.head);
  p.fold->setObjectName("fold");
  p.fold->setAccessibleDescription("Folds the panel to its one sentence and back");
  p.fold->setAutoRaise(true);
  p.page = new LinkPane("Verdict text", "Evidence as links, what to do, what is not known", this);

  auto* row = new QHBoxLayout(p.head);
  row->setContentsMargins(8, 6, 6, 4);
  row->setSpacing(10);
  row->addWidget(p.badge, 0, Qt::AlignTop);
  row->addWidget(p.headline, 1);
  row->addWidget(p.sure, 0, Qt::AlignTop);
  row->addWidget(p.copy, 0, Qt::AlignTop);
  row->addWidget(p.fold, 0, Qt::AlignTop);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(p.head);
  column->addWidget(p.page, 1);
  p.page->document()->setDocumentMargin(8);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Maximum);
  setFocusProxy(p.headline);

  connect(p.copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(CopyText()); });
  connect(p.fold, &QToolButton::clicked, this, [this] { SetCollapsed(!impl_->collapsed); });
  connect(p.page, &LinkPane::Recoloured, this, [this] { impl_->Fill(true); });
  connect(p.page, &LinkPane::Followed, this, [this](const QString& link) { impl_->Follow(link); });
  p.Fill(false);
}

VerdictPanel::~VerdictPanel() = default;

void VerdictPanel::SetDocument(DocumentPtr document) {
  // The same incident, read further, stays as it is unfolded.
  const bool keep = document != nullptr && impl_->document != nullptr && document->paths() == impl_->document->paths();
  if (!keep) impl_->unfolded.clear();
  impl_->document = std::move(document);
  impl_->Fill(keep);
}

QString VerdictPanel::CopyText() const {
  return impl_->document == nullptr ? QString() : PlainLines(impl_->document->facts().report_text());
}

bool VerdictPanel::collapsed() const {
  return impl_->collapsed;
}

void VerdictPanel::SetCollapsed(bool collapsed) {
  if (impl_->collapsed == collapsed) return;
  impl_->collapsed = collapsed;
  impl_->Fill(true);
  Q_EMIT CollapsedChanged(collapsed);
}

QSize VerdictPanel::sizeHint() const {
  return {800, impl_->head->sizeHint().height() +
                   (impl_->page->isHidden() ? 0 : std::max(impl_->page->ContentHeight() + 6, 60))};
}

// The sentence is never cut, however small the window; of what follows a line is seen.
QSize VerdictPanel::minimumSizeHint() const {
  return {200, std::min(impl_->HeadHeight() + (impl_->page->isHidden() ? 0 : fontMetrics().lineSpacing() * 3 / 2),
                        maximumHeight())};
}

void VerdictPanel::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  if (impl_->document != nullptr && impl_->Columns() != impl_->columns) return impl_->Fill(true);
  impl_->Fit();
}

void VerdictPanel::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (impl_->badge == nullptr || (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange))
    return;
  QFont strong = font();
  strong.setWeight(QFont::DemiBold);
  impl_->headline->setFont(strong);
  impl_->badge->Colour();
  impl_->badge->updateGeometry();
  impl_->Fill(true);
}

bool VerdictPanel::event(QEvent* event) {
  if (event->type() == QEvent::Show || event->type() == QEvent::ParentChange) {
    if (impl_->window != nullptr) impl_->window->removeEventFilter(this);
    impl_->window = window() == this ? nullptr : window();
    if (impl_->window != nullptr) impl_->window->installEventFilter(this);
    impl_->Fit();
  }
  return View::event(event);
}

bool VerdictPanel::eventFilter(QObject* watched, QEvent* event) {
  if (watched == window() && event->type() == QEvent::Resize) impl_->Fit();
  return View::eventFilter(watched, event);
}

}  // namespace lockstep::gui
