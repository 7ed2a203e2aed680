// A page of text with links that mouse and keys reach: what VerdictPanel and DetailsView show themselves in.
#ifndef LOCKSTEP_GUI_VIEW_LINK_PANE_H_
#define LOCKSTEP_GUI_VIEW_LINK_PANE_H_

#include <QString>
#include <QTextBrowser>

#include "gui/view/theme.h"

namespace lockstep::gui {

// Tab and Enter walk and follow the links. Nothing is ever loaded from anywhere.
class LinkPane : public QTextBrowser {
  Q_OBJECT

 public:
  LinkPane(const QString& name, const QString& description, QWidget* parent);

  // `html` holds no text of a file that is not escaped. Classes: "label", "faint", "alarm", "head", "mono". `keep`: the
  // place scrolled to and the link with the focus stay.
  void Show(const QString& html, bool keep);
  // Puts the focus on a link; false: there is none of that name.
  bool FocusLink(const QString& link);
  QString FocusedLink() const;
  // Every link, from the beginning.
  QStringList Links() const;
  // For the current contents, at this width.
  int ContentHeight() const;

 Q_SIGNALS:
  void Followed(const QString& link);
  // Repaints after a change of colors.
  void Recoloured();

 protected:
  void changeEvent(QEvent* event) override;
  QVariant loadResource(int type, const QUrl& name) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_VIEW_LINK_PANE_H_
