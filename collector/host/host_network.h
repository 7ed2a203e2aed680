// This host's network ports and their line rate, as the drivers report them, and its number of GPUs.
#pragma once

#include <string>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Returns the fastest active ports of InfiniBand and RoCE adapters; without any, of Ethernet adapters. Ignores ports of
// virtual interfaces, which have no rate of their own. Also counts the GPUs on the PCI bus. `sys` is for tests.
HostNetwork ReadHostNetwork(const std::string& sys = "/sys");
// Returns this host's network. The first call reads it; a broken adapter can make that call slow.
const HostNetwork& ThisHostNetwork();

}  // namespace lockstep
