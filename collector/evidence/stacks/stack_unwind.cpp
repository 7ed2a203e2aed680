#include "collector/evidence/stacks/stack_unwind.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/small_file.h"
#include "collector/evidence/stacks/remote_memory.h"

namespace lockstep {
namespace {

constexpr size_t kMostFiles = 4096;
constexpr int kMostSymbols = 4 << 20;
constexpr size_t kMostLiveReads = 65536;
constexpr size_t kMostMangled = 4096;
constexpr uint64_t kSizelessReach = 4096;

struct SymbolEntry {
  uint64_t address = 0, size = 0;
  const char* name = nullptr;
};

struct CodeFile {
  MappedFile mapped;
  std::string path;  // the path under which the file can be opened here; empty if it cannot
  UniqueFd fd;
  std::vector<char> image;  // the kernel's own code (vDSO), which is in no file
  std::string problem;      // why the file cannot be read
  Dwfl_Module* module = nullptr;
  uint32_t number = 0;  // 1 + index into the reported modules; 0 if not reported yet
  bool indexed = false;
  std::vector<SymbolEntry> symbols;  // sorted
  bool lines = true;
};

bool IsNcclLibrary(const std::string& path) {
  const absl::string_view name = absl::string_view(path).substr(path.rfind('/') + 1);
  return absl::StartsWith(name, "libnccl") || absl::StartsWith(name, "librccl");
}

// Returns the error text of libdw's last call, which may have none.
std::string LastProblem() {
  const char* const text = dwfl_errmsg(-1);
  return text == nullptr ? "the unwinder failed without giving a reason" : text;
}

bool SameFile(const ProcessMemory& memory, uint64_t start, int fd) {
  char in_file[64], in_memory[64];
  if (pread(fd, in_file, sizeof in_file, 0) != sizeof in_file) return false;
  return memory.Read(start, in_memory, sizeof in_memory) && memcmp(in_file, in_memory, sizeof in_file) == 0;
}

UniqueFd OpenRegular(const std::string& path) {
  UniqueFd fd = OpenToRead(path);
  struct stat info {};
  if (fd.ok() && (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))) fd.reset();
  return fd;
}

uint64_t BiasOf(Elf* elf, uint64_t start) {
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return 0;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr || header.p_type != PT_LOAD) continue;
    return start - (header.p_vaddr & ~uint64_t{4095});
  }
  return 0;
}

// Removes the parameters "(...)"; keeps "(anonymous namespace)", "operator()" and lambdas.
std::string WithoutParameters(const std::string& name) {
  int angle = 0, brace = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const absl::string_view rest = absl::string_view(name).substr(i), before = absl::string_view(name).substr(0, i);
    if (absl::EndsWith(before, "operator")) {  // "operator<", "operator()", "operator->"
      if (absl::StartsWith(rest, "()")) ++i;
      while (i + 1 < name.size() && strchr("<>=-", name[i]) != nullptr && strchr("<>=", name[i + 1]) != nullptr) ++i;
      continue;
    }
    const char c = name[i];
    if (c == '<') ++angle;
    if (c == '>' && angle > 0) --angle;
    if (c == '{') ++brace;
    if (c == '}' && brace > 0) --brace;
    if (c != '(' || angle > 0 || brace > 0) continue;
    if (absl::StartsWith(rest, "(anonymous namespace)")) {
      i += strlen("(anonymous namespace)") - 1;
      continue;
    }
    return name.substr(0, i);
  }
  return name;
}

// Demangled names of function templates start with the return type.
std::string WithoutReturnType(const std::string& name) {
  if (absl::StrContains(name, "operator ")) return name;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (strchr("<({", name[i]) != nullptr) ++depth;
    if (strchr(">)}", name[i]) != nullptr && depth > 0) --depth;
    if (name[i] == ' ' && depth == 0) begin = i + 1;
  }
  return begin < name.size() ? name.substr(begin) : name;
}

std::string WithoutTemplates(const std::string& name) {
  std::string out;
  int depth = 0;
  for (char c : name) {
    if (c == '<' && depth++ == 0) out += "<>";
    if (depth == 0) out.push_back(c);
    if (c == '>' && depth > 0) --depth;
  }
  return out;
}

// "std::vector<float>::push_back(float const&)" -> "std::vector<float>::push_back".
std::string ShortFunction(const std::string& symbol) {
  constexpr size_t kMost = 200;
  std::string name = symbol;
  if (absl::StartsWith(symbol, "_Z") && symbol.size() <= kMostMangled) {
    int status = 0;
    char* plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
    if (status == 0 && plain != nullptr) name = WithoutReturnType(WithoutParameters(plain));
    free(plain);
    if (name.empty()) name = symbol;
    if (name.size() > kMost / 2) name = WithoutTemplates(name);
  } else {
    name = name.substr(0, name.find('@'));  // removes a version
  }
  // Parts that the compiler split off a function.
  for (const char* piece : {".constprop", ".isra", ".part", ".cold", ".lto_priv", ".localalias", " [clone"}) {
    const size_t at = name.find(piece);
    if (at != std::string::npos && at > 0) name.resize(at);
  }
  name = Printable(name, name.size());
  return name.size() <= kMost ? name : absl::StrCat(name.substr(0, kMost - 3), "...");
}

}  // namespace

