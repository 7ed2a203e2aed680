#include "collector/tools/archive/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/http/address.h"
#include "analyzer/util/printable.h"

namespace lockstep::archive {
namespace {

volatile std::sig_atomic_t g_stop = 0;

struct Taken {
  std::string text;
  size_t most = 0;
  bool too_long = false;
};

size_t Take(char* bytes, size_t size, size_t count, void* to) {
  auto* taken = static_cast<Taken*>(to);
  const size_t length = size * count;
  if (length > taken->most - taken->text.size()) {
    taken->too_long = true;
    return 0;  // ends the transfer
  }
  taken->text.append(bytes, length);
  return length;
}

int Progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return g_stop; }

bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= 128 && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& url, bool insecure) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the archive's address must be http://HOST:PORT/DATABASE or https://...: ", what));
  };
  const size_t scheme = url.find("://");
  const std::string kind = scheme == std::string::npos ? "" : url.substr(0, scheme);
  if (kind != "http" && kind != "https") return wrong(absl::StrCat("'", Printable(url, 200), "' starts with neither"));
  std::string rest = url.substr(scheme + 3);
  for (char c : rest) {
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 127 || c == '?' || c == '#' ||
        c == '\\') {
      return wrong("it contains a character that is not allowed");
    }
  }
  const size_t slash = rest.find('/');
  if (slash == std::string::npos) return wrong("it has no database name");
  Target target;
  target.database = rest.substr(slash + 1);
  if (!IsName(target.database))
    return wrong("the database name may contain only letters, digits and underscores, and must not start with a digit");
  std::string authority = rest.substr(0, slash);
  if (const size_t at = authority.rfind('@'); at != std::string::npos) {
    target.user = authority.substr(0, at);
    authority.erase(0, at + 1);
    if (target.user.find(':') != std::string::npos) {
      return wrong(
          "do not put a password into the URL, where every user on the machine can read it: use --password-file, "
          "LOCKSTEP_ARCHIVE_PASSWORD_FILE or LOCKSTEP_ARCHIVE_PASSWORD");
    }
    if (target.user.empty()) return wrong("the user name is empty");
  }
  const size_t colon = authority.rfind(':');
  const bool bracket = authority.find(']') != std::string::npos;
  std::string host = authority, port = kind == "https" ? "8443" : "8123";
  if (colon != std::string::npos && (!bracket || colon > authority.find(']'))) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  int number = 0;
  if (host.empty()) return wrong("it has no host name");
  if (!absl::SimpleAtoi(port, &number) || number < 1 || number > 65535)
    return wrong("the port must be a number from 1 to 65535");
  const std::optional<http::Address> at = http::ParseAddress(bracket ? host.substr(1, host.size() - 2) : host);
  if (kind == "http" && !insecure && (!at || !at->loopback)) {
    return wrong(
        "use https for another machine, or --insecure (LOCKSTEP_ARCHIVE_INSECURE=1) on a network that you trust");
  }
  target.base = absl::StrCat(kind, "://", host, ":", number, "/");
  return target;
}

Http::Http(Target target) : target_(std::move(target)) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (ready) curl_ = curl_easy_init();
}

Http::~Http() {
  if (curl_ != nullptr) curl_easy_cleanup(curl_);
}

void Http::Stop() { g_stop = 1; }
bool Http::stopped() { return g_stop != 0; }

bool IsTemporaryAnswer(long http_status, const std::string& answer) {
  int code = 0;
  if (answer.compare(0, 6, "Code: ") == 0) {
    for (size_t i = 6; i < answer.size() && i < 12 && answer[i] >= '0' && answer[i] <= '9'; ++i)
      code = code * 10 + (answer[i] - '0');
  }
  // Timeouts, too many queries or parts, memory limits, network errors, and replicas that are missing or temporarily
  // read-only.
  for (int temporary :
       {159, 160, 164, 201, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 285, 319, 425, 439, 999}) {
    if (code == temporary) return true;
  }
  return code == 0 && (http_status == 408 || http_status == 429 || http_status >= 500);
}

absl::StatusOr<std::string> Http::Post(const std::string& statement, const std::string* body,
                                       const std::vector<std::pair<std::string, std::string>>& settings,
                                       int64_t limit_ms, size_t most_bytes) {
  CURL* curl = curl_;
  if (curl == nullptr) return absl::InternalError("cannot start libcurl");
  if (stopped()) return absl::CancelledError("interrupted by a signal");
  curl_easy_reset(curl);
  std::string url = target_.base;
  char join = '?';
  const auto add = [&](const std::string& name, const std::string& value) {
    char* escaped = curl_easy_escape(curl, value.c_str(), static_cast<int>(value.size()));
    absl::StrAppend(&url, std::string(1, join), name, "=", escaped == nullptr ? "" : escaped);
    curl_free(escaped);
    join = '&';
  };
  if (!target_.database.empty()) add("database", target_.database);
  for (const auto& [name, value] : settings) add(name, value);
  if (body != nullptr) add("query", statement);
  const std::string& sent = body != nullptr ? *body : statement;
  Taken taken;
  taken.most = most_bytes;
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, sent.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(sent.size()));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &taken);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Progress);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(limit_ms, 1)));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::clamp<int64_t>(limit_ms, 1, 10'000)));
  if (!target_.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, target_.ca_file.c_str());
  // A proxy could read the password.
  if (target_.base.compare(0, 7, "http://") == 0) curl_easy_setopt(curl, CURLOPT_PROXY, "");
  if (!target_.user.empty() || !target_.password.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    curl_easy_setopt(curl, CURLOPT_USERNAME, target_.user.empty() ? "default" : target_.user.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, target_.password.c_str());
  }
  // Disables "100 Continue": small servers never send it, and curl would wait for it.
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  headers = curl_slist_append(headers, "Content-Type: text/plain; charset=utf-8");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode result = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  if (stopped()) return absl::CancelledError("interrupted by a signal");
  if (taken.too_long)
    return absl::OutOfRangeError(
        absl::StrCat("the answer from ", target_.base, " is longer than ", most_bytes, " bytes"));
  if (result != CURLE_OK) {
    const std::string why =
        absl::StrCat(target_.base, ": ", Printable(error[0] != '\0' ? error : curl_easy_strerror(result), 300));
    const bool certificate = result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE;
    return certificate                          ? absl::PermissionDeniedError(why)
           : result == CURLE_OPERATION_TIMEDOUT ? absl::DeadlineExceededError(why)
                                                : absl::UnavailableError(why);
  }
  if (status == 200) return std::move(taken.text);
  std::string said = Printable(taken.text, 400);
  const std::string why = absl::StrCat(target_.base, " answered ", status, said.empty() ? "" : ": ", said);
  if (IsTemporaryAnswer(status, taken.text)) return absl::UnavailableError(why);
  if (status == 401 || status == 403) return absl::PermissionDeniedError(why);
  return absl::FailedPreconditionError(why);
}

}  // namespace lockstep::archive
