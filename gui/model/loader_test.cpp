#include "gui/model/loader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QTimer>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyzer/formats/lsd/writer.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/testing/job.h"
#include "gui/testing/samples.h"
#include "gui/testing/until.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

namespace lockstep::gui {
namespace {

namespace fs = std::filesystem;

// What a loader reported, and how long the GUI thread was blocked.
struct Heard {
  explicit Heard(Loader* loader) {
    QObject::connect(loader, &Loader::Opened, [this](DocumentPtr d) { opened = d; });
    QObject::connect(loader, &Loader::Partial, [this](DocumentPtr d) { partial = d; });
    QObject::connect(loader, &Loader::Failed, [this](const QString& m) { failed = m; });
    QObject::connect(loader, &Loader::Cancelled, [this] { cancelled = true; });
    QObject::connect(loader, &Loader::Problem, [this](const QString& line) { problems << line; });
    QObject::connect(loader, &Loader::Progress, [this](const QString& phase, double fraction, qint64, qint64) {
      if (phases.isEmpty() || phases.back() != phase) phases << phase;
      fractions.push_back(fraction);
    });
    beat.callOnTimeout([this] { longest = std::max(longest, since.restart()); });
    since.start();
    beat.start(1);
  }
  bool ended() const { return opened != nullptr || !failed.isNull() || cancelled; }

  DocumentPtr opened, partial;
  QString failed;
  bool cancelled = false;
  QStringList problems, phases;
  std::vector<double> fractions;
  QTimer beat;
  QElapsedTimer since;
  qint64 longest = 0;
};

class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() { fs::create_directory(folder_ / "incident"); }
  ~LoaderTest() override {
    std::error_code error;
    fs::permissions(folder_ / "incident", fs::perms::owner_all, error);
  }
  QString Incident() const { return QString::fromStdString((folder_ / "incident").string()); }

  // A hang of 8 ranks, with one file per host of two ranks.
  void WriteDumps(int steps = 6) {
    const Bundle bundle = testing::HangBundle(2, 2, 2, steps);
    // The loader must read the manifest, as the command line does.
    std::ofstream(folder_ / "incident" / "manifest.json")
        << R"({"format":1,"ranks_expected":8,"known_stalled":true,"stalled_ns":600000000000})";
    for (size_t first = 0; first < 8; first += 2) {
      DumpHeader header;
      header.set_host("h" + std::to_string(first));
      ASSERT_TRUE(WriteLsd(bundle, {first, first + 1}, header,
                           (folder_ / "incident" / ("h" + std::to_string(first) + ".lsd")).string())
                      .ok());
    }
  }

