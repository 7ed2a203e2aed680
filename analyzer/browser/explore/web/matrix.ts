// A matrix of ranks and operations, from the whole job down to a single cell.
import { BOLD, FONT, palette, severity } from "./colors";
import { State, WaitKind } from "./file";
import { context, el, fitText } from "./dom";
import { Grid } from "./lanes";
import { Page, View } from "./view";
import { Viewport } from "./viewport";

const LEFT = 150, TOP = 26, RIGHT = 40; // RIGHT: room for the current states and the culprits' markers

export class MatrixView implements View {
  readonly root = el("div", "matrix fill");
  private readonly canvas = el("canvas");
  private readonly box = el("div", "canvas", this.canvas);
  private readonly tip = el("div", "tip");
  private readonly choice = el("select");
  private readonly port = new Viewport(() => this.draw());
  private shown = "";
  private readonly now: Uint8Array; // by row: the rank's current state
  private readonly picture = el("canvas"); // the last drawn cells, for redraws that only change what is on top of them
  private pictured: unknown[] = [];

  constructor(private readonly page: Page) {
    const incident = page.incident;
    this.choice.append(new Option("every call, in program order", "-1"));
    incident.file.lanes.forEach((lane, at) => this.choice.append(new Option(`collectives of ${lane}`, String(at))));
    const collective = !/^(Send|Recv)/i.test(incident.file.findings[0]?.op ?? "");
    this.choice.value = String((collective && incident.file.comms[incident.focusComm]?.lane) ?? -1);
    this.choice.addEventListener("change", () => { this.port.all(); this.draw(); });
    this.now = Uint8Array.from(incident.ranks.rank, (rank, row) => stateNow(incident.culprits.has(rank), incident.waitClass(row)?.kind));
    const hint = el("span", "faint", "wheel or + and - zoom, drag or arrows move, 0 shows all, click selects a cell");
    this.root.append(el("div", "bar", this.choice, hint), this.box, this.tip, this.legend());
    this.port.attach(this.canvas, () => this.area(), (x, y) => this.click(x, y));
    this.canvas.addEventListener("mousemove", event => this.hover(event.offsetX, event.offsetY));
  }

  private get lane(): number { return Number(this.choice.value); }

  private legend(): HTMLElement {
    const out = el("div", "legend"), names = ["completed", "issued", "enqueued", "waiting", "behind", "missing", "mismatch", "failed"] as const;
    for (const name of names) {
      const key = el("span", "", el("i", "key " + name), this.page.incident.stateName(State[name]));
      key.title = this.page.incident.stateMeaning(State[name]);
      out.append(key);
    }
    return out;
  }

  private area() { return { x: LEFT, y: TOP, w: Math.max(1, this.box.clientWidth - LEFT - RIGHT), h: Math.max(1, this.box.clientHeight - TOP) }; }

  draw(): void {
    const { rank, comm, op } = this.page.place(), incident = this.page.incident, asked = `${rank} ${comm} ${op}`;
    const row = incident.rowOf.get(rank), g = context(this.canvas, this.box.clientWidth, this.box.clientHeight);
    if (row !== undefined && asked !== this.shown) this.chooseLane(comm);
    const grid = incident.grid(this.lane);
    if (!g) return;
    if (!grid) { this.drawNothing(g); return; }
    this.port.size(Math.max(1, grid.columns), Math.max(1, incident.rows));
    if (row !== undefined && asked !== this.shown) this.showPlace(grid, row, op);
    this.shown = asked;
    this.keepCells(grid);
    g.drawImage(this.picture, 0, 0, this.box.clientWidth, this.box.clientHeight);
    this.drawAxes(g, grid);
  }

  private keepCells(grid: Grid): void {
    const { x0, x1, y0, y1 } = this.port, { clientWidth, clientHeight } = this.box;
    const shows = [grid, x0, x1, y0, y1, clientWidth, clientHeight, window.devicePixelRatio, palette().back, this.page.incident.seq.length];
    if (shows.every((one, at) => one === this.pictured[at])) return;
    const g = context(this.picture, clientWidth, clientHeight);
    if (!g) return;
    this.pictured = shows;
    this.drawCells(g, grid);
  }

