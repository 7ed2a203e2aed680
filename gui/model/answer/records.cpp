#include "gui/model/answer/records.h"

#include <QThreadPool>

#include <algorithm>
#include <filesystem>
#include <list>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/formats/load/load.h"
#include "analyzer/report/phrases.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr size_t kKept = 8;  // number of ranks

// Returns where the rank's file is now. The incident may have moved after its index was created.
std::string Find(const std::string& recorded, const std::vector<std::string>& opened) {
  std::error_code error;
  if (std::filesystem::is_regular_file(recorded, error)) return recorded;
  const std::filesystem::path old(recorded);
  for (const std::string& path : opened) {
    const std::filesystem::path base(path);
    if (base.filename() == old.filename() && std::filesystem::is_regular_file(base, error)) return path;
    std::filesystem::path tail;
    for (auto part = old.end(); part != old.begin();) {
      --part;
      if (*part == "/" || part->empty()) break;
      tail = tail.empty() ? *part : *part / tail;
      if (std::filesystem::is_regular_file(base / tail, error)) return (base / tail).string();
    }
  }
  return recorded;
}

absl::StatusOr<std::shared_ptr<const Bundle>> Read(const Document& document, int row) {
  const RankFacts& facts = document.FactsAt(row);
  if (facts.path().empty()) return absl::NotFoundError("the index has no file for this rank");
  LoadLimits all;
  all.all = UINT64_MAX;
  absl::StatusOr<Bundle> bundle = LoadPaths({Find(facts.path(), document.paths())}, nullptr, all);
  if (!bundle.ok()) return bundle.status();
  std::erase_if(bundle->ranks, [&](const Rank& rank) { return rank.rank != facts.rank(); });
  if (bundle->ranks.empty())
    return absl::NotFoundError(absl::StrCat(facts.path(), " does not contain rank ", facts.rank()));
  if (static_cast<int64_t>(bundle->ranks[0].ops.size()) != document.OpCount(row)) {
    return absl::FailedPreconditionError(absl::StrCat(facts.path(), " now holds ", bundle->ranks[0].ops.size(),
                                                      " operations of rank ", facts.rank(), ", the index ",
                                                      document.OpCount(row), ": open the incident again"));
  }
  return std::make_shared<const Bundle>(std::move(*bundle));
}

const char* StateWords(OpState state) {
  switch (state) {
    case OpState::kUnknown: return "issued; GPU activity is not recorded";
    case OpState::kEntered: return "the CPU thread is inside the call";
    case OpState::kQueued: return "in a group that is still open";
    case OpState::kEnqueued: return "on the stream, not started";
    case OpState::kStarted: return "started, not completed";
    case OpState::kIncomplete: return "not completed";
    case OpState::kCompleted: return "completed";
    case OpState::kFailed: return "failed";
    case OpState::kCaptured: return "captured into a CUDA graph";
  }
  return "unknown";
}

}  // namespace

// Workers report here, because the destructor of Records may have begun when they end.
struct Shared {
  std::mutex mutex;
  Records* owner = nullptr;  // guarded by mutex
};

struct Records::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  DocumentPtr document;
  uint64_t generation = 0;                                            // generation of the document
  std::list<std::pair<int32_t, std::shared_ptr<const Bundle>>> kept;  // newest first
  std::set<int32_t> under_way;
  Reader read;
  QThreadPool* pool = new QThreadPool;
};

Records::Records(QObject* parent, Reader read) : QObject(parent), impl_(std::make_unique<Impl>()) {
  impl_->shared->owner = this;
  impl_->read = read != nullptr ? std::move(read) : Read;
  impl_->pool->setMaxThreadCount(2);
}

Records::~Records() {
  {
    const std::lock_guard lock(impl_->shared->mutex);
    impl_->shared->owner = nullptr;
  }
  impl_->pool->clear();
  // The destructor of a pool waits for its threads, so a pool with a read in progress stays.
  if (impl_->pool->waitForDone(0)) delete impl_->pool;
}

void Records::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  ++impl_->generation;
  impl_->kept.clear();
  impl_->under_way.clear();
  impl_->pool->clear();
}

std::shared_ptr<const Bundle> Records::Get(int32_t rank) {
  for (auto it = impl_->kept.begin(); it != impl_->kept.end(); ++it) {
    if (it->first != rank) continue;
    impl_->kept.splice(impl_->kept.begin(), impl_->kept, it);
    return impl_->kept.front().second;
  }
  const int row = impl_->document == nullptr ? -1 : impl_->document->RowOf(rank);
  if (!impl_->under_way.insert(rank).second) return nullptr;
  const uint64_t generation = impl_->generation;
  auto finish = [this, rank, generation](const absl::StatusOr<std::shared_ptr<const Bundle>>& read) {
    if (generation != impl_->generation) return;
    impl_->under_way.erase(rank);
    if (!read.ok()) {
      Q_EMIT Unavailable(rank, Plain(std::string(read.status().message()), 600));
      return;
    }
    impl_->kept.emplace_front(rank, *read);
    if (impl_->kept.size() > kKept) impl_->kept.pop_back();
    Q_EMIT Ready(rank);
  };
  if (row < 0) {
    const absl::Status none = absl::NotFoundError(absl::StrCat("there is no data from rank ", rank));
    QMetaObject::invokeMethod(
        this, [finish, none] { finish(none); }, Qt::QueuedConnection);
    return nullptr;
  }
  impl_->pool->start([shared = impl_->shared, document = impl_->document, reader = impl_->read, row, finish] {
    absl::StatusOr<std::shared_ptr<const Bundle>> read =
        absl::ResourceExhaustedError("not enough memory to read this rank's file");
    try {
      read = reader(*document, row);
    } catch (const std::bad_alloc&) {
    }
    const std::lock_guard lock(shared->mutex);
    if (shared->owner != nullptr)
      QMetaObject::invokeMethod(
          shared->owner, [finish, read] { finish(read); }, Qt::QueuedConnection);
  });
  return nullptr;
}

