#include "analyzer/evidence/redact.h"

#include <errno.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/evidence/activity_rules.h"
#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/paths.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/system.h"

namespace lockstep {
namespace {

constexpr size_t kHashDigits = 8;
constexpr size_t kLeastKey = 16, kMostKey = 4096;

// Files whose code is public, by the beginning of their name.
constexpr absl::string_view kPublicModules[] = {
    "ld-linux",    "ld-musl",     "libc.so",     "libc-",        "libpthread",   "libm.so",     "libm-",
    "libdl",       "librt",       "libstdc++",   "libgcc_s",     "libgomp",      "libiomp",     "libnccl",
    "librccl",     "libcuda",     "libcudart",   "libcublas",    "libcudnn",     "libcufft",    "libcurand",
    "libcusolver", "libcusparse", "libcupti",    "libnvrtc",     "libnvJitLink", "libnvidia",   "libnvToolsExt",
    "libnvshmem",  "libamdhip",   "libhsa-",     "libtorch",     "libc10",       "libshm.so",   "libpython",
    "python2",     "python3",     "libibverbs",  "libmlx",       "librdmacm",    "libucp",      "libuct",
    "libucs",      "libmpi",      "libopen-",    "libpmi",       "libfabric",    "libhwloc",    "libnuma",
    "libmkl",      "libopenblas", "libjemalloc", "libtcmalloc",  "libzmq",       "liblockstep", "libcrypto",
    "libssl",      "libz.so",     "libzstd",     "liblustreapi", "linux-vdso",   "[vdso]",
};
// Public packages in site-packages or dist-packages.
constexpr absl::string_view kPublicPackages[] = {
    "torch",
    "torchvision",
    "torchaudio",
    "torchdata",
    "torchgen",
    "functorch",
    "triton",
    "numpy",
    "scipy",
    "pandas",
    "deepspeed",
    "megatron",
    "transformers",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "peft",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax",
    "grain",
    "webdataset",
    "streaming",
    "composer",
    "nvidia",
    "cupy",
    "mpi4py",
    "vllm",
    "ray",
    "lightning",
    "pytorch_lightning",
    "apex",
    "transformer_engine",
    "flash_attn",
    "xformers",
    "fsspec",
    "pyarrow",
    "tensorflow",
    "horovod",
    "nvidia_resiliency_ext",
};
// Extensions that reveal only the type of a file.
constexpr absl::string_view kPublicEndings[] = {
    ".py", ".so",  ".pt",          ".pth",    ".bin", ".log", ".json", ".txt", ".cpp", ".cc",  ".cu",  ".c",
    ".h",  ".hpp", ".safetensors", ".distcp", ".npz", ".npy", ".tar",  ".zip", ".tmp", ".lsd", ".ring"};

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool StartsWithAny(std::string_view text, const auto& list) {
  return std::any_of(std::begin(list), std::end(list), [&](absl::string_view part) {
    return absl::StartsWith({text.data(), text.size()}, part);
  });
}

bool IsPublicModule(std::string_view path) {
  if (path.find("/lib-dynload/") != path.npos) return true;
  const std::string_view base = BaseName(path);
  return base == "python" || StartsWithAny(base, kPublicModules);
}

// Returns the part of a path that names a public Python file, "site-packages/torch/utils/data/dataloader.py"; empty if
// there is none.
std::string_view PublicPart(std::string_view path) {
  for (const std::string_view packages : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = path.rfind(packages);
    if (at == path.npos) continue;
    const std::string_view rest = path.substr(at + packages.size());
    return IsPublicPackage(rest) ? path.substr(at + 1) : std::string_view();
  }
  // Python's own library: .../lib/python3.11/threading.py.
  const size_t at = path.rfind("/lib/python3.");
  if (at == path.npos) return {};
  const std::string_view rest = path.substr(at + 5);
  return IsPublicPackage(rest) ? path.substr(at + 1) : std::string_view();
}

// Returns the public part of a path that the analysis recognizes: a rule's text, the packages folder or a checkpoint
// word. Empty if there is none.
std::string PathWord(std::string_view path) {
  const absl::string_view text(path.data(), path.size());
  for (const activity::Rule& rule : activity::kPythonFiles) {
    if (absl::StrContains(text, rule.part)) return std::string(rule.part);
  }
  // CodeFrame recognizes libraries by this folder.
  for (const absl::string_view packages : {"site-packages/", "dist-packages/"}) {
    if (absl::StrContains(text, packages)) return std::string(packages);
  }
  const std::string lower = absl::AsciiStrToLower(text);
  for (const absl::string_view word : activity::kCheckpointPaths) {
    if (absl::StrContains(lower, word)) return std::string(word);
  }
  return "";
}

std::string FunctionWord(std::string_view name) {
  const absl::string_view text(name.data(), name.size());
  for (const activity::Rule& rule : activity::kPythonNames) {
    if (absl::StrContains(text, rule.part)) return std::string(rule.part);
  }
  for (const activity::Rule& rule : activity::kNative) {
    if (absl::StrContains(text, rule.part)) return std::string(rule.part);
  }
  for (const absl::string_view word : activity::kWrites) {
    if (absl::StrContains(text, word)) return std::string(word);
  }
  return "";
}

std::string_view Ending(std::string_view base) {
  for (const absl::string_view ending : kPublicEndings) {
    if (base.size() > ending.size() && absl::EndsWith({base.data(), base.size()}, ending))
      return base.substr(base.size() - ending.size());
  }
  return base.find(".so.") != base.npos ? std::string_view(".so") : std::string_view();
}

bool IsFunctionMade(std::string_view name) {
  return name.size() >= 3 + kHashDigits && name.substr(0, 3) == "fn_" && IsHex(name.substr(3, kHashDigits));
}

// Returns whether every Linux system has the path, so that it need not be redacted. Messages about refused access
// contain such paths.
bool IsSystemPath(std::string_view path) {
  if (path == "/proc" || path == "/sys" || path == "/dev" || path == "/dev/shm" || path == "/tmp" || path == "/etc")
    return true;
  if (path.find("/root/") != path.npos || path.find("/cwd/") != path.npos) return false;
  const absl::string_view text(path.data(), path.size());
  for (const absl::string_view folder : {"/proc/", "/sys/kernel/", "/sys/bus/", "/sys/class/", "/etc/lockstep",
                                         "/run/lockstep", "/dev/nvidia", "/dev/kmsg", "/dev/infiniband"}) {
    if (absl::StartsWith(text, folder)) return true;
  }
  return path == "/dev/null" || path == "/dev/mem" || absl::StartsWith(text, "/dev/pts/");
}

bool InPath(char c) {
  return static_cast<unsigned char>(c) >= 0x80 || isalnum(static_cast<unsigned char>(c)) ||
         strchr("/._-+@%~#$!{}^", c) != nullptr;
}

bool LooksLikePath(std::string_view word) {
  if (word.size() < 2 || word.find('/') == word.npos) return false;
  if (word[0] == '/') return true;
  if (word.substr(0, 2) == "~/" || word.substr(0, 2) == "./" || word.substr(0, 3) == "../") return true;
  // True for "folder/file.py" and "a/b/c", false for "and/or" and "I/O".
  const std::string_view base = BaseName(word);
  const size_t dot = base.rfind('.');
  return (dot != base.npos && dot > 0 && base.size() - dot > 1) || std::count(word.begin(), word.end(), '/') > 1;
}

bool IsMade(std::string_view path) {
  return path.size() > kHashDigits && path[kHashDigits] == '/' && IsHex(path.substr(0, kHashDigits));
}

// Returns the level at which the evidence was redacted, from the form of its names: without redaction, paths of modules
// and cgroups begin with a slash, and threads have names.
RedactLevel LevelOf(const ProcessEvidence& evidence) {
  const bool made = std::any_of(evidence.modules().begin(), evidence.modules().end(),
                                [](const StackModule& module) { return IsMade(module.path()); }) ||
                    IsMade(evidence.memory().cgroup());
  if (!made) return RedactLevel::kNo;
  const bool named = std::any_of(evidence.threads().begin(), evidence.threads().end(),
                                 [](const ThreadStack& thread) { return !thread.name().empty(); });
  return named || evidence.threads().empty() ? RedactLevel::kPaths : RedactLevel::kStacks;
}

}  // namespace

bool IsPublicPackage(std::string_view path) {
  const std::string_view package = path.substr(0, path.find('/'));
  if (package.size() == path.size()) return false;
  if (package.substr(0, 8) == "python3.") return package.find_first_not_of("0123456789t", 8) == package.npos;
  const absl::string_view name(package.data(), package.size());
  return std::find(std::begin(kPublicPackages), std::end(kPublicPackages), name) != std::end(kPublicPackages);
}

const char* RedactLevelName(RedactLevel level) {
  return level == RedactLevel::kPaths ? "paths" : level == RedactLevel::kStacks ? "stacks" : "no";
}

absl::StatusOr<RedactLevel> ParseRedactLevel(std::string_view text) {
  for (const RedactLevel level : {RedactLevel::kNo, RedactLevel::kPaths, RedactLevel::kStacks}) {
    if (text == RedactLevelName(level)) return level;
  }
  return absl::InvalidArgumentError(absl::StrCat("--redact takes one of no, paths, stacks, not '",
                                                 absl::string_view(text.data(), std::min<size_t>(text.size(), 100)),
                                                 "'"));
}

Redactor::Redactor(RedactLevel level, std::string_view key) : level_(level) {
  crypto_generichash(key_.data(), key_.size(), reinterpret_cast<const unsigned char*>(key.data()), key.size(), nullptr,
                     0);
}

std::string Redactor::Hash(std::string_view text) const {
  unsigned char hash[crypto_generichash_BYTES_MIN];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(text.data()), text.size(), key_.data(),
                     key_.size());
  std::string hex;
  for (size_t i = 0; i < kHashDigits / 2; ++i) absl::StrAppend(&hex, absl::Hex(hash[i], absl::kZeroPad2));
  return hex;
}

