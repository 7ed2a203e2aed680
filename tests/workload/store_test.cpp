#include "tests/workload/store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>

namespace trainsim {
namespace {

using ::testing::HasSubstr;

constexpr double kPatience = 30;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_TRUE(server_.Start("127.0.0.1", 0, &error)) << error;
    ASSERT_GT(server_.port(), 0);
  }

  TCPStore Client(double timeout_s = kPatience) const { return {"127.0.0.1", server_.port(), timeout_s}; }

  // Sends raw bytes and returns what comes back.
  std::string Raw(const std::string& request) const {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    shutdown(fd, SHUT_WR);
    std::string answer;
    char buffer[512];
    for (ssize_t got = 0; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(got));
    close(fd);
    return answer;
  }

  TCPStoreServer server_;
};

TEST_F(StoreTest, GivesBackWhatWasSet) {
  TCPStore client = Client();
  const std::string id("binary\0id\xff", 10);
  std::string error;
  std::string value;
  ASSERT_TRUE(client.Set("id/world", id, &error)) << error;
  ASSERT_TRUE(client.Get("id/world", &value, &error)) << error;
  EXPECT_EQ(value, id);
}

TEST_F(StoreTest, GetWaitsForSet) {
  auto reader = std::async(std::launch::async, [this] {
    TCPStore client = Client();
    std::string value;
    std::string error;
    return client.Get("id/pp_1", &value, &error) ? value : "failed: " + error;
  });
  TCPStore client = Client();
  std::string error;
  ASSERT_TRUE(client.Set("id/pp_1", "late", &error)) << error;
  EXPECT_EQ(reader.get(), "late");
}

TEST_F(StoreTest, GivesUpAndSaysWhy) {
  TCPStore client = Client(0.05);
  std::string value;
  std::string error;
  EXPECT_FALSE(client.Get("nobody", &value, &error));
  EXPECT_THAT(error, HasSubstr("nobody"));
}

TEST_F(StoreTest, RefusesWhatIsTooLong) {
  TCPStore client = Client();
  std::string error;
  EXPECT_FALSE(client.Set(std::string(kMaxKey + 1, 'k'), "v", &error));
  EXPECT_FALSE(client.Set("k", std::string(kMaxValue + 1, 'v'), &error));
  EXPECT_EQ(Raw(std::string("S\x01\xff\xff", 4)).substr(0, 1), "!");
}

TEST_F(StoreTest, SurvivesNonsense) {
  EXPECT_EQ(Raw("GET / HTTP/1.1\r\n\r\n").substr(0, 1), "!") << "key of 69 bytes";
  EXPECT_EQ(Raw("S"), "");
  EXPECT_EQ(Raw(""), "");
  EXPECT_EQ(Raw(std::string("S\x05\x05\x00only", 8)), "");
  TCPStore client = Client();
  std::string error;
  EXPECT_TRUE(client.Set("still", "there", &error)) << error;
}

TEST(TCPStoreTest, RetriesUntilTheServerIsUp) {
  // A port that was free a moment ago.
  int port = 0;
  {
    TCPStoreServer probe;
    std::string error;
    ASSERT_TRUE(probe.Start("127.0.0.1", 0, &error)) << error;
    port = probe.port();
  }
  TCPStore impatient("127.0.0.1", port, 0.05);
  std::string error;
  ASSERT_FALSE(impatient.Set("k", "v", &error));
  EXPECT_THAT(error, HasSubstr("cannot reach the store"));

  auto writer = std::async(std::launch::async, [port] {
    TCPStore client("127.0.0.1", port, kPatience);
    std::string why;
    return client.Set("k", "v", &why) ? std::string() : why;
  });
  TCPStoreServer server;
  ASSERT_TRUE(server.Start("127.0.0.1", port, &error)) << error;
  EXPECT_EQ(writer.get(), "");
}

TEST(TCPStoreServerTest, SaysWhenThePortIsTaken) {
  TCPStoreServer first;
  std::string error;
  ASSERT_TRUE(first.Start("127.0.0.1", 0, &error)) << error;
  TCPStoreServer second;
  EXPECT_FALSE(second.Start("127.0.0.1", first.port(), &error));
  EXPECT_THAT(error, HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace trainsim
