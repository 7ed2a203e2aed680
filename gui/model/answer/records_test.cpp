#include "gui/model/answer/records.h"

#include <gtest/gtest.h>

#include <QCoreApplication>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>

#include "analyzer/formats/lsd/writer.h"
#include "analyzer/testing/job.h"
#include "analyzer/viewdata/index.h"
#include "gui/testing/samples.h"

namespace lockstep::gui {
namespace {

namespace fs = std::filesystem;

TEST(RecordsTest, ReadsAllRecordsOfARankFromItsFile) {
  std::string name = (fs::temp_directory_path() / "lockstep-records-test.XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  lockstep::testing::Job job(2, 2, 2, 6);
  const Bundle bundle = job.Run();
  for (size_t first = 0; first < 8; first += 4) {
    ASSERT_TRUE(WriteLsd(bundle, {first, first + 1, first + 2, first + 3}, DumpHeader(),
                         (folder / ("h" + std::to_string(first) + ".lsd")).string())
                    .ok());
  }
  const auto index = EnsureViewIndex({folder.string()}, nullptr);
  ASSERT_TRUE(index.ok()) << index.status();
  // The incident was moved, so its index contains the old path.
  const fs::path moved = folder.string() + "-moved";
  fs::rename(folder, moved);
  const auto document = Document::Open((moved / "index.lsi").string(), {moved.string()});
  ASSERT_TRUE(document.ok()) << document.status();

  Records records;
  records.SetDocument(*document);
  std::vector<int32_t> ready;
  QString why;
  QObject::connect(&records, &Records::Ready, [&](qint32 rank) { ready.push_back(rank); });
  QObject::connect(&records, &Records::Unavailable, [&](qint32, const QString& text) { why = text; });
  EXPECT_EQ(records.Get(6), nullptr);
  EXPECT_EQ(records.Get(6), nullptr);  // requested once
  ASSERT_TRUE(testing::Until([&] { return !ready.empty() || !why.isEmpty(); })) << why.toStdString();
  ASSERT_EQ(ready, std::vector<int32_t>{6}) << why.toStdString();
  const std::shared_ptr<const Bundle> got = records.Get(6);
  ASSERT_NE(got, nullptr);
  ASSERT_EQ(got->ranks.size(), 1u);
  const Rank& rank = got->ranks[0];
  ASSERT_EQ(static_cast<int64_t>(rank.ops.size()), (*document)->OpCount(6));
  for (size_t i = 0; i < rank.ops.size(); ++i) {
    const IndexOp op = (*document)->OpAt(6, static_cast<int64_t>(i));
    EXPECT_EQ(op.kind, rank.ops[i].kind);
    EXPECT_EQ(op.seq, rank.ops[i].seq);
    const auto fields = Records::Fields(*got, rank.ops[i]);
    ASSERT_FALSE(fields.empty());
    EXPECT_EQ(fields[0].first, "kind");
    for (const auto& [key, value] : fields) {
      EXPECT_FALSE(key.isEmpty());
      EXPECT_FALSE(value.isEmpty()) << key.toStdString();
    }
  }
  // A missing file is reported once, and requested again.
  EXPECT_EQ(records.Get(99), nullptr);
  ASSERT_TRUE(testing::Until([&] { return !why.isEmpty(); }));
  EXPECT_TRUE(why.contains("rank 99"));
  why.clear();
  fs::remove(moved / "h0.lsd");
  EXPECT_EQ(records.Get(1), nullptr);
  ASSERT_TRUE(testing::Until([&] { return !why.isEmpty(); }));
  EXPECT_TRUE(why.contains("h0.lsd")) << why.toStdString();
  fs::remove_all(moved);
}

TEST(RecordsTest, TheEndDoesNotWaitForAReadThatHangs) {
  const auto started = std::make_shared<std::promise<void>>(), release = std::make_shared<std::promise<void>>();
  {
    Records records(nullptr, [started, release](const Document&, int) {
      started->set_value();
      release->get_future().wait();
      return absl::StatusOr<std::shared_ptr<const Bundle>>(absl::UnavailableError("released"));
    });
    records.SetDocument(testing::Healthy());
    EXPECT_EQ(records.Get(0), nullptr);
    started->get_future().wait();
  }
  release->set_value();
}

}  // namespace
}  // namespace lockstep::gui
