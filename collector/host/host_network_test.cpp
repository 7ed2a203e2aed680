#include "collector/host/host_network.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

class HostNetworkTest : public ::testing::Test {
 protected:
  HostNetworkTest() : sys_(absl::StrCat(::testing::TempDir(), "host_network_test_", getpid())) {}
  ~HostNetworkTest() override { std::filesystem::remove_all(sys_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = absl::StrCat(sys_, "/", path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void Port(const std::string& adapter, const std::string& state, const std::string& rate) {
    Write(absl::StrCat("class/infiniband/", adapter, "/ports/1/state"), state);
    Write(absl::StrCat("class/infiniband/", adapter, "/ports/1/rate"), rate);
  }
  void Interface(const std::string& name, const std::string& state, const std::string& speed, bool device) {
    Write(absl::StrCat("class/net/", name, "/operstate"), state);
    Write(absl::StrCat("class/net/", name, "/speed"), speed);
    if (device) Write(absl::StrCat("class/net/", name, "/device/vendor"), "0x15b3");
  }
  void Pci(const std::string& name, const std::string& kind, const std::string& vendor) {
    Write(absl::StrCat("bus/pci/devices/", name, "/class"), kind);
    Write(absl::StrCat("bus/pci/devices/", name, "/vendor"), vendor);
  }
  std::string Read() const {
    const HostNetwork network = ReadHostNetwork(sys_);
    return absl::StrCat(network.ports, " x ", network.port_mbits, ", ", network.gpus, " GPUs");
  }

  const std::string sys_;
};

TEST_F(HostNetworkTest, TheFastestActivePortsOfInfinibandCount) {
  for (int i = 0; i < 8; ++i) {
    Port(absl::StrCat("mlx5_", i), "4: ACTIVE", "400 Gb/sec (4X NDR)");
    Pci(absl::StrCat("0000:1", i, ":00.0"), "0x030200", "0x10de");
  }
  Port("mlx5_8", "4: ACTIVE", "200 Gb/sec (4X HDR)");  // a storage adapter
  Port("mlx5_9", "1: DOWN", "800 Gb/sec (4X XDR)");
  Interface("eth0", "up", "1000000", true);
  Pci("0000:90:00.0", "0x030000", "0x1a03");  // the display of the management board
  Pci("0000:91:00.0", "0x020700", "0x15b3");
  EXPECT_EQ(Read(), "8 x 400000, 8 GPUs");
}

TEST_F(HostNetworkTest, WithoutInfinibandEthernetAdaptersCountButNoVirtualInterfaces) {
  Interface("eth0", "up", "100000", true);
  Interface("eth1", "down", "200000", true);
  Interface("eth2", "up", "-1", true);
  Interface("docker0", "up", "10000000", false);
  Port("mlx5_0", "4: ACTIVE", "no rate");
  EXPECT_EQ(Read(), "1 x 100000, 0 GPUs");
}

TEST_F(HostNetworkTest, WithoutAnyTheRateIsUnknown) { EXPECT_EQ(Read(), "0 x 0, 0 GPUs"); }

}  // namespace
}  // namespace lockstep
