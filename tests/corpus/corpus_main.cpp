// lockstep-corpus: lists, describes and generates labeled faults.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {
namespace {

constexpr char kUsage[] =
    "Usage: lockstep-corpus list [--json]\n"
    "       lockstep-corpus describe N\n"
    "       lockstep-corpus generate --scenario N --out DIR [OPTIONS]\n\n"
    "generate writes DIR/data (the input of the analyzer) and DIR/truth.json.\n"
    "  --scenario N      1 to 42\n"
    "  --ranks R         8 to 131072 (default 8)\n"
    "  --seed S          default 1\n"
    "  --format F        lsd or fr (default lsd)\n"
    "  --marks M         off, done, full or timed (default full); fr: full and timed record start events\n"
    "  --variant V       plain, missing1, missing10, overwritten, skew, skewstep, cut, shuffled, nostart, firstfile, "
    "rank0, lastrank,\n"
    "                    twofaults, shared (default plain)\n"
    "  --layout L        auto, 3d, interleaved, cp, moe, fsdp, hsdp[N], ddp, graph, or "
    "tp2-cp1-pp2-dp2[-ep2][-vpp2][-layersN][-mbN]\n"
    "  --depth D         records per rank (default 1024; 48 from 8,192 ranks); the job gets enough steps to fill "
    "them\n"
    "  --steps N         training steps\n"
    "  --out DIR         created if missing; an older DIR/data is replaced\n";

int Usage(const std::string& why) {
  std::fprintf(stderr, "lockstep-corpus: %s (lockstep-corpus --help shows the options)\n", why.c_str());
  return 2;
}

int List(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (int n = 1; n <= kScenarios; ++n) {
    const ScenarioInfo& info = Info(n);
    auto side = [](const std::string& needs) {
      const bool never = needs.rfind("never: ", 0) == 0;
      return nlohmann::ordered_json{{"identifiable", never           ? "no"
                                                     : needs.empty() ? "yes"
                                                                     : "with"},
                                    {"needs", never ? needs.substr(7) : needs}};
    };
    if (json) {
      all.push_back({{"scenario", n}, {"name", info.name}, {"lsd", side(info.lsd_needs)}, {"fr", side(info.fr_needs)}});
    } else {
      std::printf("%2d  %-40s lsd: %s; fr: %s\n", n, info.name, info.lsd_needs[0] != 0 ? info.lsd_needs : "yes",
                  info.fr_needs[0] != 0 ? info.fr_needs : "yes");
    }
  }
  if (json) std::printf("%s\n", all.dump(1).c_str());
  return 0;
}

bool Number(const char* text, int64_t low, int64_t high, int64_t* value) {
  char* end = nullptr;
  *value = std::strtoll(text, &end, 10);
  return *text != 0 && *end == 0 && *value >= low && *value <= high;
}

int Main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "--help" || verb == "-h") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (verb == "list") return List(argc > 2 && std::string(argv[2]) == "--json");
  int64_t number = 0;
  if (verb == "describe") {
    if (argc < 3 || !Number(argv[2], 1, kScenarios, &number)) return Usage("describe needs a number from 1 to 42");
    const ScenarioInfo& info = Info(static_cast<int>(number));
    std::printf("%d: %s\n\nfault    %s\nrecord   %s\ntruth    %s\n", info.number, info.name, info.fault, info.record,
                info.truth);
    if (info.lsd_needs[0] != 0) std::printf("own dumps        %s\n", info.lsd_needs);
    if (info.fr_needs[0] != 0) std::printf("Flight Recorder  %s\n", info.fr_needs);
    return 0;
  }
  if (verb != "generate")
    return Usage(verb.empty() ? "needs list, describe or generate" : "unknown verb '" + verb + "'");
  Request request;
  std::string out;
  for (int i = 2; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 >= argc) return Usage(option + " needs a value");
    const std::string value = argv[i + 1];
    bool good = true;
    if (option == "--scenario") {
      good = Number(argv[i + 1], 1, kScenarios, &number);
      request.scenario = static_cast<int>(number);
    } else if (option == "--ranks") {
      good = Number(argv[i + 1], 8, 131072, &number);
      request.ranks = static_cast<int32_t>(number);
    } else if (option == "--seed") {
      good = Number(argv[i + 1], 0, INT64_MAX, &number);
      request.seed = static_cast<uint64_t>(number);
    } else if (option == "--depth") {
      good = Number(argv[i + 1], 16, 65536, &number);
      request.depth = static_cast<int32_t>(number);
    } else if (option == "--steps") {
      good = Number(argv[i + 1], 3, 100000, &number);
      request.steps = static_cast<int32_t>(number);
    } else if (option == "--format") {
      good = value == "lsd" || value == "fr";
      request.fr = value == "fr";
    } else if (option == "--marks") {
      good = value == "off" || value == "done" || value == "full" || value == "timed";
      request.marks = value == "off"    ? Marks::kOff
                      : value == "done" ? Marks::kDone
                      : value == "full" ? Marks::kFull
                                        : Marks::kTimed;
    } else if (option == "--variant") {
      request.variant = value;
    } else if (option == "--layout") {
      request.layout = value;
    } else if (option == "--out") {
      out = value;
    } else {
      return Usage("unknown option '" + option + "'");
    }
    if (!good) return Usage(option + " cannot be '" + value + "'");
  }
  if (out.empty()) return Usage("generate needs --out DIR");
  std::string error;
  constexpr int kNotApplicable = 4;
  if (!Applies(request, &error)) {
    std::fprintf(stderr, "lockstep-corpus: no such case: %s\n", error.c_str());
    return kNotApplicable;
  }
  if (Generate(request, out, &error)) return 0;
  std::fprintf(stderr, "lockstep-corpus: %s\n", error.c_str());
  return 1;
}

}  // namespace
}  // namespace lockstep::corpus

int main(int argc, char** argv) { return lockstep::corpus::Main(argc, argv); }
