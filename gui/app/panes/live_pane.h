// Follows a collector: shows its jobs (from `lockstep top --json`) and captures incidents (with `lockstep dump`). The
// viewer itself uses no network; the two programs find the collector and its keys.
#pragma once

#include <QElapsedTimer>
#include <QLabel>
#include <QProcess>
#include <QPushButton>
#include <QTableWidget>
#include <QTimer>
#include <QWidget>

#include <set>

namespace lockstep::gui {

class LivePane : public QWidget {
  Q_OBJECT

 public:
  // `programs` is the folder of lockstep-top and lockstep-dump. If `endpoint` is empty, these programs find the
  // collector.
  LivePane(const QString& programs, const QString& endpoint, QWidget* parent);
  ~LivePane() override;  // kills running programs

  void Ask();       // queries at once instead of at the next tick; does nothing while a query is running
  void AskAgain();  // cancels the current query and starts a new one
  void Dump();      // captures an incident of the job in the current row
  QTableWidget* table() const { return table_; }
  QPushButton* again() const { return again_; }  // visible while the collector does not answer
  QString state() const { return state_->text(); }

 Q_SIGNALS:
  // A readable incident folder: a new one that the collector reported, or one that the user requested.
  void Incident(const QString& path);
  // The collector finished gathering an incident that Incident reported.
  void Gathered(const QString& path);
  void Message(const QString& text);

 private:
  void Show(const QByteArray& lines);
  void Silent(const QString& why);  // shows the reason, and the age of the jobs in the table
  void Tick();
  QString Name() const { return endpoint_.isEmpty() ? "the collector" : endpoint_; }
  void Say(const QString& text);
  void Open(const QString& path, const QString& otherwise);
  void LookAtGathered();
  QStringList Arguments() const;

  const QString programs_, endpoint_;
  QLabel* state_;
  QTableWidget* table_;
  QPushButton *dump_, *again_;
  QTimer timer_;
  QProcess top_, dumping_;
  QElapsedTimer asked_, heard_;  // since the last query, and since the last answer; invalid before the first
  std::set<QString> known_;      // incidents that were already reported
  std::set<QString> gathering_;  // incidents that are still being gathered
  bool first_ = true;
  bool error_shown_ = false;  // the error of the last finished query is shown
};

}  // namespace lockstep::gui
