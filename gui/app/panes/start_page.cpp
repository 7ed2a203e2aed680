#include "gui/app/panes/start_page.h"

#include <QDir>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>

#include "gui/view/view.h"

namespace lockstep::gui {

QString PathsText(const QStringList& paths) {
  if (paths.isEmpty()) return {};
  QString first = paths.first();
  const QString home = QDir::homePath();
  if (home.size() > 1 && first.startsWith(home + "/")) first = "~" + first.mid(home.size());
  return paths.size() == 1 ? first : QString("%1 and %2 more").arg(first).arg(paths.size() - 1);
}

StartPage::StartPage(QAction* open, QAction* open_folder, QWidget* parent) : QWidget(parent) {
  setObjectName("start-page");
  setAccessibleName("Start");
  auto* outer = new QVBoxLayout(this);
  outer->addStretch(1);
  auto* title = new QLabel("Open an incident", this);
  QFont font = title->font();
  font.setPointSizeF(font.pointSizeF() > 0 ? font.pointSizeF() * 1.6 : 16);
  title->setFont(font);
  title->setAlignment(Qt::AlignHCenter);
  title->setAccessibleName(title->text());
  outer->addWidget(title);
  auto* text = new QLabel(
      "Drop an incident folder, .lsd dumps, ring files or Flight Recorder dumps here; several files form one job.",
      this);
  text->setAlignment(Qt::AlignHCenter);
  text->setWordWrap(true);
  text->setAccessibleName("How to open");
  outer->addWidget(text);
  auto* row = new QHBoxLayout;
  row->addStretch(1);
  for (QAction* action : {open_folder, open}) {
    auto* button = new QPushButton(
        action->text().remove("..") + QString(" (%1)").arg(action->shortcut().toString(QKeySequence::NativeText)),
        this);
    button->setAccessibleName(action->text().remove('&').remove(".."));
    button->setToolTip(action->statusTip());
    connect(button, &QPushButton::clicked, action, &QAction::trigger);
    row->addWidget(button);
  }
  row->addStretch(1);
  outer->addLayout(row);
  outer->addSpacing(fontMetrics().height());
  auto* middle = new QHBoxLayout;
  middle->addStretch(1);
  list_ = new QVBoxLayout;
  middle->addLayout(list_);
  middle->addStretch(1);
  outer->addLayout(middle);
  outer->addStretch(2);
}

void StartPage::SetRecent(const QList<QStringList>& recent) {
  Clear(list_);
  for (const QStringList& paths : recent) {
    auto* button = new QToolButton(this);
    const QString text = PathsText(paths);
    button->setText(QString(text.size() > 90 ? ".." + text.right(88) : text).replace('&', "&&"));
    button->setAutoRaise(true);
    button->setToolTip(paths.mid(0, 5).join('\n'));
    button->setAccessibleName("Open " + text);
    button->setFocusPolicy(Qt::StrongFocus);
    connect(button, &QToolButton::clicked, this, [this, paths] { Q_EMIT Chosen(paths); });
    list_->addWidget(button, 0, Qt::AlignLeft);
  }
}

}  // namespace lockstep::gui
