#include "gui/app/main_window.h"

#include <QApplication>
#include <QClipboard>
#include <QDialog>
#include <QDir>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QInputDialog>
#include <QMenu>
#include <QMimeData>
#include <QSignalSpy>
#include <QTextBrowser>

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/lsi/writer.h"
#include "analyzer/viewdata/facts.h"
#include "gui/app/app_test_window.h"
#include "gui/app/commands/palette.h"
#include "gui/app/export/export.h"
#include "gui/app/panes/marks_pane.h"
#include "gui/testing/samples.h"
#include "gui/view/matrix/view.h"

namespace lockstep::gui {
namespace {

using Id = ActionId;

void WalkMenu(const QMenu* menu, std::vector<QAction*>* out) {
  for (QAction* action : menu->actions()) {
    if (action->isSeparator()) continue;
    if (action->menu() != nullptr) {
      WalkMenu(action->menu(), out);
    } else {
      out->push_back(action);
    }
  }
}

TEST_F(WindowTest, EveryActionHasItsOwnTextTooltipAndKeys) {
  const auto window = MakeWindow();
  std::vector<QAction*> actions;
  for (const QAction* top : window->menuBar()->actions()) {
    ASSERT_NE(top->menu(), nullptr);
    WalkMenu(top->menu(), &actions);
  }
  EXPECT_GT(actions.size(), 60u);
  std::map<QString, QString> keys;
  for (const QAction* action : actions) {
    EXPECT_FALSE(action->text().isEmpty()) << action->objectName().toStdString();
    EXPECT_FALSE(action->toolTip().isEmpty()) << action->text().toStdString();
    EXPECT_FALSE(action->statusTip().isEmpty()) << action->text().toStdString();
    EXPECT_FALSE(action->shortcuts().isEmpty()) << action->text().toStdString();
    for (const QKeySequence& key : action->shortcuts()) {
      const QString text = key.toString(QKeySequence::PortableText);
      EXPECT_FALSE(text.isEmpty()) << action->text().toStdString();
      EXPECT_TRUE(keys.emplace(text, action->text()).second)
          << text.toStdString() << ": " << action->text().toStdString() << " and " << keys[text].toStdString();
    }
  }
  for (const QAction* action : window->actions()->all()) {
    EXPECT_NE(std::find(actions.begin(), actions.end(), action), actions.end()) << action->text().toStdString();
  }
  EXPECT_EQ(window->actions()->Get(Id::kGroupHost)->shortcut().count(), 2);
}

TEST_F(WindowTest, EveryWidgetHasAnAccessibleName) {
  const auto window = MakeOpen();
  for (const QWidget* widget : window->findChildren<QWidget*>()) {
    const QString type = widget->metaObject()->className();
    // Skips internal parts of Qt widgets, which assistive tools ignore.
    if (type.startsWith("QDockWidget") || type == "QMainWindowLayout" || widget->objectName().startsWith("qt_") ||
        type.endsWith("Private") || type == "QSizeGrip" || type == "QRubberBand" || type == "QToolBarExtension" ||
        type == "QToolBarSeparator" || type == "QTableCornerButton" || type == "QComboBoxPrivateContainer" ||
        type == "QComboBoxPrivateScroller" || type == "QFocusFrame" || type == "QLineEditIconButton" ||
        type == "QScrollBar" || type == "QSplitterHandle" || type == "QStackedWidget") {
      continue;
    }
    if (type == "QToolButton" && widget->parentWidget() != nullptr && widget->parentWidget()->inherits("QTabBar"))
      continue;
    EXPECT_FALSE(widget->accessibleName().isEmpty())
        << type.toStdString() << " " << widget->objectName().toStdString() << " in "
        << (widget->parentWidget() != nullptr ? widget->parentWidget()->accessibleName().toStdString() : "");
  }
}

TEST_F(WindowTest, TheKeyForTheNextAnomalySelectsTheCulprit) {
  const auto window = MakeOpen();
  EXPECT_TRUE(window->navigator()->selection().empty());
  Key(window.get(), "]");
  EXPECT_EQ(window->navigator()->selection(), document_->AnomalyAt(0));
  EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(5, 5));
  EXPECT_EQ(window->anomaly(), 0);
  for (int i = 1; i < document_->anomaly_count() + 3; ++i) Key(window.get(), "]");
  EXPECT_EQ(window->anomaly(), document_->anomaly_count() - 1);
  for (int i = 0; i < document_->anomaly_count() + 3; ++i) Key(window.get(), "[");
  EXPECT_EQ(window->anomaly(), 0);
  EXPECT_TRUE(DescribeJson(*document_, window->navigator()->selection()).contains("\"ranks\":[5]"));
}

TEST_F(WindowTest, StepsThroughRecordsAndBack) {
  const auto window = MakeOpen();
  Key(window.get(), "]");
  Key(window.get(), ".");
  const Selection first = window->navigator()->selection();
  EXPECT_EQ(first.record_rank, 5);
  ASSERT_GE(first.record, 1);
  Key(window.get(), ",");
  EXPECT_EQ(window->navigator()->selection().record, first.record - 1);
  Key(window.get(), ".");
  EXPECT_EQ(window->navigator()->selection(), first);
  EXPECT_TRUE(window->actions()->Get(Id::kBack)->isEnabled());
  Key(window.get(), "Alt+Left");
  EXPECT_EQ(window->navigator()->selection().record, first.record - 1);
  Key(window.get(), "Alt+Right");
  EXPECT_EQ(window->navigator()->selection(), first);
  for (int i = 0; i < 2000; ++i) window->actions()->Get(Id::kNextRecord)->trigger();
  EXPECT_EQ(window->navigator()->selection().record, document_->OpCount(document_->RowOf(5)) - 1);
}

TEST_F(WindowTest, SearchesAndFiltersWhileTheUserTypes) {
  const auto window = MakeOpen();
  Key(window.get(), "/");
  ASSERT_TRUE(window->search()->field()->hasFocus());
  QTest::keyClicks(window->search()->field(), "rank:2-4");
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->search()->count_text(), "3 ranks");
  QTest::keyClick(window->search()->field(), Qt::Key_Return);
  EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(2, 2));
  QTest::keyClick(window->search()->field(), Qt::Key_Return);
  EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(3, 3));
  QTest::keyClick(window->search()->field(), Qt::Key_Return, Qt::ShiftModifier);
  QTest::keyClick(window->search()->field(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(4, 4));
  QTest::keyClick(window->search()->field(), Qt::Key_Return, Qt::ControlModifier);
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->navigator()->place().filters, QStringList("rank:2-4"));
  EXPECT_EQ(window->navigator()->place().filtered, Ranks::Between(2, 4));
  // The search field accepts letters that are shortcuts of the window.
  QTest::keyClicks(window->search()->field(), "wasd]?");
  EXPECT_EQ(window->search()->field()->text(), "wasd]?");
  EXPECT_EQ(window->anomaly(), -1);
  Key(window.get(), "Esc");
  EXPECT_TRUE(window->search()->field()->text().isEmpty());
  Key(window.get(), "Esc");
  EXPECT_TRUE(window->navigator()->selection().empty());
  Key(window.get(), "Esc");
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_TRUE(window->navigator()->place().filters.isEmpty());
  // An invalid query is reported, and Enter searches at once.
  window->search()->Search("state:sleepy");
  window->search()->Step(1);
  EXPECT_EQ(window->search()->count_text(), "?");
  window->search()->Search("op:allreduce rank:3");
  window->search()->Step(1);
  EXPECT_TRUE(Until([&] { return window->navigator()->selection().record >= 0; }));
  EXPECT_EQ(window->navigator()->selection().record_rank, 3);
}

