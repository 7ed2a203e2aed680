// The subset of HTTP that Lockstep's servers need: GET and HEAD without a body, one request per connection.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::http {

// Limit for the request line and header fields, which may include cookies of other servers on this host.
inline constexpr size_t kMostHeadBytes = 16 << 10;

struct Request {
  bool head = false;        // a HEAD request; its response has no body
  bool gzip = false;        // the browser accepts a compressed response
  std::string path, query;  // as sent; the query without '?'
  std::string host;         // the Host field in lower case
  std::string authorization;
  bool embedded = false;  // another site embeds this request in its own page
};

// `head` includes the empty line at its end. Returns 0, or the status that refuses it: 400, 405, 431 or 505.
int ParseRequest(std::string_view head, Request* request);

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string policy = "default-src 'none'";  // Content-Security-Policy, to which frame-ancestors 'none' is added
  std::shared_ptr<const std::string> body;
  bool gzip = false;           // the body is compressed
  std::string_view more = {};  // further header fields, each with its line end; must be a literal
};

Response TextResponse(int status, std::string text);
// Compresses bodies of at least 16 KiB with gzip, because large bodies are slow over ssh.
void Compress(Response* response);
// Status line and header fields, with the empty line. The fields forbid caching, embedding and content sniffing.
std::string ResponseHead(const Response& response);

}  // namespace lockstep::http
