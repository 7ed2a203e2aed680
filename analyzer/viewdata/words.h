// Table columns that the viewer and the explore page share, with their tooltips.
#pragma once

namespace lockstep::columns {

struct Column {
  const char *name, *meaning;
};

constexpr Column kRank{"Rank", "Global rank"}, kHost{"Host", "Host name"}, kGpu{"GPU", "Index on its host"},
    kPid{"PID", "Process on its host"}, kStage{"Stage", "Pipeline stage"},
    kClass{"Class", "Whether it is the cause, waits for others, or runs; sorts by how bad it is"},
    kLag{"Lag", "Number of collectives behind the most advanced member, on its worst communicator"},
    kLost{"Lost", "Records dropped while recording"}, kState{"State", "What it was doing when its data was captured"},
    kComm{"Communicator", "Name, or id if it has no name"}, kSize{"Size", "Members"};

}  // namespace lockstep::columns
