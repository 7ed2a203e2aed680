#include "gui/model/notes/file.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include <unistd.h>

#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/small_file.h"

namespace lockstep::gui {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMostBytes = 64 << 20;
constexpr int kMostRuns = 100'000;
constexpr double kExact = 9007199254740992.0;  // JSON numbers are doubles

// JSON numbers are doubles, which cannot represent nanoseconds since 1970, so integers are stored as text.
QString NumberText(int64_t value) { return QString::number(value); }

int64_t Integer(const QJsonValue& value, int64_t otherwise) {
  if (value.isDouble() && value.toDouble() >= -kExact && value.toDouble() <= kExact)
    return static_cast<int64_t>(value.toDouble());
  bool ok = false;
  const qlonglong number = value.toString().toLongLong(&ok);
  return ok ? number : otherwise;
}

int32_t RankOrNone(int64_t value) {
  return value < 0 || value > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(value);
}

Ranks RanksIn(const QJsonArray& array) {
  Ranks ranks;
  for (qsizetype i = 0; i + 1 < array.size() && i < 2 * kMostRuns; i += 2) {
    const int32_t first = RankOrNone(Integer(array[i], -1)), last = RankOrNone(Integer(array[i + 1], -1));
    // Accepts only ascending runs, because sorting a hostile file could be slow.
    if (first < 0 || last < first || (!ranks.empty() && first <= ranks.back())) continue;
    ranks.AddRun(first, last);
  }
  return ranks;
}

}  // namespace

std::string NotesPath(const std::vector<std::string>& paths) {
  if (paths.empty() || paths.front().empty()) return {};
  std::string path = paths.front();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path == "/" ? std::string() : path + ".notes.json";
}

absl::StatusOr<Notes> ReadNotes(const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path, kMostBytes);
  if (absl::IsNotFound(bytes.status())) return Notes();
  if (!bytes.ok()) return absl::DataLossError(bytes.status().message());
  const auto damaged = [&](const std::string& what) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", what, "; rename or delete it, because marks never overwrite it"));
  };
  QJsonParseError error;
  const QJsonObject object = QJsonDocument::fromJson(QByteArray::fromStdString(*bytes), &error).object();
  if (error.error != QJsonParseError::NoError)
    return damaged(absl::StrCat("offset ", error.offset, ": ", error.errorString().toStdString()));
  if (object.value("format").toString() != "lockstep-notes") return damaged("not a notes file");
  if (object.value("version").toInt() > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": written by a newer Lockstep; marks never overwrite it"));
  }
  Notes notes;
  for (const auto& value : object.value("marks").toArray()) {
    if (notes.marks.size() == kMostMarks) break;
    if (!value.isObject()) continue;
    const QJsonObject entry = value.toObject();
    Mark mark;
    mark.text = entry.value("text").toString().left(kMostMarkText);
    mark.made = entry.value("made").toString().left(40);
    mark.ranks = RanksIn(entry.value("ranks").toArray());
    mark.comm = entry.value("communicator").toString().left(4096);
    mark.seq_first = Integer(entry.value("first_sequence"), -1);
    mark.seq_last = Integer(entry.value("last_sequence"), -1);
    mark.time_begin = Integer(entry.value("begin_ns"), 0);
    mark.time_end = Integer(entry.value("end_ns"), -1);
    mark.record_rank = RankOrNone(Integer(entry.value("record_rank"), -1));
    mark.record = Integer(entry.value("record"), -1);
    notes.marks.push_back(std::move(mark));
  }
  return notes;
}

absl::Status WriteNotes(const std::string& path, const Notes& notes) {
  if (notes.marks.empty()) {
    return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : FileError("remove", path, errno);
  }
  QJsonArray marks;
  for (const Mark& mark : notes.marks) {
    QJsonObject entry{{"text", mark.text}, {"made", mark.made}};
    QJsonArray ranks;
    for (const auto& [first, last] : mark.ranks.runs()) {
      ranks.append(first);
      ranks.append(last);
    }
    if (!ranks.isEmpty()) entry.insert("ranks", ranks);
    if (!mark.comm.isEmpty()) entry.insert("communicator", mark.comm);
    if (mark.seq_first >= 0) entry.insert("first_sequence", NumberText(mark.seq_first));
    if (mark.seq_last >= 0) entry.insert("last_sequence", NumberText(mark.seq_last));
    if (mark.time_end >= mark.time_begin) {
      entry.insert("begin_ns", NumberText(mark.time_begin));
      entry.insert("end_ns", NumberText(mark.time_end));
    }
    if (mark.record >= 0) {
      entry.insert("record_rank", mark.record_rank);
      entry.insert("record", NumberText(mark.record));
    }
    marks.append(entry);
  }
  const QJsonObject object{{"format", "lockstep-notes"}, {"version", kVersion}, {"marks", marks}};
  const QByteArray bytes = QJsonDocument(object).toJson(QJsonDocument::Indented);
  AtomicFile file = AtomicFile::Output(path, kUnfinishedPrefix);
  if (absl::Status status = file.Append(bytes.toStdString()); !status.ok()) return status;
  return file.Commit();
}

}  // namespace lockstep::gui
