// Recognizes addresses that only this host can reach.
#pragma once

#include <string>

namespace lockstep {

// Accepts 127.x.y.z, ::1 and [::1], but no host names.
bool IsLoopback(const std::string& host);

}  // namespace lockstep
