// The digest message that answers a collector's request.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/wire.pb.h"

namespace lockstep {

// `bundle` has one job on one host. Leaves out ranks that are not in `wanted` (ascending), unless `wanted` is empty.
void EncodeDigest(const Bundle& bundle, const std::vector<int32_t>& wanted, Digest* out);

}  // namespace lockstep
