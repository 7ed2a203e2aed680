#include "analyzer/settings/verbs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace lockstep::settings {
namespace {

constexpr const char* kDerived = "?";  // MakeVerbs replaces it by a name derived from the key

// A row under construction.
struct Option {
  Option(const char* key, Kind kind, const char* help) {
    row.key = key;
    row.kind = kind;
    row.meaning = help;
    row.variable = row.option = kDerived;
  }
  operator Row() const { return row; }

  Option& Variable(const char* name) { return Set(&row.variable, name); }  // the default is LOCKSTEP_VERB_KEY
  Option& Lone() { return Set(&row.variable, ""); }
  Option& Named(const char* name) { return Set(&row.option, name); }  // the default is --KEY
  Option& NoOption() { return Set(&row.option, ""); }
  Option& Value(const char* name) { return Set(&row.value, name); }
  Option& Choices(const char* words) { return Set(&row.choices, words); }
  Option& Default(const char* text) { return Set(&row.fallback, text); }
  Option& Limits(double from, double to) { return Set(&row.least, from).Set(&row.most, to); }
  Option& Common() { return Set(&row.common, true); }
  Option& List(char between) { return Set(&row.separator, between); }
  Option& Excludes(const char* keys) { return Set(&row.excludes, keys); }
  Option& Needs(const char* other) { return Set(&row.needs, other); }
  Option& Hidden() { return Set(&row.hidden, true); }

  template <typename T, typename V>
  Option& Set(T* member, V changed) {
    *member = changed;
    return *this;
  }

