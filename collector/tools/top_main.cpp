// The top verb: running jobs on a terminal.
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/printable.h"
#include "collector/common/say.h"
#include "collector/host/proc.h"
#include "collector/tools/top.h"
#include "collector/tools/top_view.h"
#include "collector/wire/client.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr int kTickMs = 100;
constexpr int kEscape = 27;

void Wait(wire::Client* client, bool keys) {
  pollfd fds[2] = {{client->fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  poll(fds, keys ? 2 : 1, kTickMs);
}

bool PrintJson(const TopSession& session) {
  for (size_t i = 0; i < session.jobs().size(); ++i) {
    const std::string line = TopJson(session.jobs()[i], session.calls_a_second()[i]);
    if (line.empty()) return false;
    puts(line.c_str());
  }
  return true;
}

int Once(TopSession* session, wire::Client* client, bool json) {
  const int64_t give_up = MonotonicNs() + 10'000'000'000;
  while (MonotonicNs() < give_up) {
    session->Step(MonotonicNs());
    if (const std::string error = session->TakeError(); !error.empty()) {
      fprintf(stderr, "lockstep top: %s\n", PrintableAscii(error).c_str());
      return 1;
    }
    // Rates need two states.
    if (session->states() > 1 || (session->heard() && session->jobs().empty())) {
      if (json) return PrintJson(*session) ? 0 : 1;
      TopState state;
      state.now_real_ns = RealtimeNs();
      state.calls_a_second = session->calls_a_second();
      fputs(TopText(session->jobs(), state).c_str(), stdout);
      return 0;
    }
    Wait(client, false);
  }
  const std::string why = client->last_error();
  // Without a connection there is no endpoint; `why` has the endpoint that was tried last.
  const std::string from = client->endpoint().empty() ? "" : absl::StrCat(" from ", client->endpoint());
  fprintf(stderr,
          "lockstep top: no response%s in 10 s%s%s\nA single host needs no collector: start `lockstep agent --alone` "
          "there\n",
          from.c_str(), why.empty() ? "" : ": ", PrintableAscii(why).c_str());
  return 1;
}

// Use only after CanDraw.
class Screen {
 public:
  Screen() {
    setlocale(LC_ALL, "");
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(50);
    if (has_colors()) {
      start_color();
      use_default_colors();
      init_pair(1, COLOR_GREEN, -1);
      init_pair(2, COLOR_YELLOW, -1);
      init_pair(3, COLOR_RED, -1);
    }
  }
  ~Screen() { endwin(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void Draw(const std::vector<TopLine>& lines) {
    erase();
    for (size_t i = 0; i < lines.size(); ++i) {
      const attr_t attributes = Attributes(lines[i].style);
      attron(attributes);
      mvaddnstr(static_cast<int>(i), 0, lines[i].text.c_str(), COLS);
      attroff(attributes);
    }
    refresh();
  }

 private:
  static attr_t Attributes(TopStyle style) {
    switch (style) {
      case TopStyle::kPlain: return A_NORMAL;
      case TopStyle::kTitle: return A_REVERSE;
      case TopStyle::kHeading: return A_BOLD;
      case TopStyle::kGood: return static_cast<attr_t>(COLOR_PAIR(1));
      case TopStyle::kLate: return static_cast<attr_t>(COLOR_PAIR(2)) | A_BOLD;
      case TopStyle::kBad: return static_cast<attr_t>(COLOR_PAIR(3)) | A_BOLD;
      case TopStyle::kDim: return A_DIM;
    }
    return A_NORMAL;
  }
};

// Handles the keys. Only the program's single thread uses it.
class Keys {
 public:
  Keys(TopSession* session, TopState* state) : session_(session), state_(state) {}

  // Returns false to quit.
  bool Press(int key) {
    const bool go_on = Act(key);
    const std::vector<JobStatus>& jobs = session_->jobs();
    if (!jobs.empty()) chosen_ = jobs[std::min(state_->job, jobs.size() - 1)].job().SerializeAsString();
    return go_on;
  }

  bool Act(int key) {
    if (asking_ != Asking::kNothing) {
      Typed(key);
      return true;
    }
    const std::vector<JobStatus>& jobs = session_->jobs();
    state_->prompt.clear();
    const JobStatus* job = jobs.empty() ? nullptr : &jobs[std::min(state_->job, jobs.size() - 1)];
    const auto page = static_cast<size_t>(std::max(1, LINES - 8));
    switch (key) {
      case 'q': return false;
      case '?':
      case 'h':
        state_->help = !state_->help;
        state_->scroll = 0;
        break;
      case kEscape:
        if (state_->text.empty() && !state_->help) state_->all_jobs = true;
        Back();
        break;
      case '\n':
      case KEY_ENTER:
        Back();
        state_->all_jobs = false;
        break;
      case 'o': state_->order = static_cast<TopOrder>((static_cast<int>(state_->order) + 1) % kTopOrders); break;
      case '\t':
        Back();
        if (!jobs.empty()) state_->job = (state_->job + 1) % jobs.size();
        break;
      case 'g':
        Back();
        state_->group = static_cast<TopGroup>((static_cast<int>(state_->group) + 1) % kTopGroups);
        break;
      case 'j':
      case KEY_DOWN:
        if (ChoosingJob()) {
          if (state_->job + 1 < jobs.size()) ++state_->job;
        } else {
          ++state_->scroll;
        }
        break;
      case 'k':
      case KEY_UP: {
        size_t* const moves = ChoosingJob() ? &state_->job : &state_->scroll;
        if (*moves > 0) --*moves;
        break;
      }
      case KEY_NPAGE:
      case ' ': state_->scroll += page; break;
      case KEY_PPAGE: state_->scroll -= std::min(state_->scroll, page); break;
      case 'w':
        if (job != nullptr) Why(*job);
        break;
      case 's':
        if (job != nullptr) {
          session_->AskStacks(*job);
          Follow("STACKS of the ranks that the others wait for");
        }
        break;
      case 'S':
        if (job != nullptr) {
          session_->AskStacks(*job, true);
          Follow("STACKS taken now, of the ranks that the others wait for");
        }
        break;
      case 'd':
        if (job != nullptr) {
          asking_ = Asking::kDump;
          state_->prompt = "request a dump of " + job->job().job() + " now? y/n";
        }
        break;
      case 'f':
      case '/':
        if (job != nullptr) {
          asking_ = Asking::kRank;
          typed_.clear();
          state_->prompt = "rank: ";
        }
        break;
      default: break;
    }
    return true;
  }

  // Keeps the chosen job selected although jobs come and go, and shows the answer to the last request.
  void Update() {
    const std::vector<JobStatus>& jobs = session_->jobs();
    const auto same = std::find_if(jobs.begin(), jobs.end(),
                                   [this](const JobStatus& job) { return job.job().SerializeAsString() == chosen_; });
    if (same != jobs.end()) {
      state_->job = static_cast<size_t>(same - jobs.begin());
    } else if (asking_ != Asking::kNothing) {
      asking_ = Asking::kNothing;  // the user's reply must not apply to another job
      state_->prompt = "the job is gone";
    }
    state_->calls_a_second = session_->calls_a_second();
    if (!following_) return;
    state_->text = session_->lines();
    if (state_->text.empty()) state_->text = {session_->answered() ? "(nothing)" : "asking..."};
  }

 private:
  enum class Asking { kNothing, kDump, kRank };

  bool ChoosingJob() const {
    return state_->all_jobs && session_->jobs().size() > 1 && state_->text.empty() && !state_->help;
  }

  void Back() {
    following_ = false;
    state_->help = false;
    state_->text.clear();
    state_->scroll = 0;
  }

  void Follow(std::string title) {
    Back();
    state_->text_title = std::move(title);
    following_ = true;
  }

  void Why(const JobStatus& job) {
    Back();
    state_->text_title = "WHY";
    if (job.last_incident().text().empty()) {
      state_->text = {"This job has no verdict yet. Press d to request a dump and show its verdict."};
      return;
    }
    state_->text = absl::StrSplit(job.last_incident().text(), '\n');
    state_->text.push_back("incident: " + job.last_incident().path());
  }

  void Typed(int key) {
    const std::vector<JobStatus>& jobs = session_->jobs();
    if (jobs.empty() || key == kEscape) {
      asking_ = Asking::kNothing;
      state_->prompt.clear();
      return;
    }
    const JobStatus& job = jobs[std::min(state_->job, jobs.size() - 1)];
    if (asking_ == Asking::kDump) {
      asking_ = Asking::kNothing;
      state_->prompt.clear();
      if (key == 'y' || key == 'Y') {
        session_->Dump(job);
        Follow("DUMP of " + job.job().job());
      }
      return;
    }
    if (key == '\n' || key == KEY_ENTER) {
      asking_ = Asking::kNothing;
      state_->prompt.clear();
      int32_t rank = -1;
      if (!absl::SimpleAtoi(typed_, &rank) || rank < 0) {
        state_->prompt = "not a rank: " + typed_;
        return;
      }
      session_->AskRank(job, rank);
      Follow(absl::StrCat("RANK ", rank));
      return;
    }
    if (key == KEY_BACKSPACE || key == 127 || key == 8) {
      if (!typed_.empty()) typed_.pop_back();
    } else if (key >= '0' && key <= '9' && typed_.size() < 9) {
      typed_.push_back(static_cast<char>(key));
    }
    state_->prompt = "rank: " + typed_;
  }

  TopSession* const session_;
  TopState* const state_;
  Asking asking_ = Asking::kNothing;
  std::string typed_;
  bool following_ = false;
  std::string chosen_;  // the serialized JobIdentity of the open or selected job
};

volatile sig_atomic_t g_end = 0;

void OnSignal(int) { g_end = 1; }

// Starts ncurses. Returns false if the terminal's type is unknown, or if the terminal cannot move its cursor.
bool CanDraw() {
  const char* kind = getenv("TERM");
  return kind != nullptr && *kind != 0 && strcmp(kind, "dumb") != 0 && newterm(nullptr, stdout, stdin) != nullptr;
}

int Interactive(TopSession* session, wire::Client* client) {
  if (!CanDraw()) return Once(session, client, false);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  TopState state;
  state.endpoint = client->endpoint();
  Screen screen;
  Keys keys(session, &state);
  while (g_end == 0) {
    const int64_t now = MonotonicNs();
    session->Step(now);
    for (int key = getch(); key != ERR; key = getch()) {
      if (!keys.Press(key)) return 0;
    }
    // If the terminal is gone, reading it only returns errors.
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR)) != 0) return 0;
    if (const std::string error = session->TakeError(); !error.empty()) state.prompt = error;
    keys.Update();
    state.endpoint = client->endpoint();
    state.silent_ns = session->silent_ns(now);
    state.now_real_ns = RealtimeNs();
    // Limits the scroll position, so keys pressed at the end of the list need not be undone one by one.
    screen.Draw(
        RenderTop(session->jobs(), state, static_cast<size_t>(COLS), static_cast<size_t>(LINES), &state.scroll));
    Wait(client, true);
  }
  return 0;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<settings::ParsedOptions> options = settings::Parse("top", argc, argv);
  if (const std::optional<int> status = settings::Finished("top", options)) return *status;
  const bool json = options->Flag("json");
  const bool once = json || options->Flag("once") || isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0;
  const absl::StatusOr<CollectorAddress> address = FindCollector(MakeToolOptions(*options));
  if (!address.ok()) {
    fprintf(stderr, "lockstep top: %s\n", std::string(address.status().message()).c_str());
    return 1;
  }
  absl::StatusOr<std::unique_ptr<wire::Client>> client = ConnectTo(*address);
  if (!client.ok()) {
    fprintf(stderr, "lockstep top: %s\n", std::string(client.status().message()).c_str());
    return 1;
  }
  Hello::Role role = Hello::OPERATOR;
  if (!address->security.insecure && !address->security.own_key.empty()) {
    const absl::StatusOr<wire::KeyPair> key = wire::ReadSecretKey(address->security.own_key);
    if (key.ok() && key->role == wire::Role::kReader) role = Hello::READER;
  }
  TopSession session(client->get(), options->operand(), role);
  return once ? Once(&session, client->get(), json) : Interactive(&session, client->get());
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::SilenceLibraries();
  return lockstep::Main(argc, argv);
}
