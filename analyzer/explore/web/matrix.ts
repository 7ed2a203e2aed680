// Ranks x operations, from the whole job to one cell.
import { BOLD, FONT, palette, severity } from "./colors";
import { State, WaitKind } from "./data";
import { context, el, fitText } from "./dom";
import { stateName } from "./focus";
import { className, Grid, laneGrid, laneNames, programGrid } from "./lanes";
import { Page, View } from "./view";
import { Viewport } from "./viewport";

const LEFT = 150, TOP = 26, RIGHT = 40; // at the right: what each rank is in now, and the culprits

export class MatrixView implements View {
  readonly root = el("div", "matrix fill");
  private readonly canvas = el("canvas");
  private readonly box = el("div", "canvas", this.canvas);
  private readonly tip = el("div", "tip");
  private readonly choice = el("select");
  private readonly port = new Viewport(() => this.draw());
  private grid: Grid;
  private shown = "";

  constructor(private readonly page: Page) {
    const incident = page.incident, lanes = laneNames(incident);
    this.choice.append(new Option("every call, in program order", ""));
    for (const lane of lanes) this.choice.append(new Option(`collectives of ${lane}`, lane));
    const focus = incident.file.comms[incident.focusComm], name = focus ? className(focus) : "";
    const collective = !/^(Send|Recv)/i.test(incident.file.findings[0]?.op ?? "");
    this.choice.value = collective && lanes.includes(name) ? name : "";
    this.grid = this.make();
    this.choice.addEventListener("change", () => { this.grid = this.make(); this.port.all(); this.draw(); });
    const hint = el("span", "faint", "wheel or + and - zoom, drag or arrows move, 0 shows all, click for a cell");
    this.root.append(el("div", "bar", this.choice, hint), this.box, this.tip, this.legend());
    this.port.attach(this.canvas, () => this.area(), (x, y) => this.click(x, y));
    this.canvas.addEventListener("mousemove", event => this.hover(event.offsetX, event.offsetY));
  }

  private make(): Grid {
    const incident = this.page.incident;
    const grid = this.choice.value ? laneGrid(incident, this.choice.value) : programGrid(incident);
    this.port.size(Math.max(1, grid.columns), Math.max(1, incident.rows));
    return grid;
  }

  private legend(): HTMLElement {
    const out = el("div", "legend"), names = ["completed", "issued", "enqueued", "waiting", "behind", "missing", "mismatch", "failed"] as const;
    for (const name of names) out.append(el("span", "", el("i", "key " + name), stateName(this.page.incident, State[name])));
    return out;
  }

  private area() { return { x: LEFT, y: TOP, w: Math.max(1, this.box.clientWidth - LEFT - RIGHT), h: Math.max(1, this.box.clientHeight - TOP) }; }

  draw(): void {
    const { rank, comm, op } = this.page.place(), incident = this.page.incident, asked = `${rank} ${comm} ${op}`;
    const row = incident.rowOf.get(rank);
    if (row !== undefined && asked !== this.shown) this.showPlace(row, comm, op);
    this.shown = asked;
    const g = context(this.canvas, this.box.clientWidth, this.box.clientHeight);
    if (!g) return;
    this.port.size(Math.max(1, this.grid.columns), Math.max(1, incident.rows));
    this.drawCells(g);
    this.drawAxes(g);
  }

  private showPlace(row: number, comm: number, op: number): void {
    const asked = this.page.incident.file.comms[comm], lane = asked ? className(asked) : "";
    if (lane !== "" && this.choice.value && lane !== this.choice.value) {
      if ([...this.choice.options].some(option => option.value === lane)) { this.choice.value = lane; this.grid = this.make(); }
    }
    if (op < 0) return;
    const column = this.grid.firstSeq >= 0 ? op - this.grid.firstSeq : this.columnOf(row, comm, op);
    if (column >= 0 && column < this.grid.columns) this.port.showCell(column, row, 24, 24);
  }

  private columnOf(row: number, comm: number, op: number): number {
    for (let column = this.grid.columns - 1; column >= 0; column--) {
      const call = this.grid.calls[row * this.grid.columns + column];
      if (call >= 0 && this.page.incident.seq[call] === op && (comm < 0 || this.page.incident.commOf(row, call) === comm)) return column;
    }
    return -1;
  }

