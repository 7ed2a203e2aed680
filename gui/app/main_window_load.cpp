// Opening: handles the loader's signals, gives each view the document in turn, and restores the user's position.
#include <QApplication>
#include <QDir>
#include <QEvent>
#include <QFileInfo>
#include <QLocale>
#include <QMenu>
#include <QTimer>

#include <algorithm>
#include <utility>

#include "gui/app/main_window.h"
#include "gui/app/panes/marks_pane.h"
#include "gui/app/panes/start_page.h"
#include "gui/app/session/place_mapping.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

QString Big(uint64_t value) {
  if (value < 1'000'000) return Count(static_cast<int64_t>(value));
  return QString("%1 M").arg(static_cast<double>(value) / 1e6, 0, 'f', 1);
}

// Names the unnamed parts of widgets for screen readers, based on the name of the enclosing widget.
void NameParts(QWidget* window) {
  for (QWidget* part : window->findChildren<QWidget*>()) {
    if (!part->accessibleName().isEmpty()) continue;
    QString owner;
    for (const QWidget* outer = part->parentWidget(); outer != nullptr && owner.isEmpty();
         outer = outer->parentWidget())
      owner = outer->accessibleName();
    if (part->inherits("QHeaderView")) {
      part->setAccessibleName("Columns of " + owner);
    } else if (const auto* menu = qobject_cast<QMenu*>(part)) {
      part->setAccessibleName(menu->title().isEmpty() ? "Menu of " + owner : QString(menu->title()).remove('&'));
    } else if (part->inherits("QTabBar")) {
      part->setAccessibleName("Tabs of " + owner);
    } else if (part->inherits("QAbstractItemView")) {
      part->setAccessibleName("Choices of " + owner);
    } else if (!part->isWindow()) {
      part->setAccessibleName(owner);
    }
  }
}

QStringList PathsOf(const Document& document) {
  QStringList out;
  for (const std::string& path : document.paths()) out << QString::fromStdString(path);
  return out;
}

}  // namespace

void MainWindow::JoinLoader() {
  connect(&loader_, &Loader::Progress, this, [this](const QString& phase, double fraction, qint64 done, qint64 total) {
    strip_->ShowProgress(phase, fraction, done, total);
    load_state_->setText(fraction < 0 ? QString("loading")
                                      : QString("load %1 %").arg(static_cast<int>(fraction * 100)));
  });
  connect(&loader_, &Loader::Partial, this, [this](const DocumentPtr& document) { Take(document, true); });
  connect(&loader_, &Loader::Problem, this, [this](const QString& line, int rank) { log_->AddLine(line, rank); });
  connect(&loader_, &Loader::Opened, this, [this](const DocumentPtr& document) {
    Take(document, false);
    EndLoad(true);
  });
  connect(&loader_, &Loader::Failed, this, [this](const QString& message) {
    session_.RemoveRecent(opening_);
    FillRecent();
    EndLoad(false);
    strip_->ShowError(message);
  });
  connect(&loader_, &Loader::Cancelled, this, [this] {
    if (!loading_) return;
    next_.clear();
    EndLoad(false);
    Say(document_ == nullptr ? "Loading was stopped" : "Loading was stopped; the earlier incident is shown");
  });
}

void MainWindow::Open(const QStringList& paths) {
  QStringList full;
  for (const QString& path : paths) {
    if (!path.isEmpty()) full << QDir::cleanPath(QFileInfo(path).absoluteFilePath());
  }
  full.removeDuplicates();
  if (full.isEmpty()) return;
  if (!loading_) {
    KeepPlace();
    before_ = document_;
    before_place_ = navigator_.place();
  }
  const bool was_loading = loading_;
  if (was_loading) loading_ = false;  // a load that Open cancels is not reported as stopped
  opening_ = full;
  log_->Clear();
  strip_->ShowProgress("Finding files", -1, 0, 0);
  // Filters the events of the application, because parts of views are created and destroyed meanwhile.
  if (!paint_wanted_) qApp->installEventFilter(this);
  paint_wanted_ = true;
  verdict_painted_ = picture_painted_ = false;
  loader_.Open(full);
  loading_ = true;
  load_state_->setText("loading");
  EnableActs();
  UpdateTitle();
}

void MainWindow::OpenNext(const QString& path) {
  if (loading_)
    next_ = QStringList(path);
  else
    Open({path});
}

