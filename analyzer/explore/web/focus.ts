// The first picture: the last calls of the culprit's communicator, with the culprit, its peers and the rest in one row each.
import { BOLD, FONT, palette, Palette, severity } from "./colors";
import { Finding, Incident, runsCount, runsRanks, runsText, State, WaitKind } from "./data";
import { button, context, count, el, fitText, plural } from "./dom";
import { Page, View } from "./view";

const COLUMNS = 30, AFTER = 3; // calls in the picture; of these behind the one at fault
const FAULT = COLUMNS - 1 - AFTER;
const ROW = 30, HEAD = 44, LABEL = 230, NOTE = 330, CELL = 40;
const BESIDE = ["job", "python", "stack"]; // rows of the report that the page shows elsewhere
const MOST_CULPRITS = 4, PEERS = 8;

interface Row { label: string; sub: string; ranks: number[]; culprit: boolean; states: number[]; calls: number[]; note: string; kind?: string }

function short(name: string): string {
  const words: Record<string, string> = {
    AllReduce: "AR", AllGather: "AG", ReduceScatter: "RS", Broadcast: "BC", Reduce: "RD", Send: "S", Recv: "R", AlltoAll: "A2A", Gather: "GA", Scatter: "SC",
  };
  return words[name] ?? name.slice(0, 3);
}

// Calls of a rank in the communicator, by the picture's column. Collectives stand below their number; sends and receives, which count by pair,
// stand in program order.
function cells(incident: Incident, row: number, comm: number, seq: number, collective: boolean): { states: number[]; calls: number[] } {
  const states: number[] = new Array(COLUMNS).fill(State.outside), calls: number[] = new Array(COLUMNS).fill(-1);
  const m = incident.membershipIn(row, comm);
  if (m < 0) return { states, calls };
  const own: number[] = [];
  for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
    if (incident.commOf(row, call) === comm && (collective ? incident.collective(call) : incident.pointToPoint(call))) own.push(call);
  }
  if (!collective) {
    const bad = incident.culprits.has(incident.ranks.rank[row]);
    // The oldest call that is not done stands in the column at fault; of a culprit without one, the call that never came.
    const open = own.findIndex(call => ![State.completed, State.issued].includes(incident.state[call] as 1 | 3));
    const first = open >= 0 ? open : bad ? own.length : own.length - 1;
    own.forEach((call, place) => {
      const at = FAULT + place - first;
      if (at < 0 || at >= COLUMNS) return;
      states[at] = incident.state[call];
      calls[at] = call;
    });
    if (bad && open < 0) states[FAULT] = State.missing;
    return { states, calls };
  }
  const newest = Math.max(seq, 0), issued = incident.issued[m];
  for (let column = 0; column < COLUMNS; column++) {
    const number = newest - FAULT + column;
    if (number < 0 || column > FAULT) continue;
    if (issued === -2 || number <= issued) states[column] = number < 1 ? State.outside : State.gone;
    else states[column] = incident.culprits.has(incident.ranks.rank[row]) ? State.missing : State.behind;
  }
  for (const call of own) {
    const column = incident.seq[call] - newest + FAULT;
    if (column < 0 || column >= COLUMNS) continue;
    states[column] = incident.state[call];
    calls[column] = call;
  }
  return { states, calls };
}

function merge(parts: { states: number[]; calls: number[] }[]): { states: number[]; calls: number[] } {
  const out = parts[0] ?? { states: new Array(COLUMNS).fill(State.outside), calls: new Array(COLUMNS).fill(-1) };
  for (const part of parts.slice(1)) {
    part.states.forEach((state, column) => {
      if (severity[state] > severity[out.states[column]]) { out.states[column] = state; out.calls[column] = part.calls[column]; }
    });
  }
  return out;
}

export class FocusView implements View {
  readonly root = el("div", "focus");
  private readonly canvas = el("canvas", "picture");
  private readonly tip = el("div", "tip");
  private readonly rows: Row[] = [];
  private readonly finding: Finding | undefined;
  private readonly comm: number;
  private readonly collective: boolean;
  private readonly seq: number;

