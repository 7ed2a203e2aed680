// The window: verdict above, tree left, pictures in the middle, details right, tables below. It owns the navigator, the
// loader and the views, and joins them to the actions; it knows nothing of what views draw.
#ifndef LOCKSTEP_GUI_APP_MAIN_WINDOW_H_
#define LOCKSTEP_GUI_APP_MAIN_WINDOW_H_

#include <QDockWidget>
#include <QElapsedTimer>
#include <QLabel>
#include <QMainWindow>
#include <QPointer>
#include <QStackedWidget>
#include <QTabWidget>

#include <memory>
#include <vector>

#include "gui/app/actions.h"
#include "gui/app/search_bar.h"
#include "gui/app/session.h"
#include "gui/app/strip.h"
#include "gui/model/latest_job.h"
#include "gui/model/loader.h"
#include "gui/model/notes.h"
#include "gui/model/records.h"
#include "gui/view/load_log.h"
#include "gui/view/verdict_panel.h"
#include "gui/view/view.h"

namespace lockstep::gui {

class LivePane;
class MarksPane;
class StartPage;

struct WindowOptions {
  QString settings;          // as Session takes it
  bool restore = true;       // geometry, panes, tab, text size, colors, and the place in an incident
  bool embedded = false;     // one half of a comparison
  int keep_every_ms = 3000;  // interval of the checks whether restored data changed
  int look_every_ms = 2000;  // interval of the checks whether the index is still as it was when opened
};

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(const WindowOptions& options, QWidget* parent = nullptr);
  ~MainWindow() override;

  // One incident, of one or several paths. What is open stays until the new one is there, and comes back when it fails.
  void Open(const QStringList& paths);
  // Shows the jobs of a collector in a pane and opens their incidents; `endpoint` may be empty (LivePane).
  LivePane* Follow(const QString& programs, const QString& endpoint);
  // Shows a document that was opened elsewhere. Null: nothing is open.
  void ShowDocument(DocumentPtr document);

  const DocumentPtr& document() const { return document_; }
  Navigator* navigator() { return &navigator_; }
  Actions* actions() { return actions_; }
  SearchBar* search() { return search_; }
  Strip* strip() { return strip_; }
  Session* session() { return &session_; }
  Loader* loader() { return &loader_; }
  MarksPane* marks() { return marks_; }
  QTabWidget* tabs() { return tabs_; }
  const Notes& notes() const { return notes_; }
  int anomaly() const { return anomaly_; }  // -1: none yet
  void SelectAnomaly(int anomaly);          // from 0
  const std::vector<View*>& views() const { return views_; }
  View* view(const QString& name) const;  // by accessible name; null: there is none
  View* CurrentView() const;              // with the focus, else of the tab
  QDockWidget* dock(const QString& name) const;
  bool loading() const { return loading_; }
  // Every view has the document, and the place where one was is shown.
  bool Settled() const { return given_ == views_.size() && !place_wanted_; }
  // Every view has the document and has drawn it, and no search runs.
  bool Idle() const;

 Q_SIGNALS:
  void DocumentShown();  // all views have it; also for partial ones
  void LoadEnded(bool opened);
  void FirstPaint();  // verdict and matrix of an opened incident are on the screen, once an Open
  void CompareWanted(const QStringList& paths);

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  // main_window.cpp
  void MakePanes();
  void AddPaneAction(const QString& title, QDockWidget* dock, const QString& keys);
  QDockWidget* AddDock(const QString& title, QWidget* content, Qt::DockWidgetArea area, const QString& key);
  void DefaultLayout();
  void RestoreSession();
  void SaveSession();
  void KeepWhatChanged();
  // main_window_load.cpp
  void JoinLoader();
  void Take(DocumentPtr document, bool partial);
  void GiveNext();
  void EndLoad(bool opened);
  void OpenNext(const QString& path);  // as soon as the current load is finished
  void KeepPlace();
  void WantNoPaint();
  void UpdateTitle();
  void UpdateStatus();
  void FillRecent();
  void LookAtIndex();
  void LoadNotes();
  void SaveNotes();
  // main_window_acts.cpp
  void JoinActs();
  void JoinGoing();
  void JoinViewing();
  void EnableActs();
  void StepAnomaly(int by);
  void StepRecord(int by);
  void Clear();
  void MarkSelection();
  void GoToMark(int mark);
  void Export();
  void OpenPalette();
  void OpenFind();
  void Help(const QString& title, const QString& html);
  void FilterBySelection(bool exclude);
  void SetText(int percent);
  void Say(const QString& text);

  static constexpr int kStateVersion = 1;  // of saveState: panes that were added or went make older states useless

  const WindowOptions options_;
  Session session_;
  Navigator navigator_;
  Loader loader_;
  Records records_;
  DocumentPtr document_, before_;  // before_: while another one is loading
  Place before_place_;
  Notes notes_;
  bool notes_locked_ = false;   // their file is not ours to write
  bool notes_unsaved_ = false;  // they differ from their file
  QStringList paths_, opening_, next_;
  bool loading_ = false, partial_ = false;
  Place wanted_;  // shown once every view has the document
  bool place_wanted_ = false;
  int anomaly_ = -1, mark_ = -1;
  int text_percent_ = 100;
  QElapsedTimer centred_;

  Actions* actions_;
  SearchBar* search_;
  Chips* chips_;
  Strip* strip_;
  QStackedWidget* centre_;
  QTabWidget* tabs_;
  VerdictPanel* verdict_;
  QDockWidget* verdict_dock_;
  LoadLog* log_;
  MarksPane* marks_;
  StartPage* start_;
  std::vector<View*> views_;  // in the order in which they get a document
  std::vector<std::pair<QString, QDockWidget*>> docks_;
  std::vector<QAction*> recent_;
  QMenu* panes_ = nullptr;
  size_t given_ = 0;  // views that have the document
  LatestJob look_;
  bool index_changed_ = false;  // and reported
  bool paint_wanted_ = false, verdict_painted_ = false, matrix_painted_ = false;
  QLabel *status_, *selected_, *load_state_;
  QByteArray first_state_;
  QPointer<QDialog> help_;
  struct Kept {
    QByteArray geometry, panes;
    int tab = -1, text = 0;
    bool folded = false;
    Place place;
    QStringList paths;
    bool operator==(const Kept&) const = default;
  };
  Kept seen_, kept_;  // at the last look; as written by this window
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_MAIN_WINDOW_H_
