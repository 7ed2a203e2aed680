#include "gui/app/session/session.h"

#include <QCryptographicHash>

#include <cmath>

namespace lockstep::gui {
namespace {

QString Full(const QString& key) { return "v1/" + key; }

QVariantList Numbers(const Viewport& v) { return {v.x0, v.x1, v.y0, v.y1}; }

Viewport ViewportOf(const QVariant& value) {
  const QVariantList list = value.toList();
  Viewport out;
  if (list.size() != 4) return out;
  double numbers[4];
  for (int i = 0; i < 4; ++i) {
    bool ok = false;
    numbers[i] = list[i].toDouble(&ok);
    if (!ok || !std::isfinite(numbers[i]) || std::abs(numbers[i]) > 1e19) return {};
  }
  out = {numbers[0], numbers[1], numbers[2], numbers[3]};
  return out;
}

}  // namespace

Session::Session(const QString& path)
    : own_(path == kNothing ? new QTemporaryDir : nullptr),
      settings_(own_ != nullptr ? own_->filePath("viewer.ini")
                : path.isEmpty()
                    ? QSettings(QSettings::IniFormat, QSettings::UserScope, "lockstep", "viewer").fileName()
                    : path,
                QSettings::IniFormat) {}

QString Session::KeyOf(const QStringList& paths) {
  return "places/" +
         QString::fromLatin1(QCryptographicHash::hash(paths.join('\n').toUtf8(), QCryptographicHash::Sha1).toHex());
}

QList<QStringList> Session::Recent() const {
  QList<QStringList> out;
  for (const QVariant& entry : settings_.value(Full("recent")).toList()) {
    QStringList paths = entry.toStringList();
    paths.removeAll(QString());
    if (!paths.isEmpty() && out.size() < kMostRecent) out << paths;
  }
  return out;
}

void Session::SetRecent(const QList<QStringList>& recent) {
  QVariantList list;
  for (const QStringList& paths : recent) list << QVariant(paths);
  settings_.setValue(Full("recent"), list);
}

void Session::AddRecent(const QStringList& paths) {
  if (paths.isEmpty() || paths.size() > 200) return;  // too many files for a menu
  QList<QStringList> recent = Recent();
  recent.removeAll(paths);
  recent.prepend(paths);
  while (recent.size() > kMostRecent) settings_.remove(Full(KeyOf(recent.takeLast())));
  SetRecent(recent);
}

void Session::RemoveRecent(const QStringList& paths) {
  QList<QStringList> recent = Recent();
  recent.removeAll(paths);
  settings_.remove(Full(KeyOf(paths)));
  SetRecent(recent);
}

QByteArray Session::Bytes(const QString& key) const { return settings_.value(Full(key)).toByteArray(); }
QString Session::Text(const QString& key) const { return settings_.value(Full(key)).toString(); }

int Session::Number(const QString& key, int otherwise) const {
  bool ok = false;
  const int value = settings_.value(Full(key)).toInt(&ok);
  return ok ? value : otherwise;
}

void Session::Set(const QString& key, const QVariant& value) { settings_.setValue(Full(key), value); }

Session::Remembered Session::PlaceOf(const QStringList& paths) const {
  Remembered out;
  const QVariantMap map = settings_.value(Full(KeyOf(paths))).toMap();
  const int mode = map.value("mode").toInt(), grouping = map.value("grouping").toInt();
  if (mode == static_cast<int>(MatrixMode::kCommunicator)) out.place.matrix_mode = MatrixMode::kCommunicator;
  if (grouping >= 0 && grouping <= static_cast<int>(RowGrouping::kState))
    out.place.grouping = static_cast<RowGrouping>(grouping);
  out.place.matrix = ViewportOf(map.value("matrix"));
  out.place.timeline = ViewportOf(map.value("timeline"));
  out.place.filters = map.value("filters").toStringList().mid(0, 50);
  out.matrix_comm = map.value("communicator").toString();
  return out;
}

void Session::SetPlace(const QStringList& paths, const Place& place, const QString& matrix_comm) {
  if (!Recent().contains(paths)) return;
  settings_.setValue(Full(KeyOf(paths)), QVariantMap{{"mode", static_cast<int>(place.matrix_mode)},
                                                     {"grouping", static_cast<int>(place.grouping)},
                                                     {"matrix", Numbers(place.matrix)},
                                                     {"timeline", Numbers(place.timeline)},
                                                     {"filters", place.filters},
                                                     {"communicator", matrix_comm}});
}

}  // namespace lockstep::gui
