// Which ranks wait for which: causes in the first column, the ranks that wait for them in the next, and so on. A
// large graph scrolls; its text does not shrink.
import { BOLD, FONT, palette } from "./colors";
import { runsRanks, runsText } from "./data";
import { WaitKind } from "./file";
import { context, count, el, fitText } from "./dom";
import { Page, View } from "./view";

const WIDTH = 300, HEIGHT = 62, GAP_X = 148, GAP_Y = 14, MOST = 60;

interface Box { node: number; x: number; y: number }

export class GraphView implements View {
  readonly root = el("div", "graph scroll");
  private readonly canvas = el("canvas");
  private readonly boxes: Box[] = [];
  private leftOut = 0;
  private width = 0; private height = 0;

  constructor(private readonly page: Page) {
    this.layout();
    const what = el("p", "faint", "Each box is a set of ranks in one state. An arrow points to what a box waits for; causes are on the left.");
    if (this.leftOut) what.append(` ${count(this.leftOut)} more ${this.leftOut === 1 ? "box is" : "boxes are"} not drawn.`);
    this.root.append(what, this.canvas);
    this.canvas.addEventListener("click", event => {
      const box = this.boxes.find(b => event.offsetX >= b.x && event.offsetX <= b.x + WIDTH && event.offsetY >= b.y && event.offsetY <= b.y + HEIGHT);
      if (!box) return;
      const one = page.incident.file.waits.classes[box.node];
      page.select({ rank: runsRanks(one.ranks, 1)[0] ?? -1, comm: one.comm, op: one.seq });
    });
  }

  private layout(): void {
    const { classes, edges } = this.page.incident.file.waits;
    const layer: number[] = new Array(classes.length).fill(-1);
    let front = classes.map((_, node) => node).filter(node => classes[node].kind === WaitKind.cause || classes[node].kind === WaitKind.cycle);
    const waiters = new Map<number, number[]>();
    for (const [from, to] of edges) waiters.set(to, [...(waiters.get(to) ?? []), from]);
    for (let depth = 0; front.length; depth++) {
      for (const node of front) layer[node] = depth;
      front = [...new Set(front.flatMap(node => waiters.get(node) ?? []))].filter(node => layer[node] < 0);
    }
    const columns = Math.max(0, ...layer) + 1, filled: number[] = new Array(columns + 1).fill(0);
    classes.forEach((one, node) => {
      if (one.kind === WaitKind.healthy && layer[node] < 0) return;
      const column = layer[node] < 0 ? columns : layer[node];
      if (filled[column] >= MOST) { this.leftOut++; return; }
      this.boxes.push({ node, x: 12 + column * (WIDTH + GAP_X), y: 12 + filled[column]++ * (HEIGHT + GAP_Y) });
    });
    this.width = Math.max(0, ...this.boxes.map(box => box.x + WIDTH)) + 12;
    this.height = Math.max(0, ...this.boxes.map(box => box.y + HEIGHT)) + 12;
  }

  draw(): void {
    const { classes, edges } = this.page.incident.file.waits, colors = palette();
    if (!this.boxes.length) { this.canvas.replaceWith(el("p", "", "No rank waits for another.")); return; }
    const g = context(this.canvas, Math.max(this.width, 600), this.height);
    if (!g) return;
    const place = new Map(this.boxes.map(box => [box.node, box]));
    g.fillStyle = colors.back;
    g.fillRect(0, 0, this.canvas.width, this.canvas.height);
    g.font = FONT;
    g.textBaseline = "middle";
    for (const [from, to, why, cycle] of edges) {
      const a = place.get(from), b = place.get(to);
      if (!a || !b) continue;
      const x1 = a.x, y1 = a.y + HEIGHT / 2, x2 = b.x + WIDTH, y2 = b.y + HEIGHT / 2;
      g.strokeStyle = g.fillStyle = cycle || classes[to].kind === WaitKind.cause ? colors.bad : colors.faint;
      g.beginPath();
      g.moveTo(x1, y1);
      g.bezierCurveTo(x1 - 40, y1, x2 + 50, y2, x2 + 8, y2);
      g.stroke();
      g.beginPath();
      g.moveTo(x2, y2); g.lineTo(x2 + 9, y2 - 5); g.lineTo(x2 + 9, y2 + 5);
      g.fill();
      if (x1 > x2) g.fillText(fitText(g, why, GAP_X - 22), x2 + 14, y1 - 9);
    }
    for (const box of this.boxes) {
      const one = classes[box.node], bad = one.kind === WaitKind.cause || one.kind === WaitKind.cycle;
      g.fillStyle = bad ? colors.band : colors.back;
      g.fillRect(box.x, box.y, WIDTH, HEIGHT);
      g.strokeStyle = bad ? colors.bad : colors.line;
      g.lineWidth = bad ? 3 : 1;
      g.strokeRect(box.x, box.y, WIDTH, HEIGHT);
      g.lineWidth = 1;
      g.font = BOLD;
      g.fillStyle = bad ? colors.bad : colors.text;
      g.fillText(fitText(g, one.label, WIDTH - 16), box.x + 8, box.y + 14);
      g.font = FONT;
      g.fillStyle = colors.text;
      g.fillText(fitText(g, one.state, WIDTH - 16), box.x + 8, box.y + 32);
      g.fillStyle = colors.faint;
      g.fillText(fitText(g, runsText(one.ranks, 6), WIDTH - 16), box.x + 8, box.y + 50);
    }
  }
}