TEST_F(WindowTest, FiltersPinsAndMembersOfTheSelection) {
  const auto window = MakeOpen();
  Key(window.get(), "]");
  Key(window.get(), "P");
  EXPECT_EQ(window->navigator()->place().pinned, Ranks::Between(5, 5));
  Key(window.get(), "X");
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->navigator()->place().filters, QStringList("-rank:5"));
  EXPECT_EQ(window->navigator()->place().filtered, Ranks({0, 1, 2, 3, 4, 6, 7}));
  Key(window.get(), "Shift+X");
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_TRUE(window->navigator()->place().filters.isEmpty());
  Key(window.get(), "K");
  EXPECT_GT(window->navigator()->selection().ranks.size(), 1);
  Key(window.get(), "Shift+P");
  EXPECT_TRUE(window->navigator()->place().pinned.empty());
  Key(window.get(), "C");
  EXPECT_EQ(window->navigator()->place().matrix_mode, MatrixMode::kCommunicator);
  EXPECT_EQ(window->navigator()->place().matrix_comm, window->navigator()->selection().comm);
  Key(window.get(), "J");
  EXPECT_EQ(window->navigator()->place().matrix_mode, MatrixMode::kJob);
  Key(window.get(), "Ctrl+G,H");
  EXPECT_EQ(window->navigator()->place().grouping, RowGrouping::kHost);
}

