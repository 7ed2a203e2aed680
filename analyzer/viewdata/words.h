// Columns of tables that the viewer and the page for a browser share, with the tips that explain them.
#pragma once

namespace lockstep::columns {

struct Column {
  const char *name, *meaning;
};

constexpr Column kRank{"Rank", "Global rank"}, kHost{"Host", "Host name"}, kGpu{"GPU", "Index on its host"},
    kPid{"PID", "Process on its host"}, kStage{"Stage", "Pipeline stage"},
    kClass{"Class", "Whether it is the cause, waits for others, or runs; sorts by how bad it is"},
    kLag{"Lag", "Collectives by which it is behind the furthest member, the most over its communicators"},
    kLost{"Lost", "Records that were dropped while recording"},
    kState{"State", "What it was doing when its data was taken"},
    kComm{"Communicator", "The name, or the identity if it has none"}, kSize{"Size", "Members"};

}  // namespace lockstep::columns
