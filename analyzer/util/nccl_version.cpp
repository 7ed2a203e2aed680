#include "analyzer/util/nccl_version.h"

#include "absl/strings/str_cat.h"

namespace lockstep {

std::string NcclVersionText(int32_t code) {
  const int32_t major = code < 10000 ? 1000 : 10000;
  return absl::StrCat(code / major, ".", code % major / 100, ".", code % 100);
}

}  // namespace lockstep