  constructor(private readonly page: Page) {
    const incident = page.incident;
    this.finding = incident.file.findings[0];
    let comm = incident.focusComm;
    const first = incident.rowOf.get([...incident.culprits][0] ?? incident.ranks.rank[0] ?? -1);
    if (comm < 0 && first !== undefined && incident.firstCall[first + 1] > incident.firstCall[first])
      comm = incident.commOf(first, incident.firstCall[first + 1] - 1);
    this.comm = comm;
    this.collective = !this.finding || !/^(Send|Recv)/i.test(this.finding.op);
    this.seq = this.finding && this.finding.seq >= 0 ? this.finding.seq : this.newest();
    this.makeRows();
    this.root.append(this.canvas, this.tip, this.cards());
    this.canvas.addEventListener("click", event => this.click(event));
    this.canvas.addEventListener("mousemove", event => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.textContent = ""; });
  }

  private newest(): number {
    const incident = this.page.incident;
    let newest = -1;
    for (let m = 0; m < incident.memberComm.length; m++) if (incident.memberComm[m] === this.comm) newest = Math.max(newest, incident.issued[m]);
    return newest;
  }

  private makeRows(): void {
    const incident = this.page.incident, comm = incident.file.comms[this.comm];
    const members = comm ? runsRanks(comm.ranks, 100000) : [];
    const culprits = [...incident.culprits], shown = culprits.slice(0, MOST_CULPRITS);
    const others = members.filter(rank => !incident.culprits.has(rank));
    const near = shown.length ? others.filter(rank => rank < shown[0]).slice(-PEERS / 2) : [];
    const peers = [...near, ...others.filter(rank => !near.includes(rank) && (!shown.length || rank > shown[0])).slice(0, PEERS - near.length)];
    const single = (rank: number): Row => {
      const row = incident.rowOf.get(rank), culprit = incident.culprits.has(rank);
      const found = row === undefined ? merge([]) : cells(incident, row, this.comm, this.seq, this.collective);
      const state = row === undefined ? "no data" : incident.stateText(row);
      return { label: `rank ${rank}`, sub: row === undefined ? "no data" : incident.where(row), ranks: [rank], culprit, ...found, note: state };
    };
    const group = (ranks: number[], label: string, sub: string): void => {
      if (!ranks.length) return;
      const rows = ranks.map(rank => incident.rowOf.get(rank)).filter((row): row is number => row !== undefined);
      const parts = rows.slice(0, 2000).map(row => cells(incident, row, this.comm, this.seq, this.collective));
      this.rows.push({ label, sub, ranks, culprit: false, ...merge(parts), note: this.stateOf(rows) });
    };
    for (const rank of peers.filter(rank => shown.length && rank < shown[0])) this.rows.push(single(rank));
    for (const rank of shown) this.rows.push(single(rank));
    if (culprits.length > shown.length) {
      group(culprits.slice(MOST_CULPRITS), `${count(culprits.length - shown.length)} more culprits`, "");
      this.rows[this.rows.length - 1].culprit = true;
    }
    for (const rank of peers.filter(rank => !shown.length || rank > shown[0])) this.rows.push(single(rank));
    const left = new Set(others);
    for (const rank of peers) left.delete(rank);
    group([...left], plural(left.size, "more member"), "of " + incident.commName(this.comm));
    const inside = new Set(members), outside = incident.ranks.rank.filter(rank => !inside.has(rank) && !incident.culprits.has(rank));
    const waiting = outside.filter(rank => {
      const kind = incident.waitClass(incident.rowOf.get(rank)!)?.kind;
      return kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause;
    });
    const rest = outside.length - waiting.length;
    const bar = (ranks: number[], what: string) => {
      if (ranks.length) this.rows.push({ label: `${count(ranks.length)} more: ${what}`, sub: "", ranks, culprit: false, states: [], calls: [], note: this.stateOf(ranks.map(rank => incident.rowOf.get(rank)!)), kind: what });
    };
    bar(waiting, "waiting");
    if (rest > 0) { const set = new Set(waiting); bar(outside.filter(rank => !set.has(rank)), "not waiting"); }
    const missing = runsCount(incident.file.missing);
    if (missing) this.rows.push({ label: `${count(missing)} more: no data`, sub: "", ranks: [], culprit: false, states: [], calls: [], note: "", kind: "no data" });
  }

  private stateOf(rows: number[]): string {
    const counts = new Map<string, number>();
    for (const row of rows) {
      const state = this.page.incident.stateText(row).replace(/_\d+\b/g, "_*"); // one state for the communicators of a class
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    const most = [...counts].sort((a, b) => b[1] - a[1])[0];
    return !most ? "" : counts.size === 1 ? most[0] : `${count(most[1])}: ${most[0]}`;
  }

  private cards(): HTMLElement {
    const incident = this.page.incident, left = el("div"), out = el("div"), finding = this.finding, section = incident.file.sections[0];
    const culprit = [...incident.culprits][0];
    if (finding) {
      const stacks = culprit === undefined ? [] : incident.stacksOf(culprit), card = el("section", "card");
      const places = [finding.place, ...finding.stacks.map(stack => stack.place)].filter(place => place !== "");
      card.append(el("h2", "", culprit === undefined ? "Stack" : `Stack of rank ${culprit}`));
      for (const stack of stacks.slice(0, 2))
        card.append(el("ol", "stack", ...stack.slice(0, 24).map(([text]) => el("li", places.some(place => sameFrame(text, place)) ? "own" : "", text))));
      if (!stacks.length) card.append(el("p", "faint", finding.stacks.find(stack => stack.refused)?.refused || "No stack was taken."));
      out.append(card);
    }
    if (finding && finding.sites.length) {
      const card = el("section", "card sites", el("h2", "", "Call sites"));
      for (const [ranks, op, place] of finding.sites.slice(0, 8)) {
        const bad = runsRanks(ranks, 100).some(rank => incident.culprits.has(rank));
        card.append(el("p", bad ? "bad" : "", el("b", "", place || "not recorded"), el("br"), `${op}, ${runsText(ranks)}`));
      }
      out.append(card);
    }
    for (const mismatch of incident.file.mismatches.slice(0, 1)) {
      const card = el("section", "card", el("h2", "", `Calls differ in ${mismatch.field}`));
      for (const group of mismatch.groups.slice(0, 6)) card.append(el("p", group.usual ? "" : "bad", el("b", "", group.value), el("br"), runsText(group.ranks)));
      out.append(card);
    }
    if (section) {
      const card = el("section", "card wide", el("h2", "", "What to do, and why"));
      const list = el("dl");
      const order = [...section.rows.filter(row => row[0] === "do"), ...section.rows.filter(row => !BESIDE.includes(row[0]) && row[0] !== "do")];
      for (const [label, lines] of order) list.append(el("dt", "", label), el("dd", "", ...lines.map(line => el("p", "", line))));
      card.append(list);
      left.append(card);
    }
    const all = el("div", "cards", left, out), more = el("p", "more", button("Whole job (w)", () => this.page.open("matrix", { rank: -1, comm: -1, op: -1 })), " ",
      button("Who waits for whom (3)", () => this.page.open("waits")));
    all.append(more);
    return all;
  }

  // `left`: of column 0, which lies further left than the picture where there are few calls; `end`: of the last column.
  private geometry(): { width: number; cell: number; left: number; end: number } {
    const width = Math.max(600, this.root.clientWidth - 36), note = width > 1000 ? NOTE : 20;
    let first = FAULT, last = FAULT;
    for (const row of this.rows) {
      row.states.forEach((state, column) => { if (state !== State.outside) { first = Math.min(first, column); last = Math.max(last, column); } });
    }
    const shown = last - first + 1, cell = Math.min(CELL, (width - LABEL - note) / shown), left = LABEL - first * cell;
    return { width, left, cell, end: left + (last + 1) * cell };
  }

  draw(): void {
    const { width, cell, left, end } = this.geometry(), height = HEAD + this.rows.length * ROW + 8;
    const g = context(this.canvas, width, height);
    if (!g) return;
    const colors = palette(), x = left + FAULT * cell;
    g.fillStyle = colors.back;
    g.fillRect(0, 0, width, height);
    g.textBaseline = "middle";
    if (this.finding && this.comm >= 0) {
      g.fillStyle = colors.band;
      g.fillRect(x - 2, HEAD - 6, cell + 4, height - HEAD + 2);
    }
    this.drawHead(g, colors, x, cell, left);
    this.rows.forEach((row, at) => this.drawRow(g, colors, row, HEAD + at * ROW, left, cell, end, width));
    this.drawMark(g, colors, x, cell, end, width);
  }

  private drawHead(g: CanvasRenderingContext2D, colors: Palette, x: number, cell: number, left: number): void {
    const incident = this.page.incident, comm = incident.file.comms[this.comm];
    g.font = BOLD;
    g.fillStyle = colors.text;
    if (comm) g.fillText(fitText(g, `${comm.name}, ${plural(comm.size, "member")}`, LABEL - 16), 8, 16);
    g.font = FONT;
    g.fillStyle = colors.faint;
    if (this.comm < 0) return;
    if (this.collective) {
      for (let column = FAULT - 5; column >= 0; column -= 5) {
        const seq = this.seq - FAULT + column;
        if (seq >= 1 && left + column * cell >= LABEL) g.fillText(`#${seq}`, left + column * cell + 2, 28);
      }
    } else g.fillText("its last calls, newest at the right", LABEL, 28);
    if (!this.finding) return;
    g.fillStyle = colors.bad;
    g.font = BOLD;
    const label = `${this.finding.op || "call"}${this.seq >= 0 ? " #" + this.seq : ""}`;
    g.textAlign = "center";
    g.fillText(label, x + cell / 2, 14);
    g.textAlign = "left";
    g.beginPath();
    g.moveTo(x + cell / 2 - 7, 25);
    g.lineTo(x + cell / 2 + 7, 25);
    g.lineTo(x + cell / 2, 36);
    g.fill();
  }

  private drawRow(g: CanvasRenderingContext2D, colors: Palette, row: Row, y: number, left: number, cell: number, end: number, width: number): void {
    const middle = y + ROW / 2 - 2, incident = this.page.incident;
    if (row.culprit) {
      g.fillStyle = colors.band;
      g.fillRect(0, y - 2, width, ROW);
      g.fillStyle = colors.bad;
      g.fillRect(0, y - 2, 4, ROW);
    }
    g.font = row.culprit || !row.states.length ? BOLD : FONT;
    g.fillStyle = row.culprit ? colors.bad : colors.text;
    const label = fitText(g, row.label, LABEL - 20);
    g.fillText(label, 10, middle);
    const used = g.measureText(label).width;
    g.font = FONT;
    g.fillStyle = colors.faint;
    g.fillText(fitText(g, row.sub, LABEL - 30 - used), 18 + used, middle);
    if (!row.states.length) {
      g.fillStyle = row.kind === "waiting" ? colors.state[State.enqueued] : row.kind === "no data" ? colors.state[State.noData] : colors.state[State.completed];
      g.fillRect(LABEL, y + 8, Math.max(end - LABEL, 60), ROW - 20);
      return;
    }
    row.states.forEach((state, column) => {
      if (state === State.outside) return;
      const x = left + column * cell, w = Math.max(2, cell - 2), h = ROW - 6;
      g.fillStyle = colors.state[state];
      if (state === State.behind || state === State.gone) {
        g.strokeStyle = colors.line;
        g.setLineDash([3, 3]);
        g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
        g.setLineDash([]);
        return;
      }
      if (state === State.missing) return; // drawMark
      g.fillRect(x, y, w, h);
      if (state === State.mismatch || state === State.failed) {
        g.strokeStyle = colors.bad;
        g.lineWidth = 3;
        g.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
        g.lineWidth = 1;
      }
      const call = row.calls[column];
      if (call >= 0 && cell >= 22) {
        g.fillStyle = state === State.completed || state === State.issued ? colors.faint : colors.text;
        g.textAlign = "center";
        g.fillText(short(incident.kindName(call)), x + w / 2, middle, w);
        g.textAlign = "left";
      }
    });
  }

  // The mark that is found without searching: a red frame, with a red cross where there is no call, and words beside it.
  private drawMark(g: CanvasRenderingContext2D, colors: Palette, x: number, cell: number, end: number, width: number): void {
    this.rows.forEach((row, at) => {
      const y = HEAD + at * ROW, w = Math.max(8, cell - 2), h = ROW - 6;
      if (row.culprit && this.finding) {
        g.strokeStyle = colors.bad;
        g.lineWidth = 3;
        g.strokeRect(x + 1, y + 1, w - 2, h - 2);
        g.beginPath();
        const cx = x + w / 2, cy = y + h / 2, r = Math.min(7, w / 3);
        if (row.states[FAULT] === State.missing) { g.moveTo(cx - r, cy - r); g.lineTo(cx + r, cy + r); g.moveTo(cx + r, cy - r); g.lineTo(cx - r, cy + r); }
        g.stroke();
        g.lineWidth = 1;
      }
      if (end + 100 > width || !row.note) return;
      g.font = row.culprit ? BOLD : FONT;
      g.fillStyle = row.culprit ? colors.bad : colors.faint;
      const from = end + 10;
      g.fillText(fitText(g, (row.culprit ? "◀ " : "") + row.note, width - from - 6), from, y + ROW / 2 - 2);
    });
  }

  private at(event: MouseEvent): { row: Row; column: number } | null {
    const { left, cell } = this.geometry(), row = this.rows[Math.floor((event.offsetY - HEAD) / ROW)];
    return row ? { row, column: Math.floor((event.offsetX - left) / cell) } : null;
  }

  private hover(event: MouseEvent): void {
    const found = this.at(event), incident = this.page.incident;
    if (!found) return;
    const state = found.row.states[found.column], call = found.row.calls[found.column] ?? -1;
    const what = state === undefined ? found.row.note : `${call >= 0 ? incident.callName(call) + ": " : ""}${stateName(incident, state)} ${call >= 0 ? incident.siteOf(call) : ""}`;
    this.tip.textContent = `${found.row.label} ${found.row.sub} — ${what}`;
  }

  private click(event: MouseEvent): void {
    const found = this.at(event);
    if (!found) return;
    const call = found.row.calls[found.column] ?? -1;
    if (found.row.ranks.length === 1) this.page.select({ rank: found.row.ranks[0], comm: this.comm, op: call >= 0 ? this.page.incident.seq[call] : -1 });
    else this.page.open("waits");
  }
}

export function stateName(incident: Incident, state: number): string {
  return state === State.behind ? "not come yet" : state === State.gone ? "record gone" : incident.file.states[state] ?? "";
}

// A place is "train.py:402 log_metrics", a frame "log_metrics (train.py:402)".
function sameFrame(frame: string, place: string): boolean {
  return place.split(/[\s()]+/).filter(word => word !== "").every(word => frame.includes(word));
}

