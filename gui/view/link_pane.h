// A page of text with links that work with mouse and keys, used by VerdictPanel and DetailsView.
#pragma once

#include <QString>
#include <QTextBrowser>

#include "gui/view/theme.h"

namespace lockstep::gui {

// Tab and Enter move between and follow links. Nothing is ever loaded from elsewhere.
class LinkPane : public QTextBrowser {
  Q_OBJECT

 public:
  LinkPane(const QString& name, const QString& description, QWidget* parent);

  // Text from files in `html` must be escaped. Classes: "label", "faint", "alarm", "head", "mono". With `keep`, keeps
  // the scroll position and the focused link.
  void Show(const QString& html, bool keep);
  // Puts the focus on a link; returns false if there is no such link.
  bool FocusLink(const QString& link);
  QString FocusedLink() const;
  // Returns all links in order.
  QStringList Links() const;

 Q_SIGNALS:
  void Followed(const QString& link);
  // Repaints after the colors changed.
  void Recoloured();

 protected:
  void changeEvent(QEvent* event) override;
  QVariant loadResource(int type, const QUrl& name) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
};

}  // namespace lockstep::gui
