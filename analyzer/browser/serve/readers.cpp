#include "analyzer/browser/serve/readers.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/browser/serve/private_file.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/small_file.h"

namespace lockstep::serve {
namespace {

constexpr size_t kTokenBytes = 24, kMostName = 64, kMostReadersFile = 1 << 20;

// A key is random, so a fast hash is as secure as a slow one.
std::string HashOf(std::string_view key) {
  unsigned char hash[crypto_generichash_BYTES];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(key.data()), key.size(), nullptr, 0);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), sizeof hash));
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMostName && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_.@+").find(c) != std::string_view::npos;
  });
}

struct Reader {
  std::string name, hash;
};

absl::StatusOr<std::vector<Reader>> ParseReaders(const std::string& text, const std::string& path) {
  std::vector<Reader> readers;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipWhitespace());
    if (words.empty() || words[0].front() == '#') continue;
    const bool hash = words.size() == 2 && words[1].size() == 2 * crypto_generichash_BYTES &&
                      std::all_of(words[1].begin(), words[1].end(),
                                  [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
    if (!hash || !IsName({words[0].data(), words[0].size()}))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": expected a name and the hash of a key"));
    readers.push_back({std::string(words[0]), std::string(words[1])});
  }
  return readers;
}

std::optional<std::string> KeyOf(std::string_view authorization) {
  const size_t blank = std::min(authorization.find(' '), authorization.size());
  const std::string way = absl::AsciiStrToLower(absl::string_view(authorization.data(), blank));
  const absl::string_view rest =
      absl::StripAsciiWhitespace(absl::string_view(authorization.data() + blank, authorization.size() - blank));
  if (way == "bearer") return std::string(rest);
  std::string pair;
  if (way != "basic" || !absl::Base64Unescape(rest, &pair)) return std::nullopt;
  const size_t colon = pair.find(':');
  return colon == std::string::npos ? std::nullopt : std::optional(pair.substr(colon + 1));
}

}  // namespace

std::string MakeToken() {
  if (sodium_init() < 0) return "";
  unsigned char bytes[kTokenBytes];
  randombytes_buf(bytes, sizeof bytes);
  char text[sodium_base64_ENCODED_LEN(kTokenBytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING)];
  return sodium_bin2base64(text, sizeof text, bytes, sizeof bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

absl::StatusOr<std::string> Readers::Add(const std::string& path, const std::string& name) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a reader's name consists of letters, digits and -_.@+, at most ", kMostName, " of them"));
  }
  const std::string key = MakeToken();
  if (key.empty()) return absl::InternalError("the system did not provide random numbers");
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd.ok() || flock(fd.get(), LOCK_EX) != 0) return FileError("write", path, errno);
  const absl::StatusOr<std::string> text = ReadPrivateFile(fd.get(), path, kMostReadersFile);
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::vector<Reader>> readers = ParseReaders(*text, path);
  if (!readers.ok()) return readers.status();
  if (std::any_of(readers->begin(), readers->end(), [&](const Reader& one) { return one.name == name; }))
    return absl::AlreadyExistsError(absl::StrCat(path, " already has a reader ", name, "; remove that line first"));
  const std::string line =
      absl::StrCat(text->empty() || text->back() == '\n' ? "" : "\n", name, " ", HashOf(key), "\n");
  if (const absl::Status status = WriteAll(fd.get(), line, path, static_cast<int64_t>(text->size())); !status.ok())
    return status;
  return key;
}

absl::Status Readers::Load() {
  const UniqueFd fd = OpenToRead(path_);
  struct stat info {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return FileError("read", path_, errno);
  const std::string version = absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_ctim.tv_sec,
                                           ".", info.st_ctim.tv_nsec);
  if (version == version_) return absl::OkStatus();
  version_.clear();
  hashes_.clear();
  const absl::StatusOr<std::string> text = ReadPrivateFile(fd.get(), path_, kMostReadersFile);
  if (!text.ok()) return text.status();
  const absl::StatusOr<std::vector<Reader>> readers = ParseReaders(*text, path_);
  if (!readers.ok()) return readers.status();
  for (const Reader& one : *readers) hashes_.push_back(one.hash);
  version_ = version;
  return absl::OkStatus();
}

absl::Status Readers::Check() {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = Load(); !status.ok()) return status;
  return hashes_.empty() ? absl::NotFoundError(absl::StrCat(path_, " has no readers")) : absl::OkStatus();
}

bool Readers::Admit(std::string_view authorization) {
  const std::optional<std::string> key = KeyOf(authorization);
  if (!key) return false;  // a browser's first request, for example, has no key
  const std::string hash = HashOf(*key);
  const std::lock_guard lock(mutex_);
  if (!Load().ok()) return false;
  bool known = false;
  for (const std::string& one : hashes_) known |= sodium_memcmp(one.data(), hash.data(), hash.size()) == 0;
  return known;
}

}  // namespace lockstep::serve
