// The incident as analyzer/explore/data.cpp writes it, with its columns decoded.

export type Runs = number[]; // first, last, first, last, .. ascending, inclusive

export interface Section { title: string; finding: number; rows: [string, string[]][] }
export type Stack = [string, number][]; // text and StackFrame.Kind of each frame, innermost first
export interface FindingStack { ranks: Runs; place: string; refused: string; frames: Stack }
export interface Finding {
  kind: string; text: string; ranks: Runs; comm: number; seq: number; op: string; victims: number; place: string;
  stacks: FindingStack[]; sites: [Runs, string, string][]; chain: string[];
}
export interface Comm { name: string; size: number; ranks: Runs }
export interface WaitClass { kind: number; ranks: Runs; label: string; state: string; comm: number; seq: number; op: string }
export interface Mismatch { comm: number; seq: number; field: string; groups: { value: string; ranks: Runs; usual: boolean }[] }
export interface RankColumns {
  rank: number[]; host: number[]; gpu: number[]; pid: number[]; state: number[]; stage: number[]; cls: number[]; lag: number[]; lost: number[];
}
interface File {
  job: string; verdict: string; expected: number; sections: Section[]; findings: Finding[]; ranks: Partial<RankColumns>; missing: Runs;
  comms: Comm[]; waits: { classes: WaitClass[]; edges: [number, number, string, number][] }; mismatches: Mismatch[];
  stacks: { parent: number[]; frame: number[]; kind: number[]; ranks: Runs[] };
  unknown: string[]; kinds: [string, number][]; states: string[]; texts: string[];
  memberships: { ofRank: string; comm: string; issued: string; completed: string };
  calls: {
    unitNs: number; ofRank: string; membership: string; kind: string; state: string; seq: string; peer: string; begin: string; end: string;
    site: string; perRank: number; leftOut: number;
  };
}

// Numbers as in analyzer/viewdata/state.h; the last two are the page's own.
export const State = {
  outside: 0, completed: 1, gone: 2, issued: 3, enqueued: 4, started: 5, waiting: 6, noData: 7, failed: 8, mismatch: 9, missing: 10, behind: 11,
} as const;

export const WaitKind = { healthy: 0, victim: 1, cause: 2, cycle: 3, noData: 4 } as const;

const PYTHON = 1; // StackFrame.Kind

function bytes(base64: string): ArrayBuffer {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out.buffer;
}

// Where each rank's entries begin, and behind the last.
function starts(counts: Uint32Array): Uint32Array {
  const out = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) out[i + 1] = out[i] + counts[i];
  return out;
}

export function runsCount(runs: Runs): number {
  let count = 0;
  for (let i = 0; i + 1 < runs.length; i += 2) count += runs[i + 1] - runs[i] + 1;
  return count;
}

export function inRuns(runs: Runs, rank: number): boolean {
  for (let i = 0; i + 1 < runs.length; i += 2) if (rank >= runs[i] && rank <= runs[i + 1]) return true;
  return false;
}

export function runsRanks(runs: Runs, limit = Infinity): number[] {
  const out: number[] = [];
  for (let i = 0; i + 1 < runs.length; i += 2) for (let r = runs[i]; r <= runs[i + 1] && out.length < limit; r++) out.push(r);
  return out;
}

export function runsText(runs: Runs, limit = 12): string {
  const parts: string[] = [];
  for (let i = 0; i + 1 < runs.length && parts.length < limit; i += 2) parts.push(runs[i] === runs[i + 1] ? `${runs[i]}` : `${runs[i]}-${runs[i + 1]}`);
  const more = runs.length / 2 > limit ? ", …" : "";
  return (runsCount(runs) === 1 ? "rank " : "ranks ") + parts.join(", ") + more;
}

export class Incident {
  readonly ranks: RankColumns;
  readonly firstCall: Uint32Array; readonly firstMembership: Uint32Array;
  readonly membership: Uint16Array; readonly kind: Uint8Array; readonly state: Uint8Array;
  readonly seq: Int32Array; readonly peer: Int32Array; readonly begin: Uint32Array; readonly end: Uint32Array; readonly site: Uint32Array;
  readonly memberComm: Uint32Array; readonly issued: Int32Array; readonly completed: Int32Array;
  readonly rowOf = new Map<number, number>(); // of a rank
  readonly culprits = new Set<number>(); // of the first finding, as ranks
  readonly focusComm: number; // that the first finding is about; -1 none
  readonly focusSeq: number;

