#include "gui/model/loader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <QCoreApplication>
#include <QCryptographicHash>
#include <QDir>
#include <QFileInfo>
#include <QStandardPaths>
#include <QTimer>

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/engine.h"
#include "analyzer/index_writer.h"
#include "analyzer/load.h"
#include "analyzer/view_facts.h"

namespace lockstep::gui {
namespace {

constexpr char kWhatToOpen[] =
    "Open an incident folder, .lsd dumps, ring files of dead processes or PyTorch Flight Recorder dumps; `lockstep analyze PATH` tells more.";

// Where indexes lie whose incident's folder cannot be written, or which are of single files.
std::string CachePath(const std::vector<std::string>& paths) {
  QCryptographicHash hash(QCryptographicHash::Sha1);
  for (const std::string& path : paths) hash.addData(QByteArray(path.data(), static_cast<qsizetype>(path.size())) + '\n');
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::GenericCacheLocation) + "/lockstep/index";
  if (!QDir().mkpath(folder)) return {};
  return QString("%1/%2.lsi").arg(folder, QString::fromLatin1(hash.result().toHex())).toStdString();
}

std::vector<std::string> IndexPlaces(const std::vector<std::string>& paths) {
  std::vector<std::string> places;
  struct stat st = {};
  if (paths.size() == 1 && stat(paths[0].c_str(), &st) == 0 && S_ISDIR(st.st_mode)) places.push_back(paths[0] + "/index.lsi");
  if (std::string cache = CachePath(paths); !cache.empty()) places.push_back(std::move(cache));
  return places;
}

enum class Phase : int { kFinding, kReading, kAnalysing, kWriting, kOpening };

}  // namespace

// What a load shares with its thread, which may outlive the loader: a file being read cannot be interrupted.
struct Load {
  std::mutex mutex;
  Loader* owner = nullptr;                 // null: cancelled, nobody wants to know any more
  std::atomic<bool> cancelled{false};
  std::atomic<Phase> phase{Phase::kFinding};
  LoadProgress progress;

  template <typename F>
  void Tell(F tell) {
    const std::lock_guard lock(mutex);
    if (owner == nullptr) return;
    QMetaObject::invokeMethod(owner, tell, Qt::QueuedConnection);
  }
};

struct Loader::Impl {
  std::shared_ptr<Load> load;
  QTimer timer;

  void Drop() {
    if (load == nullptr) return;
    const std::lock_guard lock(load->mutex);
    load->cancelled = true;
    load->owner = nullptr;
  }
};

namespace {

absl::StatusOr<DocumentPtr> Make(const std::vector<std::string>& paths, Load* load) {
  const std::vector<std::string> places = IndexPlaces(paths);
  const uint64_t source = FingerprintSources(paths);
  for (const std::string& place : places) {
    auto document = Document::Open(place, paths);
    if (document.ok() && (*document)->index().source() == source) return document;
  }
  if (load->cancelled) return absl::CancelledError("");
  load->phase = Phase::kReading;
  auto bundle = LoadPaths(paths, &load->progress);
  if (!bundle.ok()) return bundle.status();
  if (load->cancelled) return absl::CancelledError("");
  load->phase = Phase::kAnalysing;
  const std::string facts = BuildViewFacts(*bundle, Analyze(*bundle)).SerializeAsString();
  if (load->cancelled) return absl::CancelledError("");
  load->phase = Phase::kWriting;
  absl::Status failed = absl::UnavailableError("there is no place for the index; set TMPDIR or XDG_CACHE_HOME to a folder with room");
  for (const std::string& place : places) {
    if (absl::Status status = WriteIndex(*bundle, source, place, facts); !status.ok()) {
      failed = status;
      continue;
    }
    load->phase = Phase::kOpening;
    auto document = Document::Open(place, paths);
    if (document.ok()) return document;
    failed = document.status();
  }
  return failed;
}

}  // namespace

Loader::Loader(QObject* parent) : QObject(parent), impl_(std::make_unique<Impl>()) {
  qRegisterMetaType<DocumentPtr>();
  impl_->timer.setInterval(50);
  connect(&impl_->timer, &QTimer::timeout, this, [this] {
    if (impl_->load == nullptr) return;
    static const char* const kNames[] = {"Finding files", "Reading ranks", "Analysing", "Writing the index", "Opening"};
    const Phase phase = impl_->load->phase;
    const LoadProgress& progress = impl_->load->progress;
    const int64_t found = progress.files_found, read = progress.files_read, unpacked = progress.files_unpacked;
    if (phase == Phase::kReading && found > 0) {
      Q_EMIT Progress(kNames[static_cast<int>(phase)], static_cast<double>(read + unpacked) / static_cast<double>(2 * found), unpacked > 0 ? unpacked : read, found);
    } else {
      Q_EMIT Progress(kNames[static_cast<int>(phase)], -1, 0, 0);
    }
  });
}

Loader::~Loader() { impl_->Drop(); }

void Loader::Open(const QStringList& paths) {
  impl_->Drop();
  auto load = std::make_shared<Load>();
  load->owner = this;
  impl_->load = load;
  std::vector<std::string> names;
  for (const QString& path : paths) names.push_back(path.toStdString());
  const auto run = [this, load, names] {
    auto document = Make(names, load.get());
    load->Tell([this, load, document = std::move(document)] {
      if (impl_->load != load) return;
      impl_->load.reset();
      impl_->timer.stop();
      if (document.ok()) {
        Q_EMIT Opened(*document);
      } else {
        Q_EMIT Failed(QString::fromStdString(absl::StrCat(std::string(document.status().message()), ". ", kWhatToOpen)));
      }
    });
  };
  impl_->timer.start();
  try {
    std::thread(run).detach();
  } catch (const std::system_error& error) {
    load->Tell([this, load, what = QString(error.what())] {
      if (impl_->load != load) return;
      impl_->load.reset();
      impl_->timer.stop();
      Q_EMIT Failed("No thread can be started: " + what);
    });
  }
}

void Loader::Cancel() {
  if (impl_->load == nullptr) return;
  impl_->Drop();
  impl_->load.reset();
  impl_->timer.stop();
  Q_EMIT Cancelled();
}

bool Loader::loading() const { return impl_->load != nullptr; }

}  // namespace lockstep::gui
