#include "recorder/base/loaded.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include <initializer_list>

#include "recorder/base/host_memory.h"
#include "recorder/base/sys.h"

// glibc's list of loaded objects. The reference is weak, because a strong one would stop the program under a loader
// without this symbol (musl's). It would also make the loader itself, by file name, a dependency of this library.
#pragma weak _r_debug

namespace lockstep::recorder {
namespace {

struct Dynamic {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* sysv_hash = nullptr;
  const ElfW(Half) * versions = nullptr;
  const char* soname = nullptr;
  const ElfW(Dyn) * entries = nullptr;
};

// Calls `see` for each loaded object, in load order, until it returns true.
template <typename See>
void ForEachObject(See see) noexcept {
  dl_iterate_phdr([](dl_phdr_info* info, size_t, void* to) { return (*static_cast<See*>(to))(*info) ? 1 : 0; }, &see);
}

bool Holds(const dl_phdr_info& info, const void* place) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(place);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin && address - begin < header.p_memsz) return true;
  }
  return false;
}

// Not strcmp: a sanitizer's runtime looks up the real strcmp with dlsym before its own may be called.
bool IsSame(const char* a, const char* b) noexcept {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

// On most machines, glibc relocates the pointers in the dynamic section in place, but not for every object (not for
// the vdso).
template <typename T>
const T* At(ElfW(Addr) base, ElfW(Addr) value) noexcept {
  return reinterpret_cast<const T*>(value < base ? value + base : value);
}

bool ReadDynamic(ElfW(Addr) base, const ElfW(Dyn) * entry, Dynamic* out) noexcept {
  out->entries = entry;
  ElfW(Xword) soname = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB: out->symbols = At<ElfW(Sym)>(base, entry->d_un.d_ptr); break;
      case DT_STRTAB: out->strings = At<char>(base, entry->d_un.d_ptr); break;
      case DT_GNU_HASH: out->gnu_hash = At<uint32_t>(base, entry->d_un.d_ptr); break;
      case DT_HASH: out->sysv_hash = At<uint32_t>(base, entry->d_un.d_ptr); break;
      case DT_VERSYM: out->versions = At<ElfW(Half)>(base, entry->d_un.d_ptr); break;
      case DT_SONAME: soname = entry->d_un.d_val; break;
      default: break;
    }
  }
  if (out->strings != nullptr && soname != 0) out->soname = out->strings + soname;
  return out->symbols != nullptr && out->strings != nullptr;
}

bool ReadDynamic(const dl_phdr_info& info, Dynamic* out) noexcept {
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  return entry != nullptr && ReadDynamic(info.dlpi_addr, entry, out);
}

bool IsDefinition(const Dynamic& dynamic, uint32_t index, const char* name) noexcept {
  const ElfW(Sym)& symbol = dynamic.symbols[index];
  const unsigned type = symbol.st_info & 0xf;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || (type != STT_FUNC && type != STT_NOTYPE)) return false;
  if (dynamic.versions != nullptr && (dynamic.versions[index] & 0x8000) != 0) return false;  // a hidden old version
  return IsSame(dynamic.strings + symbol.st_name, name);
}

uint32_t LookUpGnu(const Dynamic& dynamic, const char* name) noexcept {
  uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const uint32_t* table = dynamic.gnu_hash;
  const uint32_t buckets = table[0], first = table[1], bloom_words = table[2], shift = table[3];
  if (buckets == 0 || bloom_words == 0) return 0;
  constexpr uint32_t kWordBits = sizeof(ElfW(Addr)) * 8;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(table + 4);
  const ElfW(Addr) word = bloom[(hash / kWordBits) % bloom_words];
  const ElfW(Addr) both = (ElfW(Addr){1} << (hash % kWordBits)) | (ElfW(Addr){1} << ((hash >> shift) % kWordBits));
  if ((word & both) != both) return 0;
  const uint32_t* bucket = reinterpret_cast<const uint32_t*>(bloom + bloom_words);
  const uint32_t* chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const uint32_t value = chain[index - first];
    if ((value | 1) == (hash | 1) && IsDefinition(dynamic, index, name)) return index;
    if ((value & 1) != 0) return 0;
  }
}

