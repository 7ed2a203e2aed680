#include "gui/app/commands/help_page.h"

#include <QAbstractButton>
#include <QDialogButtonBox>
#include <QKeySequence>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "gui/model/search/query.h"

namespace lockstep::gui {
namespace {

QString Row(const QString& keys, const QString& what, const QString& more) {
  return QString(
             "<tr><td style='padding-right:16px; white-space:nowrap'><b>%1</b></td><td style='padding-right:16px; "
             "white-space:nowrap'>%2</td><td>%3</td></tr>")
      .arg(keys.toHtmlEscaped(), what.toHtmlEscaped(), more.toHtmlEscaped());
}

QString Plain(const QAction& action) {
  QString text = action.text();
  return text.remove('&');
}

}  // namespace

QString KeysHtml(const Actions& actions) {
  QString html;
  QString section;
  const auto title = [&](const QString& name) {
    if (!section.isEmpty()) html += "</table>";
    section = name;
    html += "<h3>" + name.toHtmlEscaped() + "</h3><table cellspacing='0' cellpadding='2'>";
  };
  for (const ActionSpec& spec : ActionSpecs()) {
    QString menu = spec.menu;
    if (menu.startsWith('-')) menu = menu.mid(1);
    menu = menu.section('/', -1);
    if (menu != section) title(menu);
    const QAction& action = *actions.Get(spec.id);
    QStringList keys;
    for (const QKeySequence& key : action.shortcuts()) keys << key.toString(QKeySequence::NativeText);
    html += Row(keys.join("  or  "), Plain(action), action.statusTip());
  }
  title("Panes");
  for (const QAction* action : actions.all()) {
    if (action->objectName().startsWith("pane-"))
      html += Row(action->shortcut().toString(QKeySequence::NativeText), Plain(*action), action->statusTip());
  }
  title("In pictures, tables and trees");
  for (const PictureKey& key : PictureKeys()) html += Row(key.keys, key.text, {});
  return html + "</table>";
}

QString QueryHelpHtml() {
  QString html =
      "<p>All words must match. A minus before a word excludes it; quotes keep words together; <b>*</b> stands for any "
      "text, <b>?</b> for one character; case does not matter.</p><table cellspacing='0' cellpadding='2'>";
  html += Row("rank:17043  rank:0-63,128", "ranks by number", "also rank>100, rank<=8");
  html += Row("host:n21*", "ranks by host", "");
  html += Row("comm:tp_*", "members, or operations, of communicators", "name or identity");
  html += Row("op:AllReduce", "operations by kind", "");
  html += Row("seq:8800-8810  seq>8800", "operations by sequence number", "");
  html += Row("state:missing", "by state", QueryStateWords().join(", "));
  html += Row("class:cause", "ranks by their position in the wait-for graph", QueryClassWords().join(", "));
  html += Row("stage:3", "ranks by pipeline stage", "from 0");
  html += Row("lag>10", "ranks by collectives behind the furthest member", "");
  html += Row("n2130", "a plain word", "any part of a host's, communicator's or operation's name, or a rank's number");
  html +=
      "</table><p>Enter goes to the next hit, Shift+Enter to the previous one. Ctrl+Enter turns the search into a "
      "filter: only matching ranks stay. Esc clears the box.</p>";
  return html;
}

QDialog* MakeHelpPage(const QString& title, const QString& html, QWidget* parent) {
  auto* dialog = new QDialog(parent);
  dialog->setObjectName("help-page");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(title);
  dialog->setAccessibleName(title);
  auto* text = new QTextBrowser(dialog);
  text->setAccessibleName(title);
  text->setHtml(html);
  text->setOpenLinks(false);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close, dialog);
  buttons->setAccessibleName("Buttons");
  for (QAbstractButton* button : buttons->buttons()) button->setAccessibleName("Close");
  QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
  auto* layout = new QVBoxLayout(dialog);
  layout->addWidget(text);
  layout->addWidget(buttons);
  const int line = dialog->fontMetrics().height();
  dialog->resize(line * 56, line * 40);
  return dialog;
}

}  // namespace lockstep::gui
