// The threads that do the window's work in the background.
#pragma once

class QThreadPool;

namespace lockstep::gui {

// One per process, for work that ends within seconds or checks a cancel flag. Not Qt's global pool, because QPainter
// fills shapes in that pool and waits for it (Qt 6.4, qdrawhelper.cpp). So the window would freeze behind our own work.
QThreadPool& WorkPool();

}  // namespace lockstep::gui