std::string Redactor::Path(std::string_view path) const {
  if (!on() || path.size() < 2 || path[0] == '<' || path[0] == '[' || IsSystemPath(path)) return std::string(path);
  const std::string_view base = BaseName(path);
  // HASH/... is already redacted.
  const bool made = IsMade(path);
  const bool made_base = base.size() >= kHashDigits && IsHex(base.substr(0, kHashDigits)) &&
                         (base.size() == kHashDigits || base[kHashDigits] == '.');
  if (made && (level_ == RedactLevel::kPaths || made_base || IsPublicModule(base) || !PublicPart(path).empty()))
    return std::string(path);
  if (const std::string_view known = PublicPart(path); !known.empty())
    return absl::StrCat(Hash(path), "/", absl::string_view(known.data(), known.size()));
  if (level_ == RedactLevel::kPaths && base.size() == path.size()) return std::string(path);
  if (base.size() == path.size() && (made_base || IsPublicModule(base))) return std::string(path);
  const std::string hash = Hash(path);
  const std::string_view ending = Ending(base);
  std::string last = level_ == RedactLevel::kPaths || IsPublicModule(path)
                         ? std::string(base)
                         : absl::StrCat(Hash(base), absl::string_view(ending.data(), ending.size()));
  if (base.size() == path.size()) return last;
  const std::string word = PathWord(path);
  if (word.empty() || absl::StrContains(absl::AsciiStrToLower(last), word)) return absl::StrCat(hash, "/", last);
  // The redacted path must still match the rule, whose text may contain a slash.
  return absl::StrCat(hash, "/", absl::string_view(word).substr(0, word.size() - (word.back() == '/' ? 1 : 0)), "/",
                      last);
}