TEST_F(WindowTest, TabsAndPanesByKeys) {
  const auto window = MakeOpen();
  for (int i = 0; i < 6; ++i) {
    Key(window.get(), QString("Ctrl+%1").arg(i + 1));
    EXPECT_EQ(window->tabs()->currentIndex(), i);
    EXPECT_TRUE(window->actions()->Get(static_cast<Id>(static_cast<int>(Id::kTabAnswer) + i))->isChecked());
  }
  window->dock("Marks")->hide();
  Key(window.get(), "B");
  EXPECT_TRUE(window->dock("Marks")->isVisible());
  Key(window.get(), "Ctrl+Shift+L");
  EXPECT_EQ(window->tabs()->currentIndex(), 0);
}

TEST_F(WindowTest, ASmallWindowOpensWithoutPanesAndNoneExceedsTheScreen) {
  WindowOptions options;
  options.settings = folder_.filePath("viewer.ini");
  MainWindow by_screen(options);
  const QSize room = by_screen.screen()->availableSize();
  EXPECT_LE(by_screen.width(), room.width());
  EXPECT_LE(by_screen.height(), room.height());
  for (const QSize size : {QSize(1280, 800), QSize(1920, 1080)}) {
    options.size = size;
    MainWindow window(options);
    window.show();
    EXPECT_EQ(window.size(), size);
    for (const char* pane : {"Tree", "Legend", "Details", "Communicators"})
      EXPECT_EQ(window.dock(pane)->isHidden(), size.width() < 1600) << pane;
    Key(&window, "Alt+3");
    EXPECT_TRUE(window.dock("Details")->isVisible());
  }
}

// Sends and receives are numbered by pair of ranks, so a communicator's matrix has no column for them.
TEST_F(WindowTest, AFindingAboutSendsIsShownAmongTheCallsOfTheRanks) {
  const auto window = MakeWindow();
  document_ = testing::HungPipeline();
  ASSERT_NE(document_, nullptr);
  ASSERT_EQ(document_->verdict().findings(0).operation(), "Send");
  window->ShowDocument(document_);
  ASSERT_TRUE(Until([&] { return window->Idle(); }));
  const auto* matrix = dynamic_cast<MatrixView*>(window->view("Matrix"));
  ASSERT_NE(matrix, nullptr);
  for (const MatrixMode before : {MatrixMode::kJob, MatrixMode::kCommunicator}) {
    Place place = window->navigator()->place();
    place.matrix_mode = before;
    place.matrix_comm = 0;
    window->navigator()->Go(place);
    window->SelectAnomaly(0);
    ASSERT_TRUE(Until([&] { return window->Idle(); }));
    EXPECT_EQ(window->navigator()->place().matrix_mode, MatrixMode::kJob);
    ASSERT_NE(matrix->data(), nullptr);
    EXPECT_GT(matrix->data()->cells->columns, 0);
    EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(21, 21));
    const QString details = window->view("Details")->CopyText();
    EXPECT_TRUE(details.contains("rank 21")) << details.toStdString();
    EXPECT_FALSE(details.contains("Members at #")) << details.toStdString();
  }
}