uint32_t LookUpSysv(const Dynamic& dynamic, const char* name) noexcept {
  uint32_t hash = 0;
  for (const char* c = name; *c != 0; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    const uint32_t high = hash & 0xf0000000;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  const uint32_t buckets = dynamic.sysv_hash[0];
  if (buckets == 0) return 0;
  const uint32_t* chain = dynamic.sysv_hash + 2 + buckets;
  for (uint32_t index = dynamic.sysv_hash[2 + hash % buckets]; index != 0; index = chain[index]) {
    if (IsDefinition(dynamic, index, name)) return index;
  }
  return 0;
}

void Describe(const dl_phdr_info& info, LoadedObject* object) noexcept {
  Dynamic dynamic;
  object->soname = ReadDynamic(info, &dynamic) ? dynamic.soname : nullptr;
  object->name = info.dlpi_name != nullptr ? info.dlpi_name : "";
  object->base = info.dlpi_addr;
  object->text_begin = UINTPTR_MAX;
  object->text_end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info.dlpi_addr + header.p_vaddr;
    if (begin < object->text_begin) object->text_begin = begin;
    if (begin + header.p_memsz > object->text_end) object->text_end = begin + header.p_memsz;
  }
}

constexpr int kMaxDefiners = 8;

struct Definer {
  void* address;
  LoadedObject object;
  bool after;  // true after this library in load order
};

struct Search {
  const char* name;
  const void* caller;
  Definer definers[kMaxDefiners];
  int found;
  bool passed;  // true once this library was passed
  const ElfW(Dyn) * caller_entries;
  const char* caller_strings;
};

// An address inside this library, by which the search skips the library's own definitions.
char self_anchor;

uint32_t LookUp(const Dynamic& dynamic, const char* name) noexcept {
  if (dynamic.gnu_hash != nullptr) return LookUpGnu(dynamic, name);
  return dynamic.sysv_hash != nullptr ? LookUpSysv(dynamic, name) : 0;
}

void Visit(const dl_phdr_info& info, Search* search) noexcept {
  Dynamic dynamic;
  if (!ReadDynamic(info, &dynamic)) return;
  if (search->caller != nullptr && Holds(info, search->caller)) {
    search->caller_entries = dynamic.entries;
    search->caller_strings = dynamic.strings;
  }
  if (Holds(info, &self_anchor)) {
    search->passed = true;
    return;
  }
  const uint32_t index = LookUp(dynamic, search->name);
  if (index == 0 || search->found == kMaxDefiners) return;
  Definer& definer = search->definers[search->found++];
  definer.address = reinterpret_cast<void*>(info.dlpi_addr + dynamic.symbols[index].st_value);
  definer.after = search->passed;
  Describe(info, &definer.object);
}

bool BeginsWith(const char* text, const char* beginning) noexcept {
  return text != nullptr && strncmp(text, beginning, strlen(beginning)) == 0;
}

bool IsCudaRuntime(const LoadedObject& object) noexcept {
  return BeginsWith(object.soname, "libcudart.so") || BeginsWith(object.soname, "libamdhip64.so");
}

// Finds the definitions that `among` allows, in load order.
void FindDefiners(Search* search, Among among) noexcept {
  ForEachObject([search](const dl_phdr_info& info) {
    Visit(info, search);
    return false;
  });
  if (among == Among::kAll) return;
  int kept = 0;
  for (int i = 0; i < search->found; ++i) {
    if (search->definers[i].after) search->definers[kept++] = search->definers[i];
  }
  if (kept == 0) {
    for (int i = 0; i < search->found; ++i) {
      const LoadedObject& object = search->definers[i].object;
      if (IsNcclLibrary(object) || IsCudaRuntime(object)) search->definers[kept++] = search->definers[i];
    }
  }
  search->found = kept;
}

}  // namespace

bool IsNcclLibrary(const LoadedObject& object) noexcept {
  return BeginsWith(object.soname, "libnccl.so") || BeginsWith(object.soname, "librccl.so");
}

void* FindFunction(const char* name, Among among, LoadedObject* owner) noexcept {
  Search search{};
  search.name = name;
  FindDefiners(&search, among);
  if (search.found == 0) return nullptr;
  if (owner != nullptr) *owner = search.definers[0].object;
  return search.definers[0].address;
}

