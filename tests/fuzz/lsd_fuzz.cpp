// Reads .lsd dumps. Repairs checksums and compression first: they are valid in a hostile file, but not in random bytes.
// If a chunk of operations contains no zstd frame, the chunk's bytes become the content of one.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyzer/engine/engine.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/testing/read_lsd.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/dump.pb.h"
#include "tests/fuzz/accepted.h"
#include "tests/fuzz/references.h"

namespace {

using namespace lockstep;

std::string Pack(const std::string& raw) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress2(context, packed.data(), packed.size(), raw.data(), raw.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size)) std::abort();
  packed.resize(size);
  return packed;
}

std::string Repair(std::string_view input) {
  const google::protobuf::LogSilencer silencer;
  std::string out(kLsdMagic);
  if (input.starts_with(kLsdMagic)) input.remove_prefix(kLsdMagic.size());
  while (!input.empty()) {
    uint64_t length = 0;
    for (int shift = 0; !input.empty() && shift < 35; shift += 7) {
      const auto byte = static_cast<unsigned char>(input.front());
      input.remove_prefix(1);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    std::string body(input.substr(0, length));
    input.remove_prefix(body.size());
    if (body.size() >= kLsdCrcBytes && static_cast<uint8_t>(body[body.size() - kLsdCrcBytes]) == kLsdCrcTag)
      body.resize(body.size() - kLsdCrcBytes);
    DumpRecord record;
    if (record.ParseFromString(body) && record.has_ops()) {
      const std::string& chunk = record.ops().zstd();
      if (ZSTD_getFrameContentSize(chunk.data(), chunk.size()) == ZSTD_CONTENTSIZE_ERROR) {
        record.mutable_ops()->set_raw_bytes(static_cast<uint32_t>(chunk.size()));
        record.mutable_ops()->set_zstd(Pack(chunk));
      }
      body = record.SerializeAsString();
    }
    for (uint64_t rest = body.size() + kLsdCrcBytes;; rest >>= 7) {
      out += static_cast<char>(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
      if (rest < 0x80) break;
    }
    const uint32_t crc = Crc32c(body);
    out += body;
    out += static_cast<char>(kLsdCrcTag);
    for (int i = 0; i < 4; ++i) out += static_cast<char>(crc >> (8 * i));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file = Repair({reinterpret_cast<const char*>(data), size});
  const int fd = memfd_create("dump.lsd", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, file.data(), file.size()) != static_cast<ssize_t>(file.size())) std::abort();
  BundleBuilder builder;
  const absl::Status status = ReadLsd(fd, "dump.lsd", &builder);
  close(fd);
  if (!status.ok()) return 0;
  fuzz_accepted++;
  const Bundle bundle = builder.Finish();
  CheckReferences(bundle);
  Analyze(bundle);
  return 0;
}