std::string Redactor::Text(std::string_view text) const {
  if (!on() || text.find('/') == text.npos) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!InPath(text[at])) {
      out.push_back(text[at++]);
      continue;
    }
    size_t end = at;
    while (end < text.size() && InPath(text[end])) ++end;
    std::string_view word = text.substr(at, end - at);
    // In tcp://HOST, the slashes begin a separate word.
    const bool endpoint = at > 0 && text[at - 1] == ':' && word.substr(0, 2) == "//";
    std::string_view dots = word.substr(std::min(word.size(), word.find_last_not_of('.') + 1));
    word.remove_suffix(dots.size());
    if (endpoint && text.substr(0, at).size() >= 4 && text.substr(at - 4, 4) == "ipc:") {
      out += absl::StrCat("//", Path(word.substr(2)));
    } else {
      out += !endpoint && LooksLikePath(word) ? Path(word) : std::string(word);
    }
    out.append(dots);
    at = end;
  }
  return out;
}

std::string Redactor::KernelLine(std::string_view text) const {
  std::string line = Text(text);
  if (level_ != RedactLevel::kStacks) return line;
  // "comm NAME", "name=NAME", "task NAME:PID", "process PID (NAME)", and at the start "NAME[PID]:".
  const auto hide = [&line, this](size_t at, size_t end) {
    if (end <= at) return at;
    const std::string name = IsFunctionMade(std::string_view(line).substr(at, end - at))
                                 ? line.substr(at, end - at)
                                 : absl::StrCat("fn_", Hash(line.substr(at, end - at)));
    line.replace(at, end - at, name);
    return at + name.size();
  };
  for (const std::string_view mark :
       {"comm ", "comm=", "comm:", "Comm:", "Comm: ", "name=", "task=", "task ", "swapper_pg_dir="}) {
    for (size_t at = line.find(mark); at != line.npos; at = line.find(mark, at)) {
      at += mark.size();
      while (at < line.size() && line[at] == ' ') ++at;
      if (at < line.size() && line[at] == '"') ++at;
      const size_t end = std::min(line.size(), line.find_first_of(" ,:;\"", at));
      at = hide(at, end);
    }
  }
  for (size_t at = line.find("rocess "); at != line.npos; at = line.find("rocess ", at)) {
    at += strlen("rocess ");
    const size_t open = line.find_first_not_of("0123456789", at);
    if (open == line.npos || open == at || line.compare(open, 2, " (") != 0) continue;
    at = hide(open + 2, std::min(line.size(), line.find(')', open)));
  }
  if (const size_t bracket = line.find('['); bracket != line.npos && bracket > 0) {
    const size_t digits = line.find_first_not_of("0123456789", bracket + 1);
    const size_t begin = line.rfind(' ', bracket) == line.npos ? 0 : line.rfind(' ', bracket) + 1;
    if (digits != line.npos && digits > bracket + 1 && line[digits] == ']') hide(begin, bracket);
  }
  return line;
}

