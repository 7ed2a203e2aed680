// The incident as analyzer/browser/explore/data.cpp writes it, with its columns decoded.
import { Runs, StackFrames, Stack, WaitClass, RankColumns, CallFile, File, GridFile, bytes } from "./file";
import { Grid } from "./lanes";

const PYTHON = 1; // StackFrame.Kind
const ROWS_AT_ONCE = 16, MOST_CALLS = 4_000_000; // requested calls; above this number, the earliest ones are dropped

function joined<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array>(first: T, second: T): T {
  if (!first.length) return second;
  const out = new (first.constructor as new (length: number) => T)(first.length + second.length);
  out.set(first);
  out.set(second, first.length);
  return out;
}

// Where each rank's entries begin, and the end of the last.
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
  readonly firstMembership: Uint32Array;
  readonly firstCall: Uint32Array; readonly endCall: Uint32Array; // by row
  readonly here: Uint8Array; // by row: 1 if its calls are on the page
  membership = new Uint16Array(0); kind = new Uint8Array(0); state = new Uint8Array(0);
  seq = new Int32Array(0); peer = new Int32Array(0); begin = new Uint32Array(0); end = new Uint32Array(0); site = new Uint32Array(0);
  readonly memberComm: Uint32Array; readonly issued: Int32Array; readonly completed: Int32Array;
  readonly rowOf = new Map<number, number>(); // row of each rank
  readonly culprits = new Set<number>(); // ranks that the first finding names
  readonly focusComm: number; // communicator of the first finding; -1 if none
  readonly focusSeq: number;

  constructor(readonly file: File) {
    const none = { rank: [], host: [], gpu: [], pid: [], state: [], stage: [], cls: [], lag: [], lost: [] };
    this.ranks = { ...none, ...file.ranks };
    const { calls, memberships } = file;
    this.firstCall = new Uint32Array(this.rows);
    this.endCall = new Uint32Array(this.rows);
    this.here = new Uint8Array(this.rows);
    if (!this.served) this.addCalls(calls, this.ranks.rank.map((_, row) => row));
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
  get served(): boolean { return this.file.grids === null; } // the server has the data that is not on the page

  // Adds the calls of these rows, in this order.
  private addCalls(file: CallFile, rows: number[]): void {
    let at = this.seq.length;
    new Uint32Array(bytes(file.ofRank)).forEach((count, i) => {
      this.firstCall[rows[i]] = at;
      at += count;
      this.endCall[rows[i]] = at;
      this.here[rows[i]] = Number(count > 0 || this.served);
    });
    this.membership = joined(this.membership, new Uint16Array(bytes(file.membership)));
    this.kind = joined(this.kind, new Uint8Array(bytes(file.kind)));
    this.state = joined(this.state, new Uint8Array(bytes(file.state)));
    this.seq = joined(this.seq, new Int32Array(bytes(file.seq)));
    this.peer = joined(this.peer, new Int32Array(bytes(file.peer)));
    this.begin = joined(this.begin, new Uint32Array(bytes(file.begin)));
    this.end = joined(this.end, new Uint32Array(bytes(file.end)));
    this.site = joined(this.site, new Uint32Array(bytes(file.site)));
  }

  // Called when requested data has arrived, or the server does not answer.
  changed: () => void = () => undefined;
  trouble = ""; // why the server does not answer
  private asked: number[] = [];
  private asking = false;

  // Requests from the server the calls of these rows that the page does not have.
  want(rows: number[]): void {
    if (!this.served) return;
    this.asked = rows.filter(row => !this.here[row]); // earlier requests for rows that are out of sight are dropped
    void this.ask();
  }

  private async ask(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    while (this.asked.length && !this.trouble) {
      const rows = this.asked.slice(0, ROWS_AT_ONCE);
      const calls = await this.fetched<CallFile>(`calls.json?${rows.join(",")}`);
      this.asked = this.asked.filter(row => !rows.includes(row));
      if (!calls) break;
      if (this.seq.length > MOST_CALLS) this.forget();
      this.addCalls(calls, rows);
      this.changed();
    }
    this.asking = false;
  }

  // Drops the calls of the rows that were requested first. Rows in sight are requested again if necessary.
  private forget(): void {
    const least = this.seq.length - MOST_CALLS / 2;
    let cut = this.seq.length;
    for (const first of this.firstCall) if (first >= least) cut = Math.min(cut, first);
    for (let row = 0; row < this.rows; row++) {
      const kept = this.firstCall[row] >= cut;
      this.firstCall[row] -= kept ? cut : this.firstCall[row];
      this.endCall[row] -= kept ? cut : this.endCall[row];
      if (!kept) this.here[row] = 0;
    }
    this.membership = this.membership.slice(cut); this.kind = this.kind.slice(cut); this.state = this.state.slice(cut); this.seq = this.seq.slice(cut);
    this.peer = this.peer.slice(cut); this.begin = this.begin.slice(cut); this.end = this.end.slice(cut); this.site = this.site.slice(cut);
  }

  private async fetched<T>(path: string): Promise<T | null> {
    try {
      const answer = await fetch(path);
      if (answer.ok) return await answer.json() as T;
      this.trouble = `the server cannot provide ${path.split("?")[0]}: ${(await answer.text()).trim()}`;
    } catch {
      this.trouble = "lockstep serve does not answer; is it still running?";
    }
    this.changed();
    return null;
  }

  private grids: Grid[] | null = null;
  private gridsAsked = false;
  // Returns the grid of a lane; for lane -1, of every call in program order. Null if it has not yet arrived from the
  // server, or is too large for the page.
  grid(lane: number): Grid | null {
    if (!this.grids) {
      if (this.file.grids) this.decodeGrids(this.file.grids);
      else if (!this.gridsAsked) {
        this.gridsAsked = true;
        void this.fetched<GridFile[]>("grids.json").then(files => { if (files) { this.decodeGrids(files); this.changed(); } });
      }
    }
    return this.grids?.[lane + 1] ?? null;
  }
  private decodeGrids(files: GridFile[]): void { this.grids = files.map((file, at) => new Grid(file, at - 1, this.rows)); }
  stateName(state: number): string { return this.file.states[state]?.[0] ?? ""; }
  stateMeaning(state: number): string { return this.file.states[state]?.[1] ?? ""; }
  text(index: number): string { return this.file.texts[index] ?? ""; }
  host(row: number): string { return this.text(this.ranks.host[row]); }
  stateText(row: number): string { return this.text(this.ranks.state[row]); }
  commOf(row: number, call: number): number { return this.memberComm[this.firstMembership[row] + this.membership[call]]; }
  commName(comm: number): string { return this.file.comms[comm]?.name ?? ""; }
  siteOf(call: number): string { return call < this.site.length ? this.text(this.site[call]) : ""; }
  kindName(call: number): string { return this.file.kinds[this.kind[call]]?.[0] ?? "call"; }
  collective(call: number): boolean { return this.file.kinds[this.kind[call]]?.[1] === 1; }
  pointToPoint(call: number): boolean { return this.file.kinds[this.kind[call]]?.[1] === 2; }

  callName(call: number): string {
    const kind = this.kindName(call);
    const peer = this.pointToPoint(call) && this.peer[call] >= 0 ? (kind === "Send" ? " to " : " from ") + this.peer[call] : "";
    return kind + peer + (this.seq[call] >= 0 ? " #" + this.seq[call] : "");
  }

  // Returns the index of the rank's membership in a communicator; -1 if there is none.
  membershipIn(row: number, comm: number): number {
    for (let m = this.firstMembership[row]; m < this.firstMembership[row + 1]; m++) if (this.memberComm[m] === comm) return m;
    return -1;
  }

  waitClass(row: number): WaitClass | undefined { return this.file.waits.classes[this.ranks.cls[row]]; }
  where(row: number): string {
    const gpu = this.ranks.gpu[row] >= 0 ? `, GPU ${this.ranks.gpu[row]}` : "";
    return this.host(row) + gpu;
  }

  // Stacks of a rank. Stacks with Python frames come first, because they are more informative than the interpreter's own frames.
  stacksOf(rank: number): Stack[] {
    const { parent, ranks, frame, kind, own } = this.file.stacks, ends = new Set<number>(); // the innermost nodes
    for (let node = 0; node < parent.length; node++) { // a parent comes before its children
      if (!inRuns(ranks[node], rank)) continue;
      ends.delete(parent[node]);
      ends.add(node);
    }
    let out = [...ends].map((end): Stack => {
      const frames: StackFrames = [];
      let code = -1;
      for (let node = end; node >= 0; node = parent[node]) {
        if (node === own[end]) code = frames.length;
        frames.push([this.text(frame[node]), kind[node]]);
      }
      return { frames, own: code };
    });
    if (!out.length) out = this.file.findings.flatMap(finding => finding.stacks).filter(one => inRuns(one.ranks, rank) && one.frames.length > 0);
    const python = (stack: Stack) => Number(stack.frames.some(one => one[1] === PYTHON));
    return out.sort((a, b) => python(b) - python(a));
  }

  // The call in a cell; -1: there is none, or it is not on the page.
  callAt(grid: Grid, row: number, column: number): number {
    const first = this.firstCall[row], end = this.endCall[row];
    if (grid.lane < 0) {
      const call = end - (grid.columns - column);
      return call >= first && call < end ? call : -1;
    }
    for (let call = end - 1; call >= first; call--) {
      if (this.seq[call] === grid.firstSeq + column && this.collective(call) && this.file.comms[this.commOf(row, call)]?.lane === grid.lane) return call;
    }
    return -1;
  }
}

export function readIncident(): Incident {
  return new Incident(JSON.parse(document.getElementById("data")!.textContent!) as File);
}
