#include "collector/tools/check/sites.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/paths.h"

namespace lockstep::check {
namespace {

// Hashes a build id as the recorder does (Op::caller_object).
uint32_t HashOfBuildId(const unsigned char* bytes, int size) {
  uint32_t hash = 2166136261u;
  for (int i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 16777619u;
  return hash != 0 ? hash : 1;
}

// Returns the file that a shell would run for this word; empty if there is none.
std::string FileOf(const std::string& word) {
  struct stat status;
  const auto is_file = [&](const std::string& path) {
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), R_OK) == 0;
  };
  if (word.find('/') != std::string::npos) return is_file(word) ? word : "";
  const char* path = getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (std::string file = absl::StrCat(folder, "/", word); !folder.empty() && is_file(file)) return file;
  }
  return "";
}

// Returns the function's name without its arguments and without anonymous namespaces.
std::string FunctionName(const char* symbol) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : symbol;
  free(demangled);
  static constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kUnnamed)) != std::string::npos;) name.erase(at, kUnnamed.size());
  return name.substr(0, name.find('('));
}

class Files {
 public:
  explicit Files(const std::vector<std::string>& words) {
    callbacks_.find_elf = dwfl_build_id_find_elf;
    callbacks_.find_debuginfo = dwfl_standard_find_debuginfo;
    callbacks_.section_address = dwfl_offline_section_address;
    dwfl_ = dwfl_begin(&callbacks_);
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    for (const std::string& word : words) {
      const std::string file = FileOf(word);
      Dwfl_Module* module = file.empty() ? nullptr : dwfl_report_offline(dwfl_, file.c_str(), file.c_str(), -1);
      if (module == nullptr) continue;
      const unsigned char* bits = nullptr;
      GElf_Addr address = 0, bias = 0;
      const int length =
          dwfl_module_getelf(module, &bias) == nullptr ? 0 : dwfl_module_build_id(module, &bits, &address);
      if (length > 0) modules_[HashOfBuildId(bits, length)] = {module, bias};
    }
    dwfl_report_end(dwfl_, nullptr, nullptr);
  }
  ~Files() {
    if (dwfl_ != nullptr) dwfl_end(dwfl_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  bool Has(uint32_t object) const { return modules_.count(object) != 0; }

  // Returns "train.cpp:88 Step", or the part of it that is known.
  std::string Place(uint32_t object, uint64_t offset) const {
    const auto& [module, bias] = modules_.at(object);
    const GElf_Addr at = offset + bias - 1;  // the call itself, not its return address
    int number = 0;
    Dwfl_Line* line = dwfl_module_getsrc(module, at);
    const char* source = line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
    const char* name = dwfl_module_addrname(module, at);
    std::string place = source == nullptr ? "" : absl::StrCat(std::string(BaseName(source)), ":", number);
    if (name != nullptr) absl::StrAppend(&place, place.empty() ? "" : " ", FunctionName(name));
    return place;
  }

 private:
  Dwfl_Callbacks callbacks_{};
  Dwfl* dwfl_ = nullptr;
  std::map<uint32_t, std::pair<Dwfl_Module*, GElf_Addr>> modules_;  // indexed by caller_object
};

}  // namespace

void AddCallSites(const std::vector<std::string>& files, Bundle* bundle) {
  const Files known(files);
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> sites;
  for (Rank& rank : bundle->ranks) {
    for (Op& op : rank.ops) {
      if (op.call_site != kNoIndex || op.caller == 0 || !known.Has(op.caller_object)) continue;
      const auto [site, fresh] = sites.try_emplace({op.caller_object, op.caller}, kNoIndex);
      if (fresh) {
        if (std::string place = known.Place(op.caller_object, op.caller); !place.empty()) {
          site->second = static_cast<uint32_t>(bundle->strings.size());
          bundle->strings.push_back(std::move(place));
        }
      }
      op.call_site = site->second;
    }
  }
}

}  // namespace lockstep::check
