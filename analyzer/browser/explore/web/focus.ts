// The first picture: the last calls on the culprit's communicator, with rows for the culprits, their nearest peers
// and the rest.
import { BOLD, FONT, palette, Palette } from "./colors";
import { runsCount, runsRanks, runsText } from "./data";
import { Focus, FocusRow, State, WaitKind } from "./file";
import { button, context, el, fitText } from "./dom";
import { Page, View } from "./view";

const ROW = 30, HEAD = 44, LABEL = 230, NOTE = 330, CELL = 40;
const BESIDE = ["job", "python", "stack"]; // rows of the report that the page shows elsewhere

export class FocusView implements View {
  readonly root = el("div", "focus");
  private readonly canvas = el("canvas", "picture");
  private readonly tip = el("div", "tip");
  private readonly focus: Focus;

  constructor(private readonly page: Page) {
    this.focus = page.incident.file.focus ?? { comm: -1, title: "", fault: "", columns: 1, faultColumn: 0, firstSeq: -1, rows: [] };
    this.root.append(this.canvas, this.tip, this.cards());
    this.canvas.addEventListener("click", event => this.click(event));
    this.canvas.addEventListener("mousemove", event => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.textContent = ""; });
  }

  private cards(): HTMLElement {
    const incident = this.page.incident, left = el("div"), out = el("div"), finding = incident.file.findings[0], section = incident.file.sections[0];
    const culprit = [...incident.culprits][0];
    if (finding) {
      const stacks = culprit === undefined ? [] : incident.stacksOf(culprit), card = el("section", "card");
      card.append(el("h2", "", culprit === undefined ? "Stack" : `Stack of rank ${culprit}`));
      for (const stack of stacks.slice(0, 2))
        card.append(el("ol", "stack", ...stack.frames.slice(0, 24).map(([text], at) => el("li", at === stack.own ? "own" : "", text))));
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

  private geometry(): { width: number; cell: number; end: number } {
    const width = Math.max(600, this.root.clientWidth - 36), note = width > 1000 ? NOTE : 20;
    const cell = Math.min(CELL, (width - LABEL - note) / this.focus.columns);
    return { width, cell, end: LABEL + this.focus.columns * cell };
  }

  draw(): void {
    const { width, cell, end } = this.geometry(), { rows, fault, faultColumn } = this.focus, height = HEAD + rows.length * ROW + 8;
    const g = context(this.canvas, width, height);
    if (!g) return;
    const colors = palette(), x = LABEL + faultColumn * cell;
    g.fillStyle = colors.back;
    g.fillRect(0, 0, width, height);
    g.textBaseline = "middle";
    if (fault) {
      g.fillStyle = colors.band;
      g.fillRect(x - 2, HEAD - 6, cell + 4, height - HEAD + 2);
    }
    this.drawHead(g, colors, x, cell);
    rows.forEach((row, at) => this.drawRow(g, colors, row, HEAD + at * ROW, cell, end, width));
    this.drawMark(g, colors, x, cell, end, width);
  }

  private drawHead(g: CanvasRenderingContext2D, colors: Palette, x: number, cell: number): void {
    const { title, fault, faultColumn, firstSeq } = this.focus;
    g.font = BOLD;
    g.fillStyle = colors.text;
    g.fillText(fitText(g, title, LABEL - 16), 8, 16);
    g.font = FONT;
    g.fillStyle = colors.faint;
    if (this.focus.comm < 0) return;
    if (firstSeq < 0) g.fillText("the last sends and receives of each rank, newest on the right", LABEL, 28);
    else for (let column = faultColumn - 5; column >= 0; column -= 5) g.fillText(`#${firstSeq + column}`, LABEL + column * cell + 2, 28);
    if (!fault) return;
    g.fillStyle = colors.bad;
    g.font = BOLD;
    g.textAlign = "center";
    g.fillText(fault, x + cell / 2, 14);
    g.textAlign = "left";
    g.beginPath();
    g.moveTo(x + cell / 2 - 7, 25);
    g.lineTo(x + cell / 2 + 7, 25);
    g.lineTo(x + cell / 2, 36);
    g.fill();
  }

  private drawRow(g: CanvasRenderingContext2D, colors: Palette, row: FocusRow, y: number, cell: number, end: number, width: number): void {
    const middle = y + ROW / 2 - 2;
    if (row.culprit) {
      g.fillStyle = colors.band;
      g.fillRect(0, y - 2, width, ROW);
      g.fillStyle = colors.bad;
      g.fillRect(0, y - 2, 4, ROW);
    }
    g.font = row.culprit || !row.cells.length ? BOLD : FONT;
    g.fillStyle = row.culprit ? colors.bad : colors.text;
    const label = fitText(g, row.label, LABEL - 20);
    g.fillText(label, 10, middle);
    const used = g.measureText(label).width;
    g.font = FONT;
    g.fillStyle = colors.faint;
    g.fillText(fitText(g, row.place, LABEL - 30 - used), 18 + used, middle);
    if (!row.cells.length) {
      g.fillStyle = colors.state[row.kind === WaitKind.healthy ? State.completed : row.kind === WaitKind.noData ? State.noData : State.waiting];
      g.fillRect(LABEL, y + 8, Math.max(end - LABEL, 60), ROW - 20);
      return;
    }
    row.cells.forEach(([state, call], column) => {
      const x = LABEL + column * cell, w = Math.max(2, cell - 2), h = ROW - 6;
      if (state === State.gone || (state === State.missing && !row.culprit)) {
        g.strokeStyle = colors.line;
        g.setLineDash([3, 3]);
        g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
        g.setLineDash([]);
        return;
      }
      if (state === State.outside || state === State.missing) return; // drawMark draws missing calls
      g.fillStyle = colors.state[state];
      g.fillRect(x, y, w, h);
      if (state === State.mismatch || state === State.failed) {
        g.strokeStyle = colors.bad;
        g.lineWidth = 3;
        g.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
        g.lineWidth = 1;
      }
      if (call && cell >= 22) {
        g.fillStyle = state === State.completed || state === State.issued ? colors.faint : colors.text;
        g.textAlign = "center";
        g.fillText(call, x + w / 2, middle, w);
        g.textAlign = "left";
      }
    });
  }

  // Marks the fault with a red frame, a red cross if there is no call, and a text next to it.
  private drawMark(g: CanvasRenderingContext2D, colors: Palette, x: number, cell: number, end: number, width: number): void {
    this.focus.rows.forEach((row, at) => {
      const y = HEAD + at * ROW, w = Math.max(8, cell - 2), h = ROW - 6;
      if (row.culprit && this.focus.fault) {
        g.strokeStyle = colors.bad;
        g.lineWidth = 3;
        g.strokeRect(x + 1, y + 1, w - 2, h - 2);
        g.beginPath();
        const cx = x + w / 2, cy = y + h / 2, r = Math.min(7, w / 3);
        if (row.cells[this.focus.faultColumn]?.[0] === State.missing) { g.moveTo(cx - r, cy - r); g.lineTo(cx + r, cy + r); g.moveTo(cx + r, cy - r); g.lineTo(cx - r, cy + r); }
        g.stroke();
        g.lineWidth = 1;
      }
      if (end + 100 > width || !row.state) return;
      g.font = row.culprit ? BOLD : FONT;
      g.fillStyle = row.culprit ? colors.bad : colors.faint;
      const from = end + 10;
      g.fillText(fitText(g, (row.culprit ? "◀ " : "") + row.state, width - from - 6), from, y + ROW / 2 - 2);
    });
  }

  private at(event: MouseEvent): { row: FocusRow; column: number } | null {
    const row = this.focus.rows[Math.floor((event.offsetY - HEAD) / ROW)];
    return row ? { row, column: Math.floor((event.offsetX - LABEL) / this.geometry().cell) } : null;
  }

  private hover(event: MouseEvent): void {
    const found = this.at(event);
    if (found) this.tip.textContent = `${found.row.label} ${found.row.place} — ${found.row.cells[found.column]?.[2] || found.row.state}`;
  }

  private click(event: MouseEvent): void {
    const found = this.at(event);
    if (!found) return;
    const { firstSeq, comm } = this.focus, seq = firstSeq >= 0 && found.row.cells[found.column]?.[1] ? firstSeq + found.column : -1;
    if (runsCount(found.row.ranks) === 1) this.page.select({ rank: found.row.ranks[0], comm, op: seq });
    else this.page.open("waits");
  }
}
