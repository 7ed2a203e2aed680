// PCI addresses as the driver, the kernel and people write them.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

// "0000:1b:00.0" from NVML's "00000000:1B:00.0" or the kernel's "0000:1b:00"; empty: it is no PCI address.
std::string PciAddress(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_PCI_ADDRESS_H_