std::vector<std::pair<QString, QString>> Records::Fields(const Bundle& bundle, const Op& op) {
  std::vector<std::pair<QString, QString>> out;
  auto add = [&](const char* name, const QString& value) {
    if (!value.isEmpty()) out.emplace_back(QString::fromLatin1(name), value);
  };
  auto text = [&](uint32_t index, const std::vector<std::string>& texts) {
    return index < texts.size() ? Plain(std::string_view(texts[index])) : QString();
  };
  const Rank* rank = bundle.ranks.empty() ? nullptr : &bundle.ranks[0];
  for (const Rank& r : bundle.ranks) {
    if (!r.ops.empty() && &op >= r.ops.data() && &op < r.ops.data() + r.ops.size()) rank = &r;
  }
  const bool p2p = ring::IsPointToPoint(op.kind);
  add("kind", Plain(std::string_view(OpName(bundle, op))));
  const Membership* m =
      rank != nullptr && op.membership < rank->memberships.size() ? &rank->memberships[op.membership] : nullptr;
  const Communicator* comm = m != nullptr && m->comm < bundle.comms.size() ? &bundle.comms[m->comm] : nullptr;
  if (comm != nullptr) {
    add("communicator",
        Plain(std::string_view(comm->name.empty() ? comm->id : comm->name)) + QString(" of %1").arg(comm->size));
    if (!comm->name.empty()) add("identity", Plain(std::string_view(comm->id)));
  }
  if (op.seq >= 0) add("number", "#" + Count(op.seq));
  if (op.count >= 0) {
    add("count",
        Count(op.count) +
            (op.datatype == ring::kNoDatatype ? QString() : " x " + QString::fromStdString(DatatypeText(op.datatype))));
  } else if (op.datatype != ring::kNoDatatype) {
    add("datatype", QString::fromStdString(DatatypeText(op.datatype)));
  }
  add("datatypes", text(op.dtypes, bundle.strings));
  add("input", text(op.input_shape, bundle.shapes));
  add("output", text(op.output_shape, bundle.shapes));
  if (op.reduction != ring::kNoReduction) add("reduction", QString::fromStdString(ReductionText(op.reduction)));
  if (op.root_or_peer >= 0) {
    QString who = QString("member %1").arg(op.root_or_peer);
    if (comm != nullptr && static_cast<size_t>(op.root_or_peer) < comm->members.size() &&
        comm->members[static_cast<size_t>(op.root_or_peer)] >= 0) {
      who += QString(", rank %1").arg(comm->members[static_cast<size_t>(op.root_or_peer)]);
    }
    add(p2p ? "peer" : "root", who);
  }
  add("state", StateWords(op.state));
  if (op.result != 0) add("result", QString("ncclResult %1").arg(op.result));
  add("called from", text(op.call_site, bundle.strings));
  if (op.caller != 0) add("caller", QString::fromStdString(absl::StrFormat("%08x+0x%x", op.caller_object, op.caller)));
  if (op.enter_ns != 0) {
    add("entered", QString::fromStdString(absl::StrFormat("%.6f s", static_cast<double>(op.enter_ns) / 1e9)));
    add("in the call", op.return_ns == 0             ? QString("not returned, or not recorded")
                       : op.return_ns >= op.enter_ns ? Duration(op.return_ns - op.enter_ns)
                                                     : QString());
  }
  if (op.started_ns > 0 && op.enter_ns > 0 && op.started_ns >= op.enter_ns)
    add("queued", Duration(op.started_ns - op.enter_ns));
  if (op.completed_ns > 0 && op.started_ns > 0 && op.completed_ns >= op.started_ns)
    add("on the GPU", Duration(op.completed_ns - op.started_ns));
  if (rank != nullptr && op.stream < rank->streams.size()) {
    add("stream", QString("%1").arg(rank->streams[op.stream].index) +
                      (op.ticket > 0 ? QString(", ticket %1").arg(Count(op.ticket)) : QString()));
  }
  if (rank != nullptr && op.thread < rank->threads.size()) {
    add("thread", Plain(std::string_view(rank->threads[op.thread].name)) +
                      QString(" (%1), call %2").arg(rank->threads[op.thread].tid).arg(Count(op.index)));
  }
  if (op.group != 0) add("group", QString::number(op.group));
  if (op.in_batch || op.batch_end)
    add("batch", op.batch_end ? "the whole coalesced batch" : "member of a coalesced batch");
  if (op.replayed && rank != nullptr && ReplayOf(op) < rank->replays.size()) {
    const Replay& replay = rank->replays[ReplayOf(op)];
    add("CUDA graph", QString("operation %1 of launch %2 of graph %3")
                          .arg(PlaceInGraph(op))
                          .arg(Count(static_cast<int64_t>(replay.number)))
                          .arg(replay.graph));
  }
  if (rank != nullptr && op.addresses < rank->addresses.size()) {
    const OpAddresses& a = rank->addresses[op.addresses];
    add("buffers", QString::fromStdString(absl::StrFormat("0x%x, 0x%x", a.send, a.recv)));
  }
  if (op.retired) add("framework", "the watchdog removed it from its list");
  if (op.recent_only) add("record", "partial: only the communicator's list of last operations contains it");
  return out;
}

}  // namespace lockstep::gui
