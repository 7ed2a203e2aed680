#include "gui/app/panes/strip.h"

#include <QEvent>
#include <QHBoxLayout>

#include "gui/model/safe_text.h"
#include "gui/view/theme.h"

namespace lockstep::gui {

Strip::Strip(QAction* cancel, QWidget* parent) : QFrame(parent) {
  setObjectName("strip");
  setAccessibleName("Loading");
  setFrameShape(QFrame::StyledPanel);
  label_ = new QLabel(this);
  label_->setAccessibleName("State of loading");
  label_->setWordWrap(true);
  label_->setTextFormat(Qt::PlainText);
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  bar_ = new QProgressBar(this);
  bar_->setAccessibleName("Progress");
  bar_->setMaximumWidth(fontMetrics().height() * 20);
  cancel_ = new QToolButton(this);
  cancel_->setDefaultAction(cancel);
  cancel_->setAccessibleName("Stop loading");
  cancel_->setToolButtonStyle(Qt::ToolButtonTextOnly);
  close_ = new QToolButton(this);
  close_->setText("Close");
  close_->setAccessibleName("Close this message");
  close_->setToolTip("Hides this message");
  connect(close_, &QToolButton::clicked, this, &QWidget::hide);
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 4, 8, 4);
  layout->addWidget(label_, 1);
  layout->addWidget(bar_, 1);
  layout->addWidget(cancel_);
  layout->addWidget(close_);
  hide();
}

void Strip::ShowProgress(const QString& phase, double fraction, qint64 done, qint64 total) {
  error_ = false;
  label_->setText(total > 0  ? QString("%1: %2 of %3").arg(phase, Count(done), Count(total))
                  : done > 0 ? QString("%1: %2").arg(phase, Count(done))
                             : phase);
  bar_->setRange(0, fraction < 0 ? 0 : 1000);
  if (fraction >= 0) bar_->setValue(static_cast<int>(fraction * 1000));
  bar_->show();
  cancel_->show();
  close_->hide();
  Colour();
  show();
}

void Strip::ShowError(const QString& text) {
  error_ = true;
  label_->setText(text);
  bar_->hide();
  cancel_->hide();
  close_->show();
  Colour();
  show();
}

void Strip::Done() {
  if (!error_) hide();
}

void Strip::changeEvent(QEvent* event) {
  QFrame::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) Colour();
}

void Strip::Colour() {
  QPalette palette = label_->palette();
  const QColor colour = error_ ? ThemeFor(this->palette()).alarm : this->palette().color(QPalette::WindowText);
  if (palette.color(QPalette::WindowText) == colour) return;
  palette.setColor(QPalette::WindowText, colour);
  label_->setPalette(palette);
}

}  // namespace lockstep::gui