void MainWindow::EndLoad(bool opened) {
  loading_ = false;
  strip_->Done();
  if (!opened) {
    WantNoPaint();
    if (partial_) {
      // The views show a part of the incident that failed to load. Restores the previous document.
      const Place place = before_place_;
      paths_.clear();
      ShowDocument(before_);
      wanted_ = place;
      place_wanted_ = before_ != nullptr;
    }
  } else {
    session_.AddRecent(paths_);
    FillRecent();
  }
  partial_ = false;
  before_.reset();
  load_state_->clear();
  EnableActs();
  UpdateTitle();
  Q_EMIT LoadEnded(opened);
  if (const QStringList next = std::exchange(next_, {}); !next.isEmpty() && !loading_) Open(next);
}

void MainWindow::ShowDocument(DocumentPtr document) {
  if (document == nullptr) KeepPlace();
  Take(std::move(document), false);
  load_state_->clear();
}

void MainWindow::Take(DocumentPtr document, bool partial) {
  const QStringList paths = document == nullptr ? QStringList() : loading_ ? opening_ : PathsOf(*document);
  const bool same = document != nullptr && document_ != nullptr && paths == paths_;
  const Place was = place_wanted_ ? wanted_ : navigator_.place();
  wanted_ = {};
  QStringList filters;
  if (same) {
    wanted_ = MapPlace(*document_, *document, was, true);
  } else if (document != nullptr && options_.restore) {
    const Session::Remembered remembered = session_.PlaceOf(paths);
    wanted_ = remembered.place;
    filters = wanted_.filters;
    wanted_.matrix_comm = CommByIdentity(*document, remembered.matrix_comm);
    if (wanted_.matrix_comm < 0 && wanted_.matrix_mode == MatrixMode::kCommunicator) {
      wanted_.matrix_mode = MatrixMode::kJob;
      wanted_.matrix = {};
    }
    wanted_.filters.clear();
  }
  place_wanted_ = document != nullptr && wanted_ != Place();
  if (!same) anomaly_ = mark_ = -1;
  // No view may use an old position with the new document. The first two views get the new document below; the others
  // lose theirs now.
  navigator_.Reset();
  for (size_t i = 2; i < views_.size() && document != nullptr; ++i) views_[i]->SetDocument(nullptr);
  document_ = std::move(document);
  look_.Cancel();
  index_changed_ = false;
  partial_ = partial;
  paths_ = paths;
  records_.SetDocument(document_);
  centre_->setCurrentIndex(document_ == nullptr ? 0 : 1);
  if (!same) tab_chosen_ = options_.tab >= 0;
  if (document_ != nullptr && !tab_chosen_) ShowAnswer();
  // Single letters are shortcuts, so the picture gets the focus after opening, unless the user is typing.
  if (document_ != nullptr && (focusWidget() == nullptr || search_->field()->text().isEmpty()))
    tabs_->currentWidget()->setFocus();
  search_->SetDocument(document_);
  given_ = 0;
  views_[given_++]->SetDocument(document_);
  views_[given_++]->SetDocument(document_);
  if (same && notes_unsaved_) {
    marks_->Show(document_.get(), notes_);
  } else {
    LoadNotes();  // also for a partial document: a mark made now must not go to the previous incident's notes
  }
  if (!filters.isEmpty()) search_->SetFilters(filters);
  EnableActs();
  UpdateTitle();
  UpdateStatus();
  QTimer::singleShot(0, this, [this, document = document_] {
    if (document == document_) GiveNext();
  });
}

// Gives the document to one view per turn of the event loop, so that the window stays responsive.
void MainWindow::GiveNext() {
  if (given_ < views_.size()) views_[given_++]->SetDocument(document_);
  if (given_ < views_.size()) {
    QTimer::singleShot(0, this, [this, document = document_] {
      if (document == document_) GiveNext();
    });
    return;
  }
  if (place_wanted_) {
    place_wanted_ = false;
    Place place = wanted_;
    if (place.filters.isEmpty())
      place.filters = navigator_.place().filters, place.filtered = navigator_.place().filtered;
    // A selection that the user made in the meantime is kept.
    if (!navigator_.selection().empty()) place.selection = navigator_.selection();
    navigator_.Reset(place);
  }
  NameParts(this);
  Q_EMIT DocumentShown();
}

// Shows the answer if there is a verdict, otherwise the matrix of the ranks read so far.
void MainWindow::ShowAnswer() {
  const bool was_chosen = tab_chosen_, reading = document_->verdict().verdict() == VERDICT_UNSPECIFIED;
  if (!reading || tabs_->currentIndex() == 0) tabs_->setCurrentIndex(reading ? 1 : 0);
  tab_chosen_ = was_chosen;
}

