// The line rate of this host's network, as its drivers report it.
#pragma once

#include <string>

#include "analyzer/model/bundle.h"

namespace lockstep {

// The fastest active ports of InfiniBand and RoCE adapters; without any, of Ethernet adapters. Ports of virtual
// interfaces have no rate of their own and do not count. `sys` is for tests.
HostNetwork ReadHostNetwork(const std::string& sys = "/sys");
// This host's, read when first called: a broken adapter may answer late.
const HostNetwork& ThisHostNetwork();

}  // namespace lockstep
