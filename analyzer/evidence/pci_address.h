// PCI addresses in the forms of the driver, the kernel and users.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// "0000:1b:00.0" from NVML's "00000000:1B:00.0" or the kernel's "0000:1b:00"; empty if it is not a PCI address.
std::string PciAddress(absl::string_view text);

}  // namespace lockstep