void* FindFunctionFor(const char* name, const void* caller, LoadedObject* owner, int* definers) noexcept {
  Search search{};
  search.name = name;
  search.caller = caller;
  FindDefiners(&search, Among::kAfter);
  *definers = search.found;
  if (search.found == 0) return nullptr;
  int chosen = 0;
  if (!IsCudaRuntime(search.definers[0].object)) {
    *definers = 1;  // defined by another tool's hook or by the program itself; it precedes any runtime for every caller
    search.caller_entries = nullptr;
  }
  for (const ElfW(Dyn)* entry = search.caller_entries; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED || search.caller_strings == nullptr) continue;
    const char* needed = search.caller_strings + entry->d_un.d_val;
    for (int i = 0; i < search.found; ++i) {
      const char* soname = search.definers[i].object.soname;
      if (soname != nullptr && strcmp(soname, needed) == 0) chosen = i;
    }
  }
  if (owner != nullptr) *owner = search.definers[chosen].object;
  return search.definers[chosen].address;
}

void* FindFunctionIn(const char* name, const void* address) noexcept {
  void* function = nullptr;
  ForEachObject([&](const dl_phdr_info& info) {
    if (!Holds(info, address)) return false;
    Dynamic dynamic;
    const uint32_t index = ReadDynamic(info, &dynamic) ? LookUp(dynamic, name) : 0;
    if (index != 0) function = reinterpret_cast<void*>(info.dlpi_addr + dynamic.symbols[index].st_value);
    return true;
  });
  return function;
}

namespace {

constexpr uint32_t kMostSymbols = 1 << 16;

// Returns the index of the last symbol plus one, or 0 if the hash table does not show it.
uint32_t SymbolsOf(const Dynamic& dynamic) noexcept {
  uint32_t head[4];
  if (dynamic.sysv_hash != nullptr) {
    if (!ReadHostMemory(dynamic.sysv_hash, head, 8)) return 0;
    return head[1] < kMostSymbols ? head[1] : kMostSymbols;
  }
  if (dynamic.gnu_hash == nullptr || !ReadHostMemory(dynamic.gnu_hash, head, sizeof(head))) return 0;
  const uint32_t buckets = head[0], first = head[1], bloom_words = head[2];
  if (buckets > kMostSymbols || bloom_words > kMostSymbols) return 0;
  const uint32_t* bucket = dynamic.gnu_hash + 4 + size_t{bloom_words} * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  uint32_t last = 0;
  uint32_t part[64];
  for (uint32_t i = 0; i < buckets; i += 64) {
    const uint32_t count = buckets - i < 64 ? buckets - i : 64;
    if (!ReadHostMemory(bucket + i, part, count * sizeof(uint32_t))) return 0;
    for (uint32_t k = 0; k < count; ++k) last = part[k] > last ? part[k] : last;
  }
  // An odd value ends the last chain.
  for (; last >= first && last < kMostSymbols; ++last) {
    uint32_t value = 0;
    if (!ReadHostMemory(bucket + buckets + (last - first), &value, sizeof(value))) return 0;
    if ((value & 1) != 0) return last + 1;
  }
  return last < first ? 0 : kMostSymbols;
}

}  // namespace

void ForEachFunctionIn(const void* address, void (*see)(const char* name, void* argument), void* argument) noexcept {
  Dynamic dynamic;
  bool found = false;
  ForEachObject([&](const dl_phdr_info& info) {
    if (!Holds(info, address)) return false;
    found = ReadDynamic(info, &dynamic);
    return true;
  });
  if (!found) return;
  const uint32_t symbols = SymbolsOf(dynamic);
  for (uint32_t i = 0; i < symbols; ++i) {
    ElfW(Sym) symbol;
    char name[128];
    if (!ReadHostMemory(dynamic.symbols + i, &symbol, sizeof(symbol))) return;
    if (symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xf) != STT_FUNC) continue;
    ReadHostText(dynamic.strings + symbol.st_name, name, sizeof(name));
    see(name, argument);
  }
}

