// Follows a collector: its jobs from `lockstep top --json`, and incidents from `lockstep dump`. The viewer itself uses
// no network; keys and collectors are those of the two programs.
#ifndef LOCKSTEP_GUI_APP_LIVE_PANE_H_
#define LOCKSTEP_GUI_APP_LIVE_PANE_H_

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
  // `programs`: the folder of lockstep-top and lockstep-dump. `endpoint`: empty: the collector that those find by
  // themselves.
  LivePane(const QString& programs, const QString& endpoint, QWidget* parent);
  ~LivePane() override;  // ends what runs

  void Ask();       // now, rather than at the next tick; a question without an answer is waited for
  void AskAgain();  // asks again and gives up the current question
  void Dump();      // of the job in the current row
  QTableWidget* table() const { return table_; }
  QPushButton* again() const { return again_; }  // seen while nothing is heard
  QString state() const { return state_->text(); }

 Q_SIGNALS:
  // A readable incident folder: a new one that the collector reported, or a requested one.
  void Incident(const QString& path);
  // The collector finished gathering an incident that Incident reported.
  void Gathered(const QString& path);
  void Message(const QString& text);

 private:
  void Show(const QByteArray& lines);
  void Silent(const QString& why);  // shows it, and the age of the jobs in the table
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
  QElapsedTimer asked_, heard_;  // not valid: never
  std::set<QString> known_;      // incidents reported before
  std::set<QString> gathering_;  // of them, those that grow
  bool first_ = true;
  bool told_ = false;  // state_ shows the error of the last finished question
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_LIVE_PANE_H_