  private drawNothing(g: CanvasRenderingContext2D): void {
    const { incident } = this.page;
    g.fillStyle = palette().text;
    g.font = FONT;
    g.fillText(incident.served ? incident.trouble || "loading the calls of all ranks" : "This page is too small to contain the calls.", 20, 40);
  }

  private chooseLane(comm: number): void {
    const lane = this.page.incident.file.comms[comm]?.lane ?? -1;
    if (lane >= 0 && this.lane >= 0) this.choice.value = String(lane);
  }

  private showPlace(grid: Grid, row: number, op: number): void {
    if (op < 0) return;
    const column = grid.firstSeq >= 0 ? op - grid.firstSeq : this.columnOf(grid, row, op);
    if (column >= 0 && column < grid.columns) this.port.showCell(column, row, 24, 24);
  }

  private columnOf(grid: Grid, row: number, op: number): number {
    const { incident } = this.page, { comm } = this.page.place();
    for (let call = incident.endCall[row] - 1; call >= incident.firstCall[row]; call--) {
      if (incident.seq[call] === op && (comm < 0 || incident.commOf(row, call) === comm)) return grid.columns - (incident.endCall[row] - call);
    }
    return -1;
  }

  // A line is one rank, or all ranks on one pixel: then the worst state is drawn. The same applies to columns.
  private drawCells(g: CanvasRenderingContext2D, grid: Grid): void {
    const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, rows = this.page.incident.rows;
    g.fillStyle = colors.back;
    g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
    const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), wide = cw >= 1, first = Math.floor(x0), last = Math.min(Math.ceil(x1), grid.columns);
    const line = new Uint8Array(wide ? Math.max(0, last - first) : Math.ceil(a.w)), seen = new Int32Array(grid.patterns).fill(-1);
    const gapX = cw > 6 ? 1 : 0, gapY = ch > 6 ? 1 : 0, late: [number, number, number, number, number][] = [];
    g.save();
    g.beginPath();
    g.rect(a.x, a.y, a.w, a.h);
    g.clip();
    const paint = (from: number, to: number, state: number) => {
      const begin = wide ? from - first : Math.max(0, Math.floor((from - x0) * cw)), end = wide ? to - first : Math.min(line.length, Math.ceil((to - x0) * cw));
      for (let at = begin; at < end; at++) if (severity[state] > severity[line[at]]) line[at] = state;
    };
    const lines = ch >= 1 ? Math.ceil(y1) - Math.floor(y0) : Math.ceil(a.h);
    for (let n = 0; n < lines; n++) {
      const row = ch >= 1 ? Math.floor(y0) + n : Math.floor(y0 + n / ch), end = Math.min(rows, ch >= 1 ? row + 1 : Math.max(row + 1, Math.floor(y0 + (n + 1) / ch)));
      if (row >= rows) break;
      line.fill(State.outside);
      for (let r = row; r < end; r++) {
        const pattern = grid.patternOf[r];
        if (pattern < 0 || seen[pattern] === n) continue;
        seen[pattern] = n;
        grid.visit(pattern, first, last, paint);
      }
      const y = a.y + (ch >= 1 ? (row - y0) * ch : n), height = ch >= 1 ? ch - gapY : 1;
      for (let at = 0; at < line.length;) {
        let to = at + 1;
        while (to < line.length && line[to] === line[at]) to++;
        const state = line[at], x = a.x + (wide ? (first + at - x0) * cw : at), right = a.x + (wide ? (first + to - x0) * cw - gapX : to);
        at = to;
        if (state === State.outside) continue;
        // Faulty cells are always wide enough to see, and later cells do not cover them.
        if (severity[state] >= severity[State.failed]) { late.push([state, x, y, Math.max(1, right - x), Math.max(3, height)]); continue; }
        g.fillStyle = colors.state[state];
        g.fillRect(x, y, right - x, height);
      }
    }
    for (const [state, x, y, w, h] of late) { g.fillStyle = colors.state[state]; g.fillRect(x, y, w, h); }
    if (gapX) {
      g.fillStyle = colors.back;
      for (let column = first + 1; column < last; column++) g.fillRect(a.x + (column - x0) * cw - gapX, a.y, gapX, a.h);
    }
    if (cw > 90 && ch > 14) this.drawNames(g, grid, cw, ch);
    g.restore();
    this.drawNow(g, ch);
  }

  private drawNames(g: CanvasRenderingContext2D, grid: Grid, cw: number, ch: number): void {
    const { incident } = this.page, a = this.area(), { x0, x1, y0, y1 } = this.port, inSight: number[] = [];
    g.fillStyle = palette().text;
    g.font = FONT;
    g.textBaseline = "middle";
    for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), incident.rows); row++) {
      inSight.push(row);
      for (let column = Math.floor(x0); column < Math.min(Math.ceil(x1), grid.columns); column++) {
        const call = incident.callAt(grid, row, column), x = Math.max(a.x, a.x + (column - x0) * cw);
        if (call >= 0) g.fillText(fitText(g, incident.callName(call), cw - 8), x + 4, a.y + (row + 0.5 - y0) * ch);
      }
    }
    incident.want(inSight);
  }

  // One cell for each rank: moving, waiting, at fault. A stuck job is visible in every lane.
  private drawNow(g: CanvasRenderingContext2D, ch: number): void {
    const colors = palette(), a = this.area(), { y0, y1 } = this.port, rows = Math.min(Math.ceil(y1), this.page.incident.rows);
    for (let row = Math.floor(y0); row < rows;) {
      let worst = this.now[row], end = row + 1;
      for (; end < rows && (end - row) * ch < 1; end++) if (severity[this.now[end]] > severity[worst]) worst = this.now[end];
      g.fillStyle = colors.state[worst];
      const top = Math.floor(a.y + (row - y0) * ch), bottom = Math.ceil(a.y + (end - y0) * ch);
      g.fillRect(a.x + a.w + 6, top, 14, Math.max(worst === State.missing ? 3 : 1, bottom - top - (ch > 6 ? 1 : 0)));
      row = end;
    }
  }

  private drawAxes(g: CanvasRenderingContext2D, grid: Grid): void {
    const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, incident = this.page.incident;
    const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), place = this.page.place();
    g.font = FONT;
    g.textBaseline = "middle";
    g.fillStyle = colors.back;
    g.fillRect(0, 0, LEFT, a.h + TOP);
    g.fillRect(0, 0, a.w + LEFT + RIGHT, TOP);
    g.fillStyle = colors.faint;
    const stepX = nice(90 / cw), stepY = nice(16 / ch);
    for (let column = Math.ceil(x0 / stepX) * stepX; column < Math.min(x1, grid.columns); column += stepX) {
      const text = grid.firstSeq >= 0 ? `#${grid.firstSeq + column}` : `${column - grid.columns + 1}`;
      g.fillText(text, a.x + (column - x0) * cw + 2, 13);
    }
    for (let row = Math.ceil(y0 / stepY) * stepY; row < Math.min(y1, incident.rows); row += stepY) {
      const y = a.y + (row + 0.5 - y0) * ch;
      if (incident.culprits.has(incident.ranks.rank[row])) continue;
      g.fillText(fitText(g, `${incident.ranks.rank[row]}  ${incident.host(row)}`, LEFT - 20), 8, y);
    }
    g.fillText("now", a.x + a.w + 2, 13);
    // Culprits are drawn last, so that nothing covers them.
    g.font = BOLD;
    let lastY = -100;
    for (const rank of incident.culprits) {
      const row = incident.rowOf.get(rank);
      if (row === undefined || row + 1 < y0 || row > y1) continue;
      const y = Math.min(Math.max(a.y + (row + 0.5 - y0) * ch, a.y + 4), a.y + a.h - 4);
      g.fillStyle = colors.bad;
      g.beginPath();
      g.moveTo(a.x + a.w + RIGHT, y - 7); g.lineTo(a.x + a.w + RIGHT, y + 7); g.lineTo(a.x + a.w + 24, y);
      g.fill();
      if (Math.abs(y - lastY) < 14) continue;
      lastY = y;
      g.fillStyle = colors.back;
      g.fillRect(0, y - 9, LEFT - 2, 18);
      g.fillStyle = colors.bad;
      g.fillText(fitText(g, `rank ${rank} ▶`, LEFT - 10), 8, y);
      g.fillRect(LEFT - 4, y - Math.max(2, ch / 2), 4, Math.max(4, ch));
    }
    this.ring(g, grid, colors.bad, incident.focusSeq, [...incident.culprits].slice(0, 4));
    const row = incident.rowOf.get(place.rank);
    if (row !== undefined && row + 1 > y0 && row < y1) {
      g.strokeStyle = colors.accent;
      g.lineWidth = 2;
      g.strokeRect(a.x, a.y + (row - y0) * ch, a.w, Math.max(3, ch));
      g.lineWidth = 1;
    }
  }

  // A circle around the faulty cell makes it visible in the picture of the whole job.
  private ring(g: CanvasRenderingContext2D, grid: Grid, color: string, seq: number, ranks: number[]): void {
    const a = this.area(), { x0, x1, y0, y1 } = this.port, cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), incident = this.page.incident;
    for (const rank of ranks) {
      const row = incident.rowOf.get(rank);
      if (row === undefined) continue;
      const column = grid.firstSeq >= 0 && seq >= 0 ? seq - grid.firstSeq : grid.columns - 1;
      if (column < x0 - 1 || column > x1 || row < y0 - 1 || row > y1 || column >= grid.columns) continue;
      g.strokeStyle = color;
      g.lineWidth = 3;
      g.beginPath();
      g.ellipse(a.x + (column + 0.5 - x0) * cw, a.y + (row + 0.5 - y0) * ch, Math.max(12, cw * 0.7), Math.max(12, ch * 0.7), 0, 0, 7);
      g.stroke();
      g.lineWidth = 1;
    }
  }

  private cell(grid: Grid, x: number, y: number): { row: number; column: number } | null {
    const a = this.area(), { x0, x1, y0, y1 } = this.port;
    const column = Math.floor(x0 + ((x - a.x) / a.w) * (x1 - x0)), row = Math.floor(y0 + ((y - a.y) / a.h) * (y1 - y0));
    return y < a.y || row >= this.page.incident.rows ? null : { row, column: x < a.x || column >= grid.columns ? -1 : column };
  }

  private hover(x: number, y: number): void {
    const incident = this.page.incident, grid = incident.grid(this.lane), found = grid && this.cell(grid, x, y);
    if (!grid || !found) return;
    const call = found.column >= 0 ? incident.callAt(grid, found.row, found.column) : -1;
    const name = call >= 0 ? incident.callName(call) + " on " + incident.commName(incident.commOf(found.row, call)) : grid.firstSeq >= 0 ? `#${grid.firstSeq + found.column}` : "call";
    const what = found.column < 0 ? incident.stateText(found.row) : `${name}: ${incident.stateName(grid.stateAt(found.row, found.column))}`;
    this.tip.textContent = `rank ${incident.ranks.rank[found.row]} (${incident.where(found.row)}) — ${what} ${call >= 0 ? incident.siteOf(call) : ""}`;
  }

  private click(x: number, y: number): void {
    const incident = this.page.incident, grid = incident.grid(this.lane), found = grid && this.cell(grid, x, y);
    if (!grid || !found) return;
    const call = found.column >= 0 ? incident.callAt(grid, found.row, found.column) : -1;
    const place = { rank: incident.ranks.rank[found.row], comm: call >= 0 ? incident.commOf(found.row, call) : -1,
      op: call >= 0 ? incident.seq[call] : found.column >= 0 && grid.firstSeq >= 0 ? grid.firstSeq + found.column : -1 };
    this.shown = `${place.rank} ${place.comm} ${place.op}`;
    this.page.select(place);
  }

  key(event: KeyboardEvent): boolean { return this.port.key(event); }
}

function nice(least: number): number {
  for (let step = 1; ; step *= 10) for (const factor of [1, 2, 5]) if (step * factor >= least) return step * factor;
}

function stateNow(culprit: boolean, kind: number | undefined): number {
  if (culprit) return State.missing;
  if (kind === WaitKind.noData) return State.noData;
  return kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause ? State.waiting : State.completed;
}