  Row row;
};

constexpr size_t kAnyNumber = SIZE_MAX;
constexpr double kAboveZero = 1e-9, kDay = 86400, kMonth = 30 * kDay;
constexpr double kMiB = 1 << 20, kPiB = static_cast<double>(uint64_t{1} << 50);
constexpr const char* kKeyFolders = "~/.config/lockstep/keys, /etc/lockstep/keys";
constexpr const char* kRuntimeFolders = "/run/lockstep; for a user $XDG_RUNTIME_DIR/lockstep";
constexpr const char* kOperatorKeys = "operator.key or reader.key in the key folder";
constexpr const char* kCollectorKey = "collector.pub in the key folder";
constexpr const char* kKeysNote =
    "Lockstep looks for keys in $LOCKSTEP_KEYS, ~/.config/lockstep/keys and /etc/lockstep/keys, in this order.";

// One option of each kind.

Option Text(const char* key, const char* value, const char* help) {
  return Option{key, Kind::kText, help}.Value(value);
}

Option Choice(const char* key, const char* value, const char* choices, const char* help) {
  return Option{key, Kind::kChoice, help}.Value(value).Choices(choices);
}

Option Flag(const char* key, const char* help) { return Option{key, Kind::kFlag, help}.Default("no"); }

Option File(const char* key, const char* help) { return {key, Kind::kFile, help}; }

Option Folder(const char* key, const char* help) { return {key, Kind::kFolder, help}; }

Option Number(const char* key, const char* help) { return {key, Kind::kNumber, help}; }

Option Seconds(const char* key, const char* help) { return {key, Kind::kSeconds, help}; }

Option Bytes(const char* key, const char* help) { return {key, Kind::kBytes, help}; }

Option Age(const char* key, const char* help) { return {key, Kind::kAge, help}; }

Option Endpoint(const char* key, const char* help) { return {key, Kind::kEndpoint, help}; }

// Options that several verbs share.

Option Keys() {
  return Folder("keys", "folder with keys, searched first")
      .Variable("LOCKSTEP_KEYS")
      .NoOption()
      .Default(kKeyFolders)
      .Common();
}

Option OnVerdict(const char* help) { return Text("on-verdict", "COMMAND", help).Default("none"); }

Option OnVerdictTimeout() {
  return Seconds("on-verdict-timeout", "end the --on-verdict command after this time")
      .Default("60")
      .Limits(kAboveZero, kMonth);
}

Option RuntimeDir() {
  return Folder("runtime-dir", "folder where agents and collectors write their addresses")
      .Variable("LOCKSTEP_RUNTIME_DIR")
      .NoOption()
      .Default(kRuntimeFolders)
      .Common();
}

Option Insecure(const char* help = "use no keys") { return Flag("insecure", help).Common(); }

Option ServerKey(const char* needs, const char* fallback) {
  return File("server-key", "public key of the collector: a file, or its 40 characters")
      .Variable("LOCKSTEP_SERVER_KEY")
      .Value("KEY")
      .Default(fallback)
      .Common()
      .Needs(needs);
}

Option Redact(const char* help) {
  return Choice("redact", "LEVEL", "no|paths|stacks", help).Variable("LOCKSTEP_REDACT").Default("no").Common();
}

// Explains each level.
Option RedactLevels(const char* before = "is written") {
  const std::string help = absl::StrCat("what to remove before anything ", before,
                                        "\nno: nothing is removed\n"
                                        "paths: folder names become hashes\n"
                                        "stacks: also the names of files, functions and threads, except those of "
                                        "public libraries and Python packages");
  return Redact(help.c_str());
}

Option LateAfter(double least, double most) {
  return Seconds("late-after", "ignore operations in flight for less than this")
      .Default("5")
      .Limits(least, most)
      .Common();
}

Option HangAfter(const char* help) { return Seconds("hang-after", help).Default("never").Limits(kAboveZero, kMonth); }

Option Archive(const char* help) { return Text("archive", "URL", help).Variable("LOCKSTEP_ARCHIVE").Common(); }

Option LineRate() {
  return Number("line-rate",
                "network bandwidth of each GPU in Gbit/s, which counts as 100 % for operations between hosts")
      .Variable("LOCKSTEP_LINE_RATE")
      .Limits(1, 1e6)
      .Common();
}

Option NcclTests() {
  return File("nccl-tests", "output of nccl-tests on these hosts, which counts as 100 % for the operations in it")
      .Variable("LOCKSTEP_NCCL_TESTS")
      .List(',')
      .Common();
}

Option GroupOption(const char* help) {
  return Text("group", "GROUP", help).Variable("LOCKSTEP_GROUP").Default("only the owner").Common();
}

Option Keep(const char* help) { return Age("keep", help).Default("7d").Common(); }

Option KeepBytes(const char* help) { return Bytes("keep-bytes", help).Default("5G").Common(); }

Option RingFolder() {
  return Folder("dir", "folder of the rings").Variable("LOCKSTEP_DIR").Default("/dev/shm/lockstep-UID");
}

Option Library() {
  return File("library", "the recorder")
      .Variable("LOCKSTEP_LIBRARY")
      .NoOption()
      .Default("../lib/liblockstep.so, relative to Lockstep's own program")
      .Common();
}

Option Rack() {
  return Text("rack", "", "rack of this host").Variable("LOCKSTEP_RACK").NoOption().Default("unknown").Common();
}

Option Switch() {
  return Text("switch", "", "switch of this host")
      .Variable("LOCKSTEP_SWITCH")
      .NoOption()
      .Default("from SLURM_TOPOLOGY_ADDR")
      .Common();
}

// Returns the options with which users' tools find a collector and authenticate to it.
Group Connection() {
  return {
      "Collector",
      {Endpoint("collector", "the collector, e.g. tcp://head:9470")
           .Variable("LOCKSTEP_COLLECTOR")
           .Default("this host's")
           .Common(),
       File("key", "secret key of an operator or a reader").Variable("LOCKSTEP_KEY").Default(kOperatorKeys).Common(),
       ServerKey("", "the one that this host's agent uses, else collector.pub in the key folder"), Keys(), Insecure(),
       RuntimeDir()}};
}

Verb Agent() {
  return {
      .name = "agent",
      .purpose = "watch the ranks of this host",
      .usage = {"[OPTIONS]"},
      .text =
          {"Watches this host's ranks, reports to the collector, and keeps the rings of processes that end abnormally. "
           "Run one per host as root for the jobs of all users, or one per user. Without a collector it works alone."},
      .examples = {{"lockstep agent --collector tcp://head:9470", "report to a collector"},
                   {"lockstep agent --collector tcp://head:9470 --redact paths", "without folder names"},
                   {"lockstep agent --alone", "watch this host only"}},
      .groups =
          {{"Collector",
            {Endpoint("collector", "the collector, e.g. tcp://head:9470; several are tried in order")
                 .Variable("LOCKSTEP_COLLECTOR")
                 .Default("the one on a socket of this host, if any")
                 .Common()
                 .List(',')
                 .Excludes("alone"),
             Flag("alone",
                  "run a collector for this host alone, on a socket in the runtime folder. lockstep top and lockstep "
                  "dump find it there if this user or root runs them")
                 .Excludes("collector"),
             Folder("out", "with --alone: write incidents to this folder")
                 .Default("incidents, next to the spool")
                 .Needs("alone"),
             OnVerdict("with --alone: run this command through the shell for each verdict, with the verdict as JSON on "
                       "standard input and its main facts as variables LOCKSTEP_VERDICT_...")
                 .Needs("alone"),
             OnVerdictTimeout(),
             File("key", "secret key of this program")
                 .Variable("LOCKSTEP_KEY")
                 .Default("agent.key in the key folder")
                 .Common(),
             ServerKey("", kCollectorKey), Keys(), Insecure()}},
           {"Spool",
            {Folder("spool", "folder for data not yet sent to the collector")
                 .Variable("LOCKSTEP_SPOOL")
                 .Default("/var/lib/lockstep/spool; for a user ~/.local/state/lockstep/spool"),
             Bytes("spool-bytes", "maximum size of the spool")
                 .Variable("LOCKSTEP_SPOOL_BYTES")
                 .Default("4G")
                 .Limits(kMiB, kPiB),
             File("log", "the agent's log").Variable("LOCKSTEP_AGENT_LOG").Default("agent.log in the spool")}},
           {"Rings",
            {Folder("rings", "watch only this LOCKSTEP_DIR")
                 .Variable("LOCKSTEP_AGENT_RINGS")
                 .Default("the usual places")
                 .List(':'),
             Age("keep-rings",
                 "keep rings of dead processes for this time after the last record; 0: forever. The spool also "
                 "keeps the rings of processes that ended abnormally")
                 .Default("7d"),
             Bytes("keep-ring-bytes",
                   "remove a user's oldest dead rings above this total size, or above half of the space that all rings "
                   "may use; 0: no limit")
                 .Default("5G")
                 .Limits(0, kPiB),
             Option{"containers", Kind::kNotFlag, "do not read the mounts and environment of other processes"}
                 .Named("--no-containers")
                 .Default("yes"),
             RingFolder().NoOption()}},
           {"Other",
            {Text("metrics", "ADDRESS:PORT", "serve Prometheus metrics, on loopback only").Variable("LOCKSTEP_METRICS"),
             Text("host", "NAME", "name of this host; use the same name for the recorder")
                 .Variable("LOCKSTEP_HOST")
                 .Default("uname"),
             LateAfter(kAboveZero, kDay), RedactLevels("leaves the host"), Rack(), Switch(), RuntimeDir()}}},
      .notes = {"On SIGTERM, the agent finishes what it is writing, spends at most 3 s sending what is queued, and "
                "exits. SIGHUP reopens "
                "the log.",
                kKeysNote, "Exit status: 0 ended by a signal; 1 cannot run here; 2 wrong usage."}};
}

Verb Analyze() {
  return {
      .name = "analyze",
      .purpose = "find the cause in incidents, rings or Flight Recorder dumps",
      .usage = {"[OPTIONS] PATH..."},
      .text = {"Names the rank that stopped a distributed job, or the call on which its ranks disagree, and shows why.",
               "PATH is an incident folder, a .lsd dump, a ring file of a dead process, PyTorch Flight Recorder dumps "
               "(pickle or JSON), a log or printed stacks, or a folder of these. Lockstep detects file types by "
               "content, and treats several paths as one job. If the files belong to several jobs, Lockstep lists the "
               "jobs, and --job chooses one."},
      .examples = {{"lockstep analyze /tmp/nccl_trace_rank_*", "Flight Recorder dumps"},
                   {"lockstep analyze --format html --output report.html incident", "a report to send"},
                   {"lockstep analyze --format explore --output explore.html incident", "a page to explore"}},
      .groups = {{"Output",
                  {Choice("format", "FORMAT", "text|json|html|explore", "format of the report").Default("text"),
                   File("output", "write the report to FILE").Default("standard output"),
                   Flag("full", "print everything: all evidence, stacks, the whole chain, and what is unknown"),
                   Flag("start", "after the text, show what the job's start-up spent its time on"),
                   Flag("speed", "after the text, show how fast each operation was, and how fast it could be"),
                   Flag("timing", "print how long each stage took, and the peak memory, on standard error"),
                   Flag("json-schema", "print the JSON Schema of --format json, and exit").Lone(), RedactLevels()}},
                 {"Analysis",
                  {Text("job", "NAME", "analyze this job, if PATH contains several").Lone(), LateAfter(0, 1e9),
                   LineRate(), NcclTests(),
                   File("topology", "position of each host: lines HOST RACK SWITCH, or Slurm's topology.conf"),
                   Choice("replay", "WHEN", "auto|yes|no",
                          "replay the recorded calls to prove the first finding (auto: up to 1,024 ranks)")
                       .Default("auto"),
                   Archive("look up whether the culprits also caused earlier incidents, in the archive at "
                           "http://HOST:PORT/DATABASE; waits at most 1.5 s"),
                   Keys()}}},
      .notes = {"Exit status: 0 healthy; 1 findings, or data is missing; 2 wrong usage; 3 nothing readable, or the "
                "report cannot be written; 130 ended by Ctrl-C, without a partial file."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 0,
      .most_operands = kAnyNumber};
}

Verb ArchiveVerb() {
  return {
      .name = "archive",
      .purpose = "keep incidents in ClickHouse and query them",
      .usage = {"[OPTIONS] DIR...", "[OPTIONS] --follow DIR", "query [OPTIONS] NAME", "jobs [OPTIONS] FILE",
                "send [OPTIONS]"},
      .text = {"Sends finished incident folders to a ClickHouse server: verdict, findings, culprits, start-up times "
               "and aggregates of operations. Each incident is stored once, even if it is sent several times.",
               "The command send sends what earlier runs left in the spool; query queries the archive, where NAME is "
               "clusters, culprits, "
               "hangs, host, links, list, operations, speed or startup; jobs stores how long jobs ran, so that queries "
               "can compute rates per job-day. FILE (- is standard input) has lines JOB|START|END|RANKS, as sacct -X "
               "-n -P -o JobID,Start,End,NTasks prints."},
      .examples = {{"lockstep archive --to http://db:8123/lockstep incident", "send one incident"},
                   {"lockstep archive query --days 30 culprits", "which hosts and lines of code hung jobs this month"},
                   {"lockstep archive --follow /var/lib/lockstep/incidents", "send each incident once it is finished"}},
      .groups =
          {{"Server",
            {Text("to", "URL", "http://[USER@]HOST:PORT/DATABASE or https://...").Variable("LOCKSTEP_ARCHIVE"),
             File("password-file", "password of the user; LOCKSTEP_ARCHIVE_PASSWORD may hold it instead"),
             File("ca", "certificates that https trusts").Default("the system's"),
             Flag("insecure", "allow http to other machines: others can read what is sent"),
             Text("cluster", "NAME", "cluster name to store with incidents; for queries: only this cluster")
                 .Variable("LOCKSTEP_CLUSTER")
                 .Default("none; queries: all"),
             Seconds("retry-for", "if the server is down, keep trying for this time; --follow never gives up")
                 .Default("30")
                 .Limits(0, 1e6)}},
           {"Sending",
            {Folder("follow",
                    "send every incident below DIR (--out of a collector) once it is finished, until SIGTERM"),
             Seconds("every", "with --follow: look for new incidents at this interval").Default("5").Limits(0.05, 1e6),
             Folder("spool", "folder for data not yet sent").Default("~/.local/state/lockstep/archive"),
             Bytes("spool-limit", "maximum size of the spool").Default("1G").Limits(1, 0),
             Redact("redact names in code locations, as lockstep analyze does"), Keys()}},
           {"Queries",
            {Number("days", "only the last N days").Default("90; host, links: 7").Limits(1, 1e6),
             Number("limit", "at most N lines").Default("100").Limits(1, 1e6),
             Text("host", "NAME", "only this host").Default("all"),
             Text("place", "TEXT", "for culprits: only lines of code that contain TEXT").Default("all"),
             Text("job", "NAME", "only this job").Default("all"), Flag("json", "print JSON"),
             Flag("sql", "print the SQL statement and do not send it"),
             Number("time-limit-ms", "").Lone().Default("1500").Limits(1, 1e6).Hidden(),
             Text("password", "", "").Lone().Hidden()}}},
      .notes = {"Exit status: 0 everything was sent or answered; 1 something was refused or could not be read; 2 wrong "
                "usage; 3 the server was down, and unsent data is in the spool."},
      .operand = "DIR",
      .operand_kind = Kind::kFolder,
      .most_operands = kAnyNumber};
}

Verb Check() {
  return {
      .name = "check",
      .purpose = "find faults in a job's first steps",
      .usage = {"[OPTIONS] -- COMMAND [ARGUMENTS...]"},
      .text =
          {"Runs COMMAND on this machine with the recorder, on CPU stand-ins for NCCL and CUDA where this installation "
           "has them. Then it compares the calls of all ranks and reports calls that a rank skipped, added, swapped or "
           "called with different arguments, groups without an end, sends without a receive, and cycles of ranks that "
           "can wait for each other. In later rounds it delays single ranks. Use it before a job gets GPUs, or in CI."},
      .examples = {{"lockstep check -n 8 -- ./train --steps 4", "8 ranks"},
                   {"lockstep check --seconds 120 -- mpirun -n 4 ./train", "the command starts the ranks itself"},
                   {"lockstep check --format json --rounds 3 -n 4 -- ./train", "more delays, for a program"}},
      .groups = {{"Job",
                  {Number(
                       "ranks",
                       "start N ranks of COMMAND, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set")
                       .Named("-n")
                       .Default("COMMAND starts them")
                       .Limits(1, 4096),
                   Seconds("seconds", "end each round after this time, and check what was recorded until then")
                       .Default("60")
                       .Limits(kAboveZero, kMonth),
                   Number("rounds", "run COMMAND this many times; from the second run on, briefly stop single ranks")
                       .Default("2")
                       .Limits(1, 1000),
                   Flag("own-libraries", "use the NCCL and CUDA libraries of this machine instead of the stand-ins"),
                   LateAfter(kAboveZero, kMonth)}},
                 {"Output",
                  {Choice("format", "FORMAT", "text|json", "text or JSON").Default("text"),
                   Folder("out", "keep the records of all rounds in this folder").Default("remove them"), Library()}}},
      .notes =
          {"Exit status: 0 nothing found; 1 faults found; 2 wrong usage; 3 COMMAND could not be checked, or hung or "
           "waited when --seconds had passed, and its calls show no fault."},
      .operand = "COMMAND",
      .least_operands = 1,
      .most_operands = kAnyNumber,
      .command = true};
}

Verb Clean() {
  return {.name = "clean",
          .purpose = "remove ring files that no process writes to any more",
          .usage = {"[OPTIONS]"},
          .text = {"Removes the ring files that no process writes to any more. It keeps the rings of running "
                   "processes, of other users, and of containers that it cannot inspect, and prints why."},
          .examples = {{"lockstep clean --dry-run", "show what it would remove"},
                       {"lockstep clean --older-than 2d", "only rings without a new record for two days"},
                       {"lockstep clean --older-than 2d --incidents /var/lib/lockstep/incidents", "for cron"}},
          .groups = {{"Rings",
                      {RingFolder(), Age("older-than", "only rings without a new record for this time").Default("0")}},
                     {"Incidents",
                      {Folder("incidents",
                              "also clean up the incidents in this folder (a collector's --out). Never removes the "
                              "newest one, unfinished ones or folders with other files"),
                       Keep("remove older incidents; 0: keep all"),
                       KeepBytes("remove the oldest incidents above this total size; 0: keep all")}},
                     {"Other", {Flag("dry-run", "only print what would be removed")}}},
          .notes = {"Exit status: 0 done; 1 a file cannot be removed; 2 wrong usage, or a folder cannot be used."}};
}

Verb Collector() {
  return {
      .name = "collector",
      .purpose = "watch all jobs of a cluster, and gather incidents",
      .usage = {"[OPTIONS]"},
      .text = {"Gathers data from the agents of a cluster, finds the cause when a job stalls, writes an incident "
               "folder for each stall, and answers lockstep dump and lockstep top. With --upstream it is a relay: it "
               "merges and forwards reports, and stores nothing."},
      .examples = {{"lockstep collector --listen tcp://0.0.0.0:9470 --keys /etc/lockstep/keys", "for a cluster"},
                   {"lockstep collector --upstream tcp://head:9470 --keys /etc/lockstep/keys", "a relay"},
                   {"lockstep collector --out /var/lib/lockstep/incidents", "on this host only"}},
      .groups =
          {{"Network",
            {Option{"listen", Kind::kListen, "where agents connect: tcp://ADDRESS:PORT or ipc://PATH"}
                 .Variable("LOCKSTEP_LISTEN")
                 .Default("collector.sock in the runtime folder")
                 .List(','),
             Endpoint("upstream", "be a relay for the collector at ENDPOINT; if that becomes silent, use the next one")
                 .List(','),
             Text("metrics", "ADDRESS:PORT", "serve Prometheus metrics, on loopback only"), RuntimeDir()}},
           {"Keys",
            {File("key", "secret key of this program, created by lockstep keygen --role collector")
                 .Variable("LOCKSTEP_KEY")
                 .Default("collector.key in the key folder")
                 .Common(),
             Folder("known-keys",
                    "folder with public keys of agents and people who may connect; changes take effect at once")
                 .Variable("LOCKSTEP_KNOWN_KEYS")
                 .Default("the key folder"),
             Folder("keys",
                    "sets --key and --known-keys: DIR/collector.key (relay.key with --upstream), and the public keys "
                    "in DIR")
                 .Variable("LOCKSTEP_KEYS")
                 .Common(),
             ServerKey("upstream", ""),
             Insecure("use no keys, on any address: everyone who can reach the port can read and write")}},
           {"Incidents",
            {Folder("out", "write incidents to this folder").Variable("LOCKSTEP_OUT").Default("the current folder"),
             Bytes("quota", "maximum size of all incidents being gathered").Default("1T").Limits(1, 0),
             Bytes("host-quota", "maximum size of one host's part of an incident").Default("4G").Limits(1, 0),
             GroupOption("let members of this group (name or number) read the incidents"),
             Keep("remove older incidents; 0: keep all"),
             KeepBytes("remove the oldest incidents above this total size; 0: keep all. The newest incident and "
                       "unfinished ones are kept")}},
           {"Verdicts",
            {LateAfter(kAboveZero, kMonth),
             HangAfter("report a wait of this length as a hang, whatever the processes do"),
             Seconds("silent-after", "report an agent as silent if it sends nothing for this time")
                 .Default("5")
                 .Limits(kAboveZero, kMonth),
             OnVerdict("run this command through the shell for each verdict, with the verdict as JSON on standard "
                       "input and its main facts as variables LOCKSTEP_VERDICT_..."),
             OnVerdictTimeout(),
             Archive("look up whether the culprits also caused earlier incidents, in the archive at "
                     "http://HOST:PORT/DATABASE; no verdict waits for it"),
             Folder("finalise", "").Lone().Hidden(), Folder("index", "").Lone().Hidden()}}},
      .notes = {"SIGTERM ends the collector. Unfinished incidents resume at the next start."}};
}

Verb Config() {
  return {
      .name = "config",
      .purpose = "show every setting and where it comes from",
      .usage = {"[OPTIONS] [VERB [ARGUMENTS...]]"},
      .text = {"Prints every setting of VERB (agent, collector, run, ...; recorder means the library in the "
               "training processes), or of all verbs, with its value and its source: a configuration file, the "
               "environment, an option among ARGUMENTS, or the default."},
      .examples = {{"lockstep config", "all settings, and where each comes from"},
                   {"lockstep config agent", "settings of the agent"},
                   {"lockstep config --check", "look for mistakes in the configuration files"}},
      .groups = {{"",
                  {Flag("check", "only print mistakes in the files").Lone(), Flag("json", "print JSON").Lone(),
                   Flag("reference", "print every verb, option, setting and variable as JSON").Lone()}}},
      .notes = {"The files are /etc/lockstep.conf and the one that LOCKSTEP_CONFIG names. The environment overrides "
                "files, and options override both.",
                "Exit status: 0 no mistakes; 1 a mistake in a file or the environment, or a file that cannot be "
                "used; 2 wrong usage."},
      .operand = "VERB",
      .most_operands = kAnyNumber,
      .command = true};
}

Verb Attach() {
  return {
      .name = "attach",
      .purpose = "find the rank that hangs a job started without Lockstep",
      .usage = {"[OPTIONS] [JOB | PID...]"},
      .text =
          {"Examines a job that is hanging now and was not started under Lockstep. It finds the ranks on this host, "
           "takes "
           "their stacks twice, reads the end of their output files and recent dumps of PyTorch's Flight Recorder, and "
           "asks NCCL's RAS. It prints a verdict and writes an incident folder. It stops each thread for a moment "
           "(under 50 ms, usually under 1), and writes nothing into a process.",
           "JOB chooses one of several jobs, like --job, and PID examines only these processes. Without either, "
           "Lockstep examines every process with a rank from a launcher (RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, "
           "PMI_RANK), or else every process with "
           "NCCL loaded or a GPU open. Run it as root or as the job's user, while the job still hangs."},
      .examples = {{"lockstep attach", "the only job on this host"},
                   {"lockstep attach --hosts nodes.txt", "the same on other hosts, over ssh"},
                   {"lockstep attach --kubernetes job-name=train", "the same in pods, with kubectl exec"}},
      .groups =
          {{"Job",
            {Text("job", "NAME", "examine the job with this name, if several run").Lone(),
             Text("slurm", "ID", "examine the job with this SLURM_JOB_ID").Lone(),
             Flag("ask-torch",
                  "request Flight Recorder dumps from PyTorch, through its debug server and through the pipes of "
                  "TORCH_NCCL_DEBUG_INFO_PIPE_FILE. The pipes make each rank write a file")
                 .Lone()}},
           {"Hosts",
            {Flag("agents", "examine all hosts whose agents report to the collector; needs an operator's key").Lone(),
             File("hosts", "examine these hosts instead of this one: a file with one host name per line").Lone(),
             Text("launch", "COMMAND", "command that runs another command on a host; Lockstep appends the host name")
                 .Default("ssh -o BatchMode=yes"),
             Text("kubernetes", "SELECTOR", "examine the running pods with these labels instead of this host").Lone(),
             Text("namespace", "NAME", "namespace of these pods").Default("kubectl's").Lone(),
             Text("container", "NAME", "the container to examine in each pod").Default("its default").Lone(),
             Text("kubectl", "COMMAND", "command that lists the pods and runs commands in them").Default("kubectl"),
             Text("remote", "PROGRAM", "path of lockstep on the hosts or in the pods").Default("lockstep"),
             Text("stream", "NAME",
                  "write this host's dump to standard output, with NAME as the job name. --hosts and --kubernetes use "
                  "it")
                 .Lone(),
             Text("host", "NAME", "name of this host; use the same name for the recorder")
                 .Variable("LOCKSTEP_HOST")
                 .Default("uname")}},
           {"Incident",
            {Folder("out", "write the incident folder here").Default("./lockstep-incident-JOB-DATE-TIME"),
             RedactLevels("is written. With paths or stacks, output files and RAS are not read")}},
           Connection()},
      .notes = {"Exit status: 0 healthy; 1 findings, or data is missing; 2 wrong usage, or several jobs and none was "
                "chosen; 3 no job was found, it could not be examined, or the incident folder cannot be written."},
      .operand = "PID",
      .most_operands = kAnyNumber};
}

Verb Doctor() {
  return {.name = "doctor",
          .purpose = "check this host",
          .usage = {"[OPTIONS]"},
          .text = {"Checks this host: whether there is room for rings, whether NCCL calls are recorded and stacks can "
                   "be read, whether the keys are valid, and whether the collector answers. To test recording, a small "
                   "program makes NCCL calls with "
                   "all GPUs hidden. Run it where the job runs: in its container, with its environment."},
          .examples = {{"lockstep doctor", "check this host"},
                       {"lockstep doctor --ranks 16", "a host with 16 ranks"},
                       {"lockstep doctor --json", "for scripts"}},
          .groups = {{"Checks",
                      {File("nccl", "the libnccl.so.2 that the job loads")
                           .Value("PATH")
                           .Default("the one that the dynamic loader finds"),
                       Number("ranks", "ranks on this host").Default("8").Limits(1, 1024), Library(),
                       RingFolder().NoOption(), Flag("json", "print JSON")}},
                     Connection()},
          .notes = {kKeysNote, "Exit status: 0 everything needed works; 1 something does not; 2 wrong usage."}};
}

Verb Dump() {
  return {.name = "dump",
          .purpose = "capture an incident of a running job now",
          .usage = {"[OPTIONS] [JOB]"},
          .text = {"Makes the collector capture an incident of a running job now: digests of all ranks, the verdict, "
                   "stacks and rings of the suspects. Prints the verdict and where the files are.",
                   "JOB is a name, or NAME/STEP/RESTART. Omit it if only one job runs."},
          .examples = {{"lockstep dump", "the only job"},
                       {"lockstep dump train", "the job named train"},
                       {"lockstep dump --everything train", "with the rings of all ranks"}},
          .groups = {{"Incident",
                      {Flag("everything", "include the whole rings of all ranks, not only of the suspects"),
                       Flag("json", "print the verdict as JSON"),
                       Seconds("timeout", "give up after this time, even if the collector does not answer")
                           .Default("600")
                           .Limits(kAboveZero, 1e6)}},
                     Connection()},
          .notes = {kKeysNote,
                    "Exit status: as for lockstep analyze: 0 healthy; 1 findings, or data is missing; 2 wrong usage; 3 "
                    "no verdict."},
          .operand = "JOB",
          .most_operands = 1};
}

Verb Evidence() {
  return {
      .name = "evidence",
      .purpose = "print a process's stacks and state",
      .usage = {"[OPTIONS] PID"},
      .text = {"Prints what is visible about a process from outside: native and Python stacks of all its threads, "
               "whether it makes progress, its memory, its GPUs, and this host's hardware errors. It stops each thread "
               "for a moment (under 50 ms, usually under 1)."},
      .examples = {{"lockstep evidence 4711", "stacks and state of process 4711"},
                   {"lockstep evidence --redact stacks 4711", "to share with others"},
                   {"lockstep evidence --ring /dev/shm/lockstep-UID/JOB.0/HOST.PID.RANDOM.ring 4711",
                    "where ptrace is refused"}},
      .groups = {{"",
                  {File("ring",
                        "ring of the process. If ptrace is refused, the recorder answers instead, if it runs with "
                        "LOCKSTEP_HELPER=on"),
                   RedactLevels(), Keys(), Number("stacks-of", "").Limits(1, 2147483647).Lone().Hidden(),
                   Number("gpus-of", "").Limits(1, 2147483647).Lone().Hidden(),
                   Number("limit-ms", "").Limits(1, 1e9).Lone().Hidden(),
                   Number("ring-fd", "").Limits(3, 1e9).Lone().Hidden(), File("nvml", "").Lone().Hidden(),
                   Flag("no-stop", "").Lone().Hidden()}}},
      .notes = {"Exit status: 0 printed; 1 the process is gone; 2 wrong usage."},
      .operand = "PID",
      .most_operands = 1};
}

Verb Export() {
  return {
      .name = "export",
      .purpose = "write a recording for Perfetto, Chrome or a spreadsheet",
      .usage = {"[OPTIONS] --perfetto FILE PATH...", "[OPTIONS] --chrome FILE PATH...", "[OPTIONS] --csv FILE PATH..."},
      .text = {"Converts a recording for other tools. PATH is what lockstep analyze reads. One run can write several "
               "formats."},
      .examples = {{"lockstep export --perfetto trace.pftrace incident", "for ui.perfetto.dev"},
                   {"lockstep export --chrome trace.json --around-stop 10 incident",
                    "the last ten seconds, for Chrome"},
                   {"lockstep export --csv - --ranks 0-7 incident", "one line per operation"}},
      .groups = {{"Output",
                  {File("perfetto",
                        "a trace for ui.perfetto.dev: hosts, ranks, threads, streams, and arrows from ranks that wait "
                        "to the culprit"),
                   File("chrome", "the same as JSON for Chrome's trace viewer"),
                   File("csv", "one line per operation (RFC 4180), with a header line")}},
                 {"Selection",
                  {Option{"ranks", Kind::kRanks, "only these ranks"}.Default("all"),
                   Seconds("around-stop", "only events at most this long before or after the job stopped")
                       .Default("all")
                       .Limits(0, 1e9),
                   RedactLevels(), Keys()}}},
      .notes = {"FILE is either complete or not created; - means standard output.",
                "Exit status: 0 written; 2 wrong usage; 3 nothing readable, or a file cannot be written; 130 ended by "
                "Ctrl-C, without a partial file."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 1,
      .most_operands = kAnyNumber};
}

Verb Keygen() {
  return {.name = "keygen",
          .purpose = "create keys for agents and collectors",
          .usage = {"--role ROLE [--name NAME] [FOLDER]"},
          .text = {"Writes a key pair, NAME.key (secret, mode 600) and NAME.pub, into FOLDER, and prints where each "
                   "goes. Creates FOLDER if it is missing; the default is the current folder. Never overwrites a key."},
          .examples = {{"lockstep keygen --role collector keys", "keys/collector.key and keys/collector.pub"},
                       {"lockstep keygen --role agent keys", "one key for all agents"},
                       {"lockstep keygen --role operator --name alice keys", "alice may request dumps"}},
          .groups = {{"",
                      {Choice("role", "ROLE", "collector|relay|agent|operator|reader",
                              "collector: identifies a collector or a relay to others\n"
                              "relay: forwards the reports of agents\n"
                              "agent: may only report; for one host or a fleet\n"
                              "operator: may request dumps (lockstep dump, top)\n"
                              "reader: read-only (lockstep top)"),
                       Text("name", "NAME", "file name of the keys").Default("the role")}}},
          .notes = {"Exit status: 0 written; 1 the files cannot be written; 2 wrong usage."},
          .operand = "FOLDER",
          .operand_kind = Kind::kFolder,
          .most_operands = 1};
}

Verb Mcp() {
  return {
      .name = "mcp",
      .purpose = "let an AI assistant query incidents",
      .usage = {"[OPTIONS] PATH..."},
      .text = {"Serves incidents to an AI assistant over the Model Context Protocol, on standard input and output. The "
               "tools (incidents, verdict, why, ranks, stacks, query, compare) are read-only. Each sentence has an "
               "evidence id. PATH is what lockstep analyze reads, or a folder of incidents. The server reads nothing "
               "else."},
      .examples = {{"lockstep mcp /var/lib/lockstep-collector", "as the server command in an assistant's settings"},
                   {"lockstep mcp incident", "one incident"},
                   {"lockstep mcp --redact stacks incident", "without names of code and files"}},
      .groups = {{"", {RedactLevels(), Keys()}}},
      .notes = {"Exit status: 0 standard input ended; 2 wrong usage; 3 standard output cannot be written."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 1,
      .most_operands = kAnyNumber};
}

Verb Replay() {
  return {
      .name = "replay",
      .purpose = "check a verdict by replaying the recorded calls",
      .usage = {"[OPTIONS] PATH..."},
      .text = {"Replays all ranks' recorded calls in a simulator of NCCL's rules. The simulated job must hang. With "
               "the first finding's fault corrected (the missing call added, the order corrected, the process "
               "continued), it must complete. With the same correction at any other possibly faulty rank, it must not "
               "complete. PATH is what lockstep analyze reads. Replay runs none of the job's code and uses no GPU."},
      .examples = {{"lockstep replay incident", "is the verdict on this incident proved?"},
                   {"lockstep replay --suspect 7 incident", "correct rank 7 instead of the culprit"},
                   {"lockstep replay --format json incident", "everything that was replayed and assumed"}},
      .groups = {{"",
                  {Option{"suspect", Kind::kRanks, "correct these ranks instead of the culprits of the first finding"}
                       .Lone()
                       .Default("the culprits"),
                   Choice("format", "FORMAT", "text|json", "text or JSON").Default("text"),
                   Text("job", "NAME", "replay this job, if PATH contains several").Lone(), LateAfter(0, 1e9)}}},
      .notes = {"Exit status: 0 proved; 1 not proved; 2 wrong usage; 3 nothing readable."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .least_operands = 1,
      .most_operands = kAnyNumber};
}

Verb Run() {
  return {
      .name = "run",
      .purpose = "run a job under Lockstep and report what stopped it",
      .usage = {"[OPTIONS] -- COMMAND [ARGUMENTS...]"},
      .text = {"Runs COMMAND with the recorder preloaded, watches it, and names the rank at fault if it stalls."},
      .examples = {{"lockstep run -- torchrun --nproc-per-node 8 train.py", "record and watch a job"},
                   {"lockstep run --out incident -- python launch.py", "write the incident to that folder"},
                   {"lockstep run -n 4 --kill-on-hang -- python train.py", "start 4 ranks, end them if they hang"}},
      .groups =
          {{"Job",
            {Number("ranks",
                    "start N ranks of COMMAND, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set")
                 .Named("-n")
                 .Default("COMMAND runs once, unchanged")
                 .Limits(1, 4096),
             Flag("kill-on-hang", "end the job when it hangs, with exit status 90 (hung) or 91 (ranks disagree)"),
             Flag("quiet", "print nothing about healthy jobs")}},
           {"Incidents",
            {Folder("out", "write the incident folder here, even if the job was healthy")
                 .Default("./lockstep-incident-JOB-DATE-TIME, if there is something to report")
                 .Excludes("collector"),
             Endpoint("collector",
                      "join the job to a collector: run starts an agent for its ranks. The collector finds hangs and "
                      "keeps incidents; its verdict is printed here")
                 .Excludes("out"),
             GroupOption("let members of this group (name or number) read the incidents and rings"),
             OnVerdict("run this command through the shell for each verdict, with the verdict as JSON on standard "
                       "input and its main facts as variables LOCKSTEP_VERDICT_...")
                 .Excludes("collector"),
             OnVerdictTimeout(), RedactLevels()}},
           {"Recording and detection",
            {Choice("gpu", "MODE", "off|done|full|events|watch|auto",
                    "how the GPU's progress is recorded. watch is full, or events if CUDA_DEVICE_MAX_CONNECTIONS is 1")
                 .Default("LOCKSTEP_GPU, else watch")
                 .Excludes("profiler"),
             Flag("profiler",
                  "use the profiler interface of NCCL instead: kernel times, network steps, statically linked NCCL. A "
                  "plugin set in NCCL_PROFILER_PLUGIN stays active")
                 .Excludes("gpu"),
             LateAfter(kAboveZero, kMonth),
             HangAfter("report a wait of this length as a hang, whatever the processes do; use less than the "
                       "framework's own watchdog"),
             Library(), Rack(), Switch(), RingFolder().NoOption().Default("/dev/shm, else the temporary folder"),
             File("server-key", "public key of the collector")
                 .Variable("LOCKSTEP_SERVER_KEY")
                 .NoOption()
                 .Default(kCollectorKey)
                 .Common(),
             Keys()}}},
      .notes = {"Exit status: the job's; 2 wrong usage; 126 or 127 COMMAND cannot be started."},
      .operand = "COMMAND",
      .least_operands = 1,
      .most_operands = kAnyNumber,
      .command = true};
}

Verb Serve() {
  return {
      .name = "serve",
      .purpose = "show incidents in a browser",
      .usage = {"[OPTIONS] FOLDER...", "--readers FILE --add-reader NAME"},
      .text = {"Shows the incidents in FOLDER in a browser: a list, and for each incident its explore page, its report "
               "and its verdict. FOLDER is an incident folder, or a folder of them, such as a collector's --out. The "
               "server reads nothing else and writes nothing. Reload the list to see new incidents.",
               "It listens on loopback and prints the address, which contains a secret token: other users of this host "
               "cannot guess it. To serve other hosts it needs TLS and readers' keys, which browsers ask for as a "
               "password."},
      .examples = {{"lockstep serve /var/lib/lockstep/incidents", "all incidents of a collector"},
                   {"lockstep serve --listen 0.0.0.0 --tls-cert cert --tls-key key --readers r DIR", "for other hosts"},
                   {"lockstep serve --live any /var/lib/lockstep/incidents", "also show running jobs"}},
      .groups = {{"",
                  {Number("port", "listen on this port; 0: any free one").Default("0").Limits(0, 65535),
                   Text("listen", "ADDRESS", "listen on this address; 0.0.0.0: all addresses").Default("127.0.0.1"),
                   File("tls-cert", "TLS certificate and the certificates that signed it (PEM)"),
                   File("tls-key", "unencrypted private key of the certificate (PEM), readable by its owner only"),
                   File("readers", "names of readers and hashes of their keys, readable by its owner only"),
                   Text("add-reader", "NAME", "add a reader to the file, print the key and exit").Needs("readers"),
                   LineRate(), NcclTests(),
                   Text("live", "ENDPOINT",
                        "also show the jobs of this collector, e.g. tcp://head:9470; any: the collector of this host. "
                        "Uses the same keys as lockstep top")}}},
      .notes = {"SIGTERM and Ctrl-C end it.",
                "Exit status: 0 ended by a signal, or a reader was added; 2 wrong usage; 3 a FOLDER, the certificate, "
                "its key or the list of readers cannot be read, or the port is in use."},
      .operand = "FOLDER",
      .operand_kind = Kind::kFolder,
      .least_operands = 0,
      .most_operands = kAnyNumber};
}

Verb Top() {
  return {
      .name = "top",
      .purpose = "show running jobs",
      .usage = {"[OPTIONS] [JOB]"},
      .text = {"Lists the jobs that a collector watches, with their latest verdicts. Enter opens one: the oldest "
               "operation in flight and what it waits for, which ranks are dead, stopped or silent, and what is not "
               "visible. ? shows the keys. Without a terminal it behaves like --once."},
      .examples = {{"lockstep top", "all jobs, until q is pressed"},
                   {"lockstep top --once", "print the state once"},
                   {"lockstep top --json train", "one job, for scripts"}},
      .groups = {{"Output",
                  {Flag("once", "print the state once and exit"), Flag("json", "the same as JSON, one line per job")}},
                 Connection()},
      .notes = {kKeysNote, "Exit status: 0; 1 no collector answers, or it refuses; 2 wrong usage."},
      .operand = "JOB",
      .most_operands = 1};
}

Verb View() {
  return {
      .name = "view",
      .purpose = "open the trace viewer",
      .usage = {"[OPTIONS] [PATH...]"},
      .text = {"Shows which rank stopped a distributed job, and why: verdict, rank x sequence matrix, who waits for "
               "whom, stacks, timeline. PATH is what lockstep analyze reads. Several paths are one job."},
      .examples = {{"lockstep view incident", "open an incident"},
                   {"lockstep view --compare incident-1 incident-2", "two side by side"},
                   {"lockstep view --live any", "follow the collector of this host"}},
      .groups = {{"Window",
                  {Flag("compare", "two PATHs side by side, rather than as one job"),
                   Text("live", "ENDPOINT",
                        "follow a collector, e.g. tcp://head:9470: its jobs, and their incidents as they arrive; any: "
                        "the collector of this host. Uses the same keys as lockstep top"),
                   Choice("theme", "COLORS", "light|dark", "colors of the window").Default("the desktop's"),
                   Choice("tab", "NAME", "answer|matrix|wait-for|timeline|stacks|bandwidth", "show this first")
                       .Default("answer, if a rank is named"),
                   Number("select-anomaly", "select this anomaly; 1 is the worst").Limits(1, 1e6),
                   Text("search", "QUERY", "search, and go to the first hit"),
                   Text("size", "WxH", "size of the window").Default("the last size"),
                   Flag("fresh", "start as if for the first time: neither read nor store the viewer's state")}},
                 {"For scripts; no screen needed",
                  {File("screenshot", "write the window as PNG once it is completely drawn, and exit"),
                   Flag("print-selection", "print verdict and selection as JSON, and exit"),
                   Flag("exit-after-first-paint",
                        "print how long the first paint took and how much memory was used, and exit")}}},
      .notes = {"Exit status: 0; 2 wrong usage; 3 no display, nothing readable (scripts), or FILE cannot be written."},
      .operand = "PATH",
      .operand_kind = Kind::kFile,
      .most_operands = kAnyNumber};
}

const char* ValueName(Kind kind) {
  switch (kind) {
    case Kind::kFile: return "FILE";
    case Kind::kFolder: return "DIR";
    case Kind::kNumber: return "N";
    case Kind::kSeconds: return "SECONDS";
    case Kind::kBytes: return "BYTES";
    case Kind::kAge: return "AGE";
    case Kind::kRanks: return "RANKS";
    case Kind::kEndpoint:
    case Kind::kListen: return "ENDPOINT";
    default: return "";
  }
}

}  // namespace

std::string DerivedVariable(const std::string& section, const std::string& key) {
  return absl::AsciiStrToUpper(absl::StrReplaceAll(absl::StrCat("LOCKSTEP_", section, "_", key), {{"-", "_"}}));
}

std::vector<Verb> MakeVerbs() {
  std::vector<Verb> verbs = {Agent(),  Analyze(), ArchiveVerb(), Attach(),   Check(),  Clean(),  Collector(),
                             Config(), Doctor(),  Dump(),        Evidence(), Export(), Keygen(), Mcp(),
                             Replay(), Run(),     Serve(),       Top(),      View()};
  for (Verb& verb : verbs) {
    for (std::string& usage : verb.usage) usage = absl::StrCat("lockstep ", verb.name, " ", usage);
    for (Group& group : verb.groups) {
      for (Row& row : group.rows) {
        row.section = verb.name;
        if (row.variable == kDerived) row.variable = DerivedVariable(verb.name, row.key);
        if (row.option == kDerived) row.option = "--" + row.key;
        if (row.value.empty()) row.value = ValueName(row.kind);
      }
    }
  }
  return verbs;
}

}  // namespace lockstep::settings
