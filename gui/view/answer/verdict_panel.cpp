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

}  // namespace

// The verdict's word as a colored badge. The color adds no information.
class VerdictPanel::Badge : public QLabel {
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
    const QFontMetrics metrics(Bold(font()));
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
    painter.setFont(Bold(font()));
    painter.drawText(rect(), Qt::AlignCenter, text());
  }

 private:
  VerdictKind kind_ = VERDICT_UNSPECIFIED;
  QColor fill_, ink_;
};

class VerdictPanel::Sentence : public QLabel {
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

void VerdictPanel::Fill() {
  if (document_ == nullptr) {
    badge_->Set("NOTHING OPEN", VERDICT_UNSPECIFIED);
    headline_->setText("Open an incident to see which rank stalled and why.");
    sure_->clear();
  } else {
    badge_->Set(VerdictWord(*document_), document_->verdict().verdict());
    const QString sentence = VerdictHeadline(*document_);
    headline_->setText(Breakable(Plain(sentence, 320)));
    headline_->setToolTip(sentence.size() > 320 ? Html(sentence, 2000) : QString());
    const QString sureness = VerdictSureness(*document_);
    sure_->setText(sureness.isEmpty() ? QString() : "confidence " + sureness);
  }
  headline_->setAccessibleName(headline_->text().remove(QChar(0x200b)));
  headline_->setMinimumHeight(badge_->sizeHint().height());
  sure_->setMinimumHeight(badge_->sizeHint().height());
  sure_->setVisible(!sure_->text().isEmpty());
  copy_->setEnabled(document_ != nullptr);
}

VerdictPanel::VerdictPanel(Navigator* navigator, QWidget* parent) : View(navigator, "Verdict", parent) {
  setAccessibleDescription("What happened, which rank caused it, and how sure that is");
  badge_ = new Badge(this);
  badge_->setAccessibleDescription("What happened to the job, in one word");
  headline_ = new Sentence(this, [this] {
    if (document_ == nullptr) return;
    Place place = this->navigator()->place();
    place.selection = VerdictLink(*document_, "finding:0", &place.finding);
    if (!place.selection.empty()) this->navigator()->Go(std::move(place));
  });
  headline_->setAccessibleDescription("The verdict in one sentence; Enter selects its cells");
  sure_ = new QLabel(this);
  sure_->setTextFormat(Qt::PlainText);
  sure_->setObjectName("confidence");
  Announce(sure_, "Confidence", "How sure the verdict is");
  copy_ = new QToolButton(this);
  copy_->setText("Copy report");
  copy_->setObjectName("copy report");
  Announce(copy_, "Copy report", "Copies the whole report as plain text, for a ticket");
  copy_->setToolTip("Copy the report as plain text, for a ticket");

  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 6, 6, 4);
  row->setSpacing(10);
  row->addWidget(badge_, 0, Qt::AlignTop);
  row->addWidget(headline_, 1);
  row->addWidget(sure_, 0, Qt::AlignTop);
  row->addWidget(copy_, 0, Qt::AlignTop);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Maximum);
  setFocusProxy(headline_);

  connect(copy_, &QToolButton::clicked, this, [this] { QApplication::clipboard()->setText(CopyText()); });
  Fill();
}

void VerdictPanel::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  Fill();
}

QString VerdictPanel::CopyText() const {
  return document_ == nullptr ? QString() : PlainLines(document_->facts().report_text());
}

void VerdictPanel::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (badge_ == nullptr || (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange)) return;
  QFont strong = font();
  strong.setWeight(QFont::DemiBold);
  headline_->setFont(strong);
  badge_->Colour();
  badge_->updateGeometry();
  Fill();
}

}  // namespace lockstep::gui
