// The search box, the fields that go to a rank or a communicator, and the filters as chips.
#pragma once

#include <QAbstractListModel>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QTimer>
#include <QWidget>

#include <memory>

#include "gui/model/latest_job.h"
#include "gui/model/navigator.h"
#include "gui/model/search/query.h"

namespace lockstep::gui {

// Searches on another thread while the user types; the window never waits.
class SearchBar : public QWidget {
  Q_OBJECT

 public:
  SearchBar(Navigator* navigator, QWidget* parent);

  void SetDocument(DocumentPtr document);
  QLineEdit* field() const { return field_; }
  QString count_text() const { return count_->text(); }
  void Search(const QString& text);  // as if the user had typed it
  void Step(int by);                 // 1 for the next hit, -1 for the previous one
  // Keeps only ranks that match all filters; ignores and reports an invalid query.
  void SetFilters(const QStringList& filters);
  bool Idle() const { return !search_.busy() && !filter_.busy() && !timer_.isActive(); }

 Q_SIGNALS:
  void Message(const QString& text);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Start();
  void Show(const QueryResult& result);
  void GoToRank();
  void GoToComm(const QString& name);
  int64_t Steps() const {
    return static_cast<int64_t>(result_.records ? 0 : result_.comms.size()) + static_cast<int64_t>(result_.hits.size());
  }

  Navigator* navigator_;
  DocumentPtr document_;
  QLineEdit* field_;
  QLabel* count_;
  QLineEdit* rank_;
  QComboBox* comm_;
  QTimer timer_;
  LatestJob search_, filter_;
  int step_when_done_ = 0;  // taken when the search finishes, because Enter was pressed before; 0: none
  QueryResult result_;
  int64_t at_ = -1;
};

// One button per filter; a click removes the filter. Hidden without filters.
class Chips : public QWidget {
  Q_OBJECT

 public:
  Chips(Navigator* navigator, SearchBar* search, QWidget* parent);

 private:
  void Fill();

  Navigator* navigator_;
  SearchBar* search_;
  QStringList shown_;
};

}  // namespace lockstep::gui
