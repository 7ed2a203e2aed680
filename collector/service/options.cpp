#include "collector/service/options.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/settings/merge.h"

namespace lockstep {
namespace {

constexpr double kMostSeconds = 30.0 * 86400;

absl::Status Usage(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(text, " (lockstep collector --help shows the options)"));
}

absl::Status ParseSeconds(const std::string& option, const std::string& value, int64_t* ns) {
  double seconds = 0;
  if (!absl::SimpleAtod(value, &seconds) || !std::isfinite(seconds) || seconds <= 0 || seconds > kMostSeconds) {
    return Usage(absl::StrCat(option, " takes a number of seconds above 0, not '", value, "'"));
  }
  *ns = static_cast<int64_t>(seconds * 1e9);
  return absl::OkStatus();
}

// "7d", "36h", "0".
absl::Status ParseKeep(std::string text, int64_t* seconds) {
  const std::string whole = text;
  int64_t factor = 1, number = 0;
  const size_t unit = text.empty() ? std::string::npos : std::string("smhd").find(text.back());
  if (unit != std::string::npos) {
    constexpr int64_t kFactors[] = {1, 60, 3600, 86400};
    factor = kFactors[unit];
    text.pop_back();
  }
  if (!absl::SimpleAtoi(text, &number) || number < 0 || number > 1'000'000'000) {
    return Usage(absl::StrCat("--keep takes an age such as 90s, 10m, 36h or 7d, or 0, not '", whole, "'"));
  }
  *seconds = number * factor;
  return absl::OkStatus();
}

absl::Status CheckEndpoint(const std::string& option, const std::string& endpoint, bool server) {
  const bool ipc = absl::StartsWith(endpoint, "ipc://") && endpoint.size() > 6;
  const size_t colon = endpoint.rfind(':');
  bool tcp = absl::StartsWith(endpoint, "tcp://") && colon != std::string::npos && colon > 6;
  if (tcp) {
    const std::string port = endpoint.substr(colon + 1);
    int number = 0;
    tcp = (server && port == "*") || (absl::SimpleAtoi(port, &number) && number >= (server ? 0 : 1) && number <= 65535);
  }
  if (ipc || tcp) return absl::OkStatus();
  return Usage(absl::StrCat(option, " takes tcp://ADDRESS:PORT or ipc://PATH, not '", endpoint, "'"));
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  std::string digits = text;
  int shift = 0;
  if (!digits.empty()) {
    const size_t unit = std::string("KMGT").find(digits.back());
    if (unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      digits.pop_back();
    }
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(digits, &number) || number == 0 || number > (UINT64_MAX >> 1 >> shift)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no number of bytes like 500M or 10G"));
  }
  return number << shift;
}

const char* CollectorHelp() {
  return R"(Usage: lockstep collector [OPTIONS]

Gathers from the agents of a cluster, finds what stopped a job, writes an incident folder for each, and answers
lockstep dump and lockstep top. With --upstream it is a relay: it passes on and merges, and keeps nothing.

  --listen ENDPOINT      where agents connect: tcp://ADDRESS:PORT or ipc://PATH; more than once for several
                         (LOCKSTEP_LISTEN; default tcp://127.0.0.1:9470)
  --key FILE             its own secret key, made by lockstep keygen --role collector (LOCKSTEP_KEY)
  --known-keys FOLDER    public keys that are let in; a change counts at once (LOCKSTEP_KNOWN_KEYS)
  --keys FOLDER          both: FOLDER/collector.key (relay.key with --upstream) and the public keys in FOLDER (LOCKSTEP_KEYS)
  --insecure             no keys, on any address: whoever reaches the port can read and write (never by default)
  --out DIR              incidents are made in this folder (LOCKSTEP_OUT; default: the current one)
  --upstream ENDPOINT    be a relay of the collector there; more than once: further ones if it goes silent
  --server-key KEY       public key of the upstream collector: a file, or its 40 characters (LOCKSTEP_SERVER_KEY)
  --metrics ADDRESS:PORT Prometheus metrics, on loopback only
  --archive URL          say of culprits whether they were culprits before, as the archive of lockstep archive knows it:
                         http://HOST:PORT/DATABASE (LOCKSTEP_ARCHIVE); no verdict waits for it
  --on-verdict COMMAND   run by the shell when a job is called hung, with the verdict as JSON on standard input
                         (default: nothing is done, only said and written)
  --on-verdict-timeout S the command is ended after so many seconds (default 60)
  --late-after SECONDS   a wait shorter than this is nothing to look at (default 5)
  --hang-after SECONDS   call a wait this long hung whatever its root is doing (default: never)
  --silent-after SECONDS an agent that was not heard for so long is silent (default 5)
  --quota BYTES          all that is gathered, e.g. 500G (default 1T)
  --host-quota BYTES     of one host for one incident (default 4G)
  --group GROUP          members of this group, a name or a number, may read the incidents (LOCKSTEP_GROUP; default: the
                         owner alone)
  --keep AGE             incidents older than this are removed (default 7d; 0: never)
  --keep-bytes BYTES     and the oldest of them while they take more (default 5G; 0: never); the newest one, and those that
                         are still being gathered, stay
  -h, --help             this text
  -V, --version          the version

SIGTERM ends it; incidents that are not whole are gone on with when it starts again.
)";
}

namespace {

absl::StatusOr<CollectorOptions> ParseWords(const std::vector<std::string>& words) {
  CollectorOptions options;
  std::string keys, quota, host_quota, keep, keep_bytes;
  std::map<std::string, std::string*> texts = {{"--key", &options.security.own_key},
                                               {"--known-keys", &options.security.known_keys},
                                               {"--keys", &keys},
                                               {"--out", &options.out},
                                               {"--server-key", &options.security.server_key},
                                               {"--metrics", &options.metrics},
                                               {"--on-verdict", &options.on_verdict},
                                               {"--quota", &quota},
                                               {"--host-quota", &host_quota},
                                               {"--archive", &options.archive},
                                               {"--group", &options.group},
                                               {"--keep", &keep},
                                               {"--keep-bytes", &keep_bytes},
                                               {"--finalise", &options.finalise},
                                               {"--index", &options.index}};
  std::map<std::string, int64_t*> times = {{"--on-verdict-timeout", &options.on_verdict_ns},
                                           {"--late-after", &options.late_after_ns},
                                           {"--hang-after", &options.hang_after_ns},
                                           {"--silent-after", &options.silent_after_ns}};
  std::map<std::string, std::vector<std::string>*> lists = {{"--listen", &options.listen},
                                                            {"--upstream", &options.upstream}};
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "-h" || word == "--help") {
      options.help = true;
      return options;
    }
    if (word == "-V" || word == "--version") {
      options.version = true;
      return options;
    }
    if (word == "--insecure") {
      options.security.insecure = true;
      continue;
    }
    std::string option = word, value;
    const size_t equals = word.find('=');
    if (absl::StartsWith(word, "--") && equals != std::string::npos) {
      option = word.substr(0, equals);
      value = word.substr(equals + 1);
    }
    if (texts.count(option) == 0 && times.count(option) == 0 && lists.count(option) == 0) {
      return Usage(absl::StrCat(absl::StartsWith(word, "-") ? "unknown option '" : "unexpected argument '", word, "'"));
    }
    if (equals == std::string::npos) {
      if (at + 1 >= words.size()) return Usage(absl::StrCat(option, " takes a value"));
      value = words[++at];
    }
    if (value.empty()) return Usage(absl::StrCat(option, " takes a value"));
    if (const auto text = texts.find(option); text != texts.end()) *text->second = value;
    if (const auto list = lists.find(option); list != lists.end()) list->second->push_back(value);
    if (const auto time = times.find(option); time != times.end()) {
      if (absl::Status status = ParseSeconds(option, value, time->second); !status.ok()) return status;
    }
  }
  if (!keys.empty()) {
    if (options.security.own_key.empty())
      options.security.own_key = keys + (options.upstream.empty() ? "/collector.key" : "/relay.key");
    if (options.security.known_keys.empty()) options.security.known_keys = keys;
  }
  if (options.listen.empty()) options.listen.push_back("tcp://127.0.0.1:9470");
  for (const std::string& endpoint : options.listen) {
    if (absl::Status status = CheckEndpoint("--listen", endpoint, true); !status.ok()) return status;
  }
  for (const std::string& endpoint : options.upstream) {
    if (absl::Status status = CheckEndpoint("--upstream", endpoint, false); !status.ok()) return status;
  }
  for (const auto& [text, name, into] :
       {std::tuple(&quota, "--quota", &options.quota), std::tuple(&host_quota, "--host-quota", &options.host_quota),
        std::tuple(&keep_bytes, "--keep-bytes", &options.keep_bytes)}) {
    if (text->empty()) continue;
    if (*text == "0" && into == &options.keep_bytes) {
      *into = 0;
      continue;
    }
    const absl::StatusOr<uint64_t> bytes = ParseBytes(*text);
    if (!bytes.ok()) return Usage(absl::StrCat(name, ": ", bytes.status().message()));
    *into = *bytes;
  }
  if (!keep.empty()) {
    if (absl::Status status = ParseKeep(keep, &options.keep_s); !status.ok()) return status;
  }
  if (!options.upstream.empty() && !options.on_verdict.empty())
    return Usage("a relay (--upstream) has no verdicts: --on-verdict goes to the collector");
  if (options.upstream.empty() && !options.security.server_key.empty())
    return Usage("--server-key is for relays (--upstream)");
  return options;
}

}  // namespace

absl::StatusOr<CollectorOptions> ParseCollectorOptions(int argc, char** argv) {
  const absl::StatusOr<settings::Merged> merged = settings::Merge("collector", {argv + 1, argv + argc});
  if (!merged.ok()) return merged.status();
  settings::Tell(*merged);
  absl::StatusOr<CollectorOptions> options = ParseWords(merged->words);
  if (!options.ok()) return absl::InvalidArgumentError(merged->Explain(std::string(options.status().message())));
  return options;
}

}  // namespace lockstep
