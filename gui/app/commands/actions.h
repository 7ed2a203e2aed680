// Every action of the window, defined once. Menus, shortcuts, the command palette, the keys page and the tests all use
// this table.
#pragma once

#include <QAction>
#include <QMenuBar>
#include <QObject>
#include <QString>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::gui {

enum class ActionId : uint8_t {
  kOpen,
  kOpenFolder,
  kReopen,
  kCompare,
  kReload,
  kCancelLoading,
  kExport,
  kClose,
  kQuit,
  kCopy,
  kCopyReport,
  kMark,
  kMarks,
  kNextMark,
  kClear,
  kTabAnswer,
  kTabMatrix,
  kTabWaitFor,
  kTabTimeline,
  kTabStacks,
  kTabBandwidth,
  kZoomIn,
  kZoomOut,
  kZoomRowsIn,
  kZoomRowsOut,
  kPanLeft,
  kPanRight,
  kPanUp,
  kPanDown,
  kCentre,
  kFit,
  kZoomToSelection,
  kJobMatrix,
  kCommMatrix,
  kGroup,
  kGroupRank,
  kGroupHost,
  kGroupStage,
  kGroupComm,
  kGroupState,
  kFontBigger,
  kFontSmaller,
  kFontNormal,
  kTheme,
  kFullScreen,
  kDefaultLayout,
  kNextAnomaly,
  kPreviousAnomaly,
  kNextRecord,
  kPreviousRecord,
  kNextHit,
  kPreviousHit,
  kBack,
  kForward,
  kSearch,
  kFind,
  kCulprit,
  kMembers,
  kFilter,
  kExclude,
  kUnfilter,
  kPin,
  kUnpin,
  kPalette,
  kKeys,
  kQueryHelp,
  kAbout,
  kCount,
};

struct ActionSpec {
  ActionId id;
  const char* name;  // name of the QObject, for scripts and tests
  const char* menu;  // "File"; "View/Group rows by" is a submenu; a leading "-" adds a separator above it
  const char* text;
  const char* keys;  // portable sequences separated by spaces; the first is shown
  const char* tip;
  bool checkable = false;
};

absl::Span<const ActionSpec> ActionSpecs();

// Keys that the pictures handle themselves, because tables and trees use the same keys; shown on the keys page.
struct PictureKey {
  const char* keys;
  const char* text;
};
absl::Span<const PictureKey> PictureKeys();

// Owned by `window`, which handles their shortcuts. If `embedded` is true, the window is part of another window, and
// its shortcuts work only while the focus is inside.
class Actions : public QObject {
  Q_OBJECT

 public:
  Actions(QWidget* window, bool embedded);
  QAction* Get(ActionId id) const { return actions_[static_cast<size_t>(id)]; }
  // Adds an action outside the table: a pane, a recent file.
  QAction* Add(const QString& name, const QString& text, const QString& keys, const QString& tip);
  std::vector<QAction*> all() const;
  void FillMenus(QMenuBar* bar);
  QMenu* menu(const QString& path) const;  // null if there is none

 private:
  QWidget* window_;
  bool embedded_;
  std::vector<QAction*> actions_, more_;
  std::vector<std::pair<QString, QMenu*>> menus_;
};

}  // namespace lockstep::gui
