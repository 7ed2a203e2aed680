// The window: tree on the left, verdict and pictures in the middle, details on the right, tables below. The window owns
// the navigator, the loader and the views, and connects them to the actions. It does not depend on what views draw.
#pragma once

#include <QDockWidget>
#include <QElapsedTimer>
#include <QLabel>
#include <QMainWindow>
#include <QPointer>
#include <QStackedWidget>
#include <QTabWidget>

#include <memory>
#include <vector>

#include "gui/app/commands/actions.h"
#include "gui/app/panes/search_bar.h"
#include "gui/app/panes/strip.h"
#include "gui/app/session/session.h"
#include "gui/model/answer/records.h"
#include "gui/model/latest_job.h"
#include "gui/model/loader.h"
#include "gui/model/notes/notes.h"
#include "gui/view/answer/verdict_panel.h"
#include "gui/view/tables/load_log.h"
#include "gui/view/view.h"

namespace lockstep::gui {

class LivePane;
class MarksPane;
class StartPage;

struct WindowOptions {
  QString settings;          // passed to Session
  QSize size;                // size of a window without a session; if empty, as large as the screen allows
  bool restore = true;       // restore geometry, panes, tab, text size, colors, and the position in an incident
  bool embedded = false;     // one half of a comparison
  int tab = -1;              // the first tab; -1: the answer, if there is one
  int keep_every_ms = 3000;  // how often to check whether restored data changed
  int look_every_ms = 2000;  // how often to check whether the index changed after it was opened
};

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(const WindowOptions& options, QWidget* parent = nullptr);
  ~MainWindow() override;

  // Opens one incident from one or more paths. The current incident stays until the new one is ready, and if loading
  // fails.
  void Open(const QStringList& paths);
  // Shows a collector's jobs in a pane and opens their incidents; `endpoint` may be empty (LivePane).
  LivePane* Follow(const QString& programs, const QString& endpoint);
  // Shows a document that the caller opened; null for none.
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
  int anomaly() const { return anomaly_; }  // -1 before the first
  void SelectAnomaly(int anomaly);          // counted from 0
  const std::vector<View*>& views() const { return views_; }
  View* view(const QString& name) const;  // finds a view by its accessible name; null if there is none
  View* CurrentView() const;              // the view with the focus, otherwise the current tab's
  QDockWidget* dock(const QString& name) const;
  bool loading() const { return loading_; }
  // Whether every view has the document and the remembered position is restored.
  bool Settled() const { return given_ == views_.size() && !place_wanted_; }
  // Whether every view has drawn its document and no search is running.
  bool Idle() const;

 Q_SIGNALS:
  void DocumentShown();  // all views have the document; also emitted for partial documents
  void LoadEnded(bool opened);
  void FirstPaint();  // verdict and picture of an opened incident are on the screen; emitted once per Open
  void CompareWanted(const QStringList& paths);

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  // In main_window.cpp.
  void MakePanes();
  void AddPaneAction(const QString& title, QDockWidget* dock, const QString& keys);
  QDockWidget* AddDock(const QString& title, QWidget* content, Qt::DockWidgetArea area, const QString& key);
  void DefaultLayout();
  void RestoreSession();
  void SaveSession();
  void KeepWhatChanged();
  // In main_window_load.cpp.
  void JoinLoader();
  void Take(DocumentPtr document, bool partial);
  void GiveNext();
  void ShowAnswer();
  void EndLoad(bool opened);
  void OpenNext(const QString& path);  // opens `path` when the current load has finished
  void KeepPlace();
  void WantNoPaint();
  void UpdateTitle();
  void UpdateStatus();
  void FillRecent();
  void LookAtIndex();
  void LoadNotes();
  void SaveNotes();
  // In main_window_acts.cpp.
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

  // Version of saveState. Increase it when panes are added or removed.
  static constexpr int kStateVersion = 2;

  const WindowOptions options_;
  Session session_;
  Navigator navigator_;
  Loader loader_;
  Records records_;
  DocumentPtr document_, before_;  // before_: the previous document while another one is loading
  Place before_place_;
  Notes notes_;
  bool notes_locked_ = false;   // the notes' file contains something else and must not be overwritten
  bool notes_unsaved_ = false;  // the notes differ from their file
  QStringList paths_, opening_, next_;
  bool loading_ = false, partial_ = false;
  Place wanted_;  // restored once every view has the document
  bool place_wanted_ = false;
  int anomaly_ = -1, mark_ = -1;
  int text_percent_ = 100;
  bool tab_chosen_ = false;  // the user chose a tab after the incident was opened
  QElapsedTimer centred_;

  Actions* actions_;
  SearchBar* search_;
  Chips* chips_;
  Strip* strip_;
  QStackedWidget* centre_;
  QTabWidget* tabs_;
  VerdictPanel* verdict_;
  LoadLog* log_;
  MarksPane* marks_;
  StartPage* start_;
  std::vector<View*> views_;  // in the order in which they get a document
  std::vector<std::pair<QString, QDockWidget*>> docks_;
  std::vector<QAction*> recent_;
  QMenu* panes_ = nullptr;
  size_t given_ = 0;  // number of views that have the document
  LatestJob look_;
  bool index_changed_ = false;  // the index file changed after it was opened, and the user was informed
  bool paint_wanted_ = false, verdict_painted_ = false, picture_painted_ = false;
  QLabel *status_, *selected_, *load_state_;
  QByteArray first_state_;
  QPointer<QDialog> help_;
  struct Kept {
    QByteArray geometry, panes;
    int tab = -1, text = 0;
    Place place;
    QStringList paths;
    bool operator==(const Kept&) const = default;
  };
  Kept seen_, kept_;  // seen_: at the last check; kept_: as this window wrote it
};

}  // namespace lockstep::gui