void MainWindow::KeepPlace() {
  // Does not store a position that is not restored yet.
  if (document_ == nullptr || partial_ || place_wanted_ || given_ < views_.size() || !options_.restore ||
      options_.embedded)
    return;
  session_.SetPlace(paths_, navigator_.place(), CommIdentity(*document_, navigator_.place().matrix_comm));
}

void MainWindow::UpdateTitle() {
  const QString name = document_ != nullptr ? document_->title() : QString();
  setWindowTitle(loading_ && !opening_.isEmpty()
                     ? QString("%1 (loading) - Lockstep").arg(QFileInfo(opening_.first()).fileName())
                 : name.isEmpty() ? QString("Lockstep")
                                  : QString("%1 - Lockstep").arg(name));
}

void MainWindow::UpdateStatus() {
  if (document_ == nullptr) {
    status_->clear();
    selected_->clear();
    return;
  }
  const QString read = Count(document_->rank_count()), records = Big(document_->index().operations());
  status_->setText(partial_
                       ? QString("%1 ranks so far, %2 records").arg(read, records)
                       : QString("%1 of %2 ranks read, %3 records")
                             .arg(read, Count(document_->rank_count() + document_->MissingRanks().size()), records));
}

void MainWindow::FillRecent() {
  const QList<QStringList> all = session_.Recent();
  for (int i = 0; i < static_cast<int>(recent_.size()); ++i) {
    QAction* action = recent_[static_cast<size_t>(i)];
    const bool there = i < all.size();
    action->setVisible(there);
    action->setEnabled(there);
    action->setText(there ? QString("&%1  %2").arg(i + 1).arg(PathsText(all[i]).replace('&', "&&")) : QString("-"));
    action->setToolTip(there ? all[i].mid(0, 5).join('\n') : QString("Nothing was open"));
    action->setStatusTip(action->toolTip());
  }
  actions_->Get(ActionId::kReopen)->setEnabled(!all.isEmpty());
  start_->SetRecent(all);
}

// Views draw from the mapped index file, which must not change. Checks the file on another thread, because a disk may
// not respond.
void MainWindow::LookAtIndex() {
  if (document_ == nullptr || index_changed_ || loading_ || look_.busy()) return;
  look_.Start(this, [this, document = document_](const std::atomic<bool>&) -> LatestJob::Finish {
    const absl::Status status = document->index().Unchanged();
    if (status.ok()) return nullptr;
    return [this, text = QString::fromStdString(std::string(status.message()))] {
      index_changed_ = true;
      strip_->ShowError(text + ". The pictures may be wrong: open the incident again.");
    };
  });
}

void MainWindow::LoadNotes() {
  notes_ = {};
  notes_locked_ = notes_unsaved_ = false;
  if (document_ != nullptr) {
    auto notes = ReadNotes(NotesPath(document_->paths()));
    if (notes.ok()) {
      notes_ = *std::move(notes);
    } else {
      notes_locked_ = true;
      log_->AddLine(QString::fromStdString(std::string(notes.status().message())));
    }
  }
  marks_->Show(document_.get(), notes_);
}

void MainWindow::SaveNotes() {
  marks_->Show(document_.get(), notes_);
  notes_unsaved_ = true;
  if (notes_locked_) {
    strip_->ShowError(
        "The marks are kept until this window closes: the marks file has other contents and stays unchanged (see the "
        "load log).");
    return;
  }
  const absl::Status status = WriteNotes(NotesPath(document_->paths()), notes_);
  notes_unsaved_ = !status.ok();
  if (notes_unsaved_)
    strip_->ShowError(QString("%1. The marks are kept until this window closes.")
                          .arg(QString::fromStdString(std::string(status.message()))));
}

void MainWindow::WantNoPaint() {
  paint_wanted_ = false;
  qApp->removeEventFilter(this);
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Paint && paint_wanted_ && document_ != nullptr) {
    const QWidget* widget = qobject_cast<QWidget*>(watched);
    const auto inside = [&](const QWidget* outer) { return widget == outer || outer->isAncestorOf(widget); };
    const auto* picture = static_cast<const View*>(tabs_->currentWidget());
    if (widget == nullptr) return QMainWindow::eventFilter(watched, event);
    if (inside(verdict_)) verdict_painted_ = true;
    if (inside(picture) && picture->Idle()) picture_painted_ = true;
    if (verdict_painted_ && (picture_painted_ || !picture->isVisible())) {
      WantNoPaint();
      // Emits the signal after the current paint event.
      QTimer::singleShot(0, this, &MainWindow::FirstPaint);
    }
  }
  return QMainWindow::eventFilter(watched, event);
}

}  // namespace lockstep::gui
