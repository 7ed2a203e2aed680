// Converts PCI addresses from the driver's or the kernel's form to the usual one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// Returns "0000:1b:00.0" for NVML's "00000000:1B:00.0" or the kernel's "0000:1b:00"; empty if it is no PCI address.
std::string PciAddress(absl::string_view text);

}  // namespace lockstep
