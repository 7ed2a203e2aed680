// Checks that the stand-in exports its names as NCCL does, and everything that an installed libnccl exports.
#include <elf.h>
#include <gtest/gtest.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace standin_test {
namespace {

struct Symbol {
  uint64_t address = 0;
  unsigned char binding = 0;
  unsigned char visibility = 0;
  bool versioned = false;
};

// Returns the functions and objects that `path` exports.
std::map<std::string, Symbol> Exports(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::map<std::string, Symbol> exports;
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const auto section = [&](unsigned index) {
    Elf64_Shdr found{};
    file.seekg(static_cast<std::streamoff>(header.e_shoff + uint64_t{index} * header.e_shentsize));
    file.read(reinterpret_cast<char*>(&found), sizeof found);
    return found;
  };
  const auto contents = [&](const Elf64_Shdr& of) {
    std::vector<char> bytes(of.sh_size);
    file.seekg(static_cast<std::streamoff>(of.sh_offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  std::vector<char> versions;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (const Elf64_Shdr found = section(i); found.sh_type == SHT_GNU_versym) {
      versions = contents(found);
    }
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr found = section(i);
    if (found.sh_type != SHT_DYNSYM) {
      continue;
    }
    const std::vector<char> symbols = contents(found);
    const std::vector<char> names = contents(section(found.sh_link));
    for (size_t s = 0; (s + 1) * sizeof(Elf64_Sym) <= symbols.size(); ++s) {
      Elf64_Sym symbol{};
      memcpy(&symbol, symbols.data() + s * sizeof symbol, sizeof symbol);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size()) {
        continue;
      }
      uint16_t version = 0;
      if ((s + 1) * 2 <= versions.size()) {
        memcpy(&version, versions.data() + s * 2, 2);
      }
      exports[names.data() + symbol.st_name] = {
          symbol.st_value, static_cast<unsigned char>(ELF64_ST_BIND(symbol.st_info)),
          static_cast<unsigned char>(ELF64_ST_VISIBILITY(symbol.st_other)), (version & 0x7fff) > 1};
    }
  }
  return exports;
}

TEST(Exports, AreWeakAndHaveAStrongTwin) {
  const auto exports = Exports(STANDIN_NCCL);
  ASSERT_FALSE(exports.empty());
  int functions = 0;
  for (const auto& [name, symbol] : exports) {
    EXPECT_FALSE(symbol.versioned) << name;
    EXPECT_EQ(symbol.visibility, STV_DEFAULT) << name;
    if (name == "ncclResetDebugInitInternal") {
      continue;
    }
    if (name.rfind("nccl", 0) == 0) {
      ++functions;
      EXPECT_EQ(symbol.binding, STB_WEAK) << name;
      const auto twin = exports.find("p" + name);
      ASSERT_NE(twin, exports.end()) << name;
      EXPECT_EQ(twin->second.binding, STB_GLOBAL) << name;
      EXPECT_EQ(twin->second.address, symbol.address) << name;
    } else {
      EXPECT_EQ(name.rfind("pnccl", 0), 0u) << name << " must not be exported";
    }
  }
  // NCCL 2.30 has this many public functions, with the host side of its device interface.
  EXPECT_GE(functions, 80);
}

TEST(Exports, IncludeAllExportsOfAnInstalledLibrary) {
  if (!std::filesystem::exists(REAL_NCCL)) {
    GTEST_SKIP() << "no real libnccl.so.2 was found on this machine";
  }
  const auto ours = Exports(STANDIN_NCCL);
  const auto real = Exports(REAL_NCCL);
  int compared = 0;
  for (const auto& [name, symbol] : real) {
    if (name.rfind("nccl", 0) != 0 && name.rfind("pnccl", 0) != 0) {
      continue;
    }
    const auto found = ours.find(name);
    ASSERT_NE(found, ours.end()) << name;
    EXPECT_EQ(found->second.binding, symbol.binding) << name;
    EXPECT_EQ(found->second.versioned, symbol.versioned) << name;
    if (name[0] == 'n' && real.count("p" + name)) {
      EXPECT_EQ(real.at("p" + name).address, symbol.address) << name;
    }
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

TEST(Headers, MatchInstalledHeaders) {
#if STANDIN_REAL_HEADERS
  // This program builds only if abi_asserts.cpp compiles against NVIDIA's headers, too.
  SUCCEED();
#else
  GTEST_SKIP() << "no real cuda.h, cuda_runtime.h and nccl.h were found on this machine";
#endif
}

}  // namespace
}  // namespace standin_test
