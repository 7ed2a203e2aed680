// What the viewer remembers between runs: windows, recent incidents, and where one was in each of them.
#ifndef LOCKSTEP_GUI_APP_SESSION_H_
#define LOCKSTEP_GUI_APP_SESSION_H_

#include <QByteArray>
#include <QList>
#include <QSettings>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>

#include <memory>

#include "gui/model/navigator.h"

namespace lockstep::gui {

// Keys are under "v1"; a later, incompatible version uses its own prefix. Stored values are not trusted: other types
// and sizes count as absent.
class Session {
 public:
  // Empty: the user's own settings. kNothing: as on the first start, and nothing is stored. (Never a device: Qt
  // replaces the file that it writes, and root's /dev/null would become a file.)
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
  void Forget(const QString& key);

  // For the incident with these paths. Stores the communicator's identity instead of its index.
  struct Remembered {
    Place place;  // selection empty, communicators -1
    QString matrix_comm;
    bool found = false;
  };
  Remembered PlaceOf(const QStringList& paths) const;
  void SetPlace(const QStringList& paths, const Place& place, const QString& matrix_comm);
  void Sync() { settings_.sync(); }

 private:
  static QString KeyOf(const QStringList& paths);
  void SetRecent(const QList<QStringList>& recent);

  const std::unique_ptr<QTemporaryDir> own_;  // of kNothing; goes last
  QSettings settings_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_SESSION_H_
