#include "gui/app/main_window.h"

#include <QCloseEvent>
#include <QDir>
#include <QMenuBar>
#include <QScreen>
#include <QScrollBar>
#include <QStatusBar>
#include <QTabBar>
#include <QTimer>
#include <QToolBar>
#include <QVBoxLayout>

#include <algorithm>
#include <iterator>

#include "gui/app/panes/live_pane.h"
#include "gui/app/panes/marks_pane.h"
#include "gui/app/panes/start_page.h"
#include "gui/app/session/appearance.h"
#include "gui/view/answer/details.h"
#include "gui/view/answer/view.h"
#include "gui/view/bandwidth/view.h"
#include "gui/view/graph/view.h"
#include "gui/view/matrix/legend.h"
#include "gui/view/matrix/view.h"
#include "gui/view/stacks/view.h"
#include "gui/view/tables/tree.h"
#include "gui/view/tables/view.h"
#include "gui/view/timeline/view.h"

namespace lockstep::gui {
namespace {

QLabel* StatusLabel(const QString& name, QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setAccessibleName(name);
  label->setTextFormat(Qt::PlainText);
  label->setIndent(label->fontMetrics().averageCharWidth() * 2);
  return label;
}

}  // namespace

MainWindow::MainWindow(const WindowOptions& options, QWidget* parent)
    : QMainWindow(parent), options_(options), session_(options.settings) {
  setObjectName("viewer");
  setAccessibleName("Lockstep");
  setAccessibleDescription("Shows what stopped a distributed job; ? lists the keys");
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  actions_ = new Actions(this, options.embedded);
  MakePanes();
  actions_->FillMenus(menuBar());
  for (const ActionId id : {ActionId::kJobMatrix, ActionId::kCommMatrix, ActionId::kPin, ActionId::kUnpin,
                            ActionId::kZoomToSelection, ActionId::kCentre, ActionId::kFit})
    view("Matrix")->addAction(actions_->Get(id));
  view("Matrix")->addAction(actions_->menu("View/Group rows by")->menuAction());
  view("Matrix")->setContextMenuPolicy(Qt::ActionsContextMenu);
  panes_ = actions_->menu("View")->addMenu("&Panes");
  panes_->setAccessibleName("Panes");
  panes_->setToolTipsVisible(true);
  panes_->menuAction()->setToolTip("Menu: Panes");
  for (size_t i = 0; i < docks_.size(); ++i)
    AddPaneAction(docks_[i].first, docks_[i].second, QString("Alt+%1").arg(i + 1));
  QMenu* recent = actions_->menu("File")->addMenu("Open &recent");
  recent->setAccessibleName("Open recent");
  recent->setToolTipsVisible(true);
  recent->menuAction()->setObjectName("recent");
  recent->menuAction()->setToolTip("Recent incidents");
  actions_->menu("File")->insertMenu(actions_->Get(ActionId::kReopen), recent);
  for (int i = 0; i < 9; ++i) {
    QAction* action = actions_->Add(QString("recent-%1").arg(i + 1), "-", QString("Ctrl+Alt+%1").arg(i + 1),
                                    "Opens this incident again");
    connect(action, &QAction::triggered, this, [this, i] {
      const QList<QStringList> all = session_.Recent();
      if (i < all.size()) Open(all[i]);
    });
    recent->addAction(action);
    recent_.push_back(action);
  }
  JoinActs();
  JoinGoing();
  JoinViewing();
  JoinLoader();
  DefaultLayout();
  // Single letters are shortcuts, so the search box must not have the focus.
  tabs_->currentWidget()->setFocus();
  first_state_ = saveState(kStateVersion);
  if (options_.restore) RestoreSession();
  if (options_.restore && !options_.embedded) {
    auto* keep = new QTimer(this);
    connect(keep, &QTimer::timeout, this, &MainWindow::KeepWhatChanged);
    keep->start(options_.keep_every_ms);
  }
  auto* look = new QTimer(this);
  connect(look, &QTimer::timeout, this, &MainWindow::LookAtIndex);
  look->start(options_.look_every_ms);
  FillRecent();
  EnableActs();
  UpdateTitle();
  UpdateStatus();
}

MainWindow::~MainWindow() {
  loader_.disconnect(this);
  navigator_.disconnect(this);
}

QDockWidget* MainWindow::AddDock(const QString& title, QWidget* content, Qt::DockWidgetArea area, const QString& key) {
  auto* dock = new QDockWidget(title, this);
  dock->setObjectName("dock-" + key);
  dock->setAccessibleName(title);
  dock->setWidget(content);
  addDockWidget(area, dock);
  return dock;
}

void MainWindow::AddPaneAction(const QString& title, QDockWidget* dock, const QString& keys) {
  QAction* action = actions_->Add("pane-" + title.toLower().replace(' ', '-'), title, keys,
                                  QString("Goes to %1; hides it if it already has the focus").arg(title.toLower()));
  connect(action, &QAction::triggered, this, [dock] {
    const QWidget* focus = dock->window()->focusWidget();
    if (dock->isVisible() && focus != nullptr && dock->isAncestorOf(focus)) {
      dock->hide();
      return;
    }
    dock->show();
    dock->raise();
    dock->widget()->setFocus(Qt::ShortcutFocusReason);
  });
  panes_->addAction(action);
}

void MainWindow::MakePanes() {
  search_ = new SearchBar(&navigator_, this);
  connect(search_, &SearchBar::Message, this, &MainWindow::Say);
  auto* bar = new QToolBar("Search", this);
  bar->setObjectName("search-toolbar");
  bar->setAccessibleName("Search");
  bar->setMovable(false);
  bar->toggleViewAction()->setVisible(false);
  bar->addWidget(search_);
  addToolBar(Qt::TopToolBarArea, bar);

  verdict_ = new VerdictPanel(&navigator_);
  auto* answer = new AnswerView(&navigator_);
  answer->SetWays({actions_->Get(ActionId::kJobMatrix), actions_->Get(ActionId::kCommMatrix),
                   actions_->Get(ActionId::kTabWaitFor), actions_->Get(ActionId::kNextAnomaly)});
  auto* tree = new TreePane(&navigator_);
  auto* legend = new LegendView(&navigator_);
  auto* details = new DetailsView(&navigator_, &records_);
  connect(legend, &LegendView::FiltersWanted, search_, &SearchBar::SetFilters);
  log_ = new LoadLog(&navigator_);
  marks_ = new MarksPane(nullptr);
  View* tables[] = {new TableView(&navigator_, CommTable()), new TableView(&navigator_, RankTable()),
                    new TableView(&navigator_, MismatchTable()), new TableView(&navigator_, InFlightTable())};
  View* pictures[] = {answer,
                      new MatrixView(&navigator_),
                      new WaitGraphView(&navigator_),
                      new TimelineView(&navigator_),
                      new StackView(&navigator_),
                      new BandwidthView(&navigator_)};
  tabs_ = new QTabWidget;
  tabs_->setObjectName("tabs");
  tabs_->setAccessibleName("Pictures");
  tabs_->setDocumentMode(true);
  tabs_->tabBar()->setAccessibleName("Pictures");
  for (size_t i = 0; i < std::size(pictures); ++i) {
    const QAction* tab =
        actions_->Get(static_cast<ActionId>(static_cast<int>(ActionId::kTabAnswer) + static_cast<int>(i)));
    tabs_->setTabToolTip(tabs_->addTab(pictures[i], tab->text().remove('&')), tab->toolTip());
  }
  chips_ = new Chips(&navigator_, search_, this);
  strip_ = new Strip(actions_->Get(ActionId::kCancelLoading), this);
  start_ = new StartPage(actions_->Get(ActionId::kOpen), actions_->Get(ActionId::kOpenFolder), this);
  connect(start_, &StartPage::Chosen, this, &MainWindow::Open);
  auto* pictures_page = new QWidget;
  pictures_page->setAccessibleName("Incident");
  auto* pictures_layout = new QVBoxLayout(pictures_page);
  pictures_layout->setContentsMargins(0, 0, 0, 0);
  pictures_layout->setSpacing(0);
  pictures_layout->addWidget(chips_);
  pictures_layout->addWidget(tabs_, 1);
  centre_ = new QStackedWidget;
  centre_->setAccessibleName("Center");
  centre_->addWidget(start_);
  centre_->addWidget(pictures_page);
  auto* middle = new QWidget(this);
  middle->setAccessibleName("Middle");
  auto* layout = new QVBoxLayout(middle);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(strip_);
  layout->addWidget(verdict_);
  layout->addWidget(centre_, 1);
  setCentralWidget(middle);

  docks_.emplace_back("Tree", AddDock("Hosts and communicators", tree, Qt::LeftDockWidgetArea, "tree"));
  docks_.emplace_back("Legend", AddDock("Legend", legend, Qt::LeftDockWidgetArea, "legend"));
  docks_.emplace_back("Details", AddDock("Details", details, Qt::RightDockWidgetArea, "details"));
  const char* table_names[] = {"Communicators", "Ranks", "Mismatches", "In flight"};
  for (size_t i = 0; i < std::size(tables); ++i) {
    docks_.emplace_back(table_names[i], AddDock(table_names[i], tables[i], Qt::BottomDockWidgetArea,
                                                QString(table_names[i]).toLower().replace(' ', '-')));
  }
  docks_.emplace_back("Load log", AddDock("Load log", log_, Qt::BottomDockWidgetArea, "log"));
  docks_.emplace_back("Marks", AddDock("Marks", marks_, Qt::BottomDockWidgetArea, "marks"));
  connect(log_, &LoadLog::TitleChanged, dock("Load log"), &QDockWidget::setWindowTitle);
  for (QTabBar* tab_bar : findChildren<QTabBar*>()) {
    if (tab_bar->accessibleName().isEmpty()) tab_bar->setAccessibleName("Tabs");
  }

  // Users read the verdict and the answer first, so these get a document first.
  views_ = {verdict_, answer, pictures[1], legend, details, tree, tables[0], tables[1], tables[2], tables[3], log_};
  for (size_t i = 2; i < std::size(pictures); ++i) views_.push_back(pictures[i]);

  status_ = StatusLabel("What is open", this);
  selected_ = StatusLabel("What is selected", this);
  load_state_ = StatusLabel("Loading progress", this);
  statusBar()->setAccessibleName("Status");
  statusBar()->addPermanentWidget(status_);
  statusBar()->addPermanentWidget(selected_);
  statusBar()->addPermanentWidget(load_state_);
}

void MainWindow::DefaultLayout() {
  const QSize room = screen()->availableSize(),
              size = options_.size.isEmpty()
                         ? QSize(room.width() < 1900 ? 1280 : 1760, room.height() < 1040 ? 800 : 980).boundedTo(room)
                         : options_.size;
  resize(size);
  auto place = [this](const QString& name, Qt::DockWidgetArea area) {
    QDockWidget* pane = dock(name);
    pane->setFloating(false);
    addDockWidget(area, pane);
    pane->show();
    return pane;
  };
  QDockWidget* tree = place("Tree", Qt::LeftDockWidgetArea);
  QDockWidget* legend = place("Legend", Qt::LeftDockWidgetArea);
  splitDockWidget(tree, legend, Qt::Vertical);
  QDockWidget* details = place("Details", Qt::RightDockWidgetArea);
  QDockWidget* first = place("Communicators", Qt::BottomDockWidgetArea);
  for (const char* name : {"Ranks", "Mismatches", "In flight", "Load log", "Marks"})
    tabifyDockWidget(first, place(name, Qt::BottomDockWidgetArea));
  first->raise();
  const int letter = fontMetrics().averageCharWidth(), line = fontMetrics().height();
  resizeDocks({tree, details}, {letter * 44, letter * 50}, Qt::Horizontal);
  resizeDocks({tree, legend}, {line * 8, line * 15},
              Qt::Vertical);  // all states of the legend are visible at 1280 x 800
  resizeDocks({first}, {line * 12}, Qt::Vertical);
  tabs_->setCurrentIndex(std::max(options_.tab, 0));
  // A small window has no room for panes next to the pictures. Alt and a digit show a pane.
  const bool small = size.width() < 1600 || size.height() < 900;
  for (const auto& [name, pane] : docks_) {
    if (options_.embedded ? pane == tree || pane == legend || pane == details : small) pane->hide();
  }
}

void MainWindow::RestoreSession() {
  SetText(session_.Number("text", 100));
  const Appearance appearance = AppearanceByName(session_.Text("appearance"));
  if (appearance != Appearance::kDesktop) ApplyAppearance(appearance);
  if (options_.embedded) return;
  if (const QByteArray geometry = session_.Bytes("geometry"); !geometry.isEmpty()) restoreGeometry(geometry);
  if (const QByteArray state = session_.Bytes("panes"); !state.isEmpty()) restoreState(state, kStateVersion);
  const int tab = options_.tab >= 0 ? options_.tab : session_.Number("tab", 0);
  if (tab >= 0 && tab < tabs_->count()) tabs_->setCurrentIndex(tab);
}

// Stores the state when it differs from the stored one and equals that of the previous check. So it survives a signal
// that ends the viewer.
void MainWindow::KeepWhatChanged() {
  if (!isVisible()) return;
  Kept now{saveGeometry(), saveState(kStateVersion), tabs_->currentIndex(), text_percent_, navigator_.place(), paths_};
  if (now == seen_ && now != kept_ && !loading_) {
    SaveSession();
    kept_ = now;
  }
  seen_ = std::move(now);
}

void MainWindow::SaveSession() {
  if (!options_.restore || options_.embedded) return;
  KeepPlace();
  session_.Set("geometry", saveGeometry());
  session_.Set("panes", saveState(kStateVersion));
  session_.Set("tab", tabs_->currentIndex());
  session_.Set("text", text_percent_);
  session_.Sync();
}

LivePane* MainWindow::Follow(const QString& programs, const QString& endpoint) {
  auto* live = new LivePane(programs, endpoint, nullptr);
  QDockWidget* pane = AddDock("Live", live, Qt::BottomDockWidgetArea, "live");
  tabifyDockWidget(dock("Communicators"), pane);
  AddPaneAction("Live", pane, "Alt+L");
  live->setFocusProxy(live->table());
  pane->show();
  pane->raise();
  connect(live, &LivePane::Incident, this, [this](const QString& path) { OpenNext(path); });
  // Does nothing if the user has opened another incident in the meantime.
  connect(live, &LivePane::Gathered, this, [this](const QString& path) {
    if ((loading_ ? opening_ : paths_) == QStringList(QDir::cleanPath(path))) OpenNext(path);
  });
  connect(live, &LivePane::Message, this, &MainWindow::Say);
  return live;
}

View* MainWindow::view(const QString& name) const {
  for (View* view : views_) {
    if (view->accessibleName() == name) return view;
  }
  return nullptr;
}

View* MainWindow::CurrentView() const {
  for (QWidget* widget = focusWidget(); widget != nullptr; widget = widget->parentWidget()) {
    if (auto* view = qobject_cast<View*>(widget)) return view;
  }
  return qobject_cast<View*>(tabs_->currentWidget());
}

QDockWidget* MainWindow::dock(const QString& name) const {
  for (const auto& [title, dock] : docks_) {
    if (title == name) return dock;
  }
  return nullptr;
}

bool MainWindow::Idle() const {
  if (loading_ || given_ < views_.size() || !search_->Idle()) return false;
  return std::all_of(views_.begin(), views_.end(), [](const View* view) { return view->Idle(); });
}

void MainWindow::closeEvent(QCloseEvent* event) {
  SaveSession();
  loader_.Cancel();
  QMainWindow::closeEvent(event);
}

}  // namespace lockstep::gui