  const support::TempFolder temp_;
  const fs::path folder_ = temp_.path();
  const support::EnvironmentVariable cache_{"XDG_CACHE_HOME", folder_ / "cache"};
};

TEST_F(LoaderTest, OpensAnIncidentAndFindsItsIndexTheSecondTime) {
  WriteDumps();
  {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    EXPECT_TRUE(loader.loading());
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    ASSERT_NE(heard.opened, nullptr) << heard.failed.toStdString();
    EXPECT_FALSE(loader.loading());
    EXPECT_EQ(heard.opened->rank_count(), 8);
    EXPECT_EQ(heard.opened->verdict().verdict(), VERDICT_HUNG);
    EXPECT_EQ(heard.opened->AnomalyAt(0).ranks, Ranks::Between(5, 5));
    EXPECT_TRUE(fs::exists(folder_ / "incident" / "index.lsi"));
    EXPECT_FALSE(heard.phases.isEmpty());
    printf("longest gap of the window's thread: %lld ms\n", static_cast<long long>(heard.longest));
  }
  const auto made = fs::last_write_time(folder_ / "incident" / "index.lsi");
  {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    ASSERT_NE(heard.opened, nullptr);
    EXPECT_EQ(fs::last_write_time(folder_ / "incident" / "index.lsi"), made);
  }
  // A new file makes the index outdated; a notes file does not.
  std::ofstream(folder_ / "incident" / "x.notes.json") << "{}";
  {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    EXPECT_EQ(fs::last_write_time(folder_ / "incident" / "index.lsi"), made);
  }
  fs::remove(folder_ / "incident" / "h6.lsd");
  {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    ASSERT_NE(heard.opened, nullptr);
    EXPECT_EQ(heard.opened->rank_count(), 6);
    EXPECT_EQ(heard.opened->facts().missing_size(), 1);
  }
}

TEST_F(LoaderTest, DamagedFilesAreLinesOfTheLog) {
  WriteDumps();
  std::string bytes;
  {
    std::ifstream in(folder_ / "incident" / "h2.lsd", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(folder_ / "incident" / "h2.lsd", std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  for (const bool again : {false, true}) {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    ASSERT_NE(heard.opened, nullptr) << heard.failed.toStdString();
    EXPECT_TRUE(heard.problems.join("\n").contains("h2.lsd")) << again << heard.problems.join("\n").toStdString();
  }
}

TEST_F(LoaderTest, FailuresToOpenGiveTheReason) {
  for (const QString& path : {Incident(), Incident() + "/none"}) {
    Loader loader;
    Heard heard(&loader);
    loader.Open({path});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
    EXPECT_EQ(heard.opened, nullptr);
    EXPECT_FALSE(heard.failed.isEmpty());
  }
}

TEST_F(LoaderTest, CancelsAtOnceInEveryPhase) {
  WriteDumps(40);
  QElapsedTimer whole;
  whole.start();
  {
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
  }
  const qint64 usual = std::max<qint64>(whole.elapsed(), 10);
  for (const int percent : {0, 10, 50, 90}) {
    fs::remove(folder_ / "incident" / "index.lsi");
    Loader loader;
    Heard heard(&loader);
    loader.Open({Incident()});
    QElapsedTimer timer;
    timer.start();
    testing::Until([&] { return heard.ended() || timer.elapsed() * 100 >= usual * percent; });
    if (heard.ended()) continue;  // the load ended before it could be canceled
    QElapsedTimer cancel;
    cancel.start();
    loader.Cancel();
    ASSERT_TRUE(testing::Until([&] { return heard.cancelled; }));
    printf("cancelled at %d %% within %lld ms\n", percent, static_cast<long long>(cancel.elapsed()));
    EXPECT_FALSE(loader.loading());
    // Nothing follows, and the next load is complete.
    loader.Open({Incident()});
    ASSERT_TRUE(testing::Until([&] { return heard.opened != nullptr || !heard.failed.isNull(); }));
    ASSERT_NE(heard.opened, nullptr) << heard.failed.toStdString();
    EXPECT_EQ(heard.opened->rank_count(), 8);
  }
}

TEST_F(LoaderTest, AnotherOpenReplacesTheFirst) {
  WriteDumps(20);
  Loader loader;
  Heard heard(&loader);
  loader.Open({Incident() + "/none"});
  loader.Open({Incident()});
  ASSERT_TRUE(testing::Until([&] { return heard.ended(); }));
  EXPECT_TRUE(heard.failed.isNull()) << heard.failed.toStdString();
  ASSERT_NE(heard.opened, nullptr);
}

// If the paths are several files, or the index cannot be written next to them, it goes to the private cache or, if that
// fails, to a temporary file.
TEST_F(LoaderTest, IndexesOfSelectedFilesAreCached) {
  WriteDumps();
  const QStringList files{Incident() + "/h0.lsd", Incident() + "/h2.lsd", Incident() + "/h4.lsd",
                          Incident() + "/h6.lsd"};
  auto open = [&] {
    Loader loader;
    Heard heard(&loader);
    loader.Open(files);
    EXPECT_TRUE(testing::Until([&] { return heard.ended(); }));
    EXPECT_NE(heard.opened, nullptr) << heard.failed.toStdString();
    return heard.opened == nullptr ? 0 : heard.opened->rank_count();
  };
  EXPECT_EQ(open(), 8);
  struct stat info = {};
  ASSERT_EQ(stat((folder_ / "cache" / "lockstep").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  auto count = [&] {
    return std::distance(fs::directory_iterator(folder_ / "cache" / "lockstep"), fs::directory_iterator{});
  };
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(open(), 8);
  EXPECT_EQ(count(), 1);
  // A foreign file is replaced, not trusted.
  const fs::path index = fs::directory_iterator(folder_ / "cache" / "lockstep")->path();
  std::ofstream(index, std::ios::binary) << "LSINDEX1 nonsense";
  EXPECT_EQ(open(), 8);
  EXPECT_TRUE(IndexReader::Open(index.string()).ok());
  // Now the cache is unusable too, because a file has the name of its folder.
  fs::remove_all(folder_ / "cache");
  std::ofstream(folder_ / "cache") << "in the way";
  EXPECT_EQ(open(), 8);
  fs::remove(folder_ / "cache");
}

}  // namespace
}  // namespace lockstep::gui
