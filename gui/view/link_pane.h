// A page of text with links for mouse and keys, used by AnswerView and DetailsView.
#pragma once

#include <QString>
#include <QTextBrowser>

#include "gui/view/theme.h"

namespace lockstep::gui {

// Tab moves between links, Enter follows a link. Never loads a resource.
class LinkPane : public QTextBrowser {
  Q_OBJECT

 public:
  LinkPane(const QString& name, const QString& description, QWidget* parent);

  // Text from files in `html` must be escaped. CSS classes: "label", "faint", "alarm", "head", "mono". With `keep`,
  // keeps the scroll position and the focused link.
  void Show(const QString& html, bool keep);
  // Gives the focus to a link; returns false if there is no such link.
  bool FocusLink(const QString& link);
  QString FocusedLink() const;
  // Returns all links in order.
  QStringList Links() const;

 Q_SIGNALS:
  void Followed(const QString& link);
  // The colors changed, so the owner must call Show again.
  void Recoloured();

 protected:
  void changeEvent(QEvent* event) override;
  QVariant loadResource(int type, const QUrl& name) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
};

}  // namespace lockstep::gui
