// PCI addresses in the forms of the driver, the kernel and users.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// "0000:1b:00.0" from NVML's "00000000:1B:00.0" or the kernel's "0000:1b:00"; empty: not a PCI address.
std::string PciAddress(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_
