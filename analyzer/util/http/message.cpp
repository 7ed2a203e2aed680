#include "analyzer/util/http/message.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::http {
namespace {

constexpr size_t kMostFields = 100, kMostTarget = 2048;
constexpr size_t kCompressFrom = 16 << 10;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  absl::AsciiStrToLower(&lower);
  return lower;
}

// "GET /path?query HTTP/1.1"
int ParseRequestLine(std::string_view line, Request* request) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return 400;
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return version.substr(0, 5) == "HTTP/" ? 505 : 400;
  if (method != "GET" && method != "HEAD") return 405;
  if (target.empty() || target.front() != '/' || target.size() > kMostTarget) return 400;
  if (!std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 127; })) return 400;
  const size_t question = target.find('?');
  request->head = method == "HEAD";
  request->path = target.substr(0, question);
  request->query = question == std::string_view::npos ? "" : target.substr(question + 1);
  return 0;
}

}  // namespace

int ParseRequest(std::string_view head, Request* request) {
  *request = {};
  if (head.size() > kMostHeadBytes) return 431;
  size_t fields = 0;
  bool host = false, host_needed = true, other_site = false, page = false;
  for (bool first = true;; first = false) {
    const size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return 400;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) return 400;
    if (first) {
      if (const int refused = ParseRequestLine(line, request); refused != 0) return refused;
      host_needed = !line.ends_with("1.0");
      continue;
    }
    if (line.empty()) break;
    if (++fields > kMostFields) return 431;
    const size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos) return 400;
    if (!std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(colon), IsNameCharacter)) return 400;
    const std::string name = Lower(line.substr(0, colon));
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name == "host") {
      if (host) return 400;
      host = true;
      request->host = Lower(value);
    }
    if (name == "authorization") {
      if (!request->authorization.empty()) return 400;
      request->authorization = value;
    }
    if (name == "sec-fetch-site") other_site = value != "same-origin" && value != "none";
    if (name == "sec-fetch-dest") page = value == "document";
    if (name == "accept-encoding") {
      for (const absl::string_view way : absl::StrSplit(absl::string_view(value.data(), value.size()), ',')) {
        if (absl::StripAsciiWhitespace(way) == "gzip") request->gzip = true;
      }
    }
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) return 400;
  }
  request->embedded = other_site && !page;
  return (host || !host_needed) && head.empty() ? 0 : 400;
}

Response TextResponse(int status, std::string text) {
  Response response;
  response.status = status;
  response.body = std::make_shared<const std::string>(std::move(text));
  return response;
}

void Compress(Response* response) {
  if (response->body == nullptr || response->body->size() < kCompressFrom) return;
  z_stream stream{};
  // 31: the largest window, in gzip format.
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
  std::string out(deflateBound(&stream, response->body->size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(response->body->data()));
  stream.avail_in = static_cast<uInt>(response->body->size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (!done) return;
  response->body = std::make_shared<const std::string>(std::move(out));
  response->gzip = true;
}

std::string ResponseHead(const Response& response) {
  const char* reason = "Error";
  for (const auto& [status, words] :
       std::initializer_list<std::pair<int, const char*>>{{200, "OK"},
                                                          {400, "Bad Request"},
                                                          {401, "Unauthorized"},
                                                          {403, "Forbidden"},
                                                          {404, "Not Found"},
                                                          {405, "Method Not Allowed"},
                                                          {408, "Request Timeout"},
                                                          {421, "Misdirected Request"},
                                                          {431, "Request Header Fields Too Large"},
                                                          {500, "Internal Server Error"},
                                                          {505, "HTTP Version Not Supported"}}) {
    if (status == response.status) reason = words;
  }
  return absl::StrCat("HTTP/1.1 ", response.status, " ", reason, "\r\nContent-Type: ", response.type,
                      "\r\nContent-Length: ", response.body == nullptr ? 0 : response.body->size(),
                      "\r\nContent-Security-Policy: ", response.policy,
                      "; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: "
                      "DENY\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: "
                      "same-origin\r\nCross-Origin-Resource-Policy: same-origin",
                      "\r\n", absl::string_view(response.more.data(), response.more.size()),
                      response.gzip ? "Content-Encoding: gzip\r\n" : "",
                      response.status == 405 ? "Allow: GET, HEAD\r\n" : "", "Connection: close\r\n\r\n");
}

}  // namespace lockstep::http
