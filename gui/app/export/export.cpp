#include "gui/app/export/export.h"

#include <QBuffer>
#include <QFileInfo>
#include <QImage>
#include <QImageWriter>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#ifdef QT_SVG_LIB
#include <QSvgGenerator>
#endif

#include "absl/strings/str_cat.h"
#include "analyzer/report/report.h"
#include "analyzer/util/atomic_file.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

absl::Status Failed(const QString& path, const QString& why) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path.toStdString(), ": ", why.toStdString()));
}

absl::Status NoForm(View* view, const QString& suffix) {
  return absl::InvalidArgumentError(
      absl::StrCat(view->accessibleName().toStdString(), " cannot be exported as .", suffix.toStdString(),
                   "; supported formats: ", ExportFormats(view).join(", ").toStdString()));
}

bool HasPicture(View* view) {
  // Only a trial shows whether the view paints anything.
  QImage probe(8, 8, QImage::Format_ARGB32_Premultiplied);
  probe.fill(Qt::transparent);
  QPainter painter(&probe);
  return view->Paint(&painter, probe.size());
}

QString Spell(int64_t first, int64_t last) {
  return first == last ? QString::number(first) : QString("%1-%2").arg(first).arg(last);
}

}  // namespace

QStringList ExportFormats(View* view) {
  QStringList out;
  out << "png";  // a view without its own picture is captured from the screen
  if (HasPicture(view)) {
#ifdef QT_SVG_LIB
    out << "svg";
#endif
  }
  if (!view->Csv().isEmpty()) out << "csv";
  return out;
}

absl::Status ExportView(View* view, const QString& path, QSize size) {
  const QString suffix = QFileInfo(path).suffix().toLower();
  const bool picture = suffix == "png" || suffix == "svg";
  if (!picture && suffix != "csv") {
    return absl::InvalidArgumentError(absl::StrCat(path.toStdString(), ": its name must end in .png, .svg or .csv"));
  }
  if (!ExportFormats(view).contains(suffix)) return NoForm(view, suffix);
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  if (suffix == "csv") {
    bytes = view->Csv().toUtf8();
  } else if (suffix == "png") {
    QImage image;
    if (HasPicture(view)) {
      image = QImage(size, QImage::Format_ARGB32_Premultiplied);
      if (image.isNull()) return Failed(path, "not enough memory for a picture of this size");
      image.fill(view->palette().color(QPalette::Base));
      QPainter painter(&image);
      painter.setRenderHint(QPainter::Antialiasing);
      painter.setFont(view->font());
      view->Paint(&painter, size);
    } else {
      image = view->grab().toImage();
    }
    QImageWriter writer(&buffer, "png");
    if (!writer.write(image)) return Failed(path, writer.errorString());
  } else {
#ifdef QT_SVG_LIB
    QSvgGenerator generator;
    generator.setOutputDevice(&buffer);
    generator.setSize(size);
    generator.setViewBox(QRect(QPoint(0, 0), size));
    generator.setTitle(view->accessibleName());
    generator.setDescription("Written by Lockstep");
    QPainter painter(&generator);
    painter.setFont(view->font());
    painter.fillRect(QRect(QPoint(0, 0), size), view->palette().color(QPalette::Base));
    view->Paint(&painter, size);
#endif
  }
  buffer.close();
  AtomicFile file = AtomicFile::Output(path.toStdString(), kUnfinishedPrefix);
  if (absl::Status status = file.Append(bytes.toStdString()); !status.ok()) return status;
  return file.Commit();
}

QString SelectionText(const Document& document, const Selection& selection) {
  QStringList parts;
  if (selection.record >= 0) {
    if (const int row = document.RowOfRecord(selection); row >= 0) {
      parts << QString("rank %1: %2")
                   .arg(selection.record_rank)
                   .arg(document.OpText(document.OpAt(row, selection.record)));
    }
  } else if (!selection.ranks.empty()) {
    const int64_t count = selection.ranks.size();
    parts << (count == 1 ? QString("rank %1").arg(selection.ranks.front())
                         : QString("%1 ranks: %2").arg(Count(count), RankList(selection.ranks, 40)));
  }
  if (selection.comm >= 0 && selection.record < 0) {
    const QString name = document.CommName(selection.comm);
    if (selection.seq_first < 0) {
      parts << "communicator " + name;
    } else if (selection.seq_first == selection.seq_last) {
      parts << QString("#%1 of %2").arg(selection.seq_first).arg(name);
    } else {
      parts << QString("%1 collectives, #%2 of %3")
                   .arg(selection.seq_last - selection.seq_first + 1)
                   .arg(Spell(selection.seq_first, selection.seq_last), name);
    }
  }
  if (selection.time_end >= selection.time_begin) {
    const double ns = static_cast<double>(selection.time_end - selection.time_begin);
    parts << (ns < 1e3   ? QString("%1 ns").arg(ns, 0, 'f', 0)
              : ns < 1e6 ? QString("%1 us").arg(ns / 1e3, 0, 'f', 1)
              : ns < 1e9 ? QString("%1 ms").arg(ns / 1e6, 0, 'f', 1)
                         : QString("%1 s").arg(ns / 1e9, 0, 'f', 2));
  }
  return parts.join("; ");
}

QString TicketText(const Document& document, const Selection& selection, const Notes& notes) {
  QString text = QString::fromStdString(document.facts().report_text());
  if (!text.isEmpty() && !text.endsWith('\n')) text += '\n';
  if (const QString selected = SelectionText(document, selection); !selected.isEmpty())
    text += "\nSelected: " + selected + "\n";
  if (!notes.marks.empty()) text += "\nMarks:\n";
  for (const Mark& mark : notes.marks) {
    text += QString("- %1 (%2)\n")
                .arg(QString(mark.text).replace('\n', ' '), SelectionText(document, SelectionOfMark(document, mark)));
  }
  text += "\nFiles: ";
  for (size_t i = 0; i < document.paths().size(); ++i)
    text += (i == 0 ? "" : ", ") + QString::fromStdString(document.paths()[i]);
  return text + "\n";
}

QByteArray DescribeJson(const Document& document, const Selection& selection) {
  QJsonArray ranks;
  for (const int32_t rank : selection.ranks.List(200'000)) ranks.append(rank);
  const QJsonObject object{{"title", document.title()},
                           {"ranks", ranks},
                           {"communicator", CommIdentity(document, selection.comm)},
                           {"sequence", static_cast<double>(selection.comm >= 0 ? selection.seq_first : -1)},
                           {"selected", SelectionText(document, selection)},
                           {"verdict", QString::fromStdString(VerdictName(document.verdict().verdict()))},
                           {"report", QString::fromStdString(document.facts().report_text())},
                           {"anomalies", document.anomaly_count()}};
  return QJsonDocument(object).toJson(QJsonDocument::Compact) + "\n";
}

}  // namespace lockstep::gui
