#include "gui/view/link_pane.h"

#include <QContextMenuEvent>
#include <QEvent>
#include <QFontDatabase>
#include <QKeyEvent>
#include <QMenu>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextDocument>

namespace lockstep::gui {
namespace {

template <typename Visit>
void EachLink(const QTextDocument* document, Visit visit) {
  QString before;
  for (QTextBlock block = document->begin(); block.isValid(); block = block.next()) {
    for (auto it = block.begin(); !it.atEnd(); ++it) {
      const QTextFragment fragment = it.fragment();
      const QString link = fragment.charFormat().anchorHref();
      if (!link.isEmpty() && link != before && !visit(link, fragment)) return;
      before = link;
    }
  }
}

}  // namespace

LinkPane::LinkPane(const QString& name, const QString& description, QWidget* parent) : QTextBrowser(parent) {
  setObjectName(name);
  setAccessibleName(name);
  setAccessibleDescription(description);
  setFrameShape(QFrame::NoFrame);
  setOpenLinks(false);
  setOpenExternalLinks(false);
  setUndoRedoEnabled(false);
  setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  setTextInteractionFlags(Qt::TextBrowserInteraction);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setAutoFillBackground(false);
  connect(this, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) { Q_EMIT Followed(url.toString()); });
}

void LinkPane::Show(const QString& html, bool keep) {
  const Theme& theme = ThemeFor(palette());
  const QString mono = QFontDatabase::systemFont(QFontDatabase::FixedFont).family();
  document()->setDefaultStyleSheet(
      QString(
          "a { color: %1; text-decoration: none; } .label { color: %2; } .faint { color: %2; } .alarm { color: %3; } "
          ".head { font-weight: 600; } .mono { font-family: '%4'; }")
          .arg(theme.link.name(), theme.faint_text.name(), theme.alarm.name(), mono));
  const int at = keep ? verticalScrollBar()->value() : 0;
  const QString link = keep ? FocusedLink() : QString();
  setHtml(html);
  if (!link.isEmpty()) FocusLink(link);
  verticalScrollBar()->setValue(at);
}

bool LinkPane::FocusLink(const QString& link) {
  bool found = false;
  EachLink(document(), [&](const QString& there, const QTextFragment& fragment) {
    if (there != link) return true;
    QTextCursor cursor(document());
    cursor.setPosition(fragment.position());
    cursor.setPosition(fragment.position() + fragment.length(), QTextCursor::KeepAnchor);
    setTextCursor(cursor);
    found = true;
    return false;
  });
  return found;
}

QString LinkPane::FocusedLink() const {
  return textCursor().hasSelection() ? textCursor().charFormat().anchorHref() : QString();
}

QStringList LinkPane::Links() const {
  QStringList links;
  EachLink(document(), [&](const QString& link, const QTextFragment&) {
    links.append(link);
    return true;
  });
  return links;
}

QVariant LinkPane::loadResource(int, const QUrl&) { return {}; }

void LinkPane::changeEvent(QEvent* event) {
  QTextBrowser::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) Q_EMIT Recoloured();
}

void LinkPane::keyPressEvent(QKeyEvent* event) {
  const QString link = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter ? FocusedLink() : QString();
  QTextBrowser::keyPressEvent(event);
  // Following a link removes the focus from the link, so it is set again for the next key.
  if (!link.isEmpty()) FocusLink(link);
}

void LinkPane::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  QAction* copy = menu.addAction("&Copy", this, &QTextEdit::copy);
  copy->setEnabled(textCursor().hasSelection());
  menu.addAction("Select &all", this, &QTextEdit::selectAll);
  menu.exec(event->globalPos());
}

}  // namespace lockstep::gui
