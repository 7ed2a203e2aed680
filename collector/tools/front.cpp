#include "collector/tools/front.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "analyzer/settings/table.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/sorted.h"
#include "analyzer/util/system.h"

namespace lockstep {
namespace {

std::vector<std::string> InstalledVerbs(const std::string& folder, const std::vector<InnerVerb>& inner) {
  std::vector<std::string> verbs;
  for (const InnerVerb& verb : inner) verbs.push_back(verb.name);
  constexpr std::string_view kPrefix = "lockstep-";
  for (const std::string& name : NamesIn(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string verb = name.substr(kPrefix.size());
    if (verb != "viewer" && access((folder + name).c_str(), X_OK) == 0) verbs.push_back(verb);
  }
  SortUnique(&verbs);
  return verbs;
}

void PrintHelp(FILE* out, const std::vector<std::string>& verbs) {
  fprintf(out,
          "lockstep - find the rank that stopped a distributed GPU job\n\n"
          "Usage: lockstep VERB [ARGUMENTS...]\n\n"
          "Examples:\n"
          "  # a job that is hanging now\n"
          "  lockstep attach\n"
          "  # PyTorch Flight Recorder dumps\n"
          "  lockstep analyze /tmp/nccl_trace_rank_*\n"
          "  # a job that Lockstep records and watches\n"
          "  lockstep run -- torchrun --nproc-per-node 8 train.py\n\n"
          "Verbs:\n");
  for (const std::string& verb : verbs) {
    // Programs without help, such as a build's lockstep-corpus, can be run but are not listed.
    if (const settings::Verb* known = settings::FindVerb(verb))
      fprintf(out, "  %-10s %s\n", verb.c_str(), known->purpose.c_str());
  }
  fprintf(out,
          "\nOptions:\n"
          "  -h, --help     print this help\n"
          "  -V, --version  print the version\n\n"
          "lockstep VERB --help describes a verb.\n");
}

const InnerVerb* Find(const std::vector<InnerVerb>& inner, const std::string& name) {
  const auto found = std::find_if(inner.begin(), inner.end(), [&](const InnerVerb& verb) { return name == verb.name; });
  return found == inner.end() ? nullptr : &*found;
}

}  // namespace

int Front(int argc, char** argv, const std::vector<InnerVerb>& inner) {
  const std::string folder = OwnFolder();
  if (argc > 0) {
    // A link, or a verb that starts itself again, calls this program by the name of a verb's program.
    const std::string called = argv[0];
    const std::string name = called.substr(called.rfind('/') + 1);
    constexpr char kPrefix[] = "lockstep-";
    if (name.rfind(kPrefix, 0) == 0) {
      if (const InnerVerb* found = Find(inner, name.substr(sizeof kPrefix - 1))) return found->main(argc, argv);
    }
  }
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "--version" || verb == "-V") {
    puts("lockstep " LOCKSTEP_VERSION);
    return 0;
  }
  if (verb == "help" && argc > 2 && argv[2][0] != '-') {
    // "help VERB" is equivalent to "VERB --help".
    std::string name = argv[2], help = "--help";
    char* words[] = {argv[0], name.data(), help.data(), nullptr};
    return name == "help" ? Front(2, words, inner) : Front(3, words, inner);
  }
  if (verb == "--help" || verb == "-h" || verb == "help") {
    PrintHelp(stdout, InstalledVerbs(folder, inner));
    return 0;
  }
  if (verb.empty()) {
    PrintHelp(stderr, InstalledVerbs(folder, inner));
    return 2;
  }
  // A verb must be a plain word, so it cannot name a program outside of the folder.
  const bool plain = std::all_of(verb.begin(), verb.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; });
  if (plain && verb[0] != '-') {
    const std::string program = folder + "lockstep-" + verb;
    argv[1] = const_cast<char*>(program.c_str());
    if (const InnerVerb* found = Find(inner, verb)) return found->main(argc - 1, argv + 1);
    execv(program.c_str(), argv + 1);
    if (errno != ENOENT) {
      fprintf(stderr, "lockstep: cannot run %s: %s\n", program.c_str(), strerror(errno));
      return 2;
    }
  }
  const std::vector<std::string> verbs = InstalledVerbs(folder, inner);
  const std::string near = settings::Nearest(verb, verbs);
  fprintf(stderr, "lockstep: unknown verb '%s'%s: %s\n", verb.c_str(),
          near.empty() ? "; verbs" : ("; did you mean " + near + "? Verbs").c_str(),
          verbs.empty() ? "none are installed" : absl::StrJoin(verbs, ", ").c_str());
  return 2;
}

}  // namespace lockstep