std::string Redactor::ThreadName(std::string_view name) const {
  return level_ == RedactLevel::kStacks ? "" : std::string(name);
}

std::string Redactor::Function(const StackFrame& frame, std::string_view module) const {
  const std::string_view name = frame.function();
  if (level_ != RedactLevel::kStacks || name.empty() || name[0] == '<' || frame.kind() == StackFrame::KERNEL ||
      IsFunctionMade(name))
    return std::string(name);
  if (frame.kind() == StackFrame::PYTHON ? !PublicPart(frame.file()).empty() || absl::StartsWith(frame.file(), "<")
                                         : IsPublicModule(module))
    return std::string(name);
  const std::string word = FunctionWord(name);
  return absl::StrCat("fn_", Hash(name), word.empty() ? "" : "_", word);
}

std::string Redactor::Frame(std::string_view text) const {
  if (!on() || absl::StartsWith({text.data(), text.size()}, "[kernel] ")) return std::string(text);
  std::string_view function = text, place, line;
  if (const size_t open = text.rfind(" ("); open != text.npos && text.back() == ')') {
    function = text.substr(0, open);
    place = text.substr(open + 2, text.size() - open - 3);
    if (const size_t colon = place.rfind(':'); colon != place.npos) {
      line = place.substr(colon);
      place = place.substr(0, colon);
    }
  } else if (const size_t at = text.rfind(" at 0x"); at != text.npos) {
    const std::string_view module = text.substr(0, at);
    const bool keep = level_ == RedactLevel::kPaths || IsPublicModule(module);
    return absl::StrCat(keep ? std::string(module) : std::string(BaseName(Path(module))),
                        absl::string_view(text.data() + at, text.size() - at));
  } else if (text.find(' ') != text.npos) {
    return std::string(text);  // "code outside of any file"
  }
  StackFrame frame;
  frame.set_function(std::string(function));
  frame.set_file(std::string(place));
  const bool python = absl::EndsWith(frame.file(), ".py") || absl::StartsWith(frame.file(), "<");
  frame.set_kind(python ? StackFrame::PYTHON : StackFrame::NATIVE);
  std::string out = Function(frame, "");
  std::string path = Path(place);
  if (!python) path = std::string(BaseName(path));
  return place.empty() ? out : absl::StrCat(out, " (", path, absl::string_view(line.data(), line.size()), ")");
}

std::string Redactor::CallSite(std::string_view text) const {
  const size_t blank = text.find(' ');
  const size_t colon = text.rfind(':', blank);
  if (level_ != RedactLevel::kStacks || blank == text.npos || colon == text.npos) return Text(text);
  StackFrame frame;
  frame.set_kind(StackFrame::PYTHON);
  frame.set_function(std::string(text.substr(blank + 1)));
  const std::string place = Path(text.substr(0, colon));
  return absl::StrCat(absl::string_view(place).substr(place.rfind('/') + 1),
                      absl::string_view(text.data() + colon, blank - colon), " ", Function(frame, ""));
}

