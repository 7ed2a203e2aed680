#include "gui/app/panes/live_pane.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>

#include "gui/app/app_test_window.h"

namespace lockstep::gui {
namespace {

// The folder contains scripts that answer like lockstep-top and lockstep-dump.
class LiveTest : public WindowTest {
 protected:
  void SetUp() override {
    Program("lockstep-top", "cat jobs; exit $(cat status)");
    Program("lockstep-dump", "echo \"$@\" > asked; cp jobs-then jobs; exit 1");
    Write("status", "0");
    QDir(folder_.path()).mkdir("incident");
    Jobs("moving", "");
  }
  void Write(const QString& name, const QByteArray& text) {
    QFile file(folder_.filePath(name));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
  }
  void Program(const QString& name, const QByteArray& text) {
    Write(name, "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n" + text + "\n");
    QFile::setPermissions(folder_.filePath(name), QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
  }
  void Jobs(const QByteArray& state, const QString& incident) {
    Write("jobs", "{\"job\":{\"job\":\"llama\",\"step\":\"0\",\"restart_count\":1},\"state\":\"" + state +
                      "\",\"ranks\":7,\"ranks_expected\":8," +
                      "\"communicators\":[{\"name\":\"dp_3\",\"doing\":\"AllReduce "
                      "#41\",\"age_ns\":\"12000000000\"}],\"last_incident\":{\"path\":\"" +
                      incident.toUtf8() + "\"}}\n");
  }
};

TEST_F(LiveTest, ShowsJobsAndAnnouncesNewIncidentsOnce) {
  LivePane live(folder_.path(), "tcp://head:9470", nullptr);
  QSignalSpy incidents(&live, &LivePane::Incident);
  ASSERT_TRUE(Until([&] { return live.table()->rowCount() == 1; }));
  EXPECT_EQ(live.table()->item(0, 0)->text(), "llama/0/1");
  EXPECT_EQ(live.table()->item(0, 1)->text(), "moving");
  EXPECT_EQ(live.table()->item(0, 2)->text(), "7 of 8");
  EXPECT_EQ(live.table()->item(0, 3)->text(), "dp_3 AllReduce #41, 12 s");
  Jobs("hung", folder_.filePath("incident"));
  live.Ask();
  ASSERT_TRUE(Until([&] { return !incidents.isEmpty(); }));
  EXPECT_EQ(incidents.first().first().toString(), folder_.filePath("incident"));
  EXPECT_EQ(live.table()->item(0, 1)->text(), "hung");
  Jobs("late", folder_.filePath("incident"));
  live.Ask();
  ASSERT_TRUE(Until([&] { return live.table()->item(0, 1)->text() == "late"; }));
  EXPECT_EQ(incidents.size(), 1);
}

TEST_F(LiveTest, TakesAnIncidentOnDemand) {
  LivePane live(folder_.path(), {}, nullptr);
  ASSERT_TRUE(Until([&] { return live.table()->rowCount() == 1; }));
  QFile::rename(folder_.filePath("jobs"), folder_.filePath("jobs-before"));
  Jobs("moving", QDir(folder_.filePath("incident")).canonicalPath());
  QFile::rename(folder_.filePath("jobs"), folder_.filePath("jobs-then"));
  QFile::rename(folder_.filePath("jobs-before"), folder_.filePath("jobs"));
  QSignalSpy incidents(&live, &LivePane::Incident);
  live.Dump();
  ASSERT_TRUE(Until([&] { return !incidents.isEmpty(); }));
  EXPECT_EQ(incidents.first().first().toString(), QDir(folder_.filePath("incident")).canonicalPath());
  QFile asked(folder_.filePath("asked"));
  ASSERT_TRUE(asked.open(QIODevice::ReadOnly));
  EXPECT_EQ(asked.readAll(), "--json llama/0/1\n");
}

// The first verdict exists before the rings of all hosts have arrived, so the viewer reads the incident again at the
// end.
TEST_F(LiveTest, AGrowingIncidentIsAnnouncedAgainWhenComplete) {
  Write("incident/manifest.json", "{}");
  Write("incident/.gathering.json", "{}");
  Jobs("hung", folder_.filePath("incident"));
  LivePane live(folder_.path(), {}, nullptr);
  QSignalSpy incidents(&live, &LivePane::Incident), gathered(&live, &LivePane::Gathered);
  ASSERT_TRUE(Until([&] { return !incidents.isEmpty(); }));
  EXPECT_TRUE(gathered.isEmpty());
  QFile::remove(folder_.filePath("incident/.gathering.json"));
  ASSERT_TRUE(Until([&] { return !gathered.isEmpty(); }));
  EXPECT_EQ(gathered.first().first().toString(), folder_.filePath("incident"));
  EXPECT_EQ(incidents.size(), 1);
}

TEST_F(LiveTest, ErrorsAreShown) {
  Program("lockstep-top", "echo 'lockstep top: no response from tcp://head:9470 in 10 s' >&2; exit 1");
  LivePane live(folder_.path(), {}, nullptr);
  EXPECT_TRUE(Until([&] { return live.state().contains("no response"); }));
  // Invalid lines are not jobs.
  Program("lockstep-top", "printf '{\\n[]\\n7\\n{\"job\":7,\"communicators\":{}}\\n\\377\\n'");
  live.Ask();
  EXPECT_TRUE(Until([&] { return live.table()->rowCount() == 1; }));
  QFile::remove(folder_.filePath("lockstep-top"));
  live.Ask();
  EXPECT_TRUE(Until([&] { return live.state().contains("could not be started"); }));
}

// A silent collector is reported before lockstep-top gives up, and the age of the old data is shown.
TEST_F(LiveTest, ASilentCollectorIsReportedAndAskedAgain) {
  Program("lockstep-top", "echo x >> questions; if [ -e silent ]; then exec sleep 60; fi; cat jobs");
  LivePane live(folder_.path(), "tcp://head:9470", nullptr);
  ASSERT_TRUE(Until([&] { return live.table()->rowCount() == 1; }));
  EXPECT_TRUE(live.again()->isHidden());
  Write("silent", "");
  live.AskAgain();
  ASSERT_TRUE(Until([&] { return live.state().contains("tcp://head:9470 has not responded for "); }))
      << live.state().toStdString();
  EXPECT_TRUE(live.state().contains("as of ")) << live.state().toStdString();
  EXPECT_FALSE(live.again()->isHidden());
  EXPECT_EQ(live.table()->rowCount(), 1);  // the last incident can still be opened
  QFile::remove(folder_.filePath("silent"));
  Write("questions", "");
  live.again()->click();
  ASSERT_TRUE(Until([&] { return live.again()->isHidden(); })) << live.state().toStdString();
  EXPECT_TRUE(live.state().contains("1 job")) << live.state().toStdString();
  EXPECT_GE(QFileInfo(folder_.filePath("questions")).size(), 2);
  // A killed program reports nothing itself.
  Program("lockstep-top", "kill -9 $$");
  live.AskAgain();
  EXPECT_TRUE(Until([&] { return live.state().contains("lockstep-top was killed"); })) << live.state().toStdString();
  EXPECT_FALSE(live.again()->isHidden());
}

}  // namespace
}  // namespace lockstep::gui
