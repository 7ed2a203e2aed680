#include "analyzer/settings/verbs.h"

namespace lockstep::settings {
namespace {

constexpr size_t kAnyNumber = SIZE_MAX;
constexpr double kAboveZero = 1e-9, kDay = 86400, kMonth = 30 * kDay;
constexpr double kMiB = 1 << 20, kPiB = static_cast<double>(uint64_t{1} << 50);
constexpr const char* kKeyFolders = "~/.config/lockstep/keys, /etc/lockstep/keys";
constexpr const char* kRuntimeFolders = "/run/lockstep, of a user $XDG_RUNTIME_DIR/lockstep";
constexpr const char* kOperatorKeys = "operator.key or reader.key where keys are";
constexpr const char* kCollectorKey = "collector.pub where keys are";

// Options that several verbs share.

OptionLine Keys() {
  return {.key = "keys",
          .variable = "LOCKSTEP_KEYS",
          .option = kNone,
          .kind = Kind::kFolder,
          .fallback = kKeyFolders,
          .common = true,
          .help = "folder with keys, looked at first"};
}

OptionLine RuntimeDir() {
  return {.key = "runtime-dir",
          .variable = "LOCKSTEP_RUNTIME_DIR",
          .option = kNone,
          .kind = Kind::kFolder,
          .fallback = kRuntimeFolders,
          .common = true,
          .help = "folder where agents and collectors note their addresses"};
}

OptionLine Insecure(const char* help = "use no keys") {
  return {.key = "insecure", .kind = Kind::kFlag, .fallback = "no", .common = true, .help = help};
}

OptionLine ServerKey(const char* needs, const char* fallback) {
  return {.key = "server-key",
          .variable = "LOCKSTEP_SERVER_KEY",
          .kind = Kind::kFile,
          .value = "KEY",
          .fallback = fallback,
          .common = true,
          .needs = needs,
          .help = "public key of the collector: a file, or its 40 characters"};
}

OptionLine Redact(const char* help) {
  return {.key = "redact",
          .variable = "LOCKSTEP_REDACT",
          .kind = Kind::kChoice,
          .value = "LEVEL",
          .choices = "no|paths|stacks",
          .fallback = "no",
          .common = true,
          .help = help};
}

constexpr const char* kRedactHelp =
    "take names out first; no: keep them\n"
    "paths: folders become hashes\n"
    "stacks: also names of files, functions and threads that are not public";

OptionLine LateAfter(double least, double most) {
  return {.key = "late-after",
          .kind = Kind::kSeconds,
          .fallback = "5",
          .least = least,
          .most = most,
          .common = true,
          .help = "ignore operations in flight for less than this"};
}

OptionLine HangAfter(const char* help) {
  return {.key = "hang-after",
          .kind = Kind::kSeconds,
          .fallback = "never",
          .least = kAboveZero,
          .most = kMonth,
          .help = help};
}

OptionLine Archive() {
  return {.key = "archive",
          .variable = "LOCKSTEP_ARCHIVE",
          .value = "URL",
          .common = true,
          .help =
              "look up whether the culprits were culprits before, in the archive at http://HOST:PORT/DATABASE. The "
              "verdict waits at most 1.5 s"};
}

OptionLine GroupOption(const char* help) {
  return {.key = "group",
          .variable = "LOCKSTEP_GROUP",
          .value = "GROUP",
          .fallback = "the owner alone",
          .common = true,
          .help = help};
}

OptionLine Keep(const char* help) {
  return {.key = "keep", .kind = Kind::kAge, .fallback = "7d", .common = true, .help = help};
}

OptionLine KeepBytes(const char* help) {
  return {.key = "keep-bytes", .kind = Kind::kBytes, .fallback = "5G", .common = true, .help = help};
}

OptionLine RingFolder(const char* option, const char* fallback) {
  return {.key = "dir",
          .variable = "LOCKSTEP_DIR",
          .option = option,
          .kind = Kind::kFolder,
          .fallback = fallback,
          .help = "folder of the rings"};
}

OptionLine Library() {
  return {.key = "library",
          .variable = "LOCKSTEP_LIBRARY",
          .option = kNone,
          .kind = Kind::kFile,
          .fallback = "../lib/liblockstep.so beside the program",
          .common = true,
          .help = "the recorder"};
}

OptionLine Rack() {
  return {.key = "rack",
          .variable = "LOCKSTEP_RACK",
          .option = kNone,
          .fallback = "unknown",
          .common = true,
          .help = "rack of this host"};
}

OptionLine Switch() {
  return {.key = "switch",
          .variable = "LOCKSTEP_SWITCH",
          .option = kNone,
          .fallback = "from SLURM_TOPOLOGY_ADDR",
          .common = true,
          .help = "switch of this host"};
}

// How tools for people reach a collector.
GroupLine Connection() {
  return {"Collector",
          {{.key = "collector",
            .variable = "LOCKSTEP_COLLECTOR",
            .kind = Kind::kEndpoint,
            .fallback = "the one of this host",
            .common = true,
            .help = "the collector, e.g. tcp://head:9470"},
           {.key = "key",
            .variable = "LOCKSTEP_KEY",
            .kind = Kind::kFile,
            .fallback = kOperatorKeys,
            .common = true,
            .help = "own secret key, of an operator or a reader"},
           ServerKey("", "as the agent here has it, else collector.pub where keys are"),
           Keys(),
           Insecure(),
           RuntimeDir()}};
}

VerbLine Agent() {
  return {
      .name = "agent",
      .purpose = "watch the ranks of this host",
      .usage = {"[OPTIONS]"},
      .text = {"Watches the ranks of this host, reports to the collector, and keeps the rings of processes that end "
               "abnormally. Run one per host as root for the jobs of all users, or one per user. Without a collector "
               "it works alone."},
      .examples = {{"lockstep agent --collector tcp://head:9470", "report to a collector"},
                   {"lockstep agent --alone", "watch this host only"}},
      .groups =
          {{"Collector",
            {{.key = "collector",
              .variable = "LOCKSTEP_COLLECTOR",
              .kind = Kind::kEndpoint,
              .common = true,
              .separator = ',',
              .excludes = "alone",
              .help = "the collector, e.g. tcp://head:9470; several are tried in order"},
             {.key = "alone",
              .kind = Kind::kFlag,
              .fallback = "no",
              .excludes = "collector",
              .help = "run a collector for this host alone, on a socket in the runtime folder. lockstep top and "
                      "lockstep dump of this user and of root find it there"},
             {.key = "out",
              .kind = Kind::kFolder,
              .fallback = "incidents beside the spool",
              .needs = "alone",
              .help = "with --alone: write incidents there"},
             {.key = "key",
              .variable = "LOCKSTEP_KEY",
              .kind = Kind::kFile,
              .fallback = "agent.key where keys are",
              .common = true,
              .help = "own secret key"},
             ServerKey("", kCollectorKey),
             Keys(),
             Insecure()}},
           {"Spool",
            {{.key = "spool",
              .variable = "LOCKSTEP_SPOOL",
              .kind = Kind::kFolder,
              .fallback = "/var/lib/lockstep/spool, of a user ~/.local/state/lockstep/spool",
              .help = "keep here what the collector does not have yet"},
             {.key = "spool-bytes",
              .variable = "LOCKSTEP_SPOOL_BYTES",
              .kind = Kind::kBytes,
              .fallback = "4G",
              .least = kMiB,
              .most = kPiB,
              .help = "at most this much of it"},
             {.key = "log",
              .variable = "LOCKSTEP_AGENT_LOG",
              .kind = Kind::kFile,
              .fallback = "agent.log in the spool",
              .help = "the agent's log"}}},
           {"Rings",
            {{.key = "rings",
              .variable = "LOCKSTEP_AGENT_RINGS",
              .kind = Kind::kFolder,
              .fallback = "the default places",
              .separator = ':',
              .help = "watch this LOCKSTEP_DIR and no other place"},
             {.key = "keep-rings",
              .kind = Kind::kAge,
              .fallback = "7d",
              .help =
                  "keep rings of dead processes this long after the last record; 0: forever. Rings of abnormal ends "
                  "are in the spool by then"},
             {.key = "keep-ring-bytes",
              .kind = Kind::kBytes,
              .fallback = "5G",
              .most = kPiB,
              .help = "remove the oldest of a user's dead rings beyond this, and beyond a quarter of the memory that "
                      "rings may take; 0: no limit"},
             {.key = "containers",
              .option = "--no-containers",
              .kind = Kind::kNotFlag,
              .fallback = "yes",
              .help = "do not look into mounts and environment of other processes"},
             RingFolder(kNone, "/dev/shm/lockstep-UID")}},
           {"Other",
            {{.key = "metrics",
              .variable = "LOCKSTEP_METRICS",
              .value = "ADDRESS:PORT",
              .help = "serve Prometheus metrics, on loopback only"},
             {.key = "host",
              .variable = "LOCKSTEP_HOST",
              .value = "NAME",
              .fallback = "uname",
              .help = "name of this host, as for the recorder"},
             LateAfter(kAboveZero, kDay),
             Redact("take names out before anything leaves the host; no: keep them\n"
                    "paths: folders become hashes\n"
                    "stacks: also names of files, functions and threads that are not public"),
             Rack(),
             Switch(),
             RuntimeDir()}}},
      .notes = {
          "SIGTERM ends the agent: it finishes what it writes, and sends for at most 3 s. SIGHUP reopens the log.",
          "Exit status: 0 ended by a signal; 1 it cannot work here; 2 wrong usage."}};
}

VerbLine Analyze() {
  return {
      .name = "analyze",
      .purpose = "name the cause from incidents, rings or Flight Recorder dumps",
      .usage = {"[OPTIONS] PATH..."},
      .text = {"Says which rank stopped a distributed job, or on what its ranks disagree, and why.",
               "PATH is an incident folder, a .lsd dump, a ring file of a dead process, or PyTorch Flight Recorder "
               "dumps (pickle or JSON), or a folder of these. Lockstep detects file types by content. Several "
               "paths are one job."},
      .examples = {{"lockstep analyze /tmp/nccl_trace_rank_*", "Flight Recorder dumps"},
                   {"lockstep analyze --format html --output report.html incident", "a report to send"}},
      .groups =
          {{"Output",
            {{.key = "format",
              .kind = Kind::kChoice,
              .value = "FORMAT",
              .choices = "text|json|html",
              .fallback = "text",
              .help = "format of the report"},
             {.key = "output", .kind = Kind::kFile, .fallback = "standard output", .help = "write the report to FILE"},
             {.key = "start",
              .kind = Kind::kFlag,
              .fallback = "no",
              .help = "after the text, show where the start of the job spent its time"},
             Redact(kRedactHelp)}},
           {"Analysis",
            {LateAfter(0, 1e9),
             {.key = "topology",
              .kind = Kind::kFile,
              .help = "where hosts are: lines HOST RACK SWITCH, or topology.conf of Slurm"},
             Archive(),
             Keys()}}},
      .notes = {"Exit status: 0 healthy; 1 findings, or data is missing; 2 wrong usage; 3 nothing readable, or the "
                "report cannot be written; 130 ended by Ctrl-C, with nothing half-written."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 1,
      .most_operands = kAnyNumber};
}

VerbLine ArchiveVerb() {
  return {
      .name = "archive",
      .purpose = "keep incidents in ClickHouse, and ask what was before",
      .usage = {"[OPTIONS] DIR...", "[OPTIONS] --follow DIR", "query [OPTIONS] NAME", "jobs [OPTIONS] FILE",
                "send [OPTIONS]"},
      .text =
          {"Sends finished incident folders to a ClickHouse server: verdict, findings, culprits, start-up times and "
           "aggregates of operations. It stores each incident once, however often it is sent.",
           "send sends what an earlier call left in the spool. query asks the archive; NAME is culprits, hangs, "
           "links, list, operations or startup. jobs stores how long jobs ran, for rates per job-day. FILE (- is "
           "standard input) has lines JOB|START|END|RANKS, as sacct -X -n -P -o JobID,Start,End,NTasks prints."},
      .examples = {{"lockstep archive --to http://db:8123/lockstep incident", "send one incident"},
                   {"lockstep archive query --days 30 culprits", "who hung jobs this month"}},
      .groups =
          {{"Server",
            {{.key = "to",
              .variable = "LOCKSTEP_ARCHIVE",
              .value = "URL",
              .help = "http://[USER@]HOST:PORT/DATABASE or https://..."},
             {.key = "password-file",
              .kind = Kind::kFile,
              .help = "password of the user; LOCKSTEP_ARCHIVE_PASSWORD may hold it instead"},
             {.key = "ca",
              .kind = Kind::kFile,
              .fallback = "those of the system",
              .help = "certificates that https trusts"},
             {.key = "insecure",
              .kind = Kind::kFlag,
              .fallback = "no",
              .help = "allow http to other machines: others can read what is sent"},
             {.key = "retry-for",
              .kind = Kind::kSeconds,
              .fallback = "30",
              .most = 1e6,
              .help = "try again this long if the server is down; --follow never gives up"}}},
           {"Sending",
            {{.key = "follow",
              .kind = Kind::kFolder,
              .help = "send every incident below DIR (--out of a collector) once it is finished, until SIGTERM"},
             {.key = "every",
              .kind = Kind::kSeconds,
              .fallback = "5",
              .least = 0.05,
              .most = 1e6,
              .help = "with --follow: look this often"},
             {.key = "spool",
              .kind = Kind::kFolder,
              .fallback = "~/.local/state/lockstep/archive",
              .help = "keep here what could not be sent"},
             {.key = "spool-limit",
              .kind = Kind::kBytes,
              .fallback = "1G",
              .least = 1,
              .help = "at most this much of it"},
             Redact("take names out of code places, as lockstep analyze does"),
             Keys()}},
           {"Queries",
            {{.key = "days",
              .kind = Kind::kNumber,
              .fallback = "90; links: 7",
              .least = 1,
              .most = 1e6,
              .help = "of the last N days"},
             {.key = "limit",
              .kind = Kind::kNumber,
              .fallback = "100",
              .least = 1,
              .most = 1e6,
              .help = "at most N lines"},
             {.key = "host", .value = "NAME", .fallback = "all", .help = "of this host"},
             {.key = "place", .value = "TEXT", .fallback = "all", .help = "culprits: code places that contain TEXT"},
             {.key = "job", .value = "NAME", .fallback = "all", .help = "of this job"},
             {.key = "json", .kind = Kind::kFlag, .fallback = "no", .help = "print JSON"},
             {.key = "sql", .kind = Kind::kFlag, .fallback = "no", .help = "print the statement, ask nothing"},
             {.key = "time-limit-ms",
              .variable = kNone,
              .kind = Kind::kNumber,
              .fallback = "1500",
              .least = 1,
              .most = 1e6,
              .hidden = true},
             {.key = "password", .variable = kNone, .hidden = true}}}},
      .notes =
          {"Exit status: 0 all is sent or answered; 1 something was refused or cannot be read; 2 wrong usage; 3 the "
           "server was down, and what was not sent waits in the spool."},
      .operand = "DIR",
      .operand_kind = Kind::kFolder,
      .most_operands = kAnyNumber};
}

VerbLine Clean() {
  return {
      .name = "clean",
      .purpose = "remove ring files that no process writes any more",
      .usage = {"[OPTIONS]"},
      .text = {"Removes the ring files that no process writes any more. It keeps the rings of running processes, of "
               "processes in other containers and of other users, and says why."},
      .examples = {{"lockstep clean --dry-run", "show what would go"},
                   {"lockstep clean --older-than 2d --incidents /var/lib/lockstep/incidents", "for cron"}},
      .groups =
          {{"Rings",
            {RingFolder(kDerived, "/dev/shm/lockstep-UID"),
             {.key = "older-than",
              .kind = Kind::kAge,
              .fallback = "0",
              .help = "only rings with no record for this long"}}},
           {"Incidents",
            {{.key = "incidents",
              .kind = Kind::kFolder,
              .help = "also clean the incidents in this folder (--out of a collector). Kept are the newest, those "
                      "still being gathered, and folders with other files"},
             Keep("remove older incidents; 0: keep all"),
             KeepBytes("remove the oldest incidents beyond this size in all; 0: keep all")}},
           {"Other",
            {{.key = "dry-run", .kind = Kind::kFlag, .fallback = "no", .help = "only say what would be removed"}}}},
      .notes = {"Exit status: 0 done; 1 something cannot be removed; 2 wrong usage, or a folder cannot be used."}};
}

VerbLine Collector() {
  return {
      .name = "collector",
      .purpose = "gather from the agents of a job",
      .usage = {"[OPTIONS]"},
      .text =
          {"Gathers from the agents of a cluster, finds what stopped a job, writes an incident folder for each stop, "
           "and answers lockstep dump and lockstep top. With --upstream it is a relay: it merges and passes on, and "
           "keeps nothing."},
      .examples = {{"lockstep collector --listen tcp://0.0.0.0:9470 --keys /etc/lockstep/keys", "for a cluster"},
                   {"lockstep collector --upstream tcp://head:9470 --keys /etc/lockstep/keys", "a relay"}},
      .groups = {{"Network",
                  {{.key = "listen",
                    .variable = "LOCKSTEP_LISTEN",
                    .kind = Kind::kListen,
                    .fallback = "tcp://127.0.0.1:9470",
                    .separator = ',',
                    .help = "where agents connect: tcp://ADDRESS:PORT or ipc://PATH"},
                   {.key = "upstream",
                    .kind = Kind::kEndpoint,
                    .separator = ',',
                    .help = "be a relay of the collector there; further ones are used when it goes silent"},
                   {.key = "metrics", .value = "ADDRESS:PORT", .help = "serve Prometheus metrics, on loopback only"},
                   RuntimeDir()}},
                 {"Keys",
                  {{.key = "key",
                    .variable = "LOCKSTEP_KEY",
                    .kind = Kind::kFile,
                    .fallback = "collector.key where keys are",
                    .common = true,
                    .help = "own secret key, made by lockstep keygen --role collector"},
                   {.key = "known-keys",
                    .variable = "LOCKSTEP_KNOWN_KEYS",
                    .kind = Kind::kFolder,
                    .fallback = "where keys are",
                    .help = "public keys of agents and people that may connect; changes count at once"},
                   {.key = "keys",
                    .variable = "LOCKSTEP_KEYS",
                    .kind = Kind::kFolder,
                    .common = true,
                    .help = "both: DIR/collector.key (relay.key with --upstream), and the public keys in DIR"},
                   ServerKey("upstream", ""),
                   Insecure("use no keys, on any address: whoever reaches the port can read and write")}},
                 {"Incidents",
                  {{.key = "out",
                    .variable = "LOCKSTEP_OUT",
                    .kind = Kind::kFolder,
                    .fallback = "the current folder",
                    .help = "write incidents there"},
                   {.key = "quota",
                    .kind = Kind::kBytes,
                    .fallback = "1T",
                    .least = 1,
                    .help = "at most this much of all incidents being gathered"},
                   {.key = "host-quota",
                    .kind = Kind::kBytes,
                    .fallback = "4G",
                    .least = 1,
                    .help = "at most this much of one host for one incident"},
                   GroupOption("members of this group, a name or a number, may read the incidents"),
                   Keep("remove older incidents; 0: keep all"),
                   KeepBytes(
                       "remove the oldest incidents beyond this; 0: keep all. The newest one, and those still being "
                       "gathered, stay")}},
                 {"Verdicts",
                  {LateAfter(kAboveZero, kMonth),
                   HangAfter("call a wait this long hung whatever its root is doing"),
                   {.key = "silent-after",
                    .kind = Kind::kSeconds,
                    .fallback = "5",
                    .least = kAboveZero,
                    .most = kMonth,
                    .help = "call an agent silent after this long without word from it"},
                   {.key = "on-verdict",
                    .value = "COMMAND",
                    .fallback = "none",
                    .help = "run this by the shell when a job hangs, with the verdict as JSON on standard input"},
                   {.key = "on-verdict-timeout",
                    .kind = Kind::kSeconds,
                    .fallback = "60",
                    .least = kAboveZero,
                    .most = kMonth,
                    .help = "end that command after this long"},
                   Archive(),
                   {.key = "finalise", .variable = kNone, .kind = Kind::kFolder, .hidden = true},
                   {.key = "index", .variable = kNone, .kind = Kind::kFolder, .hidden = true}}}},
      .notes = {"SIGTERM ends the collector. Unfinished incidents resume at the next start."}};
}

VerbLine Config() {
  return {
      .name = "config",
      .purpose = "show every setting and where it comes from",
      .usage = {"[OPTIONS] [VERB [ARGUMENTS...]]"},
      .text = {"Prints every setting of VERB (agent, collector, run, ...; recorder: the library in the training "
               "processes), or of all, with its value and where that comes from: a configuration file, the "
               "environment, an option among ARGUMENTS, or the default."},
      .examples = {{"lockstep config agent", "settings of the agent"},
                   {"lockstep config --check", "is there anything wrong in the files?"}},
      .groups =
          {{"",
            {{.key = "check", .variable = kNone, .kind = Kind::kFlag, .help = "only say what is wrong with the files"},
             {.key = "json", .variable = kNone, .kind = Kind::kFlag, .help = "print JSON"},
             {.key = "reference",
              .variable = kNone,
              .kind = Kind::kFlag,
              .help = "print every verb, option, setting and variable as JSON"}}}},
      .notes = {"Files are /etc/lockstep.conf and the one that LOCKSTEP_CONFIG names. The environment counts more "
                "than files, options count most.",
                "Exit status: 0 all is understood; 1 something in a file or the environment is wrong, or a file "
                "cannot be used; 2 wrong usage."},
      .operand = "VERB",
      .most_operands = kAnyNumber,
      .command = true};
}

VerbLine Doctor() {
  return {.name = "doctor",
          .purpose = "check this host",
          .usage = {"[OPTIONS]"},
          .text = {"Checks this host: is there room for rings, are NCCL calls recorded, can stacks be read, are keys "
                   "valid, does the collector answer. A small program makes the calls, with every GPU hidden. Run it "
                   "where the job runs: in its container, with its environment."},
          .examples = {{"lockstep doctor", ""}, {"lockstep doctor --ranks 8 --json", "for scripts"}},
          .groups = {{"Checks",
                      {{.key = "nccl",
                        .kind = Kind::kFile,
                        .value = "PATH",
                        .fallback = "those where programs look",
                        .help = "the libnccl.so.2 that the job loads"},
                       {.key = "ranks",
                        .kind = Kind::kNumber,
                        .fallback = "8",
                        .least = 1,
                        .most = 1024,
                        .help = "ranks on this host"},
                       Library(),
                       RingFolder(kNone, "/dev/shm/lockstep-UID"),
                       {.key = "json", .kind = Kind::kFlag, .fallback = "no", .help = "print JSON"}}},
                     Connection()},
          .notes = {"Exit status: 0 all that is needed works; 1 something does not; 2 wrong usage."}};
}

VerbLine Dump() {
  return {
      .name = "dump",
      .purpose = "take an incident of a running job now",
      .usage = {"[OPTIONS] [JOB]"},
      .text = {"Has the collector take an incident of a running job now: digests of all ranks, the verdict, stacks "
               "and rings of the suspects. Prints the verdict and where the files are.",
               "JOB is a name, or NAME/STEP/RESTART. It may be omitted where only one job runs."},
      .examples = {{"lockstep dump", ""}, {"lockstep dump --everything train", "rings of all ranks"}},
      .groups = {{"Incident",
                  {{.key = "everything",
                    .kind = Kind::kFlag,
                    .fallback = "no",
                    .help = "whole rings of all ranks, not only of the suspects"},
                   {.key = "json", .kind = Kind::kFlag, .fallback = "no", .help = "print the verdict as JSON"},
                   {.key = "timeout",
                    .kind = Kind::kSeconds,
                    .fallback = "600",
                    .least = kAboveZero,
                    .most = 1e6,
                    .help = "give up after this long, also if the collector does not answer"}}},
                 Connection()},
      .notes = {"Exit status: as of lockstep analyze: 0 healthy; 1 findings, or data is missing; 2 wrong usage; 3 no "
                "verdict."},
      .operand = "JOB",
      .most_operands = 1};
}

VerbLine Evidence() {
  const auto inner = [](const char* key, Kind kind, double least) {
    return OptionLine{.key = key, .variable = kNone, .kind = kind, .least = least, .most = 1e9, .hidden = true};
  };
  return {
      .name = "evidence",
      .purpose = "print the stacks and the state of a process",
      .usage = {"[OPTIONS] PID"},
      .text = {"Prints what can be learned about a process from outside: native and Python stacks of all its "
               "threads, whether it moves, its memory, its GPUs, hardware errors of this host. It stops each thread "
               "for a moment (under 50 ms, usually under 1)."},
      .examples = {{"lockstep evidence 4711", ""}},
      .groups = {{"",
                  {{.key = "ring",
                    .kind = Kind::kFile,
                    .help = "ring of the process. If ptrace is refused, its recorder answers instead, where it runs "
                            "with LOCKSTEP_HELPER=on"},
                   Redact(kRedactHelp),
                   Keys(),
                   inner("stacks-of", Kind::kNumber, 1),
                   inner("gpus-of", Kind::kNumber, 1),
                   inner("limit-ms", Kind::kNumber, 1),
                   inner("ring-fd", Kind::kNumber, 3),
                   inner("nvml", Kind::kFile, 0),
                   inner("no-stop", Kind::kFlag, 0)}}},
      .notes = {"Exit status: 0 printed; 1 the process is gone; 2 wrong usage."},
      .operand = "PID",
      .most_operands = 1};
}

VerbLine Export() {
  return {
      .name = "export",
      .purpose = "write a recording for Perfetto, Chrome or a spreadsheet",
      .usage = {"[OPTIONS] --perfetto FILE PATH...", "[OPTIONS] --chrome FILE PATH...", "[OPTIONS] --csv FILE PATH..."},
      .text = {"Writes a recording in a form that other tools read. PATH is what lockstep analyze reads. One call can "
               "write several forms."},
      .examples = {{"lockstep export --perfetto trace.pftrace incident", "for ui.perfetto.dev"},
                   {"lockstep export --csv - --ranks 0-7 incident", "one line an operation"}},
      .groups =
          {{"Output",
            {{.key = "perfetto",
              .kind = Kind::kFile,
              .help = "a trace for ui.perfetto.dev: hosts, ranks, threads, streams, and arrows from ranks "
                      "that wait to the culprit"},
             {.key = "chrome", .kind = Kind::kFile, .help = "the same as JSON for Chrome's trace viewer"},
             {.key = "csv", .kind = Kind::kFile, .help = "one line an operation (RFC 4180), with a header line"}}},
           {"Selection",
            {{.key = "ranks", .kind = Kind::kRanks, .fallback = "all", .help = "only these ranks"},
             {.key = "around-stop",
              .kind = Kind::kSeconds,
              .fallback = "all",
              .most = 1e9,
              .help = "only what lies this close to the moment the job stopped"},
             Redact(kRedactHelp),
             Keys()}}},
      .notes = {"FILE appears whole or not at all; - is standard output.",
                "Exit status: 0 written; 2 wrong usage; 3 nothing readable, or a file cannot be written; 130 ended "
                "by Ctrl-C, with nothing half-written."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 1,
      .most_operands = kAnyNumber};
}

VerbLine Keygen() {
  return {
      .name = "keygen",
      .purpose = "make keys for agents and collectors",
      .usage = {"--role ROLE [--name NAME] [FOLDER]"},
      .text = {"Writes a key pair, NAME.key (secret, mode 600) and NAME.pub, into FOLDER, and says where each goes. "
               "FOLDER is made if it is missing; the default is the current folder. Never overwrites a key."},
      .examples = {{"lockstep keygen --role collector keys", "keys/collector.key and keys/collector.pub"},
                   {"lockstep keygen --role agent keys", "one key for all agents"}},
      .groups = {{"",
                  {{.key = "role",
                    .kind = Kind::kChoice,
                    .value = "ROLE",
                    .choices = "collector|relay|agent|operator|reader",
                    .help = "collector: key of a collector or a relay, by which others know it\n"
                            "relay: takes reports of agents and passes them on\n"
                            "agent: reports, and can ask for nothing; for one host or a fleet\n"
                            "operator: may take dumps (lockstep dump, top)\n"
                            "reader: may only look (lockstep top)"},
                   {.key = "name", .value = "NAME", .fallback = "the role", .help = "name of the files"}}}},
      .notes = {"Exit status: 0 written; 1 the files cannot be written; 2 wrong usage."},
      .operand = "FOLDER",
      .operand_kind = Kind::kFolder,
      .most_operands = 1};
}

VerbLine Run() {
  return {
      .name = "run",
      .purpose = "run a job under Lockstep and say what stopped it",
      .usage = {"[OPTIONS] -- COMMAND [ARGUMENTS...]"},
      .text = {"Runs COMMAND with the recorder preloaded, watches it, and says which rank stopped it if it stops."},
      .examples = {{"lockstep run -- torchrun --nproc-per-node 8 train.py", ""},
                   {"lockstep run -n 4 --kill-on-hang -- python train.py", "start 4 ranks, end them if they hang"}},
      .groups =
          {{"Job",
            {{.key = "ranks",
              .option = "-n",
              .kind = Kind::kNumber,
              .fallback = "the command runs once",
              .least = 1,
              .most = 4096,
              .help = "start N ranks of COMMAND, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set. "
                      "Without it COMMAND runs once, as it is (torchrun, mpirun)"},
             {.key = "kill-on-hang",
              .kind = Kind::kFlag,
              .fallback = "no",
              .help = "end the job when it hangs, with exit status 90 (hung) or 91 (ranks disagree)"},
             {.key = "quiet", .kind = Kind::kFlag, .fallback = "no", .help = "say nothing about healthy jobs"}}},
           {"Incidents",
            {{.key = "out",
              .kind = Kind::kFolder,
              .fallback = "made up, where there is something to say",
              .excludes = "collector",
              .help = "write the incident folder here, also if the job was healthy"},
             {.key = "collector",
              .kind = Kind::kEndpoint,
              .excludes = "out",
              .help = "join the job to a collector: run starts an agent for its ranks. The collector finds hangs and "
                      "keeps incidents; its verdict is printed here"},
             GroupOption("members of this group, a name or a number, may read the incidents and the rings"),
             Redact(kRedactHelp)}},
           {"Recording and detection",
            {{.key = "gpu",
              .kind = Kind::kChoice,
              .value = "MODE",
              .choices = "off|done|full|events|watch|auto",
              .fallback = "LOCKSTEP_GPU, else watch",
              .excludes = "profiler",
              .help = "GPU progress markers. watch is full, or events where CUDA_DEVICE_MAX_CONNECTIONS is 1"},
             {.key = "profiler",
              .kind = Kind::kFlag,
              .fallback = "no",
              .excludes = "gpu",
              .help =
                  "use the profiler interface of NCCL instead: kernel times, network steps, statically linked NCCL. "
                  "A plugin named by NCCL_PROFILER_PLUGIN stays in place"},
             LateAfter(kAboveZero, kMonth),
             HangAfter("call a wait this long hung whatever its root is doing; give less than the framework's own "
                       "watchdog has"),
             Library(),
             Rack(),
             Switch(),
             RingFolder(kNone, "/dev/shm, else the temporary folder"),
             {.key = "server-key",
              .variable = "LOCKSTEP_SERVER_KEY",
              .option = kNone,
              .kind = Kind::kFile,
              .fallback = kCollectorKey,
              .common = true,
              .help = "public key of the collector"},
             Keys()}}},
      .notes = {"Exit status: that of the job; 2 wrong usage; 126 and 127 COMMAND cannot be started."},
      .operand = "COMMAND",
      .least_operands = 1,
      .most_operands = kAnyNumber,
      .command = true};
}

VerbLine Top() {
  return {
      .name = "top",
      .purpose = "show running jobs",
      .usage = {"[OPTIONS] [JOB]"},
      .text = {"Shows the jobs that a collector watches: the oldest operation in flight and what it waits for, which "
               "ranks are dead, stopped or silent, and what cannot be seen. ? shows the keys. Without a terminal it "
               "works as with --once."},
      .examples = {{"lockstep top", ""}, {"lockstep top --json train", "one job, for scripts"}},
      .groups = {{"Output",
                  {{.key = "once", .kind = Kind::kFlag, .fallback = "no", .help = "print the state once and end"},
                   {.key = "json", .kind = Kind::kFlag, .fallback = "no", .help = "the same as JSON, one line a job"}}},
                 Connection()},
      .notes = {"Exit status: 0; 1 no collector answers, or it refuses; 2 wrong usage."},
      .operand = "JOB",
      .most_operands = 1};
}

VerbLine View() {
  return {
      .name = "view",
      .purpose = "open the trace viewer",
      .usage = {"[OPTIONS] [PATH...]"},
      .text = {"Shows which rank stopped a distributed job, and why: verdict, rank x sequence matrix, who waits for "
               "whom, stacks, timeline. PATH is what lockstep analyze reads. Several paths are one job."},
      .examples = {{"lockstep view incident", ""},
                   {"lockstep view --compare incident-1 incident-2", "two side by side"},
                   {"lockstep view --live any", "follow the collector of this host"}},
      .groups = {{"Window",
                  {{.key = "compare",
                    .kind = Kind::kFlag,
                    .fallback = "no",
                    .help = "two PATHs side by side, rather than as one job"},
                   {.key = "live",
                    .value = "ENDPOINT",
                    .help = "follow a collector, e.g. tcp://head:9470: its jobs, and their incidents as they come; "
                            "any: the collector of this host. Keys as for lockstep top"},
                   {.key = "theme",
                    .kind = Kind::kChoice,
                    .value = "COLOURS",
                    .choices = "light|dark",
                    .fallback = "as the desktop",
                    .help = "colours of the window"},
                   {.key = "tab",
                    .kind = Kind::kChoice,
                    .value = "NAME",
                    .choices = "matrix|wait-for|timeline|stacks|bandwidth",
                    .fallback = "as it was",
                    .help = "show this first"},
                   {.key = "select-anomaly",
                    .kind = Kind::kNumber,
                    .least = 1,
                    .most = 1e6,
                    .help = "select this anomaly; 1 is the worst"},
                   {.key = "search", .value = "QUERY", .help = "search, and go to the first hit"},
                   {.key = "size", .value = "WxH", .fallback = "as it was", .help = "size of the window"},
                   {.key = "fresh",
                    .kind = Kind::kFlag,
                    .fallback = "no",
                    .help = "start as the first time: neither read nor keep what is remembered"}}},
                 {"For scripts, also without a screen",
                  {{.key = "screenshot",
                    .kind = Kind::kFile,
                    .help = "write the window as PNG when all of it is drawn, and exit"},
                   {.key = "print-selection",
                    .kind = Kind::kFlag,
                    .fallback = "no",
                    .help = "print verdict and selection as JSON, and exit"},
                   {.key = "exit-after-first-paint",
                    .kind = Kind::kFlag,
                    .fallback = "no",
                    .help = "print how long the first picture took and the memory used, and exit"}}}},
      .notes = {"Exit status: 0; 2 wrong usage; 3 no display, nothing readable (scripts), or FILE cannot be written."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .most_operands = kAnyNumber};
}

}  // namespace

std::vector<VerbLine> VerbLines() {
  return {Agent(), Analyze(),  ArchiveVerb(), Clean(),  Collector(), Config(), Doctor(),
          Dump(),  Evidence(), Export(),      Keygen(), Run(),       Top(),    View()};
}

}  // namespace lockstep::settings