std::vector<std::string> Redactor::Command(const std::vector<std::string>& words) const {
  if (!on()) return words;
  if (level_ == RedactLevel::kStacks) {
    std::vector<std::string> out;
    if (!words.empty()) out.push_back(Path(words[0]));
    if (words.size() > 1) out.push_back(absl::StrCat("(", words.size() - 1, " arguments)"));
    return out;
  }
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const bool path = !word.empty() && word[0] == '/' && word.find('\n') == word.npos;
    out.push_back(path ? Path(word) : Text(word));
  }
  return out;
}

void Redactor::Redact(ProcessEvidence* evidence) const {
  std::vector<std::string> modules;
  for (StackModule& module : *evidence->mutable_modules()) {
    modules.push_back(module.path());
    module.set_path(Path(module.path()));
  }
  for (ThreadStack& thread : *evidence->mutable_threads()) {
    thread.set_name(ThreadName(thread.name()));
    thread.set_refused(Text(thread.refused()));
    for (StackFrame& frame : *thread.mutable_frames()) {
      const bool known = frame.module() > 0 && frame.module() <= modules.size();
      frame.set_function(Function(frame, known ? std::string_view(modules[frame.module() - 1]) : std::string_view()));
      frame.set_file(Path(frame.file()));
    }
  }
  if (evidence->has_memory()) evidence->mutable_memory()->set_cgroup(Path(evidence->memory().cgroup()));
  for (GpuState& gpu : *evidence->mutable_gpus()) {
    gpu.set_lost(Text(gpu.lost()));
    for (std::string& text : *gpu.mutable_unread()) text = Text(text);
  }
  for (HardwareEvent& event : *evidence->mutable_hardware()) event.set_text(KernelLine(event.text()));
  evidence->set_stacks_refused(Text(evidence->stacks_refused()));
  evidence->set_python_refused(Text(evidence->python_refused()));
  evidence->set_gpus_unread(Text(evidence->gpus_unread()));
  evidence->set_hardware_unread(Text(evidence->hardware_unread()));
}

bool Redactor::IsDone(const ProcessEvidence& evidence) const {
  const RedactLevel level = LevelOf(evidence);
  return level == level_ || level == RedactLevel::kStacks;
}

std::string Redactor::Mount(std::string_view mount) const {
  const size_t type = std::min(mount.rfind(" ("), mount.size());
  const std::string_view path = mount.substr(0, type);
  // A mount that does not begin with a slash is already a hash. The last part of a mount is the name of a folder, so it
  // is hashed too; Path() may keep it.
  if (!on() || path.size() < 2 || path[0] != '/' || IsSystemPath(path)) return std::string(mount);
  return Hash(path) + std::string(mount.substr(type));
}

void Redactor::Redact(ProcessState* process) const {
  if (!on()) return;
  if (!process->has_evidence() || !IsDone(process->evidence())) {
    if (process->has_evidence()) Redact(process->mutable_evidence());
    for (auto* stack : {process->mutable_stack(), process->mutable_python_stack(), process->mutable_stack_later()}) {
      for (std::string& text : *stack) text = Frame(text);
    }
  }
  process->set_stack_refused(Text(process->stack_refused()));
  for (std::string& file : *process->mutable_written_files()) file = Path(file);
  for (std::string& mount : *process->mutable_written_mounts()) mount = Mount(mount);
}

void Redactor::Redact(Process* process) const {
  if (!on()) return;
  // Maps each frame's text to its redacted text. The stacks below contain the same frames.
  std::map<std::string, std::string> texts;
  const bool done = process->evidence != nullptr && IsDone(*process->evidence);
  if (process->evidence != nullptr && !done) {
    auto evidence = std::make_shared<ProcessEvidence>(*process->evidence);
    Redact(evidence.get());
    for (int t = 0; t < evidence->threads_size(); ++t) {
      for (int f = 0; f < evidence->threads(t).frames_size(); ++f) {
        texts[FrameText(process->evidence->threads(t).frames(f), *process->evidence)] =
            FrameText(evidence->threads(t).frames(f), *evidence);
      }
    }
    process->evidence = std::move(evidence);
  }
  for (auto* stack : {&process->stack, &process->python_stack, &process->stack_later}) {
    if (done) break;
    for (std::string& text : *stack) {
      const auto known = texts.find(text);
      text = known != texts.end() ? known->second : Frame(text);
    }
  }
  process->stack_refused = Text(process->stack_refused);
  process->exception = Text(process->exception);
  for (std::string& file : process->written_files) file = Path(file);
  for (std::string& mount : process->written_mounts) mount = Mount(mount);
}

