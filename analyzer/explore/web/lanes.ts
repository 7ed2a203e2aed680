// What each rank did in one lane: the communicators of one class side by side ("dp_0", "dp_1", ..), or every call in program order.
import { Comm, Incident, State } from "./data";
import { plural } from "./dom";

export interface Grid {
  columns: number;
  firstSeq: number; // of column 0; -1: columns count from the newest call
  states: Uint8Array; // rows x columns
  calls: Int32Array; // likewise; -1 none
}

const kMostColumns = 2000;

// "dp_3" is of the class "dp_*"; communicators without a name are of a class by their size.
export function className(comm: Comm): string {
  return /^[0-9a-f]{16}$/.test(comm.name) ? `unnamed, ${plural(comm.size, "member")}` : comm.name.replace(/\d+$/, "*");
}

export function laneNames(incident: Incident): string[] {
  const sizes = new Map<string, number>();
  for (const comm of incident.file.comms) sizes.set(className(comm), (sizes.get(className(comm)) ?? 0) + comm.size);
  return [...sizes.keys()].sort((a, b) => sizes.get(b)! - sizes.get(a)! || a.localeCompare(b)).slice(0, 40);
}

// The last call of each rank stands in the last column.
export function programGrid(incident: Incident): Grid {
  let columns = 1;
  for (let row = 0; row < incident.rows; row++) columns = Math.max(columns, incident.firstCall[row + 1] - incident.firstCall[row]);
  const states = new Uint8Array(incident.rows * columns), calls = new Int32Array(states.length).fill(-1);
  for (let row = 0; row < incident.rows; row++) {
    const end = incident.firstCall[row + 1];
    for (let call = incident.firstCall[row]; call < end; call++) {
      const cell = row * columns + columns - (end - call);
      states[cell] = incident.state[call];
      calls[cell] = call;
    }
  }
  return { columns, firstSeq: -1, states, calls };
}

// Collectives of all communicators whose name is in the class.
export function laneGrid(incident: Incident, lane: string): Grid {
  const ofLane = incident.file.comms.map(comm => className(comm) === lane);
  const issued = new Map<number, number>();
  let first = Infinity, last = -Infinity;
  const each = (visit: (row: number, call: number, comm: number) => void) => {
    for (let row = 0; row < incident.rows; row++) {
      for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
        const comm = incident.commOf(row, call);
        if (ofLane[comm] && incident.seq[call] >= 0 && incident.collective(call)) visit(row, call, comm);
      }
    }
  };
  each((_row, call, comm) => {
    first = Math.min(first, incident.seq[call]);
    last = Math.max(last, incident.seq[call]);
    issued.set(comm, Math.max(issued.get(comm) ?? -1, incident.seq[call]));
  });
  if (first > last) return { columns: 0, firstSeq: 0, states: new Uint8Array(0), calls: new Int32Array(0) };
  first = Math.max(first, last - kMostColumns + 1);
  const columns = last - first + 1;
  const states = new Uint8Array(incident.rows * columns), calls = new Int32Array(states.length).fill(-1);
  for (let row = 0; row < incident.rows; row++) {
    for (let m = incident.firstMembership[row]; m < incident.firstMembership[row + 1]; m++) {
      const comm = incident.memberComm[m], newest = issued.get(comm) ?? -1;
      if (!ofLane[comm]) continue;
      const own = incident.issued[m];
      const missing = incident.culprits.has(incident.ranks.rank[row]) ? State.missing : State.behind;
      for (let seq = first; seq <= newest; seq++) states[row * columns + seq - first] = own === -2 || seq <= own ? State.gone : missing;
    }
  }
  each((row, call) => {
    if (incident.seq[call] < first) return;
    const cell = row * columns + incident.seq[call] - first;
    states[cell] = incident.state[call];
    calls[cell] = call;
  });
  return { columns, firstSeq: first, states, calls };
}