  constructor(readonly file: File) {
    const none = { rank: [], host: [], gpu: [], pid: [], state: [], stage: [], cls: [], lag: [], lost: [] };
    this.ranks = { ...none, ...file.ranks };
    const { calls, memberships } = file;
    this.firstCall = starts(new Uint32Array(bytes(calls.ofRank)));
    this.membership = new Uint16Array(bytes(calls.membership));
    this.kind = new Uint8Array(bytes(calls.kind));
    this.state = new Uint8Array(bytes(calls.state));
    this.seq = new Int32Array(bytes(calls.seq));
    this.peer = new Int32Array(bytes(calls.peer));
    this.begin = new Uint32Array(bytes(calls.begin));
    this.end = new Uint32Array(bytes(calls.end));
    this.site = new Uint32Array(bytes(calls.site));
    this.firstMembership = starts(new Uint32Array(bytes(memberships.ofRank)));
    this.memberComm = new Uint32Array(bytes(memberships.comm));
    this.issued = new Int32Array(bytes(memberships.issued));
    this.completed = new Int32Array(bytes(memberships.completed));
    this.ranks.rank.forEach((rank, row) => this.rowOf.set(rank, row));
    const first = file.findings[0];
    if (first) for (const rank of runsRanks(first.ranks)) this.culprits.add(rank);
    this.focusComm = first ? first.comm : -1;
    this.focusSeq = first ? first.seq : -1;
  }

  get rows(): number { return this.ranks.rank.length; }
  text(index: number): string { return this.file.texts[index] ?? ""; }
  host(row: number): string { return this.text(this.ranks.host[row]); }
  stateText(row: number): string { return this.text(this.ranks.state[row]); }
  commOf(row: number, call: number): number { return this.memberComm[this.firstMembership[row] + this.membership[call]]; }
  commName(comm: number): string { return this.file.comms[comm]?.name ?? ""; }
  siteOf(call: number): string { return this.site.length ? this.text(this.site[call]) : ""; }
  kindName(call: number): string { return this.file.kinds[this.kind[call]]?.[0] ?? "call"; }
  collective(call: number): boolean { return this.file.kinds[this.kind[call]]?.[1] === 1; }
  pointToPoint(call: number): boolean { return this.file.kinds[this.kind[call]]?.[1] === 2; }

  callName(call: number): string {
    const kind = this.kindName(call);
    const peer = this.pointToPoint(call) && this.peer[call] >= 0 ? (kind === "Send" ? " to " : " from ") + this.peer[call] : "";
    return kind + peer + (this.seq[call] >= 0 ? " #" + this.seq[call] : "");
  }

  // The membership of a rank in a communicator; -1 none.
  membershipIn(row: number, comm: number): number {
    for (let m = this.firstMembership[row]; m < this.firstMembership[row + 1]; m++) if (this.memberComm[m] === comm) return m;
    return -1;
  }

  waitClass(row: number): WaitClass | undefined { return this.file.waits.classes[this.ranks.cls[row]]; }
  where(row: number): string {
    const gpu = this.ranks.gpu[row] >= 0 ? `, GPU ${this.ranks.gpu[row]}` : "";
    return this.host(row) + gpu;
  }

  // Stacks of a rank, each with the innermost frame first. Those with Python frames come first: they say more than the interpreter's own.
  stacksOf(rank: number): Stack[] {
    const { parent, ranks, frame, kind } = this.file.stacks, paths = new Map<number, Stack>(); // by their innermost node
    for (let node = 0; node < parent.length; node++) { // a parent stands before its children
      if (!inRuns(ranks[node], rank)) continue;
      const outer = paths.get(parent[node]) ?? [];
      paths.delete(parent[node]);
      paths.set(node, [[this.text(frame[node]), kind[node]], ...outer]);
    }
    let out = [...paths.values()];
    if (!out.length) out = this.file.findings.flatMap(finding => finding.stacks).filter(one => inRuns(one.ranks, rank) && one.frames.length > 0).map(one => one.frames);
    const python = (stack: Stack) => Number(stack.some(one => one[1] === PYTHON));
    return out.sort((a, b) => python(b) - python(a));
  }
}

export function readIncident(): Incident {
  return new Incident(JSON.parse(document.getElementById("data")!.textContent!) as File);
}