bool KeepLoaded(const LoadedObject& object) noexcept {
  static uintptr_t kept[8];
  if (object.name == nullptr || object.name[0] == 0) return false;
  uintptr_t* place = nullptr;
  for (uintptr_t& base : kept) {
    const uintptr_t there = Load(&base);
    if (there == object.base) return false;
    if (there == 0 && place == nullptr && Swap<uintptr_t>(&base, 0, object.base)) place = &base;
    if (place != nullptr) break;
  }
  if (place == nullptr) return false;
  // Looked up at run time, because the symbol version of dlopen changed in glibc 2.34.
  using Open = void* (*)(const char*, int);
  const auto open = reinterpret_cast<Open>(FindFunction("dlopen", Among::kAll, nullptr));
  if (open != nullptr) open(object.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return true;
}

namespace {

const link_map* FirstObject() noexcept {
  const r_debug* list = &_r_debug;
  if (list != nullptr) return list->r_map;
  // Without _r_debug, uses the list that every loader stores for debuggers in the program's dynamic section. The
  // program is the first object.
  ForEachObject([&](const dl_phdr_info& info) {
    Dynamic dynamic;
    if (!ReadDynamic(info, &dynamic)) return true;
    for (const ElfW(Dyn)* entry = dynamic.entries; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_DEBUG) list = reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
    }
    return true;
  });
  return list != nullptr ? list->r_map : nullptr;
}

}  // namespace

void* FindNext(const char* name) noexcept {
  const link_map* const first = FirstObject();
  const link_map* self = first;
  while (self != nullptr && self->l_ld != _DYNAMIC) self = self->l_next;
  for (const link_map* after : {self, static_cast<const link_map*>(nullptr)}) {
    // Searches after this library. If nothing is there because this library was opened late, searches everywhere.
    for (const link_map* map = after != nullptr ? after->l_next : first; map != nullptr; map = map->l_next) {
      if (map == self || map->l_ld == nullptr) continue;
      Dynamic dynamic;
      const uint32_t index = ReadDynamic(map->l_addr, map->l_ld, &dynamic) ? LookUp(dynamic, name) : 0;
      if (index != 0) return reinterpret_cast<void*>(map->l_addr + dynamic.symbols[index].st_value);
    }
  }
  return nullptr;
}

bool LiesBefore(const void* address) noexcept {
  bool before = false;
  ForEachObject([&](const dl_phdr_info& info) {
    if (Holds(info, &self_anchor)) return true;
    before = Holds(info, address);
    return before;
  });
  return before;
}

namespace {

uint32_t HashBytes(const unsigned char* bytes, size_t size) noexcept {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 16777619u;
  return hash != 0 ? hash : 1;
}

// Returns 0 if the object has no build ID.
uint32_t BuildHash(const dl_phdr_info& info) noexcept {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* note = reinterpret_cast<const unsigned char*>(info.dlpi_addr + header.p_vaddr);
    size_t left = header.p_memsz;
    while (left >= sizeof(ElfW(Nhdr))) {
      const auto* head = reinterpret_cast<const ElfW(Nhdr)*>(note);
      const size_t name_bytes = (size_t{head->n_namesz} + 3) & ~size_t{3};
      const size_t text_bytes = (size_t{head->n_descsz} + 3) & ~size_t{3};
      const size_t whole = sizeof(*head) + name_bytes + text_bytes;
      if (whole > left) break;
      if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && memcmp(note + sizeof(*head), "GNU", 4) == 0)
        return HashBytes(note + sizeof(*head) + name_bytes, head->n_descsz);
      note += whole;
      left -= whole;
    }
  }
  return 0;
}

}  // namespace

bool FindObject(const void* address, LoadedObject* object, uint32_t* build_hash) noexcept {
  bool found = false;
  ForEachObject([&](const dl_phdr_info& info) {
    found = Holds(info, address);
    if (!found) return false;
    Describe(info, object);
    *build_hash = BuildHash(info);
    if (*build_hash == 0)
      *build_hash = HashBytes(reinterpret_cast<const unsigned char*>(object->name), strlen(object->name));
    return true;
  });
  return found;
}

}  // namespace lockstep::recorder