  private drawCells(g: CanvasRenderingContext2D): void {
    const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, { columns, states } = this.grid;
    g.fillStyle = colors.back;
    g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
    const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), stepX = Math.max(1, Math.floor(1 / cw)), stepY = Math.max(1, Math.floor(1 / ch));
    const late: number[][] = [];
    g.save();
    g.beginPath();
    g.rect(a.x, a.y, a.w, a.h);
    g.clip();
    const gapX = cw > 6 ? 1 : 0, gapY = ch > 6 ? 1 : 0;
    for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), this.page.incident.rows); row += stepY) {
      for (let column = Math.floor(x0); column < Math.min(Math.ceil(x1), columns); column += stepX) {
        let worst: number = State.outside;
        for (let r = row; r < Math.min(row + stepY, this.page.incident.rows); r++) {
          for (let c = column; c < Math.min(column + stepX, columns); c++) {
            const state = states[r * columns + c];
            if (severity[state] > severity[worst]) worst = state;
          }
        }
        if (worst === State.outside) continue;
        const x = Math.max(a.x, a.x + (column - x0) * cw), y = Math.max(a.y, a.y + (row - y0) * ch);
        const right = a.x + (column + stepX - x0) * cw - gapX;
        // Cells at fault are never thinner than what is seen, and what is drawn after them leaves them whole.
        const bad = severity[worst] >= severity[State.failed], bottom = Math.max(a.y + (row + stepY - y0) * ch - gapY, y + (bad ? 3 : 0.7));
        if (bad) late.push([worst, x, y, right - x, bottom - y]);
        g.fillStyle = colors.state[worst];
        g.fillRect(x, y, Math.max(0.7, right - x), bottom - y);
        const call = this.grid.calls[row * columns + column];
        if (cw > 90 && ch > 14 && call >= 0) {
          g.fillStyle = colors.text;
          g.font = FONT;
          g.textBaseline = "middle";
          g.fillText(fitText(g, this.page.incident.callName(call), cw - 8), x + 4, (y + bottom) / 2);
        }
      }
    }
    for (const [state, x, y, w, h] of late) { g.fillStyle = colors.state[state]; g.fillRect(x, y, Math.max(1, w), h); }
    g.restore();
    this.drawNow(g, ch);
  }

  // One cell a rank: moving, waiting, at fault. A job that is stuck is seen to be stuck whatever the lane.
  private drawNow(g: CanvasRenderingContext2D, ch: number): void {
    const colors = palette(), a = this.area(), { y0, y1 } = this.port, incident = this.page.incident;
    for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), incident.rows); row++) {
      const kind = incident.waitClass(row)?.kind, bad = incident.culprits.has(incident.ranks.rank[row]);
      const state = bad ? State.missing : kind === WaitKind.noData ? State.noData : kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause ? State.waiting : State.completed;
      g.fillStyle = colors.state[state];
      g.fillRect(a.x + a.w + 6, a.y + (row - y0) * ch, 14, Math.max(bad ? 3 : 1, ch - (ch > 6 ? 1 : 0)));
    }
  }

  private drawAxes(g: CanvasRenderingContext2D): void {
    const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, incident = this.page.incident;
    const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), place = this.page.place();
    g.font = FONT;
    g.textBaseline = "middle";
    g.fillStyle = colors.back;
    g.fillRect(0, 0, LEFT, a.h + TOP);
    g.fillRect(0, 0, a.w + LEFT + RIGHT, TOP);
    g.fillStyle = colors.faint;
    const stepX = nice(90 / cw), stepY = nice(16 / ch);
    for (let column = Math.ceil(x0 / stepX) * stepX; column < Math.min(x1, this.grid.columns); column += stepX) {
      const text = this.grid.firstSeq >= 0 ? `#${this.grid.firstSeq + column}` : `${column - this.grid.columns + 1}`;
      g.fillText(text, a.x + (column - x0) * cw + 2, 13);
    }
    for (let row = Math.ceil(y0 / stepY) * stepY; row < Math.min(y1, incident.rows); row += stepY) {
      const y = a.y + (row + 0.5 - y0) * ch;
      if (incident.culprits.has(incident.ranks.rank[row])) continue;
      g.fillText(fitText(g, `${incident.ranks.rank[row]}  ${incident.host(row)}`, LEFT - 20), 8, y);
    }
    g.fillText("now", a.x + a.w + 2, 13);
    // Culprits last: they are never covered.
    g.font = BOLD;
    let lastY = -100;
    incident.ranks.rank.forEach((rank, row) => {
      if (!incident.culprits.has(rank) || row + 1 < y0 || row > y1) return;
      const y = Math.min(Math.max(a.y + (row + 0.5 - y0) * ch, a.y + 4), a.y + a.h - 4);
      g.fillStyle = colors.bad;
      g.beginPath();
      g.moveTo(a.x + a.w + RIGHT, y - 7); g.lineTo(a.x + a.w + RIGHT, y + 7); g.lineTo(a.x + a.w + 24, y);
      g.fill();
      if (y - lastY < 14) return;
      lastY = y;
      g.fillStyle = colors.back;
      g.fillRect(0, y - 9, LEFT - 2, 18);
      g.fillStyle = colors.bad;
      g.fillText(fitText(g, `rank ${rank} ▶`, LEFT - 10), 8, y);
      g.fillRect(LEFT - 4, y - Math.max(2, ch / 2), 4, Math.max(4, ch));
    });
    this.ring(g, colors.bad, incident.focusSeq, [...incident.culprits].slice(0, 4));
    const row = incident.rowOf.get(place.rank);
    if (row !== undefined && row + 1 > y0 && row < y1) {
      g.strokeStyle = colors.accent;
      g.lineWidth = 2;
      g.strokeRect(a.x, a.y + (row - y0) * ch, a.w, Math.max(3, ch));
      g.lineWidth = 1;
    }
  }

  // A circle around the cell at fault, so that it is found in the picture of the whole job.
  private ring(g: CanvasRenderingContext2D, color: string, seq: number, ranks: number[]): void {
    if (this.grid.firstSeq < 0 && seq >= 0) seq = -1;
    const a = this.area(), { x0, x1, y0, y1 } = this.port, cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), incident = this.page.incident;
    for (const rank of ranks) {
      const row = incident.rowOf.get(rank);
      if (row === undefined) continue;
      const column = this.grid.firstSeq >= 0 && seq >= 0 ? seq - this.grid.firstSeq : this.grid.columns - 1;
      if (column < x0 - 1 || column > x1 || row < y0 - 1 || row > y1 || column >= this.grid.columns) continue;
      g.strokeStyle = color;
      g.lineWidth = 3;
      g.beginPath();
      g.ellipse(a.x + (column + 0.5 - x0) * cw, a.y + (row + 0.5 - y0) * ch, Math.max(12, cw * 0.7), Math.max(12, ch * 0.7), 0, 0, 7);
      g.stroke();
      g.lineWidth = 1;
    }
  }

  private cell(x: number, y: number): { row: number; column: number } | null {
    const a = this.area(), { x0, x1, y0, y1 } = this.port;
    const column = Math.floor(x0 + ((x - a.x) / a.w) * (x1 - x0)), row = Math.floor(y0 + ((y - a.y) / a.h) * (y1 - y0));
    return y < a.y || row >= this.page.incident.rows ? null : { row, column: x < a.x || column >= this.grid.columns ? -1 : column };
  }

  private hover(x: number, y: number): void {
    const found = this.cell(x, y), incident = this.page.incident;
    if (!found) return;
    const index = found.row * this.grid.columns + found.column, call = found.column >= 0 ? this.grid.calls[index] : -1;
    const what = found.column < 0 ? incident.stateText(found.row)
      : `${call >= 0 ? incident.callName(call) + " on " + incident.commName(incident.commOf(found.row, call)) : "#" + (this.grid.firstSeq + found.column)}: ${stateName(incident, this.grid.states[index])}`;
    this.tip.textContent = `rank ${incident.ranks.rank[found.row]} (${incident.where(found.row)}) — ${what} ${call >= 0 ? incident.siteOf(call) : ""}`;
  }

  private click(x: number, y: number): void {
    const found = this.cell(x, y), incident = this.page.incident;
    if (!found) return;
    const call = found.column >= 0 ? this.grid.calls[found.row * this.grid.columns + found.column] : -1;
    const place = { rank: incident.ranks.rank[found.row], comm: call >= 0 ? incident.commOf(found.row, call) : -1, op: call >= 0 ? incident.seq[call] : -1 };
    this.shown = `${place.rank} ${place.comm} ${place.op}`;
    this.page.select(place);
  }

  key(event: KeyboardEvent): boolean { return this.port.key(event); }
}

function nice(least: number): number {
  for (let step = 1; ; step *= 10) for (const factor of [1, 2, 5]) if (step * factor >= least) return step * factor;
}
