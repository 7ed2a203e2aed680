// Addresses of this machine to listen on.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::serve {

struct Address {
  sockaddr_storage at{};  // its port is 0
  socklen_t length = 0;
  bool loopback = false;
  bool any = false;  // all addresses of this machine

  void SetPort(uint16_t port);
  uint16_t port() const;
};

// An IPv4 or IPv6 address, or "localhost", which is 127.0.0.1.
std::optional<Address> ParseAddress(const std::string& text);
// "10.1.2.3". Only the first 64 bits of an IPv6 address, because a client has all addresses that begin so.
std::string PeerText(const sockaddr_storage& at);

}  // namespace lockstep::serve
