#include "gui/view/answer/verdict_panel.h"

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
#include <QToolButton>

#include <functional>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/answer/verdict_page.h"

namespace lockstep::gui {
namespace {

// The verdict's word as a colored badge. The color adds no information.
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

// A label breaks lines only at spaces. Inserts possible breaks into long words.
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
  DocumentPtr document;
  Badge* badge = nullptr;
  Sentence* headline = nullptr;
  QLabel* sure = nullptr;
  QToolButton* copy = nullptr;

  void Fill();
};

void VerdictPanel::Impl::Fill() {
  if (document == nullptr) {
    badge->Set("NOTHING OPEN", VERDICT_UNSPECIFIED);
    headline->setText("Open an incident to see which rank stalled and why.");
    sure->clear();
  } else {
    badge->Set(VerdictWord(*document), document->verdict().verdict());
    const QString sentence = VerdictHeadline(*document);
    headline->setText(Breakable(Plain(sentence, 320)));
    headline->setToolTip(sentence.size() > 320 ? Html(sentence, 2000) : QString());
    const QString sureness = VerdictSureness(*document);
    sure->setText(sureness.isEmpty() ? QString() : "confidence " + sureness);
  }
  headline->setAccessibleName(headline->text().remove(QChar(0x200b)));
  headline->setMinimumHeight(badge->sizeHint().height());
  sure->setMinimumHeight(badge->sizeHint().height());
  sure->setVisible(!sure->text().isEmpty());
  copy->setEnabled(document != nullptr);
}

VerdictPanel::VerdictPanel(Navigator* navigator, QWidget* parent)
    : View(navigator, "Verdict", parent), impl_(std::make_unique<Impl>()) {
  setAccessibleDescription("What happened, which rank caused it, and how sure that is");
  Impl& p = *impl_;
  p.badge = new Badge(this);
  p.badge->setAccessibleDescription("What happened to the job, in one word");
  p.headline = new Sentence(this, [this] {
    if (impl_->document == nullptr) return;
    Place place = this->navigator()->place();
    place.selection = VerdictLink(*impl_->document, "finding:0", &place.finding);
    if (!place.selection.empty()) this->navigator()->Go(std::move(place));
  });
  p.headline->setAccessibleDescription("The verdict in one sentence; Enter selects its cells");
  p.sure = new QLabel(this);
  p.sure->setTextFormat(Qt::PlainText);
  p.sure->setObjectName("confidence");
  Announce(p.sure, "Confidence", "How sure the verdict is");
  p.copy = new QToolButton(this);
  p.copy->setText("Copy report");
  p.copy->setObjectName("copy report");
  Announce(p.copy, "Copy report", "Copies the whole report as plain text, for a ticket");
  p.copy->setToolTip("Copy the report as plain text, for a ticket");

  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 6, 6, 4);
  row->setSpacing(10);
  row->addWidget(p.badge, 0, Qt::AlignTop);
  row->addWidget(p.headline, 1);
  row->addWidget(p.sure, 0, Qt::AlignTop);
  row->addWidget(p.copy, 0, Qt::AlignTop);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Maximum);
  setFocusProxy(p.headline);

  connect(p.copy, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(CopyText()); });
  p.Fill();
}

VerdictPanel::~VerdictPanel() = default;

void VerdictPanel::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  impl_->Fill();
}

QString VerdictPanel::CopyText() const {
  return impl_->document == nullptr ? QString() : PlainLines(impl_->document->facts().report_text());
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
  impl_->Fill();
}

}  // namespace lockstep::gui