TEST_F(WindowTest, OpensOnTheAnswer) {
  const auto window = MakeWindow();
  window->tabs()->setCurrentIndex(3);
  const auto healthy = Document::FromBundle(lockstep::testing::Job(2, 2, 2, 6).Run());
  ASSERT_TRUE(healthy.ok());
  window->ShowDocument(*healthy);
  ASSERT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->tabs()->currentWidget(), window->view("Answer")) << "also if no rank is named";
  window->ShowDocument(testing::Hang());
  ASSERT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->tabs()->currentWidget(), window->view("Answer"));
  EXPECT_TRUE(window->view("Answer")->isAncestorOf(window->focusWidget()));
  Key(window.get(), "J");
  EXPECT_EQ(window->tabs()->currentWidget(), window->view("Matrix"));
  EXPECT_EQ(window->navigator()->place().matrix_mode, MatrixMode::kJob);
  Key(window.get(), "V");
  EXPECT_EQ(window->tabs()->currentWidget(), window->view("Answer"));

  WindowOptions options;
  options.settings = Session::kNothing;
  options.tab = 2;
  MainWindow asked(options);
  asked.show();
  asked.ShowDocument(testing::Hang());
  ASSERT_TRUE(Until([&] { return asked.Idle(); }));
  EXPECT_EQ(asked.tabs()->currentIndex(), 2) << "a tab that the user chose must stay";
}

// A partial document has no verdict. The answer appears with the verdict, unless the user has chosen another tab.
TEST_F(WindowTest, TheAnswerComesWithTheVerdictOfAGrowingIncident) {
  const Bundle bundle = testing::HangBundle();
  const ViewFacts whole = BuildViewFacts(bundle);
  ViewFacts part;
  *part.mutable_ranks() = whole.ranks();
  for (RankFacts& rank : *part.mutable_ranks()) rank.set_wait_class(-1);
  for (const bool elsewhere : {false, true}) {
    const auto open = [&](const ViewFacts& facts) {
      const std::string path = folder_.filePath("growing.lsi").toStdString();
      EXPECT_TRUE(WriteIndex(bundle, 1, path, facts.SerializeAsString()).ok());
      auto document = Document::Open(path, {"incident"});
      EXPECT_TRUE(document.ok()) << document.status();
      return document.ok() ? *document : nullptr;
    };
    const DocumentPtr first = open(part), second = open(whole);
    ASSERT_TRUE(first != nullptr && second != nullptr);
    const auto window = MakeWindow();
    Q_EMIT window->loader()->Partial(first);
    ASSERT_TRUE(Until([&] { return window->Idle(); }));
    EXPECT_EQ(window->tabs()->currentWidget(), window->view("Matrix"));
    if (elsewhere) Key(window.get(), "Ctrl+4");
    Q_EMIT window->loader()->Partial(second);
    ASSERT_TRUE(Until([&] { return window->Idle(); }));
    EXPECT_EQ(window->tabs()->currentWidget(), window->view(elsewhere ? "Timeline" : "Answer"));
  }
}

TEST_F(WindowTest, TheAnswerFollowsTheAnomalies) {
  const auto window = MakeOpen();
  const int count = document_->verdict().findings_size();
  for (int i = 0; i < document_->anomaly_count(); ++i) {
    Key(window.get(), "]");
    EXPECT_EQ(window->navigator()->place().finding, std::min(i, count - 1));
  }
  window->navigator()->Reset();
  EXPECT_EQ(window->navigator()->place().finding, 0);
}

TEST_F(WindowTest, ThePaletteFindsAndRuns) {
  const auto window = MakeOpen();
  Key(window.get(), "Ctrl+Shift+P");
  auto* palette = window->findChild<Palette*>();
  ASSERT_NE(palette, nullptr);
  // Finds an action by its description if no name matches. A search without a match is reported.
  QTest::keyClicks(palette->field(), "desktop's colors, light");
  ASSERT_EQ(palette->list()->count(), 1);
  EXPECT_EQ(palette->list()->item(0)->text(), "Light or dark");
  palette->field()->setText("zzzz");
  ASSERT_EQ(palette->list()->count(), 1);
  EXPECT_EQ(palette->list()->item(0)->text(), "Nothing matches these letters");
  QTest::keyClick(palette->field(), Qt::Key_Return);
  ASSERT_TRUE(palette->isVisible());
  palette->field()->clear();
  QTest::keyClicks(palette->field(), "nextano");
  ASSERT_GT(palette->list()->count(), 0);
  EXPECT_EQ(palette->list()->item(0)->text(), "Next anomaly");
  QTest::keyClick(palette->field(), Qt::Key_Return);
  EXPECT_EQ(window->anomaly(), 0);
  EXPECT_TRUE(Until([&] { return window->findChild<Palette*>() == nullptr; }));
  Key(window.get(), "Ctrl+P");
  palette = window->findChild<Palette*>();
  ASSERT_NE(palette, nullptr);
  QTest::keyClicks(palette->field(), "rank 3");
  QTest::keyClick(palette->field(), Qt::Key_Return);
  EXPECT_EQ(window->navigator()->selection().ranks, Ranks::Between(3, 3));
}