struct Unwinder::State {
  pid_t pid = 0;
  const ProcessMemory memory;
  std::vector<CodeFile> files;  // never grows after the start, because pointers into it are stored
  Dwfl* dwfl = nullptr;
  bool attached = false;
  std::string attach_problem;
  std::vector<uint32_t> reported;  // files by module number
  std::map<uint64_t, StackFrame> frames;
  // State of the current unwind.
  const ThreadCapture* thread = nullptr;
  Addresses* out = nullptr;
  size_t limit = 0, live_reads = 0;
  std::string debug_path;
  char* debug_path_text = nullptr;
  Dwfl_Callbacks callbacks{};
  Dwfl_Thread_Callbacks thread_callbacks{};

  State(pid_t p, const ProcessHelper* helper) : pid(p), memory(p, helper) {}

  CodeFile* FileAt(uint64_t pc) {
    auto after = std::upper_bound(files.begin(), files.end(), pc,
                                  [](uint64_t a, const CodeFile& f) { return a < f.mapped.start; });
    if (after == files.begin()) return nullptr;
    --after;
    return pc < after->mapped.end ? &*after : nullptr;
  }

  static int FindElf(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, char** file_name, Elf** elf) {
    CodeFile* file = static_cast<CodeFile*>(*userdata);
    *file_name = nullptr;
    if (file == nullptr) return -1;
    if (!file->image.empty()) {
      *elf = elf_memory(file->image.data(), file->image.size());
      return -1;
    }
    if (!file->fd.ok()) return -1;
    *elf = elf_begin(file->fd.get(), ELF_C_READ_MMAP, nullptr);
    if (*elf == nullptr || elf_kind(*elf) != ELF_K_ELF) {
      if (*elf != nullptr) elf_end(*elf);
      *elf = nullptr;
      return -1;
    }
    *file_name = strdup(file->path.c_str());
    return -1;
  }

  static pid_t NextThread(Dwfl*, void*, void**) { return 0; }
  static bool GetThread(Dwfl*, pid_t, void* arg, void** thread) {
    *thread = arg;
    return true;
  }

  static bool SetRegisters(Dwfl_Thread* thread, void* arg) {
    const ThreadCapture& capture = *static_cast<State*>(arg)->thread;
    if (capture.all_registers) {
      if (!dwfl_thread_state_registers(thread, 0, kStackRegisters, capture.registers)) return false;
    } else {
      if (!dwfl_thread_state_registers(thread, kStackPointerRegister, 1, &capture.registers[kStackPointerRegister]))
        return false;
#if defined(__x86_64__)
      if (!dwfl_thread_state_registers(thread, 16, 1, &capture.registers[16])) return false;
#endif
    }
    dwfl_thread_state_register_pc(thread, capture.pc);
    return true;
  }

  static bool ReadWord(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* arg) {
    State* state = static_cast<State*>(arg);
    const ThreadCapture& t = *state->thread;
    if (address >= t.stack_base && address - t.stack_base <= t.stack.size() &&
        t.stack.size() - (address - t.stack_base) >= sizeof *result) {
      memcpy(result, t.stack.data() + (address - t.stack_base), sizeof *result);
      return true;
    }
    // This is another stack (of signals), or more than was copied, so the current memory is read.
    if (++state->live_reads > kMostLiveReads) return false;
    return state->memory.Read(address, result, sizeof *result);
  }

  static int OneFrame(Dwfl_Frame* frame, void* arg) {
    State* state = static_cast<State*>(arg);
    Dwarf_Addr pc = 0;
    bool activation = false;
    if (!dwfl_frame_pc(frame, &pc, &activation)) return -1;
    if (pc == 0) return DWARF_CB_ABORT;
    if (state->out->pcs.size() >= state->limit) {
      state->out->truncated = true;
      return DWARF_CB_ABORT;
    }
    state->out->pcs.push_back(activation ? pc : pc - 1);
    return DWARF_CB_OK;
  }

