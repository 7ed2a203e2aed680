// Every act of the window, once: menus, shortcuts, the command palette, the page of keys and tests all use these.
#ifndef LOCKSTEP_GUI_APP_ACTIONS_H_
#define LOCKSTEP_GUI_APP_ACTIONS_H_

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
  kVerdict,
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
  const char* name;  // of the QObject, for scripts and tests
  const char* menu;  // "File"; "View/Group rows by" is a menu inside; a leading "-": a line above it
  const char* text;
  const char* keys;  // portable sequences separated by spaces; the first is shown
  const char* tip;
  bool checkable = false;
};

absl::Span<const ActionSpec> ActionSpecs();

// Keys that the pictures handle themselves because tables and trees need them too, for the page of keys.
struct PictureKey {
  const char* keys;
  const char* text;
};
absl::Span<const PictureKey> PictureKeys();

// Owned by `window`, whose shortcuts they are. `embedded`: the window is a part of another one, and keys count in it
// only where the focus is inside.
class Actions : public QObject {
  Q_OBJECT

 public:
  Actions(QWidget* window, bool embedded);
  QAction* Get(ActionId id) const { return actions_[static_cast<size_t>(id)]; }
  // Actions outside the table: panes, recent files.
  QAction* Add(const QString& name, const QString& text, const QString& keys, const QString& tip);
  std::vector<QAction*> all() const;
  void FillMenus(QMenuBar* bar);
  QMenu* menu(const QString& path) const;  // null: there is none

 private:
  QWidget* window_;
  bool embedded_;
  std::vector<QAction*> actions_, more_;
  std::vector<std::pair<QString, QMenu*>> menus_;
};

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_APP_ACTIONS_H_
