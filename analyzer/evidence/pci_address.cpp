#include "analyzer/evidence/pci_address.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace lockstep {

std::string PciAddress(absl::string_view text) {
  // DOMAIN:BUS:DEVICE[.FUNCTION]
  uint32_t numbers[4] = {};
  size_t function = text.find('.');
  const std::vector<absl::string_view> parts = absl::StrSplit(text.substr(0, function), ':');
  if (parts.size() != 3) return "";
  for (size_t i = 0; i < 3; ++i) {
    if (parts[i].empty() || parts[i].size() > 8 || !absl::SimpleHexAtoi(parts[i], &numbers[i])) return "";
  }
  if (function != text.npos && !absl::SimpleHexAtoi(text.substr(function + 1), &numbers[3])) return "";
  if (numbers[1] > 0xff || numbers[2] > 0x1f || numbers[3] > 7) return "";
  return absl::StrFormat("%04x:%02x:%02x.%x", numbers[0], numbers[1], numbers[2], numbers[3]);
}

}  // namespace lockstep
