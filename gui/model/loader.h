// Opens the given paths on its own thread: finds or makes the index, and reports progress.
#ifndef LOCKSTEP_GUI_MODEL_LOADER_H_
#define LOCKSTEP_GUI_MODEL_LOADER_H_

#include <QObject>
#include <QString>
#include <QStringList>

#include <memory>

#include "gui/model/document.h"

namespace lockstep::gui {

// Lives on the window's thread; all signals come there. One load at a time: Open cancels the one before.
class Loader : public QObject {
  Q_OBJECT

 public:
  explicit Loader(QObject* parent = nullptr);
  ~Loader() override;  // cancels; a reading thread ends by itself, without a report

  void Open(const QStringList& paths);
  // No Opened or Failed follows; Cancelled does, within 100 ms even where a file is being read.
  void Cancel();
  bool loading() const;

 Q_SIGNALS:
  // "Finding files", "Reading ranks", "Analysing", "Writing the index", "Opening": fraction 0..1, or -1 where it is not
  // known.
  void Progress(const QString& phase, double fraction, qint64 done, qint64 total);
  // Before the load is complete: the same incident with the data so far. Views show it and later take the next one.
  void Partial(lockstep::gui::DocumentPtr document);
  void Opened(lockstep::gui::DocumentPtr document);
  // What is wrong and what to do. The document shown before stays.
  void Failed(const QString& message);
  void Cancelled();
  // A line for the load log: a damaged file, a rank that could not be read. `rank`: -1 of none.
  void Problem(const QString& line, int rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui

Q_DECLARE_METATYPE(lockstep::gui::DocumentPtr)

#endif  // LOCKSTEP_GUI_MODEL_LOADER_H_
