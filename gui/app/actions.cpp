#include "gui/app/actions.h"

#include <QKeySequence>
#include <QMenu>

namespace lockstep::gui {
namespace {

using Id = ActionId;

constexpr ActionSpec kSpecs[] = {
    {Id::kOpen, "open", "File", "&Open files..", "Ctrl+O",
     "Opens dumps, ring files or Flight Recorder files; several are one job"},
    {Id::kOpenFolder, "open-folder", "File", "Open &folder..", "Ctrl+Shift+O",
     "Opens an incident folder, or a folder of dumps"},
    {Id::kReopen, "reopen", "File", "Open the &last one again", "Ctrl+Shift+T", "Opens what was open last"},
    {Id::kCompare, "compare", "File", "&Compare with..", "Ctrl+Shift+K",
     "Opens a second incident beside this one; both follow each other by rank and sequence"},
    {Id::kReload, "reload", "-File", "&Reload", "Ctrl+R F5", "Reads the same files again and stays where you are"},
    {Id::kCancelLoading, "cancel-loading", "File", "&Stop loading", "Ctrl+.",
     "Stops the load under way; what was open before stays"},
    {Id::kExport, "export", "-File", "&Export..", "Ctrl+E",
     "Writes the view as PNG, SVG or CSV; the file's name says which"},
    {Id::kClose, "close", "-File", "Close &incident", "Ctrl+W", "Closes the incident, not the window"},
    {Id::kQuit, "quit", "File", "&Quit", "Ctrl+Q", "Ends the viewer; the window comes back as it was"},

    {Id::kCopy, "copy", "Edit", "&Copy", "Ctrl+C", "Copies what is selected in the view, as tab-separated text"},
    {Id::kCopyReport, "copy-report", "Edit", "Copy for a &ticket", "Ctrl+Shift+C",
     "Copies verdict, selection and marks as plain text"},
    {Id::kMark, "mark", "-Edit", "&Mark this..", "M",
     "Marks what is selected, with a note that is kept beside the files"},
    {Id::kMarks, "marks", "Edit", "&List of marks", "B", "Shows the marks and notes of this incident"},
    {Id::kNextMark, "next-mark", "Edit", "&Next mark", "N", "Goes to the next mark"},
    {Id::kClear, "clear", "-Edit", "Clea&r", "Esc", "Empties the search, then the selection, then the filters"},

    {Id::kTabAnswer, "answer", "View", "Ans&wer", "V Ctrl+1", "The last calls around the fault, the stack, what to do",
     true},
    {Id::kTabMatrix, "matrix", "View", "&Matrix", "Ctrl+2", "Rank by sequence number: who stopped first", true},
    {Id::kTabWaitFor, "wait-for", "View", "&Wait-for", "Ctrl+3", "Who waits for whom, causes left", true},
    {Id::kTabTimeline, "timeline", "View", "&Timeline", "Ctrl+4", "What host and GPU of each rank did when", true},
    {Id::kTabStacks, "stacks", "View", "&Stacks", "Ctrl+5", "Stacks of all ranks, merged", true},
    {Id::kTabBandwidth, "bandwidth", "View", "&Bandwidth", "Ctrl+6",
     "Bus bandwidth of each rank, by operation and size", true},
    {Id::kZoomIn, "zoom-in", "-View/Zoom", "Zoom &in", "W Ctrl++ Ctrl+=", "Shows less, bigger, along sequence or time"},
    {Id::kZoomOut, "zoom-out", "View/Zoom", "Zoom &out", "S Ctrl+-", "Shows more along sequence or time"},
    {Id::kZoomRowsIn, "zoom-ranks-in", "View/Zoom", "Zoom in on &ranks", "Shift+W Ctrl+Shift++",
     "Shows fewer ranks, bigger"},
    {Id::kZoomRowsOut, "zoom-ranks-out", "View/Zoom", "Zoom out o&f ranks", "Shift+S Ctrl+Shift+-", "Shows more ranks"},
    {Id::kPanLeft, "pan-left", "-View/Zoom", "Move &left", "A", "Moves a quarter of the picture to the left"},
    {Id::kPanRight, "pan-right", "View/Zoom", "Move ri&ght", "D", "Moves a quarter of the picture to the right"},
    {Id::kPanUp, "pan-up", "View/Zoom", "Move &up", "Shift+A", "Moves a quarter of the picture up"},
    {Id::kPanDown, "pan-down", "View/Zoom", "Move &down", "Shift+D", "Moves a quarter of the picture down"},
    {Id::kCentre, "centre", "-View/Zoom", "&Centre on the selection", "F",
     "Brings the selection to the middle; twice shows all"},
    {Id::kFit, "fit", "View/Zoom", "Show &all", "Ctrl+0", "Shows all of the view"},
    {Id::kZoomToSelection, "zoom-selection", "View/Zoom", "Zoom to the &selection", "Z",
     "Fills the view with the selection"},
    {Id::kJobMatrix, "all-ranks", "View", "Matrix of &all ranks", "J",
     "Each rank's last calls in its own order, right-aligned at the stall", true},
    {Id::kCommMatrix, "one-communicator", "View", "Matrix of the &communicator", "C",
     "Members of the selected communicator by sequence number", true},
    {Id::kGroup, "group", "View/Group rows by", "&Menu of groups", "G", "Opens this menu where the pointer is"},
    {Id::kGroupRank, "group-rank", "-View/Group rows by", "&Rank", "Ctrl+G,R", "Rows in the order of ranks", true},
    {Id::kGroupHost, "group-host", "View/Group rows by", "&Host", "Ctrl+G,H", "Rows host by host", true},
    {Id::kGroupStage, "group-stage", "View/Group rows by", "Pipeline &stage", "Ctrl+G,S", "Rows stage by stage", true},
    {Id::kGroupComm, "group-communicator", "View/Group rows by", "&Communicator", "Ctrl+G,C",
     "Rows communicator by communicator", true},
    {Id::kGroupState, "group-state", "View/Group rows by", "S&tate", "Ctrl+G,T",
     "Rows by their worst state, the worst first", true},
    {Id::kFontBigger, "font-bigger", "-View/Text", "&Bigger text", "Alt++ Alt+=", "Makes all text bigger"},
    {Id::kFontSmaller, "font-smaller", "View/Text", "&Smaller text", "Alt+-", "Makes all text smaller"},
    {Id::kFontNormal, "font-normal", "View/Text", "&Normal text", "Alt+0", "Text in the desktop's size"},
    {Id::kTheme, "theme", "View", "Light or dar&k", "Ctrl+Alt+L", "Goes from the desktop's colors to light to dark"},
    {Id::kFullScreen, "full-screen", "View", "F&ull screen", "F11", "Fills the screen, or stops to", true},
    {Id::kDefaultLayout, "default-layout", "View", "&Restore default layout", "Ctrl+Shift+L",
     "Puts panes, tabs and text size back to where they were first"},

    {Id::kNextAnomaly, "next-anomaly", "Go", "&Next anomaly", "]",
     "The next place that stands out, the worst first; the first is the verdict's"},
    {Id::kPreviousAnomaly, "previous-anomaly", "Go", "&Previous anomaly", "[", "The anomaly before"},
    {Id::kNextRecord, "next-record", "Go", "Ne&xt record of the rank", ".", "The rank's next operation"},
    {Id::kPreviousRecord, "previous-record", "Go", "Pre&vious record of the rank", ",", "The rank's operation before"},
    {Id::kSearch, "search", "-Go", "&Search", "/ Ctrl+F", "To the search box: rank:17043 seq>8800 state:missing"},
    {Id::kNextHit, "next-hit", "Go", "Next &hit", "F3", "The next hit of the search (Enter in the search box)"},
    {Id::kPreviousHit, "previous-hit", "Go", "Previous hi&t", "Shift+F3",
     "The hit before (Shift+Enter in the search box)"},
    {Id::kFind, "find", "Go", "&Find a rank, host or communicator", "Ctrl+P", "Finds by a few letters of the name"},
    {Id::kBack, "back", "-Go", "&Back", "Alt+Left", "To where you were: selection, zoom and filters"},
    {Id::kForward, "forward", "Go", "F&orward", "Alt+Right", "Undoes Back"},

    {Id::kCulprit, "culprit", "Analyze", "Select the &cause", "R", "Selects what the verdict names"},
    {Id::kMembers, "members", "Analyze", "Select all &members", "K",
     "Selects all members of the selected communicator"},
    {Id::kFilter, "filter", "-Analyze", "&Filter to the selected ranks", "I",
     "Shows only the selected ranks; adds a filter"},
    {Id::kExclude, "exclude", "Analyze", "&Exclude the selected ranks", "X",
     "Shows all but the selected ranks; adds a filter"},
    {Id::kUnfilter, "unfilter", "Analyze", "&Drop all filters", "Shift+X", "Shows all ranks again"},
    {Id::kPin, "pin", "-Analyze", "&Pin the selected ranks", "P", "Keeps the selected ranks at the top of the matrix"},
    {Id::kUnpin, "unpin", "Analyze", "&Unpin all", "Shift+P", "Lets pinned ranks go back to their places"},

    {Id::kPalette, "palette", "Help", "&All commands", "Ctrl+Shift+P", "Finds a command by a few letters of its name"},
    {Id::kKeys, "keys", "Help", "&Keys", "? F1", "Lists every key"},
    {Id::kQueryHelp, "query-help", "Help", "&Search language", "Shift+F1", "What the search box understands"},
    {Id::kAbout, "about", "-Help", "A&bout", "Ctrl+F1", "Version and licence"},
};
static_assert(std::size(kSpecs) == static_cast<size_t>(Id::kCount));

constexpr PictureKey kPictureKeys[] = {
    {"Up, Down, Left, Right", "move the cursor of the picture or table"},
    {"PgUp, PgDn", "a screen up or down"},
    {"Home, End", "the first or last"},
    {"Enter", "select what the cursor is on"},
    {"Tab, Shift+Tab", "next or previous pane, link or field"},
    {"wheel, Shift+wheel", "scroll ranks, scroll sequence or time"},
    {"Ctrl+wheel", "zoom at the pointer; with Shift: ranks"},
    {"drag", "select an area and measure it"},
    {"middle drag, Shift+drag", "move the picture"},
    {"double click", "the collective's column fills the view"},
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
