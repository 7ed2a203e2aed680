// The states of all calls: every call of a rank in program order, or the communicators of a lane side by side
// ("dp_0", "dp_1", ..).
import { bytes, GridFile, State } from "./file";

export class Grid {
  readonly columns: number;
  readonly firstSeq: number; // of column 0; -1: columns count from the newest call
  readonly patternOf: Int32Array; // by row; -1 none
  readonly patterns: number;
  private readonly from: Int32Array; private readonly start: Uint32Array; private readonly length: Uint16Array; private readonly state: Uint8Array;
  private readonly before: number; // the state of columns before a row's first run

  constructor(file: GridFile, readonly lane: number, rows: number) { // lane -1: program order
    this.columns = file.columns;
    this.firstSeq = file.firstSeq;
    this.from = new Int32Array(bytes(file.from));
    this.length = new Uint16Array(bytes(file.length));
    this.state = new Uint8Array(bytes(file.state));
    const runs = new Uint32Array(bytes(file.runs)), of = new Uint32Array(bytes(file.rows));
    this.patterns = runs.length;
    this.start = new Uint32Array(runs.length + 1);
    for (let p = 0; p < runs.length; p++) this.start[p + 1] = this.start[p] + runs[p];
    this.patternOf = new Int32Array(rows).fill(-1);
    for (let i = 0, row = 0; i + 1 < of.length; row += of[i], i += 2) this.patternOf.fill(of[i + 1] - 1, row, row + of[i]);
    this.before = lane < 0 ? State.outside : State.gone;
  }

  // Calls `each` with first column, end column and state of a pattern's runs between two columns.
  visit(pattern: number, first: number, last: number, each: (from: number, to: number, state: number) => void): void {
    let at = this.from[pattern];
    if (this.before !== State.outside && at > first) each(first, Math.min(at, last), this.before);
    for (let run = this.start[pattern]; run < this.start[pattern + 1] && at < last; run++) {
      const end = at + this.length[run];
      if (end > first) each(Math.max(at, first), Math.min(end, last), this.state[run]);
      at = end;
    }
  }

  stateAt(row: number, column: number): number {
    let found: number = State.outside;
    if (this.patternOf[row] >= 0) this.visit(this.patternOf[row], column, column + 1, (_from, _to, state) => { found = state; });
    return found;
  }
}
