#include "analyzer/formats/lsd/input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/format.h"

namespace lockstep {
namespace {

constexpr size_t kBlockBytes = 256u << 10;

bool CrcMatches(std::string_view bytes) {
  const size_t body = bytes.size() - kLsdCrcBytes;
  if (static_cast<uint8_t>(bytes[body]) != kLsdCrcTag) return false;
  uint32_t crc = 0;
  for (size_t i = 0; i < 4; ++i)
    crc |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[body + 1 + i])) << (8 * i);
  return crc == Crc32c(bytes.substr(0, body));
}

}  // namespace

void LsdInput::Start(int fd) {
  fd_ = fd;
  begin_ = end_ = 0;
  offset_ = 0;
}

absl::Status LsdInput::Peek(size_t size, std::string_view* bytes) {
  if (end_ - begin_ < size) {
    if (begin_ + size > capacity_ || capacity_ - end_ < kBlockBytes / 4) {
      if (size + kBlockBytes > capacity_) {
        const size_t capacity = size + 2 * kBlockBytes;
        std::unique_ptr<char[]> larger(new char[capacity]);
        if (end_ > begin_) memcpy(larger.get(), buffer_.get() + begin_, end_ - begin_);
        buffer_ = std::move(larger);
        capacity_ = capacity;
      } else if (end_ > begin_) {
        memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      }
      end_ -= begin_;
      begin_ = 0;
    }
    while (end_ - begin_ < size) {
      const ssize_t n =
          pread(fd_, buffer_.get() + end_, capacity_ - end_, static_cast<off_t>(offset_ + (end_ - begin_)));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return absl::UnavailableError(strerror(errno));
      if (n == 0) break;
      end_ += static_cast<size_t>(n);
    }
  }
  *bytes = std::string_view(buffer_.get() + begin_, std::min(size, end_ - begin_));
  return absl::OkStatus();
}

LsdMessage NextLsdMessage(LsdInput* input) {
  LsdMessage message;
  message.start = input->offset();
  auto stop = [&](std::string text) {
    message.text = std::move(text);
    return message;
  };
  std::string_view bytes;
  if (absl::Status status = input->Peek(10, &bytes); !status.ok())
    return stop(absl::StrCat("cannot read further: ", status.message()));
  if (bytes.empty()) return stop("the file ends early: it was truncated, or its writer never finished");
  uint64_t length = 0;
  size_t width = 0;
  bool complete = false;
  while (width < bytes.size() && width < 5 && !complete) {
    const auto byte = static_cast<unsigned char>(bytes[width]);
    length |= static_cast<uint64_t>(byte & 0x7f) << (7 * width);
    complete = byte < 0x80;
    ++width;
  }
  if (width == bytes.size() && !complete) return stop("the file ends inside a message: it was truncated");
  if (!complete || length > kLsdMaxMessageBytes || length < kLsdCrcBytes) {
    return stop(absl::StrCat("no message with a valid length (", kLsdCrcBytes, " to ", kLsdMaxMessageBytes,
                             " bytes) begins here; the rest of the file is lost"));
  }
  input->Skip(width);
  message.offset = input->offset();
  if (absl::Status status = input->Peek(length, &bytes); !status.ok())
    return stop(absl::StrCat("cannot read further: ", status.message()));
  if (bytes.size() < length) {
    return stop(
        absl::StrCat("the file ends ", length - bytes.size(), " bytes before the end of a message: it was truncated"));
  }
  input->Skip(length);
  if (!CrcMatches(bytes)) {
    message.kind = LsdMessage::Kind::kDamaged;
    message.text = absl::StrCat("a message of ", length, " bytes is damaged (its checksum does not match); skipped");
    return message;
  }
  message.kind = LsdMessage::Kind::kIntact;
  message.bytes = bytes.substr(0, length - kLsdCrcBytes);
  return message;
}

}  // namespace lockstep
