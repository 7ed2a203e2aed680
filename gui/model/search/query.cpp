#include "gui/model/search/query.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/status/status.h"

namespace lockstep::gui {
namespace {

using Key = QueryTerm::Key;
using Compare = QueryTerm::Compare;

struct KeyName {
  const char* name;
  Key key;
};
constexpr KeyName kKeys[] = {{"rank", Key::kRank},   {"host", Key::kHost},   {"comm", Key::kComm},
                             {"op", Key::kOp},       {"state", Key::kState}, {"seq", Key::kSeq},
                             {"stage", Key::kStage}, {"class", Key::kClass}, {"lag", Key::kLag}};
constexpr int kMostTerms = 64;
constexpr int kMostText = 10'000;

absl::Status Wrong(const QString& text) { return absl::InvalidArgumentError(text.toStdString()); }

bool Numeric(Key key) { return key == Key::kRank || key == Key::kSeq || key == Key::kStage || key == Key::kLag; }

// One word of the query, without its quotes. `quoted` is true if the word started with a quote, so it is not a filter.
struct Word {
  QString text;
  bool quoted = false, excludes = false;
};

std::vector<Word> Split(const QString& text) {
  std::vector<Word> words;
  Word word;
  bool inside = false, any = false;
  auto finish = [&] {
    if (any) words.push_back(word);
    word = {};
    any = false;
  };
  for (const QChar c : text) {
    if (c == '"') {
      if (word.text.isEmpty()) word.quoted = true;
      inside = !inside;
      any = true;
    } else if (c.isSpace() && !inside) {
      finish();
    } else if (c == '-' && !any) {
      word.excludes = true;
      any = true;
    } else {
      word.text += c;
      any = true;
    }
  }
  finish();
  return words;
}

absl::StatusOr<Ranks> ParseNumbers(const QString& name, const QString& text) {
  std::vector<Ranks::Run> runs;
  for (const QString& part : text.split(',')) {
    const qsizetype dash = part.indexOf('-');
    bool ok = false, ok_last = true;
    const qlonglong first = part.left(dash < 0 ? part.size() : dash).toLongLong(&ok);
    const qlonglong last = dash < 0 ? first : part.mid(dash + 1).toLongLong(&ok_last);
    if (!ok || !ok_last || first < 0 || last < first || last > std::numeric_limits<int32_t>::max()) {
      return Wrong(QString("%1:%2: give numbers, as in %1:7 or %1:0-63,128").arg(name, text));
    }
    runs.push_back({static_cast<int32_t>(first), static_cast<int32_t>(last)});
  }
  return Ranks::OfRuns(std::move(runs));
}

absl::StatusOr<QueryTerm> ParseFilter(const KeyName& key, const QString& comparison, const QString& value) {
  QueryTerm term;
  term.key = key.key;
  const QString name = key.name;
  if (value.isEmpty()) return Wrong(QString("%1%2 needs a value").arg(name, comparison));
  if (comparison != ":") {
    if (!Numeric(key.key)) return Wrong(QString("%1 takes a colon: %1:%2").arg(name, value));
    bool ok = false;
    term.number = value.toLongLong(&ok);
    if (!ok) return Wrong(QString("%1%2%3: give a number").arg(name, comparison, value));
    term.compare = comparison == "<"    ? Compare::kBelow
                   : comparison == "<=" ? Compare::kAtMost
                   : comparison == ">"  ? Compare::kAbove
                                        : Compare::kAtLeast;
    return term;
  }
  if (Numeric(key.key)) {
    auto numbers = ParseNumbers(name, value);
    if (!numbers.ok()) return numbers.status();
    term.numbers = *std::move(numbers);
  }
  term.text = value;
  if (key.key == Key::kState || key.key == Key::kClass) {
    const QStringList& words = key.key == Key::kState ? QueryStateWords() : QueryClassWords();
    if (!words.contains(value.toLower()))
      return Wrong(QString("%1:%2: the values are %3").arg(name, value, words.join(", ")));
    term.text = value.toLower();
  }
  return term;
}

}  // namespace

const QStringList& QueryStateWords() {
  static const auto& words = *new QStringList{"completed", "overwritten", "issued", "enqueued", "started",
                                              "waiting",   "nodata",      "failed", "mismatch", "missing"};
  return words;
}

const QStringList& QueryClassWords() {
  static const auto& words = *new QStringList{"healthy", "victim", "cause", "cycle", "nodata"};
  return words;
}

absl::StatusOr<Query> ParseQuery(const QString& text) {
  if (text.size() > kMostText) return Wrong(QString("a query has at most %1 characters").arg(kMostText));
  Query query;
  for (const Word& word : Split(text)) {
    if (word.text.isEmpty()) continue;
    if (query.size() == kMostTerms) return Wrong(QString("a query has at most %1 words").arg(kMostTerms));
    QueryTerm term;
    const auto sign =
        std::find_if(word.text.begin(), word.text.end(), [](QChar c) { return c == ':' || c == '<' || c == '>'; });
    if (word.quoted || sign == word.text.end()) {
      term.text = word.text;
    } else {
      const qsizetype at = sign - word.text.begin();
      const QString name = word.text.left(at).toLower();
      const bool wide = *sign != ':' && at + 1 < word.text.size() && word.text[at + 1] == '=';
      const auto key =
          std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KeyName& k) { return name == k.name; });
      if (key == std::end(kKeys)) {
        QStringList names;
        for (const KeyName& k : kKeys) names << k.name;
        return Wrong(QString("%1 is not a filter; the filters are %2. Quotes search for the word itself")
                         .arg(word.text.left(at + 1), names.join(", ")));
      }
      auto filter = ParseFilter(*key, word.text.mid(at, wide ? 2 : 1), word.text.mid(at + (wide ? 2 : 1)));
      if (!filter.ok()) return filter.status();
      term = *std::move(filter);
    }
    term.excludes = word.excludes;
    query.push_back(std::move(term));
  }
  return query;
}

bool QueryPatternMatches(const QString& pattern, QStringView text, bool whole) {
  // Greedy with one backtracking point: linear except for stars.
  const QString p = whole || (pattern.startsWith('*') && pattern.endsWith('*')) ? pattern : "*" + pattern + "*";
  qsizetype i = 0, j = 0, star = -1, back = 0;
  while (j < text.size()) {
    if (i < p.size() && p[i] == '*') {
      star = i++;
      back = j;
    } else if (i < p.size() && (p[i] == '?' || p[i].toCaseFolded() == text[j].toCaseFolded())) {
      ++i;
      ++j;
    } else if (star >= 0) {
      i = star + 1;
      j = ++back;
    } else {
      return false;
    }
  }
  while (i < p.size() && p[i] == '*') ++i;
  return i == p.size();
}

}  // namespace lockstep::gui
