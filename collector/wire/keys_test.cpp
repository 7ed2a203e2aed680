#include "collector/wire/keys.h"
#include "tests/support/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace lockstep::wire {
namespace {

class WireKeys : public support::FolderTest {
 protected:
  std::string Make(const std::string& name, Role role) {
    EXPECT_TRUE(WriteKeyPair(folder_, name, *MakeKeyPair(role)).ok());
    return folder_ + "/" + name;
  }
};

TEST_F(WireKeys, MissingFoldersAreCreatedAndTheLastIsPrivate) {
  const std::string folder = folder_ + "/etc/lockstep/keys";
  ASSERT_TRUE(WriteKeyPair(folder, "node", *MakeKeyPair(Role::kAgent)).ok());
  struct stat status {};
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(WireKeys, PairsAreReadBack) {
  const std::string path = Make("node", Role::kAgent);
  const auto secret = ReadSecretKey(path + ".key");
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->role, Role::kAgent);
  const auto known = ReadPublicKey(path + ".pub");
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->public_key, secret->public_key);
  EXPECT_TRUE(known->secret_key.empty());
  struct stat status {};
  ASSERT_EQ(stat((path + ".key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(WireKeys, NoKeyIsOverwritten) {
  const std::string path = Make("node", Role::kAgent);
  const std::string before = ReadSecretKey(path + ".key")->secret_key;
  EXPECT_EQ(WriteKeyPair(folder_, "node", *MakeKeyPair(Role::kAgent)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadSecretKey(path + ".key")->secret_key, before);
  unlink((path + ".key").c_str());
  EXPECT_EQ(WriteKeyPair(folder_, "node", *MakeKeyPair(Role::kAgent)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(access((path + ".key").c_str(), F_OK), 0) << "a secret key without its public key was left";
}

TEST_F(WireKeys, SecretsThatOthersCanReadAreRefused) {
  const std::string path = Make("node", Role::kAgent) + ".key";
  for (const mode_t mode : {0640u, 0604u, 0620u, 0660u, 0666u, 0601u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto key = ReadSecretKey(path);
    ASSERT_FALSE(key.ok()) << mode;
    EXPECT_NE(key.status().message().find("chmod 600"), std::string::npos) << key.status();
  }
  ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(ReadSecretKey(path).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 1234, 0), 0);
    EXPECT_FALSE(ReadSecretKey(path).ok()) << "another user's key";
  }
}

TEST_F(WireKeys, InvalidFilesAreRefused) {
  const std::string sound = Make("node", Role::kAgent);
  EXPECT_FALSE(ReadSecretKey(sound + ".pub").ok());
  EXPECT_FALSE(ReadPublicKey(sound + ".key").ok()) << "a secret key in the place of a public key";
  EXPECT_FALSE(ReadSecretKey(folder_).ok());
  EXPECT_FALSE(ReadSecretKey("/dev/zero").ok());
  EXPECT_FALSE(ReadSecretKey(folder_ + "/none.key").ok());
  const auto key = *MakeKeyPair(Role::kAgent);
  const auto other = *MakeKeyPair(Role::kAgent);
  const auto refused = [&](const std::string& text) {
    const std::string path = folder_ + "/odd.key";
    unlink(path.c_str());
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
    return !ReadSecretKey(path).ok();
  };
  const std::string good = "lockstep-key 1\nrole agent\npublic " + key.public_key + "\nsecret " + key.secret_key + "\n";
  EXPECT_FALSE(refused(good));
  EXPECT_FALSE(refused(good + "later something\n"));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("lockstep-key 2" + good.substr(14)));
  EXPECT_TRUE(refused("lockstep-key 1\nrole king\npublic " + key.public_key + "\nsecret " + key.secret_key + "\n"));
  EXPECT_TRUE(refused("lockstep-key 1\nrole agent\npublic " + other.public_key + "\nsecret " + key.secret_key + "\n"));
  EXPECT_TRUE(refused("lockstep-key 1\nrole agent\npublic short\nsecret " + key.secret_key + "\n"));
  EXPECT_TRUE(refused(good + std::string(10000, '#')));
}

TEST_F(WireKeys, KnownKeysHaveTheirRoles) {
  Make("a", Role::kAgent);
  Make("b", Role::kReader);
  auto known = ReadKnownKeys(folder_);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->size(), 2u);
  EXPECT_EQ(known->at(ReadPublicKey(folder_ + "/b.pub")->public_key), Role::kReader);
  std::ofstream(folder_ + "/c.pub") << "not a key";
  known = ReadKnownKeys(folder_);
  ASSERT_FALSE(known.ok());
  EXPECT_NE(known.status().message().find("c.pub"), std::string::npos);
  EXPECT_FALSE(ReadKnownKeys(folder_ + "/none").ok());
}

TEST_F(WireKeys, InvalidEndpointsAreNamed) {
  Security insecure;
  insecure.insecure = true;
  for (const char* wrong : {"udp://127.0.0.1:5", "", "head", "head:9470", "tcp://head", "tcp://:9470", "tcp://head:"}) {
    EXPECT_FALSE(IsLocal(wrong)) << wrong;
    for (const Security& security : {Security(), insecure}) {
      for (const bool server : {true, false}) {
        EXPECT_NE(CheckSecurity(security, wrong, server).message().find("is not an endpoint"), std::string::npos)
            << wrong;
      }
    }
  }
}

TEST_F(WireKeys, NothingStartsOnPortsWithoutKeys) {
  EXPECT_TRUE(IsLocal("ipc:///tmp/x"));
  EXPECT_TRUE(CheckSecurity({}, "ipc:///tmp/x", true).ok());
  for (const char* open : {"tcp://127.0.0.1:5", "tcp://localhost:5", "tcp://[::1]:5", "tcp://0.0.0.0:5", "tcp://*:5",
                           "tcp://10.0.0.1:5", "tcp://eth0:5", "tcp://[::]:5"}) {
    EXPECT_FALSE(IsLocal(open)) << open;
    EXPECT_FALSE(CheckSecurity({}, open, true).ok());
    EXPECT_FALSE(CheckSecurity({}, open, false).ok());
    Security insecure;
    insecure.insecure = true;
    EXPECT_TRUE(CheckSecurity(insecure, open, true).ok());
    insecure.own_key = "x";
    EXPECT_FALSE(CheckSecurity(insecure, open, true).ok());
  }
  Security half;
  half.own_key = "x";
  EXPECT_FALSE(CheckSecurity(half, "tcp://127.0.0.1:5", true).ok()) << "keys were given but would not be used";
  EXPECT_FALSE(CheckSecurity(half, "tcp://127.0.0.1:5", false).ok());
}

TEST_F(WireKeys, ServerKeysAreFilesOrText) {
  const std::string path = Make("root", Role::kCollector) + ".pub";
  const std::string relay = ReadPublicKey(Make("relay", Role::kRelay) + ".pub")->public_key;
  Security security;
  security.server_key = path + ", " + relay;
  const auto keys = ServerKeys(security);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->size(), 2u);
  EXPECT_EQ(keys->at(1), relay);
  security.server_key = Make("node", Role::kAgent) + ".pub";
  EXPECT_FALSE(ServerKeys(security).ok()) << "an agent's key is not a server's key";
}

TEST_F(WireKeys, APathThatLooksLikeAKeyIsAPath) {
  ASSERT_LT(folder_.size(), 38u);
  const std::string key = Make("root", Role::kCollector) + ".pub",
                    path = folder_ + "/" + std::string(39 - folder_.size(), 'k');
  ASSERT_EQ(rename(key.c_str(), path.c_str()), 0);
  ASSERT_EQ(path.size(), 40u);
  Security security;
  security.server_key = path;
  const auto keys = ServerKeys(security);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->at(0), ReadPublicKey(path)->public_key);
}

}  // namespace
}  // namespace lockstep::wire
