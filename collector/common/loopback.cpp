#include "collector/common/loopback.h"

#include <arpa/inet.h>

namespace lockstep {

bool IsLoopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string inner = brackets ? host.substr(1, host.size() - 2) : host;
  return inet_pton(AF_INET6, inner.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace lockstep
