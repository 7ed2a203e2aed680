#include "analyzer/util/http/address.h"

#include <arpa/inet.h>

#include <cstring>

namespace lockstep::http {
namespace {

sockaddr_in& Four(sockaddr_storage& at) { return reinterpret_cast<sockaddr_in&>(at); }
sockaddr_in6& Six(sockaddr_storage& at) { return reinterpret_cast<sockaddr_in6&>(at); }

}  // namespace

void Address::SetPort(uint16_t port) {
  (at.ss_family == AF_INET ? Four(at).sin_port : Six(at).sin6_port) = htons(port);
}

uint16_t Address::port() const {
  sockaddr_storage copy = at;
  return ntohs(copy.ss_family == AF_INET ? Four(copy).sin_port : Six(copy).sin6_port);
}

std::optional<Address> ParseAddress(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text == "localhost" ? "127.0.0.1" : text.c_str(), &Four(address.at).sin_addr) == 1) {
    address.at.ss_family = AF_INET;
    address.length = sizeof(sockaddr_in);
    const uint32_t number = ntohl(Four(address.at).sin_addr.s_addr);
    address.loopback = number >> 24 == 127;
    address.any = number == INADDR_ANY;
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), &Six(address.at).sin6_addr) != 1) return std::nullopt;
  address.at.ss_family = AF_INET6;
  address.length = sizeof(sockaddr_in6);
  address.loopback = IN6_IS_ADDR_LOOPBACK(&Six(address.at).sin6_addr);
  address.any = IN6_IS_ADDR_UNSPECIFIED(&Six(address.at).sin6_addr);
  return address;
}

std::string PeerText(const sockaddr_storage& from) {
  sockaddr_storage at = from;
  char text[INET6_ADDRSTRLEN] = "";
  if (at.ss_family == AF_INET) {
    inet_ntop(AF_INET, &Four(at).sin_addr, text, sizeof text);
  } else if (at.ss_family == AF_INET6) {
    in6_addr& six = Six(at).sin6_addr;
    // The address of an IPv4 client, on a socket that accepts both families.
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
      inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof text);
    } else {
      memset(six.s6_addr + 8, 0, 8);
      inet_ntop(AF_INET6, &six, text, sizeof text);
    }
  }
  return text;
}

}  // namespace lockstep::http
