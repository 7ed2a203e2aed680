#include "collector/host/host_network.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

constexpr size_t kMostAdapters = 256, kMostPorts = 16, kMostPciDevices = 65536, kMostText = 256;

std::string TextOf(const std::string& path) {
  std::string text = ReadSmallFile(path, kMostText);
  absl::StripAsciiWhitespace(&text);
  return text;
}

void AddPort(double mbits, HostNetwork* network) {
  if (!(mbits >= 1 && mbits < 1e9)) return;
  const auto rate = static_cast<uint32_t>(std::lround(mbits));
  if (rate > network->port_mbits) *network = {rate, 0, 0};
  network->ports += rate == network->port_mbits;
}

// A port's file `rate` contains, for example, "400 Gb/sec (4X NDR)".
void AddInfiniband(const std::string& sys, HostNetwork* network) {
  const std::string adapters = sys + "/class/infiniband";
  for (const std::string& adapter : NamesIn(adapters, kMostAdapters)) {
    const std::string ports = absl::StrCat(adapters, "/", adapter, "/ports");
    for (const std::string& port : NamesIn(ports, kMostPorts)) {
      const std::string rate = TextOf(absl::StrCat(ports, "/", port, "/rate"));
      double gbits = 0;
      if (absl::StrContains(TextOf(absl::StrCat(ports, "/", port, "/state")), "ACTIVE") &&
          absl::StrContains(rate, " Gb/sec") && absl::SimpleAtod(rate.substr(0, rate.find(' ')), &gbits))
        AddPort(gbits * 1000, network);
    }
  }
}

void AddEthernet(const std::string& sys, HostNetwork* network) {
  const std::string interfaces = sys + "/class/net";
  for (const std::string& name : NamesIn(interfaces, kMostAdapters)) {
    const std::string folder = absl::StrCat(interfaces, "/", name);
    double mbits = 0;
    if (access((folder + "/device").c_str(), F_OK) == 0 && TextOf(folder + "/operstate") == "up" &&
        absl::SimpleAtod(TextOf(folder + "/speed"), &mbits))
      AddPort(mbits, network);
  }
}

// Counts NVIDIA and AMD GPUs by their PCI class: 3D controllers, displays and accelerators.
uint32_t CountGpus(const std::string& sys) {
  const std::string devices = sys + "/bus/pci/devices";
  uint32_t count = 0;
  for (const std::string& device : NamesIn(devices, kMostPciDevices)) {
    const std::string kind = TextOf(absl::StrCat(devices, "/", device, "/class")).substr(0, 6);
    if (kind != "0x0302" && kind != "0x0300" && kind != "0x0380" && kind != "0x1200") continue;
    const std::string vendor = TextOf(absl::StrCat(devices, "/", device, "/vendor"));
    count += vendor == "0x10de" || vendor == "0x1002";
  }
  return count;
}

}  // namespace

HostNetwork ReadHostNetwork(const std::string& sys) {
  HostNetwork network;
  AddInfiniband(sys, &network);
  if (network.ports == 0) AddEthernet(sys, &network);
  network.gpus = CountGpus(sys);
  return network;
}

const HostNetwork& ThisHostNetwork() {
  static const HostNetwork network = ReadHostNetwork();
  return network;
}

}  // namespace lockstep
