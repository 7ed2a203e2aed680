#include "collector/common/metrics/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Get(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer(65536, '\0');
  size_t at = 0;
  for (ssize_t got = 0; at < answer.size() && (got = read(fd, answer.data() + at, answer.size() - at)) > 0;)
    at += static_cast<size_t>(got);
  close(fd);
  answer.resize(at);
  return answer;
}

TEST(MetricsTest, PublishedMetricsAreServedOnLoopback) {
  absl::StatusOr<std::unique_ptr<MetricsServer>> server = MetricsServer::Start("0");
  ASSERT_TRUE(server.ok()) << server.status();
  MetricSet set;
  set.Counter("heartbeats", "sent", 41);
  set.CounterOf("late", "waits that are late", "job", "a \"b\"\n", 2);
  (*server)->Publish(set);
  const std::string page = Get((*server)->port());
  EXPECT_THAT(page, HasSubstr("lockstep_heartbeats_total 41"));
  EXPECT_THAT(page, HasSubstr("lockstep_late_total{job=\"a \\\"b\\\"_\"} 2"));
  (*server)->Publish(MetricSet());
  EXPECT_THAT(Get((*server)->port()), Not(HasSubstr("lockstep_heartbeats")));
}

TEST(MetricsTest, ThousandsOfJobsGive64Series) {
  MetricSet set;
  for (int i = 0; i < 5000; ++i) set.CounterOf("late", "", "job", "job" + std::to_string(i), 1);
  ASSERT_EQ(set.metrics().size(), 1u);
  const std::vector<MetricSet::Series>& series = set.metrics()[0].series;
  ASSERT_EQ(series.size(), MetricSet::kMostSeries);
  EXPECT_EQ(series.back().labels, (MetricSet::Labels{{"job", "other"}}));
  EXPECT_EQ(series.back().value, 5000 - 63);
  for (int i = 0; i < 5000; ++i) set.GaugeOf("state", "", {{"job", std::to_string(i)}, {"state", "moving"}}, 1);
  ASSERT_EQ(set.metrics()[1].series.size(), MetricSet::kMostSeries);
  EXPECT_EQ(set.metrics()[1].series.back().labels, (MetricSet::Labels{{"job", "63"}, {"state", "moving"}}));
}

TEST(MetricsTest, OffLoopbackNothingIsServed) {
  for (const char* address : {"0.0.0.0:9400", "192.0.2.1:9400", "[::]:9400", "127.0.0.1:70000", "", "x"}) {
    EXPECT_FALSE(MetricsServer::Start(address).ok()) << address;
  }
  absl::StatusOr<std::unique_ptr<MetricsServer>> first = MetricsServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = MetricsServer::Start("127.0.0.1:" + std::to_string((*first)->port()));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cannot serve metrics on"));
}

}  // namespace
}  // namespace lockstep
