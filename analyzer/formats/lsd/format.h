// Constants of the .lsd file format (docs/dump-file.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

constexpr std::string_view kLsdMagic = "LSDUMP1\n";
constexpr uint32_t kLsdFormatVersion = 1;

// Limits for readers, unless noted otherwise. A file that exceeds a limit is damaged or hostile.
constexpr uint64_t kLsdMaxMessageBytes = 4u << 20;
constexpr uint32_t kLsdMaxRawBytes = 64u << 20;  // limit for an uncompressed OpColumns message
constexpr uint32_t kLsdMaxChunkOps = 16384;
constexpr uint32_t kLsdMaxOpBytes = 400;     // limit for one uncompressed operation, with every column at its maximum
constexpr uint32_t kLsdChunkOps = 128;       // operations in one written chunk
constexpr int64_t kLsdBlockOps = 64;         // number of sequence numbers that one hash of a RankHistory covers
constexpr size_t kLsdNewestCalls = 128;      // a RankHistory lists this many of each lane's newest calls one by one
constexpr uint32_t kLsdMaxLanes = 1u << 16;  // limit for one rank's history
constexpr uint64_t kLsdMaxFileOps = 8u << 20;
constexpr uint32_t kLsdMaxFileRanks = 65536;
constexpr uint32_t kLsdMaxFileMemberships = 1u << 20;
constexpr uint32_t kLsdMaxTexts = 1u << 20;

constexpr uint8_t kLsdCrcTag = 15 << 3 | 5;  // DumpRecord.crc: field 15, four bytes
constexpr uint64_t kLsdCrcBytes = 5;         // tag and value, last in every message

// CRC-32C (Castagnoli).
uint32_t Crc32c(std::string_view bytes);
// Like Crc32c, for machines without the CPU's instruction.
uint32_t Crc32cPortable(std::string_view bytes);

}  // namespace lockstep