  void Open(CodeFile* file) {
    if (file->mapped.path == "[vdso]") {
      file->image.resize(static_cast<size_t>(std::min<uint64_t>(file->mapped.end - file->mapped.start, 1 << 20)));
      const ssize_t got = memory.ReadSome(file->mapped.start, file->image.data(), file->image.size());
      file->image.resize(got > 0 ? static_cast<size_t>(got) : 0);
      return;
    }
    const std::string named = absl::StrCat("/proc/", pid, "/root", file->mapped.path);
    // The mapped file, which exists even after its name was removed. Only privileged processes may open it.
    const std::string mapped = absl::StrFormat("/proc/%d/map_files/%x-%x", pid, file->mapped.start, file->mapped.end);
    // Last, tries the name as this process sees it. The file must start with the same bytes as the mapping.
    for (const std::string& path : {named, mapped, file->mapped.path}) {
      UniqueFd fd = OpenRegular(path);
      if (!fd.ok()) continue;
      if (SameFile(memory, file->mapped.start, fd.get())) {
        file->fd = std::move(fd);
        file->path = path;
        return;
      }
      file->problem = "the file on disk has been replaced";
    }
    if (file->problem.empty()) file->problem = file->mapped.deleted ? "the file was deleted" : "cannot open the file";
  }

  void Index(CodeFile* file) {
    file->indexed = true;
    if (file->module == nullptr) return;
    const int count = std::min(dwfl_module_getsymtab(file->module), kMostSymbols);
    for (int i = 1; i < count; ++i) {
      GElf_Sym symbol;
      GElf_Addr address = 0;
      GElf_Word section = 0;
      const char* name = dwfl_module_getsym_info(file->module, i, &symbol, &address, &section, nullptr, nullptr);
      if (name == nullptr || section == SHN_UNDEF || strchr(".$", name[0]) != nullptr)
        continue;  // labels, or no name at all
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) continue;
      if (address < file->mapped.start || address >= file->mapped.end) continue;
      file->symbols.push_back({address, symbol.st_size, name});
    }
    // NameOf() takes the last symbol of an address, so symbols with a size come last.
    std::stable_sort(file->symbols.begin(), file->symbols.end(), [](const SymbolEntry& a, const SymbolEntry& b) {
      return a.address != b.address ? a.address < b.address : (a.size != 0) < (b.size != 0);
    });
  }

  const char* NameOf(CodeFile* file, uint64_t pc) {
    if (!file->indexed) Index(file);
    auto after = std::upper_bound(file->symbols.begin(), file->symbols.end(), pc,
                                  [](uint64_t a, const SymbolEntry& s) { return a < s.address; });
    // A small function is rarely inside a larger one's range; a few steps back find the one that covers the address.
    for (int step = 0; step < 16 && after != file->symbols.begin(); ++step) {
      --after;
      if (after->size != 0 ? pc - after->address < after->size : step == 0 && pc - after->address < kSizelessReach)
        return after->name;
    }
    return nullptr;
  }
};

Unwinder::Unwinder(pid_t pid, const std::vector<Mapping>& maps, const ProcessHelper* helper)
    : state_(std::make_unique<State>(pid, helper)) {
  State& s = *state_;
  elf_version(EV_CURRENT);
  // Disables the lookup of debug files over the network, which would be slow and unwanted.
  unsetenv("DEBUGINFOD_URLS");
  for (MappedFile& mapped : MappedFiles(maps)) {
    if (!mapped.executable || s.files.size() >= kMostFiles) continue;
    CodeFile file;
    file.mapped = std::move(mapped);
    s.files.push_back(std::move(file));
  }
  for (CodeFile& file : s.files) s.Open(&file);

  s.debug_path = absl::StrCat(":.debug:/usr/lib/debug:/proc/", pid, "/root/usr/lib/debug");
  s.debug_path_text = s.debug_path.data();
  s.callbacks.find_elf = State::FindElf;
  s.callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
  s.callbacks.section_address = dwfl_offline_section_address;
  s.callbacks.debuginfo_path = &s.debug_path_text;
  s.thread_callbacks.next_thread = State::NextThread;
  s.thread_callbacks.get_thread = State::GetThread;
  s.thread_callbacks.memory_read = State::ReadWord;
  s.thread_callbacks.set_initial_registers = State::SetRegisters;
}

Unwinder::~Unwinder() {
  if (state_->dwfl != nullptr) dwfl_end(state_->dwfl);
}