TEST_F(WindowTest, HelpListsEveryKey) {
  const auto window = MakeOpen();
  Key(window.get(), "?");
  auto* page = window->findChild<QDialog*>("help-page");
  ASSERT_NE(page, nullptr);
  const QString text = page->findChild<QTextBrowser*>()->toPlainText();
  for (const QAction* action : window->actions()->all()) {
    if (action->objectName().startsWith("recent-")) continue;
    EXPECT_TRUE(text.contains(action->shortcut().toString(QKeySequence::NativeText))) << action->text().toStdString();
    EXPECT_TRUE(text.contains(action->statusTip())) << action->text().toStdString();
  }
}

TEST_F(WindowTest, CopiesForATicket) {
  const auto window = MakeOpen();
  Key(window.get(), "]");
  Key(window.get(), "Ctrl+Shift+C");
  const QString text = QApplication::clipboard()->text();
  EXPECT_TRUE(text.startsWith(QString::fromStdString(document_->facts().report_text())));
  EXPECT_TRUE(text.contains("Selected: rank 5")) << text.toStdString();
  EXPECT_TRUE(text.contains("Files: "));
  QApplication::clipboard()->clear();
  Key(window.get(), "Ctrl+C");
  EXPECT_FALSE(QApplication::clipboard()->text().isEmpty());
}

// Marks the selection as a user does.
void MarkSelection(MainWindow* window) {
  window->actions()->Get(Id::kMark)->trigger();
  auto* dialog = window->findChild<QInputDialog*>("mark-dialog");
  ASSERT_NE(dialog, nullptr);
  dialog->setTextValue("look here");
  dialog->accept();
  QCoreApplication::processEvents();
}

TEST_F(WindowTest, MarksAreStoredBesideTheIncident) {
  const auto window = MakeOpen();
  Key(window.get(), "]");
  MarkSelection(window.get());
  ASSERT_EQ(window->notes().marks.size(), 1u);
  auto notes = ReadNotes(NotesPath(document_->paths()));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_EQ(*notes, window->notes());
  window->navigator()->Select({});
  Key(window.get(), "N");
  EXPECT_EQ(window->navigator()->selection(), document_->AnomalyAt(0));
  Key(window.get(), "B");
  EXPECT_EQ(window->marks()->table()->rowCount(), 1);
  QTest::keyClick(window->marks()->table(), Qt::Key_Delete);
  EXPECT_TRUE(window->notes().marks.empty());
  EXPECT_TRUE(ReadNotes(NotesPath(document_->paths()))->marks.empty());
}

// Marks that cannot be written stay while the window exists, even if the incident is read again. They never apply to
// another incident, even if it is one file of the first.
TEST_F(WindowTest, MarksThatCannotBeWrittenOutliveAReload) {
  const QString incident = folder_.filePath("incident");
  QDir(folder_.path()).mkdir("incident");
  QDir(folder_.path()).mkdir("incident.notes.json");
  const Bundle bundle = testing::HangBundle();
  ASSERT_TRUE(WriteLsd(bundle, {0, 1, 2, 3, 4, 5, 6, 7}, DumpHeader(), (incident + "/all.lsd").toStdString()).ok());
  const auto window = MakeWindow();
  window->Open({incident});
  ASSERT_TRUE(Until([&] { return !window->loading() && window->Idle(); }));
  Key(window.get(), "]");
  MarkSelection(window.get());
  EXPECT_TRUE(window->strip()->error()) << window->strip()->text().toStdString();
  ASSERT_EQ(window->notes().marks.size(), 1u);
  Key(window.get(), "Ctrl+R");
  ASSERT_TRUE(Until([&] { return !window->loading() && window->Idle(); }));
  EXPECT_EQ(window->notes().marks.size(), 1u);
  EXPECT_EQ(window->marks()->table()->rowCount(), 1);
  const DocumentPtr other = testing::Hang();
  Q_EMIT window->loader()->Partial(other);
  EXPECT_EQ(window->document(), other);
  EXPECT_TRUE(window->notes().marks.empty());
}

