#include "gui/app/commands/actions.h"

#include <QKeySequence>
#include <QMenu>

namespace lockstep::gui {
namespace {

using Id = ActionId;

constexpr ActionSpec kSpecs[] = {
    {Id::kOpen, "open", "File", "&Open files..", "Ctrl+O",
     "Opens dumps, ring files or Flight Recorder files; several files form one job"},
    {Id::kOpenFolder, "open-folder", "File", "Open &folder..", "Ctrl+Shift+O",
     "Opens an incident folder, or a folder of dumps"},
    {Id::kReopen, "reopen", "File", "Open the &last incident again", "Ctrl+Shift+T",
     "Opens the most recent incident again"},
    {Id::kCompare, "compare", "File", "&Compare with..", "Ctrl+Shift+K",
     "Opens a second incident next to this one; the two follow each other by rank and sequence number"},
    {Id::kReload, "reload", "-File", "&Reload", "Ctrl+R F5", "Reads the same files again and keeps your position"},
    {Id::kCancelLoading, "cancel-loading", "File", "&Stop loading", "Ctrl+.",
     "Stops loading; the earlier incident stays open"},
    {Id::kExport, "export", "-File", "&Export..", "Ctrl+E",
     "Saves the view as PNG, SVG or CSV, depending on the file name"},
    {Id::kClose, "close", "-File", "Close &incident", "Ctrl+W", "Closes the incident, not the window"},
    {Id::kQuit, "quit", "File", "&Quit", "Ctrl+Q", "Closes the viewer; the next start restores the window"},

    {Id::kCopy, "copy", "Edit", "&Copy", "Ctrl+C", "Copies the view's selection as tab-separated text"},
    {Id::kCopyReport, "copy-report", "Edit", "Copy for a &ticket", "Ctrl+Shift+C",
     "Copies verdict, selection and marks as plain text"},
    {Id::kMark, "mark", "-Edit", "&Mark this..", "M", "Marks the selection and stores a note next to the files"},
    {Id::kMarks, "marks", "Edit", "&List of marks", "B", "Shows the marks and notes of this incident"},
    {Id::kNextMark, "next-mark", "Edit", "&Next mark", "N", "Goes to the next mark"},
    {Id::kClear, "clear", "-Edit", "Clea&r", "Esc", "Clears the search, then the selection, then the filters"},

    {Id::kTabAnswer, "answer", "View", "Ans&wer", "V Ctrl+1", "The last calls around the fault, the stack, what to do",
     true},
    {Id::kTabMatrix, "matrix", "View", "&Matrix", "Ctrl+2", "Rank by sequence number: which rank stopped first", true},
    {Id::kTabWaitFor, "wait-for", "View", "&Wait-for", "Ctrl+3",
     "Which ranks wait for which, with the causes on the left", true},
    {Id::kTabTimeline, "timeline", "View", "&Timeline", "Ctrl+4", "What each rank's CPU and GPU did, over time", true},
    {Id::kTabStacks, "stacks", "View", "&Stacks", "Ctrl+5", "Stacks of all ranks, merged", true},
    {Id::kTabBandwidth, "bandwidth", "View", "&Bandwidth", "Ctrl+6",
     "Bus bandwidth of each rank, by operation and size", true},
    {Id::kZoomIn, "zoom-in", "-View/Zoom", "Zoom &in", "W Ctrl++ Ctrl+=", "Zooms in along sequence or time"},
    {Id::kZoomOut, "zoom-out", "View/Zoom", "Zoom &out", "S Ctrl+-", "Zooms out along sequence or time"},
    {Id::kZoomRowsIn, "zoom-ranks-in", "View/Zoom", "Zoom in on &ranks", "Shift+W Ctrl+Shift++",
     "Shows fewer, larger rows"},
    {Id::kZoomRowsOut, "zoom-ranks-out", "View/Zoom", "Zoom out o&f ranks", "Shift+S Ctrl+Shift+-",
     "Shows more, smaller rows"},
    {Id::kPanLeft, "pan-left", "-View/Zoom", "Move &left", "A", "Moves a quarter of the picture to the left"},
    {Id::kPanRight, "pan-right", "View/Zoom", "Move ri&ght", "D", "Moves a quarter of the picture to the right"},
    {Id::kPanUp, "pan-up", "View/Zoom", "Move &up", "Shift+A", "Moves a quarter of the picture up"},
    {Id::kPanDown, "pan-down", "View/Zoom", "Move &down", "Shift+D", "Moves a quarter of the picture down"},
    {Id::kCentre, "centre", "-View/Zoom", "&Center on the selection", "F",
     "Centers the selection; press twice to show everything"},
    {Id::kFit, "fit", "View/Zoom", "Show &all", "Ctrl+0", "Shows everything"},
    {Id::kZoomToSelection, "zoom-selection", "View/Zoom", "Zoom to the &selection", "Z",
     "Fills the view with the selection"},
    {Id::kJobMatrix, "all-ranks", "View", "Matrix of &all ranks", "J",
     "Each rank's last calls in its own order, the newest at the right", true},
    {Id::kCommMatrix, "one-communicator", "View", "Matrix of the &communicator", "C",
     "Members of the selected communicator by sequence number", true},
    {Id::kGroup, "group", "View/Group rows by", "&Menu of groups", "G", "Opens this menu at the pointer"},
    {Id::kGroupRank, "group-rank", "-View/Group rows by", "&Rank", "Ctrl+G,R", "Orders the rows by rank", true},
    {Id::kGroupHost, "group-host", "View/Group rows by", "&Host", "Ctrl+G,H", "Groups the rows by host", true},
    {Id::kGroupStage, "group-stage", "View/Group rows by", "Pipeline &stage", "Ctrl+G,S", "Groups the rows by stage",
     true},
    {Id::kGroupComm, "group-communicator", "View/Group rows by", "&Communicator", "Ctrl+G,C",
     "Groups the rows by communicator", true},
    {Id::kGroupState, "group-state", "View/Group rows by", "S&tate", "Ctrl+G,T",
     "Orders the rows by their worst state, worst first", true},
    {Id::kFontBigger, "font-bigger", "-View/Text", "&Bigger text", "Alt++ Alt+=", "Makes all text bigger"},
    {Id::kFontSmaller, "font-smaller", "View/Text", "&Smaller text", "Alt+-", "Makes all text smaller"},
    {Id::kFontNormal, "font-normal", "View/Text", "&Normal text", "Alt+0", "Resets text to the desktop's size"},
    {Id::kTheme, "theme", "View", "Light or dar&k", "Ctrl+Alt+L",
     "Switches between the desktop's colors, light and dark"},
    {Id::kFullScreen, "full-screen", "View", "F&ull screen", "F11", "Turns full screen on or off", true},
    {Id::kDefaultLayout, "default-layout", "View", "&Restore default layout", "Ctrl+Shift+L",
     "Restores panes, tabs and text size to their defaults"},

    {Id::kNextAnomaly, "next-anomaly", "Go", "&Next anomaly", "]",
     "Goes to the next anomaly, worst first; the first is the verdict's"},
    {Id::kPreviousAnomaly, "previous-anomaly", "Go", "&Previous anomaly", "[", "Goes to the previous anomaly"},
    {Id::kNextRecord, "next-record", "Go", "Ne&xt record of the rank", ".", "Goes to the rank's next operation"},
    {Id::kPreviousRecord, "previous-record", "Go", "Pre&vious record of the rank", ",",
     "Goes to the rank's previous operation"},
    {Id::kSearch, "search", "-Go", "&Search", "/ Ctrl+F", "Goes to the search box: rank:17043 seq>8800 state:missing"},
    {Id::kNextHit, "next-hit", "Go", "Next &hit", "F3", "Goes to the next search hit (Enter in the search box)"},
    {Id::kPreviousHit, "previous-hit", "Go", "Previous hi&t", "Shift+F3",
     "Goes to the previous search hit (Shift+Enter in the search box)"},
    {Id::kFind, "find", "Go", "&Find a rank, host or communicator", "Ctrl+P", "Finds one by a few letters of its name"},
    {Id::kBack, "back", "-Go", "&Back", "Alt+Left", "Returns to the previous selection, zoom and filters"},
    {Id::kForward, "forward", "Go", "F&orward", "Alt+Right", "Undoes Back"},

    {Id::kCulprit, "culprit", "Analyze", "Select the &cause", "R", "Selects what the verdict blames"},
    {Id::kMembers, "members", "Analyze", "Select all &members", "K",
     "Selects all members of the selected communicator"},
    {Id::kFilter, "filter", "-Analyze", "&Filter to the selected ranks", "I",
     "Shows only the selected ranks; adds a filter"},
    {Id::kExclude, "exclude", "Analyze", "&Exclude the selected ranks", "X", "Hides the selected ranks; adds a filter"},
    {Id::kUnfilter, "unfilter", "Analyze", "&Drop all filters", "Shift+X", "Shows all ranks again"},
    {Id::kPin, "pin", "-Analyze", "&Pin the selected ranks", "P", "Keeps the selected ranks at the top of the matrix"},
    {Id::kUnpin, "unpin", "Analyze", "&Unpin all", "Shift+P", "Moves pinned ranks back to their rows"},

    {Id::kPalette, "palette", "Help", "&All commands", "Ctrl+Shift+P", "Finds a command by a few letters of its name"},
    {Id::kKeys, "keys", "Help", "&Keys", "? F1", "Lists all keys"},
    {Id::kQueryHelp, "query-help", "Help", "&Search language", "Shift+F1", "Explains the search language"},
    {Id::kAbout, "about", "-Help", "A&bout", "Ctrl+F1", "Shows the version and the license"},
};
static_assert(std::size(kSpecs) == static_cast<size_t>(Id::kCount));

constexpr PictureKey kPictureKeys[] = {
    {"Up, Down, Left, Right", "move the cursor of the picture or table"},
    {"PgUp, PgDn", "move one screen up or down"},
    {"Home, End", "go to the first or last item"},
    {"Enter", "select the item under the cursor"},
    {"Tab, Shift+Tab", "go to the next or previous pane, link or field"},
    {"wheel, Shift+wheel", "scroll ranks, scroll sequence or time"},
    {"Ctrl+wheel", "zoom at the pointer; with Shift, zoom on ranks"},
    {"drag", "select an area and measure it"},
    {"middle drag, Shift+drag", "move the picture"},
    {"double click", "fill the view with the collective's column"},
};

}  // namespace

absl::Span<const ActionSpec> ActionSpecs() { return kSpecs; }
absl::Span<const PictureKey> PictureKeys() { return kPictureKeys; }

Actions::Actions(QWidget* window, bool embedded) : QObject(window), window_(window), embedded_(embedded) {
  actions_.resize(static_cast<size_t>(Id::kCount));
  for (const ActionSpec& spec : kSpecs) {
    QAction* action = Add(spec.name, spec.text, spec.keys, spec.tip);
    more_.pop_back();
    action->setCheckable(spec.checkable);
    actions_[static_cast<size_t>(spec.id)] = action;
  }
}

QAction* Actions::Add(const QString& name, const QString& text, const QString& keys, const QString& tip) {
  auto* action = new QAction(text, window_);
  action->setObjectName(name);
  QList<QKeySequence> sequences;
  for (const QString& key : keys.split(' ', Qt::SkipEmptyParts))
    sequences << QKeySequence::fromString(key, QKeySequence::PortableText);
  action->setShortcuts(sequences);
  if (embedded_) action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
  const QString shown =
      sequences.isEmpty() ? QString() : QString(" (%1)").arg(sequences.first().toString(QKeySequence::NativeText));
  action->setToolTip(tip + shown);
  action->setStatusTip(tip);
  window_->addAction(action);
  more_.push_back(action);
  return action;
}

std::vector<QAction*> Actions::all() const {
  std::vector<QAction*> out = actions_;
  out.insert(out.end(), more_.begin(), more_.end());
  return out;
}

void Actions::FillMenus(QMenuBar* bar) {
  bar->setAccessibleName("Menus");
  for (const ActionSpec& spec : kSpecs) {
    QString path = spec.menu;
    const bool line = path.startsWith('-');
    if (line) path = path.mid(1);
    QMenu* menu = this->menu(path);
    if (menu == nullptr) {
      const QStringList parts = path.split('/');
      QMenu* outer = parts.size() > 1 ? this->menu(parts[0]) : nullptr;
      menu = outer != nullptr ? outer->addMenu(parts[1]) : bar->addMenu("&" + parts.last());
      menu->setAccessibleName(QString(parts.last()));
      menu->menuAction()->setToolTip(QString("Menu: %1").arg(parts.last()));
      menu->setToolTipsVisible(true);
      menus_.emplace_back(path, menu);
    }
    if (line && !menu->isEmpty()) menu->addSeparator();
    menu->addAction(Get(spec.id));
  }
}

QMenu* Actions::menu(const QString& path) const {
  for (const auto& [name, menu] : menus_) {
    if (name == path) return menu;
  }
  return nullptr;
}

}  // namespace lockstep::gui
