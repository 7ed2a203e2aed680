// Opens the given paths on a separate thread: finds or creates the index, and reports progress.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>

#include <memory>

#include "gui/model/document.h"

class QTimer;

namespace lockstep::gui {

struct Load;

// Used on the GUI thread, where all signals arrive. One load at a time: Open cancels the previous one.
class Loader : public QObject {
  Q_OBJECT

 public:
  explicit Loader(QObject* parent = nullptr);
  ~Loader() override;  // cancels, and waits at most 2 s for the thread, which then ends on its own

  void Open(const QStringList& paths);
  // Emits Cancelled at once if a load was in progress. Opened and Failed do not follow.
  void Cancel();
  bool loading() const { return load_ != nullptr; }

 Q_SIGNALS:
  // "Finding files", "Reading ranks", "Analyzing", "Writing the index", "Opening": fraction 0..1, or -1 if unknown.
  void Progress(const QString& phase, double fraction, qint64 done, qint64 total);
  // The incident with the data read so far, before the load is complete. Views show it until Opened.
  void Partial(lockstep::gui::DocumentPtr document);
  void Opened(lockstep::gui::DocumentPtr document);
  // The problem and how to fix it. The previous document stays visible.
  void Failed(const QString& message);
  void Cancelled();
  // A line for the load log about a damaged file, or about a rank that could not be read. `rank` is -1 if there is
  // none.
  void Problem(const QString& line, int rank);

 private:
  void Tell();
  void Drop();

  std::shared_ptr<Load> load_;  // null if there is none
  QTimer* timer_;
  int reported_phase_ = -1;
  int64_t reported_done_ = -1;
};

}  // namespace lockstep::gui

Q_DECLARE_METATYPE(lockstep::gui::DocumentPtr)
