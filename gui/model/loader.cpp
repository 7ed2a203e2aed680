#include "gui/model/loader.h"

#include <QFileInfo>
#include <QTimer>

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "analyzer/viewdata/index.h"

namespace lockstep::gui {
namespace {

constexpr int kTellEveryMs = 40;
constexpr char kWhatToOpen[] =
    ". Open an incident folder, .lsd dumps, ring files of dead processes or PyTorch Flight Recorder dumps; `lockstep "
    "analyze PATH` prints the details.";
constexpr int kOpening = ViewIndexProgress::kWriting + 1;

QString PhaseText(int phase) {
  switch (phase) {
    case ViewIndexProgress::kFinding: return "Finding files";
    case ViewIndexProgress::kReading: return "Reading ranks";
    case ViewIndexProgress::kAnalysing: return "Analyzing";
    case ViewIndexProgress::kWriting: return "Writing the index";
    default: return "Opening";
  }
}

QString ProblemText(const std::string& path, const std::string& text) {
  return QString::fromStdString(path.empty() ? text : path + ": " + text);
}

}  // namespace

// One load, shared by the GUI thread and the loading thread. A file that blocks (a dead network mount) blocks only the
// loading thread.
struct Load {
  ViewIndexProgress progress;
  std::mutex mutex;
  std::condition_variable ended;
  Loader* owner = nullptr;  // guarded by mutex; null if the result is no longer wanted
  bool done = false;        // guarded by mutex
};

void Loader::Tell() {
  if (load_ == nullptr) return;
  const int phase = load_->progress.phase;
  const int64_t done = load_->progress.done, total = load_->progress.total;
  if (phase == reported_phase_ && done == reported_done_) return;
  reported_phase_ = phase;
  reported_done_ = done;
  const double fraction = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : -1;
  Q_EMIT Progress(PhaseText(phase), fraction, done, total);
}

void Loader::Drop() {
  if (load_ == nullptr) return;
  load_->progress.cancel = true;
  {
    const std::lock_guard lock(load_->mutex);
    load_->owner = nullptr;
  }
  load_.reset();
  timer_->stop();
}

namespace {

// Runs `what` on the GUI thread, unless the load was dropped.
template <typename What>
void Post(const std::shared_ptr<Load>& load, What what) {
  const std::lock_guard lock(load->mutex);
  if (load->owner != nullptr) QMetaObject::invokeMethod(load->owner, std::move(what), Qt::QueuedConnection);
}

struct Result {
  absl::StatusOr<DocumentPtr> document = absl::CancelledError("");
  bool made = false;
};

Result Work(const std::shared_ptr<Load>& load, const std::vector<std::string>& paths, const ViewIndexOptions& options) {
  Result result;
  // The index alone is opened; the files that it was created from may be missing.
  if (paths.size() == 1 && absl::EndsWith(paths[0], ".lsi")) {
    load->progress.phase = kOpening;
    result.document =
        Document::Open(paths[0], {QFileInfo(QString::fromStdString(paths[0])).absolutePath().toStdString()});
    return result;
  }
  absl::StatusOr<ViewIndex> index = EnsureViewIndex(paths, &load->progress, options);
  if (!index.ok()) {
    result.document = index.status();
    return result;
  }
  load->progress.total = 0;
  load->progress.phase = kOpening;
  result.made = index->made;
  result.document = Document::Open(index->path, paths);
  if (index->temporary) unlink(index->path.c_str());  // the mapping stays valid after the name is removed
  return result;
}

}  // namespace

Loader::Loader(QObject* parent) : QObject(parent) {
  qRegisterMetaType<lockstep::gui::DocumentPtr>();
  timer_ = new QTimer(this);
  timer_->setInterval(kTellEveryMs);
  connect(timer_, &QTimer::timeout, this, [this] { Tell(); });
}

Loader::~Loader() {
  const std::shared_ptr<Load> load = load_;
  Drop();
  if (load == nullptr) return;
  std::unique_lock lock(load->mutex);
  load->ended.wait_for(lock, std::chrono::seconds(2), [&] { return load->done; });
}

void Loader::Cancel() {
  if (load_ == nullptr) return;
  Drop();
  Q_EMIT Cancelled();
}

void Loader::Open(const QStringList& names) {
  Drop();
  auto load = std::make_shared<Load>();
  load->owner = this;
  load_ = load;
  reported_phase_ = -1;
  timer_->start();
  std::vector<std::string> paths;
  for (const QString& name : names) paths.push_back(QFileInfo(name).absoluteFilePath().toStdString());
  const auto run = [this, load, paths] {
    ViewIndexOptions options;
    options.problem = [&](const lockstep::Problem& problem) {
      Post(load, [this, load, line = ProblemText(problem.path, problem.text), rank = problem.rank] {
        if (load_ == load) Q_EMIT Problem(line, rank);
      });
    };
    options.partial = [&](const std::string& path) {
      auto part = Document::Open(path, paths);
      if (!part.ok()) return;
      Post(load, [this, load, document = *part] {
        if (load_ == load) Q_EMIT Partial(document);
      });
    };
    Result result;
    try {
      result = Work(load, paths, options);
    } catch (const std::exception& error) {  // out of memory
      result.document = absl::ResourceExhaustedError(std::string("not enough memory to open this: ") + error.what());
    }
    Post(load, [this, load, result] {
      if (load_ != load) return;
      Tell();
      load_.reset();
      timer_->stop();
      if (!result.document.ok()) {
        Q_EMIT Failed(QString::fromUtf8(result.document.status().message()) + kWhatToOpen);
        return;
      }
      if (!result.made) {
        for (const DataProblem& problem : (*result.document)->verdict().problems())
          Q_EMIT Problem(ProblemText(problem.path(), problem.text()), problem.rank());
      }
      Q_EMIT Opened(*result.document);
    });
    const std::lock_guard lock(load->mutex);
    load->done = true;
    load->ended.notify_all();
  };
  try {
    std::thread(run).detach();
  } catch (const std::system_error& error) {
    load->done = true;
    Post(load, [this, load, what = QString(error.what())] {
      if (load_ != load) return;
      load_.reset();
      timer_->stop();
      Q_EMIT Failed("no thread can be started: " + what);
    });
  }
}

}  // namespace lockstep::gui