void Redactor::Redact(MergedStacks* stacks) const {
  for (MergedStack& stack : stacks->stacks) {
    for (std::string& frame : stack.frames) frame = Frame(frame);
  }
  for (std::string& text : stacks->refused) text = Text(text);
}

void Redactor::Redact(Bundle* bundle) const {
  if (!on()) return;
  std::set<uint32_t> sites;
  for (Rank& rank : bundle->ranks) {
    Redact(&rank.process);
    // The file's name stays, because it contains only the names of the host and the process.
    if (const size_t slash = rank.path.rfind('/'); slash != rank.path.npos)
      rank.path = absl::StrCat(Hash(rank.path.substr(0, slash)), rank.path.substr(slash));
    rank.stop_reason = Text(rank.stop_reason);
    for (ring::ThreadSnapshot& thread : rank.threads) thread.name = ThreadName(thread.name);
    for (const Op& op : rank.ops) {
      if (op.call_site != kNoIndex) sites.insert(op.call_site);
    }
  }
  for (const uint32_t site : sites) {
    if (site < bundle->strings.size()) bundle->strings[site] = CallSite(bundle->strings[site]);
  }
  for (Problem& problem : bundle->problems) {
    if (problem.path.find('/') != problem.path.npos) problem.path = Path(problem.path);
    problem.text = Text(problem.text);
  }
}

absl::StatusOr<Redactor> MakeRedactor(RedactLevel level, const std::string& other, std::string* from) {
  if (level == RedactLevel::kNo) return Redactor();
  std::vector<std::string> files;
  for (const std::string& folder : KeyFolders()) files.push_back(absl::StrCat(folder, "/redact.key"));
  if (!other.empty()) files.push_back(other);
  for (const std::string& file : files) {
    const UniqueFd fd = OpenToRead(file);
    if (!fd.ok()) {
      if (errno == ENOENT || errno == ENOTDIR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", file, ", the key for redaction (--redact)"));
    }
    struct stat info {};
    const bool regular = fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
    const std::string key = regular ? ReadSmallFile(fd.get(), kMostKey) : "";
    if (regular && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat(file, " is accessible to other users than its owner; chmod 600 ", file));
    }
    if (key.size() < kLeastKey)
      return absl::InvalidArgumentError(absl::StrCat(file, " does not contain a key of at least ", kLeastKey,
                                                     " bytes; head -c 16 /dev/urandom > ", file));
    if (from != nullptr) *from = file;
    return Redactor(level, key);
  }
  unsigned char key[32];
  if (sodium_init() < 0) return absl::UnavailableError("the system did not provide a random key for --redact");
  randombytes_buf(key, sizeof key);
  if (from != nullptr) *from = "random for this run: names cannot be compared with those of other hosts or runs";
  return Redactor(level, {reinterpret_cast<const char*>(key), sizeof key});
}

namespace {
Redactor& TheHostRedaction() {
  static auto& redactor = *new Redactor;
  return redactor;
}
}  // namespace

void SetHostRedaction(const Redactor& redactor) { TheHostRedaction() = redactor; }

const Redactor& HostRedaction() { return TheHostRedaction(); }

std::string RedactionOf(const Bundle& bundle) {
  RedactLevel most = RedactLevel::kNo;
  for (const Rank& rank : bundle.ranks) {
    if (rank.process.evidence != nullptr) most = std::max(most, LevelOf(*rank.process.evidence));
  }
  return most == RedactLevel::kNo ? "" : RedactLevelName(most);
}

std::string RedactionLine(const Bundle& bundle) {
  const std::string level = RedactionOf(bundle);
  if (level == "paths") return "folders became hashes (--redact paths)";
  if (level == "stacks")
    return "names of folders, files and functions that are not public are hashes, and names of threads are removed "
           "(--redact stacks)";
  return "";
}

}  // namespace lockstep
