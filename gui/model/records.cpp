#include "gui/model/records.h"

#include <QDateTime>
#include <QLocale>
#include <QThreadPool>

#include <algorithm>
#include <deque>
#include <memory>

#include "analyzer/engine_model.h"
#include "analyzer/load.h"
#include "recorder/ring/calls.h"

namespace lockstep::gui {
namespace {

constexpr size_t kMostKept = 4;

QString Count(int64_t value) { return QLocale(QLocale::English).toString(static_cast<qlonglong>(value)); }

QString Interned(const std::vector<std::string>& texts, uint32_t index) {
  return index < texts.size() ? QString::fromStdString(texts[index]) : QString();
}

QString TimeText(int64_t ns) {
  return QDateTime::fromMSecsSinceEpoch(ns / 1'000'000, Qt::UTC).toString("yyyy-MM-dd HH:mm:ss.zzz") + QString("%1 UTC").arg((ns / 1000) % 1000, 3, 10, QChar('0'));
}

}  // namespace

struct Records::Impl {
  DocumentPtr document;
  uint64_t generation = 0;
  std::deque<std::pair<int32_t, std::shared_ptr<const Bundle>>> kept;   // the last asked for first
  std::vector<int32_t> reading;
  QThreadPool pool;
};

Records::Records(QObject* parent) : QObject(parent), impl_(std::make_unique<Impl>()) { impl_->pool.setMaxThreadCount(1); }

Records::~Records() {
  impl_->pool.clear();
  impl_->pool.waitForDone();
}

void Records::SetDocument(DocumentPtr document) {
  impl_->pool.clear();
  impl_->document = std::move(document);
  impl_->kept.clear();
  impl_->reading.clear();
  ++impl_->generation;
}

std::shared_ptr<const Bundle> Records::Get(int32_t rank) {
  auto& kept = impl_->kept;
  const auto it = std::find_if(kept.begin(), kept.end(), [&](const auto& entry) { return entry.first == rank; });
  if (it != kept.end()) {
    std::rotate(kept.begin(), it, it + 1);
    return kept.front().second;
  }
  if (impl_->document == nullptr || std::count(impl_->reading.begin(), impl_->reading.end(), rank) > 0) return nullptr;
  const int row = impl_->document->RowOf(rank);
  const std::string path = row < 0 ? std::string() : impl_->document->FactsAt(row).path();
  impl_->reading.push_back(rank);
  // `this` outlives the pool's threads.
  impl_->pool.start([this, rank, path, generation = impl_->generation] {
    std::shared_ptr<const Bundle> found;
    QString why = "no file of this rank is known";
    if (!path.empty()) {
      auto bundle = LoadPaths({path});
      if (bundle.ok()) {
        auto one = std::make_shared<Bundle>(*std::move(bundle));
        std::erase_if(one->ranks, [rank](const auto& entry) { return entry.rank != rank; });
        why = QString("%1 no longer holds rank %2").arg(QString::fromStdString(path)).arg(rank);
        if (one->ranks.size() == 1) found = std::move(one);
      } else {
        why = QString::fromStdString(std::string(bundle.status().message()));
      }
    }
    QMetaObject::invokeMethod(this, [this, rank, found, why, generation] {
      if (generation != impl_->generation) return;
      std::erase(impl_->reading, rank);
      if (found == nullptr) {
        Q_EMIT Unavailable(rank, why);
        return;
      }
      impl_->kept.emplace_front(rank, found);
      if (impl_->kept.size() > kMostKept) impl_->kept.pop_back();
      Q_EMIT Ready(rank);
    }, Qt::QueuedConnection);
  });
  return nullptr;
}

std::vector<std::pair<QString, QString>> Records::Fields(const Bundle& bundle, const Op& op) {
  std::vector<std::pair<QString, QString>> out;
  const auto add = [&](const char* name, const QString& value) {
    if (!value.isEmpty()) out.emplace_back(name, value);
  };
  add("kind", QString::fromLatin1(ring::CallName(op.kind)));
  add("name", Interned(bundle.strings, op.name));
  if (op.seq >= 0) add("sequence", Count(op.seq));
  if (!bundle.ranks.empty() && op.membership < bundle.ranks[0].memberships.size()) {
    const uint32_t comm = bundle.ranks[0].memberships[op.membership].comm;
    if (comm < bundle.comms.size()) add("communicator", QString::fromStdString(bundle.comms[comm].name.empty() ? bundle.comms[comm].id : bundle.comms[comm].name));
  }
  const QString datatype = op.datatype == ring::kNoDatatype ? Interned(bundle.strings, op.dtypes) : QString::fromStdString(DatatypeText(op.datatype));
  if (op.count >= 0) {
    add("count", Count(op.count) + (datatype.isEmpty() ? QString() : " x " + datatype));
  } else {
    add("datatype", datatype);
  }
  add("input", Interned(bundle.shapes, op.input_shape));
  add("output", Interned(bundle.shapes, op.output_shape));
  if (op.root_or_peer >= 0) add(op.kind == ring::CallKind::kSend || op.kind == ring::CallKind::kRecv ? "peer" : "root", QString("member %1").arg(op.root_or_peer));
  if (op.result != 0) add("result", QString::number(op.result));
  if (op.enter_ns != 0) add("entered", TimeText(op.enter_ns));
  if (op.enter_ns != 0 && op.return_ns >= op.enter_ns) add("in the call", QString("%1 us").arg(static_cast<double>(op.return_ns - op.enter_ns) / 1e3, 0, 'f', 1));
  if (op.started_ns != 0) add("started", TimeText(op.started_ns));
  if (op.completed_ns != 0) add("completed", TimeText(op.completed_ns));
  add("call site", Interned(bundle.strings, op.call_site));
  if (op.caller != 0) add("caller", QString("0x%1").arg(op.caller, 0, 16));
  if (op.group != 0) add("group", QString::number(op.group));
  if (op.thread != kNoIndex) add("thread", QString::number(op.thread));
  if (op.in_batch) add("batch", "part of a coalesced batch");
  if (op.replayed) add("graph", "issued by a launch of a CUDA graph");
  if (op.retired) add("retired", "the watchdog dropped it from its list");
  return out;
}

}  // namespace lockstep::gui
