// Follows a collector: its jobs as `lockstep top --json` tells them, and incidents that `lockstep dump` takes. The
// viewer itself speaks to no network; keys and collectors are those of the two programs.
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
  void AskAgain();  // likewise, but gives that question up
  void Dump();      // of the job in the current row
  QTableWidget* table() const { return table_; }
  QPushButton* again() const { return again_; }  // seen while nothing is heard
  QString state() const { return state_->text(); }

 Q_SIGNALS:
  // An incident's folder that can be read from here: a new one that the collector told of, or one that was asked for.
  void Incident(const QString& path);
  // One that Incident told of has been gathered as far as it will be.
  void Gathered(const QString& path);
  void Message(const QString& text);

 private:
  void Show(const QByteArray& lines);
  void Silent(const QString& why);  // says so, and how old the jobs in the table are
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
  std::set<QString> known_;      // incidents told of before
  std::set<QString> gathering_;  // of them, those that grow
  bool first_ = true;
  bool told_ = false;  // what went wrong with the last question that ended stands in state_
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_LIVE_PANE_H_
