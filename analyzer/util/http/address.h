// Addresses of this machine to listen on.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::http {

struct Address {
  sockaddr_storage at{};  // its port is 0 until SetPort()
  socklen_t length = 0;
  bool loopback = false;
  bool any = false;  // all addresses of this machine

  void SetPort(uint16_t port);
  uint16_t port() const;
};

// Parses an IPv4 or IPv6 address, or "localhost", which means 127.0.0.1.
std::optional<Address> ParseAddress(const std::string& text);
// "10.1.2.3". For IPv6 only the first 64 bits, because one client owns all addresses with this prefix.
std::string PeerText(const sockaddr_storage& at);

}  // namespace lockstep::http
