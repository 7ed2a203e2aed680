// Implements the actions of the window.
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QCursor>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFontInfo>
#include <QInputDialog>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QSet>
#include <QStatusBar>

#include <algorithm>

#include "gui/app/commands/help_page.h"
#include "gui/app/commands/palette.h"
#include "gui/app/export/export.h"
#include "gui/app/main_window.h"
#include "gui/app/panes/marks_pane.h"
#include "gui/app/session/appearance.h"

namespace lockstep::gui {
namespace {

using Id = ActionId;
constexpr int kDoublePressMs = 600;

QStringList LocalPaths(const QMimeData* data) {
  QStringList out;
  for (const QUrl& url : data->urls()) {
    if (url.isLocalFile()) out << url.toLocalFile();
  }
  return out;
}

}  // namespace

void MainWindow::Say(const QString& text) {
  // Shortens the text to the space next to the permanent labels; the tooltip shows the full text.
  int room = statusBar()->width() - 40;
  for (const QLabel* label : {status_, selected_, load_state_}) room -= label->sizeHint().width() + 6;
  statusBar()->setToolTip(text);
  statusBar()->showMessage(
      fontMetrics().elidedText(text, Qt::ElideRight, std::max(room, fontMetrics().averageCharWidth() * 20)), 15'000);
}

void MainWindow::JoinActs() {
  const auto on = [this](Id id, auto act) { connect(actions_->Get(id), &QAction::triggered, this, act); };
  const auto choose = [this](const QString& title, bool folder, auto then) {
    auto* dialog = new QFileDialog(this, title);
    dialog->setObjectName("open-dialog");
    dialog->setAccessibleName(title);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(folder ? QFileDialog::Directory : QFileDialog::ExistingFiles);
    if (folder) dialog->setOption(QFileDialog::ShowDirsOnly);
    if (!paths_.isEmpty()) dialog->setDirectory(QFileInfo(paths_.first()).absolutePath());
    connect(dialog, &QFileDialog::filesSelected, this, then);
    dialog->open();
  };
  on(Id::kOpen, [this, choose] { choose("Open files", false, [this](const QStringList& paths) { Open(paths); }); });
  on(Id::kOpenFolder,
     [this, choose] { choose("Open folder", true, [this](const QStringList& paths) { Open(paths); }); });
  on(Id::kCompare, [this, choose] {
    // Asks for files if files are open, otherwise for a folder.
    choose("Compare with", paths_.isEmpty() || QFileInfo(paths_.first()).isDir(), [this](const QStringList& paths) {
      if (!paths.isEmpty()) Q_EMIT CompareWanted(paths);
    });
  });
  on(Id::kReopen, [this] {
    for (const QStringList& paths : session_.Recent()) {
      if (document_ != nullptr && paths == paths_) continue;
      Open(paths);
      return;
    }
  });
  on(Id::kReload, [this] { Open(paths_); });
  on(Id::kCancelLoading, [this] { loader_.Cancel(); });
  on(Id::kExport, [this] { Export(); });
  on(Id::kClose, [this] { ShowDocument(nullptr); });
  on(Id::kQuit, [] { QApplication::closeAllWindows(); });

  on(Id::kCopy, [this] {
    View* view = CurrentView();
    QString text = view == nullptr ? QString() : view->CopyText();
    if (text.isEmpty()) text = SelectionText(*document_, navigator_.selection());
    if (text.isEmpty()) return Say("Nothing is selected");
    QApplication::clipboard()->setText(text);
    Say(QString("Copied %1 lines").arg(text.count('\n') + (text.endsWith('\n') ? 0 : 1)));
  });
  on(Id::kCopyReport, [this] {
    QApplication::clipboard()->setText(TicketText(*document_, navigator_.selection(), notes_));
    Say("The report is on the clipboard");
  });
  on(Id::kMark, [this] { MarkSelection(); });
  on(Id::kMarks, [this] {
    dock("Marks")->show();
    dock("Marks")->raise();
    marks_->table()->setFocus(Qt::ShortcutFocusReason);
    if (marks_->table()->rowCount() > 0 && marks_->table()->currentRow() < 0) marks_->table()->setCurrentCell(0, 0);
  });
  on(Id::kNextMark, [this] {
    if (notes_.marks.empty()) return Say("There are no marks; M adds one");
    GoToMark((mark_ + 1) % static_cast<int>(notes_.marks.size()));
  });
  on(Id::kClear, [this] { Clear(); });
  connect(marks_, &MarksPane::Chosen, this, &MainWindow::GoToMark);
  connect(marks_, &MarksPane::Edited, this, [this](int mark, const QString& text) {
    if (mark < 0 || mark >= static_cast<int>(notes_.marks.size())) return;
    notes_.marks[static_cast<size_t>(mark)].text = text.left(kMostMarkText);
    SaveNotes();
  });
  connect(marks_, &MarksPane::Removed, this, [this](int mark) {
    if (mark < 0 || mark >= static_cast<int>(notes_.marks.size())) return;
    notes_.marks.erase(notes_.marks.begin() + mark);
    SaveNotes();
  });

  on(Id::kPalette, [this] { OpenPalette(); });
  on(Id::kKeys, [this] { Help("Keys", KeysHtml(*actions_)); });
  on(Id::kQueryHelp, [this] { Help("Search language", QueryHelpHtml()); });
  on(Id::kAbout, [this] {
    Help("About",
         "<h2>Lockstep " LOCKSTEP_VERSION
         "</h2><p>A flight recorder and desync debugger for distributed GPU training. This window shows "
         "what <b>lockstep analyze</b> finds.</p><p>The window uses Qt " QT_VERSION_STR " under the LGPL.</p>");
  });
}

void MainWindow::JoinGoing() {
  const auto on = [this](Id id, auto act) { connect(actions_->Get(id), &QAction::triggered, this, act); };
  on(Id::kNextAnomaly, [this] { StepAnomaly(1); });
  on(Id::kPreviousAnomaly, [this] { StepAnomaly(-1); });
  on(Id::kNextRecord, [this] { StepRecord(1); });
  on(Id::kPreviousRecord, [this] { StepRecord(-1); });
  on(Id::kSearch, [this] {
    search_->field()->setFocus(Qt::ShortcutFocusReason);
    search_->field()->selectAll();
  });
  on(Id::kNextHit, [this] { search_->Step(1); });
  on(Id::kPreviousHit, [this] { search_->Step(-1); });
  on(Id::kFind, [this] { OpenFind(); });
  on(Id::kBack, [this] { navigator_.Back(); });
  on(Id::kForward, [this] { navigator_.Forward(); });
  on(Id::kCulprit, [this] {
    if (document_->anomaly_count() == 0) return Say("The verdict names no rank");
    SelectAnomaly(0);
  });
  on(Id::kMembers, [this] {
    const int32_t comm = navigator_.selection().comm;
    if (comm < 0) return Say("No communicator is selected");
    Selection selection = navigator_.selection();
    selection.ranks = document_->KnownMembers(comm);
    if (selection.ranks.empty()) return Say("The members of this communicator are unknown");
    selection.record = selection.record_rank = -1;
    navigator_.Select(std::move(selection));
  });
  on(Id::kFilter, [this] { FilterBySelection(false); });
  on(Id::kExclude, [this] { FilterBySelection(true); });
  on(Id::kUnfilter, [this] { search_->SetFilters({}); });
  on(Id::kPin, [this] {
    Place place = navigator_.place();
    place.pinned.Unite(place.selection.ranks);
    if (place == navigator_.place()) return Say("No rank is selected, or it is already pinned");
    navigator_.Go(std::move(place));
  });
  on(Id::kUnpin, [this] {
    Place place = navigator_.place();
    place.pinned = {};
    navigator_.Go(std::move(place));
  });
  connect(&navigator_, &Navigator::HistoryChanged, this, &MainWindow::EnableActs);
  connect(&navigator_, &Navigator::PlaceChanged, this, &MainWindow::EnableActs);
  connect(&navigator_, &Navigator::SelectionChanged, this, [this] {
    selected_->setText(document_ == nullptr || navigator_.selection().empty()
                           ? QString()
                           : "selected: " + SelectionText(*document_, navigator_.selection()));
    EnableActs();
  });
}

void MainWindow::JoinViewing() {
  const auto on = [this](Id id, auto act) { connect(actions_->Get(id), &QAction::triggered, this, act); };
  const auto picture = [this](auto act) {
    return [this, act] {
      if (auto* view = qobject_cast<View*>(tabs_->currentWidget())) act(view);
    };
  };
  auto* tab_group = new QActionGroup(this);
  for (int i = 0; i < tabs_->count(); ++i) {
    const Id id = static_cast<Id>(static_cast<int>(Id::kTabAnswer) + i);
    tab_group->addAction(actions_->Get(id));
    on(id, [this, i] {
      tabs_->setCurrentIndex(i);
      tabs_->currentWidget()->setFocus(Qt::ShortcutFocusReason);
    });
  }
  connect(tabs_, &QTabWidget::currentChanged, this, [this] {
    tab_chosen_ = true;
    EnableActs();
  });
  on(Id::kZoomIn, picture([](View* view) { view->Zoom(1.5); }));
  on(Id::kZoomOut, picture([](View* view) { view->Zoom(1 / 1.5); }));
  on(Id::kZoomRowsIn, picture([](View* view) { view->ZoomRows(1.5); }));
  on(Id::kZoomRowsOut, picture([](View* view) { view->ZoomRows(1 / 1.5); }));
  on(Id::kPanLeft, picture([](View* view) { view->Pan(-0.25, 0); }));
  on(Id::kPanRight, picture([](View* view) { view->Pan(0.25, 0); }));
  on(Id::kPanUp, picture([](View* view) { view->Pan(0, -0.25); }));
  on(Id::kPanDown, picture([](View* view) { view->Pan(0, 0.25); }));
  on(Id::kFit, picture([](View* view) { view->Fit(); }));
  on(Id::kZoomToSelection, picture([](View* view) { view->ZoomToSelection(); }));
  on(Id::kCentre, picture([this](View* view) {
       if (centred_.isValid() && centred_.elapsed() < kDoublePressMs) {
         centred_.invalidate();
         return view->Fit();
       }
       centred_.start();
       view->CentreOnSelection();
     }));

  auto* mode_group = new QActionGroup(this);
  for (const Id id : {Id::kJobMatrix, Id::kCommMatrix}) mode_group->addAction(actions_->Get(id));
  on(Id::kJobMatrix, [this] {
    Place place = navigator_.place();
    place.matrix_mode = MatrixMode::kJob;
    place.matrix = {};
    navigator_.Go(std::move(place));
    actions_->Get(Id::kTabMatrix)->trigger();
    EnableActs();
  });
  on(Id::kCommMatrix, [this] {
    Place place = navigator_.place();
    int32_t comm = place.selection.comm >= 0 ? place.selection.comm : place.matrix_comm;
    for (int i = 0; comm < 0 && i < document_->anomaly_count(); ++i) comm = document_->AnomalyAt(i).comm;
    if (comm < 0 && document_->comm_count() > 0) comm = 0;
    if (comm >= 0) {
      place.matrix_mode = MatrixMode::kCommunicator;
      place.matrix_comm = comm;
      place.matrix = {};
      navigator_.Go(std::move(place));
      actions_->Get(Id::kTabMatrix)->trigger();
      Say(QString("Members of %1; J shows all ranks").arg(document_->CommName(comm)));
    } else {
      Say("There is no communicator");
    }
    EnableActs();
  });
  on(Id::kGroup, [this] { actions_->menu("View/Group rows by")->popup(QCursor::pos()); });
  auto* grouping = new QActionGroup(this);
  for (int i = 0; i <= static_cast<int>(RowGrouping::kState); ++i) {
    const Id id = static_cast<Id>(static_cast<int>(Id::kGroupRank) + i);
    grouping->addAction(actions_->Get(id));
    on(id, [this, i] {
      Place place = navigator_.place();
      place.grouping = static_cast<RowGrouping>(i);
      navigator_.Go(std::move(place));
      EnableActs();
    });
  }
  on(Id::kFontBigger, [this] { SetText(text_percent_ + 10); });
  on(Id::kFontSmaller, [this] { SetText(text_percent_ - 10); });
  on(Id::kFontNormal, [this] { SetText(100); });
  on(Id::kTheme, [this] {
    const Appearance next =
        static_cast<Appearance>((static_cast<int>(AppearanceByName(session_.Text("appearance"))) + 1) % 3);
    session_.Set("appearance", AppearanceName(next));
    ApplyAppearance(next);
    Say(QString("Colors: %1").arg(AppearanceName(next)));
  });
  on(Id::kFullScreen, [this] {
    setWindowState(windowState() ^ Qt::WindowFullScreen);
    EnableActs();
  });
  on(Id::kDefaultLayout, [this] {
    restoreState(first_state_, kStateVersion);
    DefaultLayout();
    SetText(100);
  });
}

void MainWindow::EnableActs() {
  const bool open = document_ != nullptr;
  static constexpr Id kAlways[] = {Id::kOpen,  Id::kOpenFolder, Id::kReopen,        Id::kQuit,
                                   Id::kClear, Id::kFontBigger, Id::kFontSmaller,   Id::kFontNormal,
                                   Id::kTheme, Id::kFullScreen, Id::kDefaultLayout, Id::kPalette,
                                   Id::kKeys,  Id::kQueryHelp,  Id::kAbout,         Id::kCancelLoading};
  for (size_t i = 0; i < static_cast<size_t>(Id::kCount); ++i) {
    const Id id = static_cast<Id>(i);
    if (std::find(std::begin(kAlways), std::end(kAlways), id) == std::end(kAlways)) actions_->Get(id)->setEnabled(open);
  }
  actions_->Get(Id::kReopen)->setEnabled(!session_.Recent().isEmpty());
  actions_->Get(Id::kCancelLoading)->setEnabled(loading_);
  actions_->Get(Id::kBack)->setEnabled(open && navigator_.CanGoBack());
  actions_->Get(Id::kForward)->setEnabled(open && navigator_.CanGoForward());
  const Place& place = navigator_.place();
  for (int i = 0; i < tabs_->count(); ++i)
    actions_->Get(static_cast<Id>(static_cast<int>(Id::kTabAnswer) + i))->setChecked(i == tabs_->currentIndex());
  actions_->Get(place.matrix_mode == MatrixMode::kJob ? Id::kJobMatrix : Id::kCommMatrix)->setChecked(true);
  actions_->Get(static_cast<Id>(static_cast<int>(Id::kGroupRank) + static_cast<int>(place.grouping)))->setChecked(true);
  actions_->Get(Id::kFullScreen)->setChecked(isFullScreen());
}

void MainWindow::SelectAnomaly(int anomaly) {
  if (document_ == nullptr || anomaly < 0 || anomaly >= document_->anomaly_count()) return;
  anomaly_ = anomaly;
  Place place = navigator_.place();
  place.selection = document_->AnomalyAt(anomaly);
  if (const int finding = document_->facts().anomalies(anomaly).finding(); finding >= 0) place.finding = finding;
  if (place.matrix_mode == MatrixMode::kCommunicator && place.selection.comm >= 0 &&
      (place.selection.comm != place.matrix_comm || place.selection.seq_first < 0)) {
    // Only the job's matrix has cells for sends and receives.
    if (place.selection.seq_first < 0) place.matrix_mode = MatrixMode::kJob;
    place.matrix_comm = place.selection.comm;
    place.matrix = {};
  }
  navigator_.Go(std::move(place));
  if (auto* view = qobject_cast<View*>(tabs_->currentWidget())) view->CentreOnSelection();
  Say(QString("Anomaly %1 of %2: %3")
          .arg(anomaly + 1)
          .arg(document_->anomaly_count())
          .arg(QString::fromStdString(document_->facts().anomalies(anomaly).text())));
}

void MainWindow::StepAnomaly(int by) {
  const int count = document_->anomaly_count();
  if (count == 0) return Say("There are no anomalies");
  const int next = anomaly_ < 0 && by < 0 ? 0 : anomaly_ + by;
  if (next < 0 || next >= count) {
    SelectAnomaly(std::clamp(next, 0, count - 1));
    return Say(next < 0 ? QString("This is the first of %1 anomalies").arg(count)
                        : QString("This is the last of %1 anomalies").arg(count));
  }
  SelectAnomaly(next);
}

void MainWindow::StepRecord(int by) {
  const Selection& selection = navigator_.selection();
  const int32_t rank = selection.record_rank >= 0 ? selection.record_rank : selection.ranks.front();
  const int row = document_->RowOf(rank);
  if (row < 0) return Say("No rank with data is selected");
  const int64_t count = document_->OpCount(row);
  if (count == 0) return Say(QString("There are no records for rank %1").arg(rank));
  int64_t record = selection.record;
  if (record >= 0) {
    record += by;
  } else {
    // Starts at the selected position in the communicator, otherwise at the rank's last operation.
    record = count - 1;
    constexpr int64_t kLookBack = 100'000;
    for (int64_t i = count - 1; selection.seq_first >= 0 && i >= 0 && i > count - kLookBack; --i) {
      const IndexOp op = document_->OpAt(row, i);
      if (document_->CommOf(op) != selection.comm || op.seq > selection.seq_last) continue;
      if (op.seq >= 0) record = i;
      break;
    }
  }
  if (record < 0 || record >= count) return Say(record < 0 ? "This is the oldest record" : "This is the newest record");
  navigator_.Select(document_->SelectOp(row, record));
}

void MainWindow::Clear() {
  if (!search_->field()->text().isEmpty() || search_->isAncestorOf(focusWidget())) {
    search_->field()->clear();
    tabs_->currentWidget()->setFocus();
  } else if (!navigator_.selection().empty()) {
    navigator_.Select({});
  } else if (!navigator_.place().filters.isEmpty()) {
    search_->SetFilters({});
  } else if (strip_->error()) {
    strip_->hide();
  }
}

void MainWindow::FilterBySelection(bool exclude) {
  const Ranks& ranks = navigator_.selection().ranks;
  if (ranks.empty()) return Say("No rank is selected");
  if (ranks.runs().size() > 1000) return Say("There are too many separate ranks for a filter");
  QStringList runs;
  for (const auto& [first, last] : ranks.runs())
    runs << (first == last ? QString::number(first) : QString("%1-%2").arg(first).arg(last));
  search_->SetFilters(navigator_.place().filters + QStringList((exclude ? "-rank:" : "rank:") + runs.join(',')));
}

void MainWindow::MarkSelection() {
  if (navigator_.selection().empty()) return Say("Nothing is selected");
  if (notes_.marks.size() >= kMostMarks) return Say("There are too many marks");
  auto* dialog = new QInputDialog(this);
  dialog->setObjectName("mark-dialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle("Mark");
  dialog->setAccessibleName("Mark");
  dialog->setLabelText(SelectionText(*document_, navigator_.selection()) + "\nNote:");
  dialog->setTextValue(QString());
  connect(dialog, &QInputDialog::textValueSelected, this,
          [this, document = document_, selection = navigator_.selection()](const QString& text) {
            if (document != document_) return;
            notes_.marks.push_back(MarkOfSelection(*document_, selection, text));
            mark_ = static_cast<int>(notes_.marks.size()) - 1;
            SaveNotes();
            Say("Marked; B lists the marks");
          });
  dialog->open();
  for (QWidget* part : dialog->findChildren<QWidget*>()) {
    if (part->accessibleName().isEmpty()) part->setAccessibleName("Note");
  }
}

void MainWindow::GoToMark(int mark) {
  if (document_ == nullptr || mark < 0 || mark >= static_cast<int>(notes_.marks.size())) return;
  mark_ = mark;
  const Mark& entry = notes_.marks[static_cast<size_t>(mark)];
  navigator_.Select(SelectionOfMark(*document_, entry));
  if (auto* view = qobject_cast<View*>(tabs_->currentWidget())) view->CentreOnSelection();
  Say(QString("Mark %1 of %2: %3").arg(mark + 1).arg(notes_.marks.size()).arg(entry.text));
}

void MainWindow::Export() {
  View* view = CurrentView();
  if (view == nullptr) return;
  const QStringList formats = ExportFormats(view);
  auto* dialog = new QFileDialog(this, QString("Export %1").arg(view->accessibleName()));
  dialog->setObjectName("export-dialog");
  dialog->setAccessibleName(dialog->windowTitle());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  QStringList filters;
  for (const QString& format : formats) filters << QString("%1 (*.%2)").arg(format.toUpper(), format);
  dialog->setNameFilters(filters);
  dialog->setDefaultSuffix(formats.value(0));
  connect(dialog, &QFileDialog::filterSelected, dialog, [dialog, filters, formats](const QString& filter) {
    dialog->setDefaultSuffix(formats.value(filters.indexOf(filter)));
  });
  dialog->selectFile(
      QString("%1-%2.%3")
          .arg(document_->title(), view->accessibleName().toLower().replace(' ', '-'), formats.value(0)));
  connect(dialog, &QFileDialog::fileSelected, this, [this, view](const QString& path) {
    const absl::Status status = ExportView(view, path, view->size().expandedTo({800, 500}) * 2);
    if (status.ok()) return Say(QString("Wrote %1").arg(path));
    strip_->ShowError(QString::fromStdString(std::string(status.message())));
  });
  dialog->open();
}

void MainWindow::OpenPalette() {
  std::vector<PaletteItem> items;
  for (QAction* action : actions_->all()) {
    if (!action->isEnabled() || !action->isVisible() || action->text() == "-" || action == actions_->Get(Id::kPalette))
      continue;
    items.push_back({action->text().remove('&').remove(".."), action->shortcut().toString(QKeySequence::NativeText),
                     [action] { action->trigger(); }, action->objectName() + ' ' + action->statusTip()});
  }
  auto* palette = new Palette("Find a command", std::move(items), this);
  palette->setAttribute(Qt::WA_DeleteOnClose);
  palette->open();
}

void MainWindow::OpenFind() {
  std::vector<PaletteItem> items;
  const auto select = [this](Selection selection) {
    return [this, selection = std::move(selection)] { navigator_.Select(selection); };
  };
  QHash<QString, std::vector<int32_t>> hosts;
  items.reserve(static_cast<size_t>(document_->rank_count() + document_->comm_count()));
  for (int row = 0; row < document_->rank_count(); ++row) {
    const QString host = document_->HostAt(row);
    items.push_back(
        {QString("rank %1").arg(document_->RankAt(row)), host, select(Selection::OfRank(document_->RankAt(row)))});
    if (!host.isEmpty()) hosts[host].push_back(document_->RankAt(row));
  }
  for (auto it = hosts.constBegin(); it != hosts.constEnd(); ++it) {
    items.push_back(
        {it.key(), QString("host of %1 ranks").arg(it.value().size()), select(Selection::Of(Ranks::Of(it.value())))});
  }
  for (int32_t comm = 0; comm < document_->comm_count(); ++comm) {
    items.push_back({document_->CommName(comm), QString("communicator of %1").arg(document_->CommEntry(comm).size),
                     select(Selection::Of({}, comm))});
  }
  auto* palette = new Palette("Find a rank, host or communicator", std::move(items), this);
  palette->setAttribute(Qt::WA_DeleteOnClose);
  palette->open();
}

void MainWindow::Help(const QString& title, const QString& html) {
  const bool same = help_ != nullptr && help_->windowTitle() == title;
  if (help_ != nullptr) help_->close();
  if (same) return;
  help_ = MakeHelpPage(title, html, this);
  help_->show();
}

void MainWindow::SetText(int percent) {
  text_percent_ = std::clamp(percent, 50, 300);
  ApplyTextPercent(text_percent_);
  // Qt gives a pane's title the application's font at the time when the pane was created, unless the pane has its own
  // font.
  QFont font;
  if (text_percent_ != 100) {
    font = QApplication::font();
    font.setPointSizeF(QFontInfo(font).pointSizeF() + 0.01);
  }
  for (QDockWidget* pane : findChildren<QDockWidget*>()) pane->setFont(font);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!LocalPaths(event->mimeData()).isEmpty()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QStringList paths = LocalPaths(event->mimeData());
  if (paths.isEmpty()) return;
  event->acceptProposedAction();
  Open(paths);
}

}  // namespace lockstep::gui