TEST_F(WindowTest, TheOpenIncidentStaysAfterACancelledLoad) {
  const auto window = MakeOpen();
  window->SelectAnomaly(0);
  const Selection selected = window->navigator()->selection();
  const Bundle bundle = testing::HangBundle(2, 2, 2, 40);
  QDir(folder_.path()).mkdir("incident");
  const QString incident = folder_.filePath("incident");
  for (size_t rank = 0; rank < 8; ++rank) {
    ASSERT_TRUE(
        WriteLsd(bundle, {rank}, DumpHeader(), QString("%1/h%2.lsd").arg(incident).arg(rank).toStdString()).ok());
  }
  bool ended = false, opened = false;
  QObject::connect(window.get(), &MainWindow::LoadEnded, [&](bool whole) { ended = true, opened = whole; });
  QElapsedTimer timer;
  timer.start();
  {
    const auto other = MakeWindow();
    other->Open({incident});
    ASSERT_TRUE(Until([&] { return !other->loading(); }));
  }
  const qint64 usual = std::max<qint64>(timer.elapsed(), 10);
  int cancelled = 0;
  for (const int percent : {0, 10, 50, 90}) {
    // Tries again if the load ended before it could be canceled.
    for (int tries = 0; tries < 5; ++tries) {
      QFile::remove(incident + "/index.lsi");
      ended = false;
      timer.restart();
      window->Open({incident});
      EXPECT_TRUE(window->loading());
      Until([&] { return ended || timer.elapsed() * 100 >= usual * percent; });
      if (ended) {
        window->ShowDocument(document_);
        ASSERT_TRUE(Until([&] { return window->Idle(); }));
        window->navigator()->Select(selected);
        continue;
      }
      window->actions()->Get(Id::kCancelLoading)->trigger();
      EXPECT_TRUE(ended && !opened && !window->loading()) << percent;
      ASSERT_TRUE(Until([&] { return window->Idle(); }));
      EXPECT_EQ(window->document(), document_) << percent;
      EXPECT_EQ(window->navigator()->selection(), selected) << percent;
      EXPECT_FALSE(window->windowTitle().contains("loading"));
      ++cancelled;
      break;
    }
  }
  EXPECT_GE(cancelled, 1) << "no attempt cancelled the load in time";
  window->Open({incident});
  ASSERT_TRUE(Until([&] { return !window->loading() && window->Idle(); }));
  EXPECT_NE(window->document(), document_);
}

TEST_F(WindowTest, AnUnreadableDroppedFileIsReported) {
  const auto window = MakeOpen();
  const QString path = folder_.filePath("notes.txt");
  std::ofstream(path.toStdString()) << "not a dump\n";
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(path)});
  QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window.get(), &enter);
  EXPECT_TRUE(enter.isAccepted());
  QSignalSpy ended(window.get(), &MainWindow::LoadEnded);
  QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window.get(), &drop);
  EXPECT_TRUE(window->loading());
  ASSERT_TRUE(Until([&] { return !ended.isEmpty(); }));
  EXPECT_FALSE(ended.first().first().toBool());
  EXPECT_TRUE(window->strip()->error());
  EXPECT_TRUE(window->strip()->isVisible());
  EXPECT_EQ(window->document(), document_);
  EXPECT_TRUE(window->session()->Recent().isEmpty());
  QMimeData words;
  words.setText("rank 5");
  QDragEnterEvent other(QPoint(10, 10), Qt::CopyAction, &words, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(window.get(), &other);
  EXPECT_FALSE(other.isAccepted());
}

