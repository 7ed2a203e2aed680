// What the viewer remembers between runs: window layout, recent incidents, and the user's position in each incident.
#pragma once

#include <QByteArray>
#include <QList>
#include <QSettings>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>

#include <memory>

#include "gui/model/navigator.h"

namespace lockstep::gui {

// Keys are under "v1"; an incompatible later version must use another prefix. Stored values are untrusted: a wrong type
// or size counts as missing.
class Session {
 public:
  // If `path` is empty, uses the user's settings. With kNothing, reads and stores nothing. (Do not pass a device: Qt
  // replaces the file that it writes, so root's /dev/null would become a regular file.)
  explicit Session(const QString& path);
  static constexpr char kNothing[] = "nothing";

  static constexpr int kMostRecent = 12;
  QList<QStringList> Recent() const;  // newest first
  void AddRecent(const QStringList& paths);
  void RemoveRecent(const QStringList& paths);

  QByteArray Bytes(const QString& key) const;
  QString Text(const QString& key) const;
  int Number(const QString& key, int otherwise) const;
  void Set(const QString& key, const QVariant& value);

  // The position in the incident with these paths. Stores the communicator's ID instead of its index.
  struct Remembered {
    Place place;  // with an empty selection and communicators set to -1
    QString matrix_comm;
  };
  Remembered PlaceOf(const QStringList& paths) const;
  void SetPlace(const QStringList& paths, const Place& place, const QString& matrix_comm);
  void Sync() { settings_.sync(); }

 private:
  static QString KeyOf(const QStringList& paths);
  void SetRecent(const QList<QStringList>& recent);

  const std::unique_ptr<QTemporaryDir> own_;  // for kNothing; destroyed last
  QSettings settings_;
};

}  // namespace lockstep::gui