Unwinder::Addresses Unwinder::Unwind(const ThreadCapture& thread, size_t limit) {
  Addresses addresses;
  State& s = *state_;
  if (!thread.have_pc) return addresses;
  if (s.dwfl == nullptr) {
    s.dwfl = dwfl_begin(&s.callbacks);
    if (s.dwfl != nullptr) {
      dwfl_report_begin(s.dwfl);
      for (CodeFile& file : s.files) {
        if (!file.fd.ok() && file.image.empty()) continue;
        file.module = dwfl_report_module(s.dwfl, file.mapped.path.c_str(), file.mapped.start, file.mapped.end);
        void** userdata = nullptr;
        if (file.module != nullptr &&
            dwfl_module_info(file.module, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) != nullptr)
          *userdata = &file;
      }
      dwfl_report_end(s.dwfl, nullptr, nullptr);
      s.attached = dwfl_attach_state(s.dwfl, nullptr, s.pid, &s.thread_callbacks, &s);
    }
    if (!s.attached) s.attach_problem = LastProblem();
  }
  s.thread = &thread;
  s.out = &addresses;
  s.limit = limit;
  s.live_reads = 0;
  if (s.attached) {
    const int result = dwfl_getthread_frames(s.dwfl, thread.tid, State::OneFrame, &s);
    if (result == -1) addresses.problem = LastProblem();
  } else {
    addresses.problem = s.attach_problem;
  }
  // Without any file or table, at least the current address is known.
  if (addresses.pcs.empty()) addresses.pcs.push_back(thread.pc);
  return addresses;
}

const StackFrame& Unwinder::Describe(uint64_t pc) {
  State& s = *state_;
  const auto [found, fresh] = s.frames.try_emplace(pc);
  StackFrame& frame = found->second;
  if (!fresh) return frame;
  CodeFile* file = s.FileAt(pc);
  if (file == nullptr) {
    frame.set_offset(pc);
    return frame;
  }
  if (file->number == 0) {
    s.reported.push_back(static_cast<uint32_t>(file - s.files.data()));
    file->number = static_cast<uint32_t>(s.reported.size());
  }
  frame.set_module(file->number);
  uint64_t bias = file->mapped.start;
  if (file->module != nullptr) {
    GElf_Addr main_bias = 0;
    if (dwfl_module_getelf(file->module, &main_bias) != nullptr) bias = main_bias;
    if (const char* name = s.NameOf(file, pc)) frame.set_function(ShortFunction(name));
  }
  frame.set_offset(pc - bias);
  return frame;
}

void Unwinder::AddLine(uint64_t pc) {
  State& s = *state_;
  const auto found = s.frames.find(pc);
  CodeFile* file = s.FileAt(pc);
  if (found == s.frames.end() || file == nullptr || file->module == nullptr || !file->lines) return;
  Dwarf_Addr bias = 0;
  if (dwfl_module_getdwarf(file->module, &bias) == nullptr) {
    file->lines = false;
    return;
  }
  Dwfl_Line* line = dwfl_module_getsrc(file->module, pc);
  int number = 0;
  const char* source = line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (source == nullptr) return;
  found->second.set_file(source);
  found->second.set_line(number > 0 ? static_cast<uint32_t>(number) : 0);
}

std::vector<StackModule> Unwinder::Modules() const {
  std::vector<StackModule> modules;
  const auto add = [&modules](const CodeFile& file) {
    StackModule module;
    module.set_path(file.mapped.path);
    const unsigned char* bits = nullptr;
    GElf_Addr address = 0;
    // libdwfl finds no build ID before the file is open.
    GElf_Addr bias = 0;
    const bool open = file.module != nullptr && dwfl_module_getelf(file.module, &bias) != nullptr;
    const int length = open ? dwfl_module_build_id(file.module, &bits, &address) : 0;
    for (int i = 0; i < length && i < 32; ++i)
      absl::StrAppend(module.mutable_build_id(), absl::Hex(bits[i], absl::kZeroPad2));
    modules.push_back(std::move(module));
  };
  for (uint32_t index : state_->reported) add(state_->files[index]);
  for (const CodeFile& file : state_->files) {
    if (file.number == 0 && file.mapped.executable && IsNcclLibrary(file.mapped.path)) add(file);
  }
  return modules;
}

uint64_t Unwinder::Symbol(const MappedFile& mapped, const std::string& name) {
  CodeFile* file = state_->FileAt(mapped.start);
  if (file == nullptr || !file->fd.ok()) return 0;
  Elf* elf = elf_begin(file->fd.get(), ELF_C_READ_MMAP, nullptr);
  uint64_t found = 0;
  for (const GElf_Word type : {SHT_DYNSYM, SHT_SYMTAB}) {
    Elf_Scn* section = nullptr;
    while (elf != nullptr && found == 0 && (section = elf_nextscn(elf, section)) != nullptr) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != type || header.sh_entsize == 0) continue;
      Elf_Data* data = elf_getdata(section, nullptr);
      const size_t count = data == nullptr ? 0 : std::min<size_t>(data->d_size / header.sh_entsize, kMostSymbols);
      for (size_t i = 1; i < count; ++i) {
        GElf_Sym symbol;
        if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_value == 0)
          continue;
        const char* text = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (text != nullptr && name == text) {
          found = symbol.st_value + BiasOf(elf, mapped.start);
          break;
        }
      }
    }
  }
  if (elf != nullptr) elf_end(elf);
  return found;
}

}  // namespace lockstep
