// The data that analyzer/browser/explore/data.cpp writes into the page.
export type Runs = number[]; // first, last, first, last, .. ascending, inclusive

export interface Section { title: string; finding: number; rows: [string, string[]][] }
export type StackFrames = [string, number][]; // text and StackFrame.Kind of each frame, innermost first
export interface Stack { frames: StackFrames; own: number } // own: the index of the frame in the user's code; -1: none
export interface FindingStack extends Stack { ranks: Runs; place: string; refused: string }
export interface Finding {
  kind: string; text: string; ranks: Runs; comm: number; seq: number; op: string; victims: number; place: string;
  stacks: FindingStack[]; sites: [Runs, string, string][]; chain: string[];
}
export interface Comm { name: string; size: number; lane: number; ranks: Runs }
export interface WaitClass { kind: number; ranks: Runs; label: string; state: string; comm: number; seq: number; op: string }
export interface Mismatch { comm: number; seq: number; field: string; groups: { value: string; ranks: Runs; usual: boolean }[] }
export interface FocusRow { label: string; place: string; ranks: Runs; culprit: boolean; state: string; kind: number; cells: [number, string, string][] } // state, call, text
export interface Focus { comm: number; title: string; fault: string; columns: number; faultColumn: number; firstSeq: number; rows: FocusRow[] }
export interface RankColumns {
  rank: number[]; host: number[]; gpu: number[]; pid: number[]; state: number[]; stage: number[]; cls: number[]; lag: number[]; lost: number[];
}
export interface CallFile {
  unitNs: number; span: number; ofRank: string; membership: string; kind: string; state: string; seq: string; peer: string; begin: string; end: string; site: string;
}
export type Rate = [number, number, number, number]; // calls, and bytes per second at the 10th, 50th and 90th percentile
export interface Speed {
  op: string; bytes: number; ranks: number; hosts: number; comms: number; rate: Rate; roof: number; roofName: string; clock: string; // roof is 0 if unknown
  hostRates: [string, ...Rate][]; hostsMeasured: number; // slowest first
}
export interface Start {
  text: string; phases: { name: string; column: string; ranks: number; median: number; longest: number; longestRank: number }[]; // seconds
  ranks: { rank: number; host: string; last: number; creations: number; late: number; seconds: number[] }[]; // seconds of each phase, -1: not recorded
}
export interface File {
  job: string; verdict: string; read: string; note: string; sections: Section[]; findings: Finding[]; ranks: Partial<RankColumns>; missing: Runs;
  comms: Comm[]; waits: { classes: WaitClass[]; edges: [number, number, string, number][] }; mismatches: Mismatch[];
  stacks: { parent: number[]; frame: number[]; kind: number[]; ranks: Runs[]; own: number[] };
  speeds: Speed[]; start: Start | null; unknown: string[]; kinds: [string, number][]; states: [string, string][]; waitKinds: string[]; columns: Record<string, [string, string]>; texts: string[]; focus: Focus | null;
  memberships: { ofRank: string; comm: string; issued: string; completed: string };
  calls: CallFile;
  lanes: string[]; grids: GridFile[] | null; // the first grid has every call in program order; null: the server has the grids and the calls
}

// The numbers in analyzer/viewdata/state.h, and `behind`, which only the page uses.
export const State = {
  outside: 0, completed: 1, gone: 2, issued: 3, enqueued: 4, started: 5, waiting: 6, noData: 7, failed: 8, mismatch: 9, missing: 10, behind: 11,
} as const;

export const WaitKind = { healthy: 0, victim: 1, cause: 2, cycle: 3, noData: 4 } as const;

// As in analyzer/browser/explore/grids.h: a row for each rank; ranks with equal rows share a pattern.
export interface GridFile { columns: number; firstSeq: number; rows: string; from: string; runs: string; length: string; state: string }

export function bytes(base64: string): ArrayBuffer {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out.buffer;
}
