// The part of HTTP that `lockstep serve` needs: GET and HEAD without a body, one request per connection.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::serve {

// Request line and header fields. Browsers also send what other servers on this host have set as cookies.
inline constexpr size_t kMostHeadBytes = 16 << 10;

struct Request {
  bool head = false;        // a HEAD request, whose answer has no body
  bool gzip = false;        // the browser takes a compressed answer
  std::string path, query;  // as sent; the query without '?'
  std::string host;         // the Host field, in lower case
  std::string authorization;
  bool embedded = false;  // another site asks for this inside its own page
};

// `head` ends with the empty line. Returns 0, or the status that refuses it: 400, 405, 431 or 505.
int ParseRequest(std::string_view head, Request* request);

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string policy = "default-src 'none'";  // Content-Security-Policy; frame-ancestors 'none' is added
  std::shared_ptr<const std::string> body;
  bool gzip = false;           // the body is compressed
  std::string_view more = {};  // further header fields, each with its line end; a literal
};

Response TextResponse(int status, std::string text);
// Compresses large bodies only, because they are slow through ssh.
void Compress(Response* response);
// Status line and header fields, with the empty line. They forbid storing the answer, embedding it and guessing its
// type.
std::string ResponseHead(const Response& response);

}  // namespace lockstep::serve