TEST_F(WindowTest, AnIndexThatIsCutWhileItIsOpenIsReported) {
  const std::string index = folder_.filePath("cut.lsi").toStdString();
  lockstep::testing::Job job(2, 2, 2, 6);
  const Bundle bundle = job.Run();
  ASSERT_TRUE(WriteIndex(bundle, 1, index, BuildViewFacts(bundle, Analyze(bundle)).SerializeAsString()).ok());
  WindowOptions options;
  options.settings = folder_.filePath("viewer.ini");
  options.look_every_ms = 10;
  MainWindow window(options);
  window.show();
  window.Open({QString::fromStdString(index)});
  ASSERT_TRUE(Until([&] { return window.document() != nullptr && window.Idle(); }));
  QTest::qWait(50);
  EXPECT_FALSE(window.strip()->error());
  std::filesystem::resize_file(index, 0);
  ASSERT_TRUE(Until([&] { return window.strip()->error(); }));
  EXPECT_TRUE(window.strip()->text().contains("changed or was truncated while it was open"))
      << window.strip()->text().toStdString();
  for (int tab = 0; tab < window.tabs()->count(); ++tab) {
    window.tabs()->setCurrentIndex(tab);
    window.repaint();
    EXPECT_TRUE(Until([&] { return window.Idle(); }));
  }
}

TEST_F(WindowTest, TheSessionComesBack) {
  const QStringList paths = [&] {
    const auto window = MakeOpen();
    QStringList out;
    for (const std::string& path : document_->paths()) out << QString::fromStdString(path);
    window->session()->AddRecent(out);
    window->resize(1000, 700);
    window->tabs()->setCurrentIndex(2);
    window->dock("Details")->hide();
    window->actions()->Get(Id::kFontBigger)->trigger();
    window->search()->SetFilters({"rank:2-4"});
    EXPECT_TRUE(Until([&] { return window->Idle(); }));
    Place place = window->navigator()->place();
    place.grouping = RowGrouping::kState;
    window->navigator()->Go(place);
    window->close();
    return out;
  }();
  const auto window = MakeWindow();
  EXPECT_EQ(window->size(), QSize(1000, 700));
  EXPECT_EQ(window->tabs()->currentIndex(), 2);
  EXPECT_NEAR(QFontInfo(window->dock("Legend")->font()).pointSizeF(), QFontInfo(QApplication::font()).pointSizeF(), 0.1)
      << "pane titles must grow with the text";
  EXPECT_NE(window->dock("Legend")->font(), QApplication::font("QDockWidget"));
  EXPECT_TRUE(window->dock("Details")->isHidden());
  EXPECT_EQ(window->session()->Recent(), QList<QStringList>{paths});
  window->ShowDocument(document_);
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->navigator()->place().grouping, RowGrouping::kState);
  EXPECT_EQ(window->navigator()->place().filters, QStringList("rank:2-4"));
  EXPECT_EQ(window->navigator()->place().filtered, Ranks::Between(2, 4));
  Key(window.get(), "Ctrl+Shift+L");
  EXPECT_FALSE(window->dock("Details")->isHidden());
  EXPECT_EQ(window->tabs()->currentIndex(), 0);
}

TEST_F(WindowTest, TheSessionComesBackAfterAKill) {
  WindowOptions options;
  options.settings = folder_.filePath("viewer.ini");
  options.keep_every_ms = 10;
  MainWindow window(options);
  window.show();
  document_ = testing::Hang();
  window.ShowDocument(document_);
  ASSERT_TRUE(Until([&] { return window.Idle(); }));
  QStringList paths;
  for (const std::string& path : document_->paths()) paths << QString::fromStdString(path);
  window.session()->AddRecent(paths);
  window.tabs()->setCurrentIndex(2);
  Place place = window.navigator()->place();
  place.grouping = RowGrouping::kState;
  window.navigator()->Go(place);
  EXPECT_TRUE(Until([&] {
    const Session other(options.settings);
    return other.Number("tab", 0) == 2 && other.PlaceOf(paths).place.grouping == RowGrouping::kState;
  }));
}

