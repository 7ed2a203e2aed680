#include "analyzer/formats/lsd/format.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace lockstep {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 4>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0u);
    tables[0][byte] = value;
  }
  for (size_t t = 1; t < tables.size(); ++t) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tables[t][byte] = tables[t - 1][byte] >> 8 ^ tables[0][tables[t - 1][byte] & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t ByTables(std::string_view bytes) {
  uint32_t crc = ~0u;
  size_t i = 0;
  auto at = [&](size_t k) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[k])); };
  for (; i + 4 <= bytes.size(); i += 4) {
    crc ^= at(i) | at(i + 1) << 8 | at(i + 2) << 16 | at(i + 3) << 24;
    crc = kTables[3][crc & 0xff] ^ kTables[2][crc >> 8 & 0xff] ^ kTables[1][crc >> 16 & 0xff] ^ kTables[0][crc >> 24];
  }
  for (; i < bytes.size(); ++i) crc = crc >> 8 ^ kTables[0][(crc ^ at(i)) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)
// Ten times as fast as tables; every byte of a large job's dumps is checked.
__attribute__((target("sse4.2"))) uint32_t ByInstruction(std::string_view bytes) {
  uint64_t crc = ~0u;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    memcpy(&word, bytes.data() + i, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  for (; i < bytes.size(); ++i) crc = _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<unsigned char>(bytes[i]));
  return ~static_cast<uint32_t>(crc);
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ByInstruction(bytes);
#endif
  return ByTables(bytes);
}

uint32_t Crc32cPortable(std::string_view bytes) { return ByTables(bytes); }

}  // namespace lockstep
