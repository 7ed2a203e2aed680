// Documents for tests, and helpers for tests of widgets.
#pragma once

#include <gtest/gtest.h>

#include <QApplication>
#include <QPalette>
#include <QWidget>

#include <cstdlib>
#include <string>

#include "analyzer/testing/job.h"
#include "gui/model/document.h"
#include "gui/testing/until.h"

namespace lockstep::gui::testing {

// Distributes the ranks over hosts with eight GPUs and adds what a recorder would know about their processes.
inline Bundle OnHosts(Bundle bundle) {
  for (Rank& rank : bundle.ranks) {
    rank.host = "node" + std::to_string(100 + rank.rank / 8);
    rank.gpu_index = rank.rank % 8;
    rank.gpu_pci = "0000:" + std::to_string(10 + rank.rank % 8) + ":00.0";
    rank.pid = 40000 + rank.rank;
    rank.path = "/incident/rank-" + std::to_string(rank.rank) + ".lsd";
  }
  return bundle;
}

inline DocumentPtr Made(const Bundle& bundle) {
  auto document = Document::FromBundle(bundle);
  EXPECT_TRUE(document.ok()) << document.status();
  return document.ok() ? *document : nullptr;
}

// Rank 5's CPU thread is stuck before its data parallel collective in the last step but one.
inline Bundle HangBundle(int tp = 2, int pp = 2, int dp = 2, int steps = 6) {
  lockstep::testing::Job job(tp, pp, dp, steps);
  job.ranks[5].host_fault_at = job.Find(5, "dp", steps - 2);
  job.ranks[5].host_fault = lockstep::testing::HostFault::kStall;
  return job.Run();
}

// The same, with hosts and stacks.
inline DocumentPtr Hang(int tp = 2, int pp = 2, int dp = 2) {
  Bundle bundle = OnHosts(HangBundle(tp, pp, dp));
  bundle.ranks[5].process.python_stack = {"_load (loader.py:88)", "next_batch (train.py:141)", "main (train.py:310)"};
  bundle.ranks[5].process.stack = {"read (libc.so.6)", "_Py_read (python3.11)"};
  return Made(bundle);
}

inline DocumentPtr Healthy() { return Made(OnHosts(lockstep::testing::Job(2, 2, 2, 6).Run())); }

// Rank 3 reduces a different count than its peers.
inline DocumentPtr Mismatch() {
  lockstep::testing::Job job(2, 2, 2, 6);
  job.ranks[3].program[job.Find(3, "tp", 3)].count *= 2;
  return Made(OnHosts(job.Run()));
}

// Two findings: rank 3's count differs, and rank 4 is stuck.
inline DocumentPtr TwoFindings() {
  lockstep::testing::Job job(2, 2, 2, 6);
  job.ranks[3].program[job.Find(3, "tp", 3)].count *= 2;
  job.mismatch_hangs = false;
  job.ranks[4].host_fault_at = job.Find(4, "dp", 5);
  job.ranks[4].host_fault = lockstep::testing::HostFault::kStall;
  return Made(OnHosts(job.Run()));
}

// Rank 21 is stuck before a pipeline call that another stage waits for.
inline DocumentPtr HungPipeline() {
  lockstep::testing::Job job(4, 4, 4, 6);
  job.ranks[21].host_fault_at = job.Find(21, "pp", 4, 1);
  job.ranks[21].host_fault = lockstep::testing::HostFault::kStall;
  return Made(OnHosts(job.Run()));
}

// A hang in which every name contains markup and control characters that reorder lines, and is long.
inline DocumentPtr Hostile() {
  Bundle bundle = OnHosts(HangBundle());
  const std::string nasty =
      "<a href=\"file:///etc/passwd\">x</a><img src=\"/etc/hostname\">\u202e\x1b[2J" + std::string(3000, 'W');
  for (Communicator& comm : bundle.comms) comm.name = nasty;
  for (Rank& rank : bundle.ranks) {
    rank.host = nasty;
    rank.process.python_stack = {nasty};
  }
  bundle.job = nasty;
  bundle.problems.push_back({nasty, -1, nasty, 1});
  return Made(bundle);
}

// A dark desktop, as Fusion would show it.
inline QPalette DarkPalette() {
  QPalette palette;
  for (const auto& [role, color] : {std::pair{QPalette::Window, "#202326"},
                                    {QPalette::Base, "#17191a"},
                                    {QPalette::AlternateBase, "#1f2224"},
                                    {QPalette::Button, "#2a2e31"},
                                    {QPalette::WindowText, "#eceff1"},
                                    {QPalette::Text, "#eceff1"},
                                    {QPalette::ButtonText, "#eceff1"},
                                    {QPalette::Highlight, "#1c5d8a"},
                                    {QPalette::HighlightedText, "#ffffff"},
                                    {QPalette::PlaceholderText, "#8b9196"},
                                    {QPalette::ToolTipBase, "#2a2e31"},
                                    {QPalette::ToolTipText, "#eceff1"}})
    palette.setColor(role, QColor(color));
  return palette;
}

// Saves a picture of the widget in the folder LOCKSTEP_GRABS, if that is set, for manual inspection.
inline void Grab(QWidget* widget, const std::string& name) {
  QApplication::processEvents();
  const QPixmap pixmap = widget->grab();
  EXPECT_FALSE(pixmap.isNull());
  if (const char* folder = getenv("LOCKSTEP_GRABS"))
    pixmap.save(QString("%1/%2.png").arg(folder, QString::fromStdString(name)));
}

}  // namespace lockstep::gui::testing
