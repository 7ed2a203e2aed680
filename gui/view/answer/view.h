// The answer: a picture of the last calls around the fault, and below it the stack, the call sites, what to do and the
// evidence. Shows the finding of the navigator's position; links lead to the other findings.
#pragma once

#include <QAction>
#include <QList>

#include "gui/view/view.h"

class QHBoxLayout;
class QScrollArea;

namespace lockstep::gui {

class AnswerPane;
class LinkPane;

class AnswerView : public View {
  Q_OBJECT

 public:
  explicit AnswerView(Navigator* navigator, QWidget* parent = nullptr);
  void SetDocument(DocumentPtr document) override;
  QString CopyText() const override;  // the selected text of the page, otherwise the rows of the picture
  QString Csv() const override;       // the calls of the picture
  bool Paint(QPainter* painter, const QSize& size) override;

  // Buttons below the page that lead to other views.
  void SetWays(const QList<QAction*>& actions);
  AnswerPane* pane() const { return pane_; }
  LinkPane* page() const { return page_; }

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void Fill(bool keep);
  void FitPicture();
  void Follow(const QString& link);
  bool Columns() const;

  DocumentPtr document_;
  int finding_ = -1;  // the finding that is shown
  bool columns_ = false;
  QScrollArea* scroll_;
  AnswerPane* pane_;
  LinkPane* page_;
  QHBoxLayout* ways_;
};

}  // namespace lockstep::gui