TEST_F(WindowTest, AHostileSessionFileIsIgnored) {
  std::ofstream(folder_.filePath("viewer.ini").toStdString())
      << "[v1]\ngeometry=@ByteArray(\\x1\\x2)\npanes=@Invalid()\ntab=99\ntext=abc\nrecent=7, "
         "@Variant(\\0)\nappearance=pink\n";
  const auto window = MakeWindow();
  EXPECT_EQ(window->tabs()->currentIndex(), 0);
  window->ShowDocument(testing::Hang());
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
}

TEST_F(WindowTest, EveryActionWorksWithAndWithoutAnIncident) {
  for (const bool open : {false, true}) {
    const auto window = open ? MakeOpen() : MakeWindow();
    for (const ActionSpec& spec : ActionSpecs()) {
      if (spec.id == Id::kQuit || spec.id == Id::kFullScreen) continue;
      window->actions()->Get(spec.id)->trigger();
      QCoreApplication::processEvents();
      for (QDialog* dialog : window->findChildren<QDialog*>()) dialog->reject();
      if (QWidget* popup = QApplication::activePopupWidget()) popup->close();
      if (spec.id == Id::kClose && open) window->ShowDocument(document_);
    }
    EXPECT_TRUE(Until([&] { return window->Idle() || window->document() == nullptr; }));
    EXPECT_TRUE(document_ == nullptr || !QFile::exists(QString::fromStdString(NotesPath(document_->paths()))));
    window->actions()->Get(Id::kFontNormal)->trigger();
    while (window->session()->Text("appearance") != "desktop") window->actions()->Get(Id::kTheme)->trigger();
  }
}

TEST_F(WindowTest, ViewsGetTheDocumentInOrderAndReleaseIt) {
  const auto window = MakeOpen();
  EXPECT_EQ(window->document(), document_);
  window->actions()->Get(Id::kClose)->trigger();
  EXPECT_EQ(window->document(), nullptr);
  EXPECT_FALSE(window->actions()->Get(Id::kNextAnomaly)->isEnabled());
  // A second document arrives while the views are still receiving the first.
  const DocumentPtr first = testing::Hang(2, 2, 4), second = testing::Hang(2, 2, 2);
  window->ShowDocument(first);
  window->ShowDocument(second);
  EXPECT_TRUE(Until([&] { return window->Idle(); }));
  EXPECT_EQ(window->document(), second);
  Key(window.get(), "]");
  EXPECT_FALSE(window->navigator()->selection().empty());
}

TEST_F(WindowTest, WritesPicturesAndTables) {
  const auto window = MakeOpen();
  for (View* view : window->views()) {
    for (const QString& format : ExportFormats(view)) {
      const QString path = folder_.filePath("out." + format);
      const absl::Status status = ExportView(view, path, QSize(400, 300));
      ASSERT_TRUE(status.ok()) << view->accessibleName().toStdString() << status;
      QFile file(path);
      ASSERT_TRUE(file.open(QIODevice::ReadOnly));
      const QByteArray bytes = file.readAll();
      EXPECT_TRUE(format != "png" || bytes.startsWith("\x89PNG"));
      EXPECT_TRUE(format != "svg" || (bytes.contains("<svg") && bytes.contains("</svg>")));
      EXPECT_TRUE(format != "csv" || QString::fromUtf8(bytes) == view->Csv());
    }
  }
  for (const char* name : {"Answer", "Matrix", "Wait-for graph"})
    EXPECT_TRUE(ExportFormats(window->view(name)).contains("csv")) << name;
  View* matrix = window->view("Matrix");
  // A partial write leaves no partial file, and keeps the earlier file.
  {
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{1000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    for (const char* format : {"png", "svg", "csv"}) {
      const QString path = folder_.filePath(QString("part.") + format);
      std::ofstream(path.toStdString()) << "before";
      setrlimit(RLIMIT_FSIZE, &small);
      const absl::Status status = ExportView(matrix, path, QSize(400, 300));
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << format;
      EXPECT_EQ(QFileInfo(path).size(), 6) << format;
    }
  }
  EXPECT_EQ(ExportView(matrix, folder_.filePath("x.bmp"), QSize(10, 10)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExportView(matrix, folder_.filePath("absent/x.png"), QSize(10, 10)).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace lockstep::gui
