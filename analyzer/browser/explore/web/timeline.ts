// Ranks over time, on a common clock.
import { BOLD, FONT, palette } from "./colors";
import { State } from "./file";
import { context, el, fitText } from "./dom";
import { Page, View } from "./view";
import { Viewport } from "./viewport";

const LEFT = 150, TOP = 26, MOST_ROWS = 120; // visible at once, if the server provides the calls

export class TimelineView implements View {
  readonly root = el("div", "timeline fill");
  private readonly canvas = el("canvas");
  private readonly box = el("div", "canvas", this.canvas);
  private readonly tip = el("div", "tip");
  private readonly port: Viewport;
  private rows: number[];
  private first = Infinity; private last = 0;

  constructor(private readonly page: Page) {
    const incident = page.incident;
    // Culprits come first, then their peers, so that the two can be compared.
    this.rows = incident.ranks.rank.map((_, row) => row);
    const bad = (row: number) => Number(incident.culprits.has(incident.ranks.rank[row]));
    const peer = (row: number) => Number(incident.membershipIn(row, incident.focusComm) >= 0);
    if (!incident.served) this.rows = this.rows.filter(row => incident.here[row]);
    const rank = incident.ranks.rank.map((_, row) => 2 * bad(row) + peer(row));
    this.rows.sort((a, b) => rank[b] - rank[a] || a - b);
    this.port = new Viewport(() => this.draw(), incident.served ? MOST_ROWS : Infinity);
    this.fit();
    this.root.append(el("div", "bar", el("span", "faint", "culprits first, then their peers; wheel zooms, Shift+wheel zooms only in time; drag or arrows move; 0 shows all")),
      this.box, this.tip);
    this.port.attach(this.canvas, () => this.area(), (x, y) => { const row = this.rowAt(x, y); if (row >= 0) page.select({ rank: incident.ranks.rank[row], comm: -1, op: -1 }); });
    this.canvas.addEventListener("mousemove", event => this.hover(event.offsetX, event.offsetY));
  }

  // Sets the visible time when the first calls have arrived.
  private fit(): void {
    const { begin, end, served, file } = this.page.incident;
    if (this.first !== Infinity || !begin.length) return;
    for (let call = 0; call < begin.length; call++) {
      if (!begin[call]) continue;
      this.first = Math.min(this.first, begin[call]);
      this.last = Math.max(this.last, begin[call], end[call]);
    }
    if (this.first === Infinity) return;
    const newest = begin.filter(time => time > 0).sort(), early = newest[Math.floor(newest.length * (served ? 0.8 : 0.1))] ?? this.first;
    if (served) { this.first = 1; this.last = Math.max(this.last, file.calls.span); } // other ranks' calls arrive later
    if (this.first >= this.last) this.last = this.first + 1;
    this.last += (this.last - this.first) * 0.03;
    this.port.size(Math.max(1, this.last - this.first), Math.max(1, this.rows.length));
    this.port.set(early - this.first, this.last - this.first, 0, Math.min(this.rows.length, 40));
  }

  private area() { return { x: LEFT, y: TOP, w: Math.max(1, this.box.clientWidth - LEFT - 12), h: Math.max(1, this.box.clientHeight - TOP) }; }

  draw(): void {
    const g = context(this.canvas, this.box.clientWidth, this.box.clientHeight), colors = palette(), incident = this.page.incident;
    if (!g) return;
    if (this.first === Infinity) {
      incident.want(this.rows.slice(0, 40));
      this.fit();
    }
    const a = this.area(), { x0, x1, y0, y1 } = this.port, scale = a.w / (x1 - x0), ch = a.h / (y1 - y0);
    g.fillStyle = colors.back;
    g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
    g.font = FONT;
    g.textBaseline = "middle";
    if (this.first === Infinity) { g.fillStyle = colors.text; g.fillText(incident.served && !incident.begin.length ? incident.trouble || "loading the calls" : "The recording has no times.", 20, 40); return; }
    incident.want(this.rows.slice(Math.floor(y0), Math.ceil(y1)));
    const step = Math.max(1, Math.floor(1 / ch));
    for (let at = Math.floor(y0); at < Math.min(this.rows.length, Math.ceil(y1)); at += step) {
      const row = this.rows[at], y = a.y + (at - y0) * ch, rank = incident.ranks.rank[row], culprit = incident.culprits.has(rank);
      const h = Math.max(1, ch * step - (ch > 6 ? 2 : 0));
      if (culprit || rank === this.page.place().rank) { g.fillStyle = colors.band; g.fillRect(0, y, a.w + LEFT, h); }
      // Draws backwards, so that the oldest unfinished call, which the rank is in, covers later ones.
      let drawn = Infinity;
      const names: [number, number, number][] = []; // call, x, room
      for (let call = incident.endCall[row] - 1; call >= incident.firstCall[row]; call--) {
        const state = incident.state[call], begin = incident.begin[call];
        if (!begin) continue;
        const end = incident.end[call] || (state === State.completed || state === State.issued ? begin : this.last);
        const left = a.x + (begin - this.first - x0) * scale, right = a.x + (end - this.first - x0) * scale;
        if (right < a.x || left > a.x + a.w) continue;
        const x = Math.max(a.x, left), w = Math.max(1.5, Math.min(right, a.x + a.w) - x);
        if (state === State.completed && w < 2 && Math.floor(x) === drawn) continue; // many calls in one pixel are drawn once
        if (state === State.completed) drawn = Math.floor(x);
        g.fillStyle = state === State.completed ? colors.state[State.started] : colors.state[state];
        g.fillRect(x, y, w, h);
        if (w > 60 && ch > 13) names.push([call, x, w]);
      }
      // Names of the bars on top. A covered bar has no room for its name.
      g.fillStyle = colors.text;
      for (let n = names.length - 1, free = Infinity, taken = -1; n >= 0; n--) {
        const [call, x, w] = names[n];
        if (x < taken && x + w > free) continue;
        free = Math.min(free, x);
        taken = Math.max(taken, x + w);
        g.fillText(fitText(g, incident.callName(call), w - 6), x + 3, y + h / 2);
      }
      if (culprit && ch > 6) this.drawCulprit(g, row, y, h, scale);
      if (ch * step >= 11 || culprit) {
        g.font = culprit ? BOLD : FONT;
        g.fillStyle = culprit ? colors.bad : colors.faint;
        g.fillText(fitText(g, `${rank}  ${incident.host(row)}`, LEFT - 16), 8, y + h / 2);
        g.font = FONT;
      }
    }
    g.fillStyle = colors.faint;
    const unit = incident.file.calls.unitNs / 1e9;
    for (let tick = 0; tick <= 6; tick++) {
      const at = x0 + ((x1 - x0) * tick) / 6 + this.first - this.last;
      g.textAlign = tick === 6 ? "right" : "left";
      g.fillText(seconds(at * unit), a.x + (a.w * tick) / 6, 13);
    }
    g.textAlign = "left";
  }

  // Draws what a culprit does instead of its next call, from the end of its last call on.
  private drawCulprit(g: CanvasRenderingContext2D, row: number, y: number, h: number, scale: number): void {
    const incident = this.page.incident, a = this.area(), colors = palette();
    let from = 0;
    for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++) from = Math.max(from, incident.end[call], incident.begin[call]);
    const x = Math.max(a.x, a.x + (from - this.first - this.port.x0) * scale), w = a.x + a.w - x;
    if (!from || w < 4) return;
    g.strokeStyle = g.fillStyle = colors.bad;
    g.lineWidth = 2;
    g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    g.lineWidth = 1;
    const text = incident.stateText(row);
    g.textAlign = "right";
    if (x - a.x > 120) g.fillText(fitText(g, text, x - a.x - 12), x - 6, y + h / 2);
    g.textAlign = "left";
  }

  private rowAt(_x: number, y: number): number {
    const a = this.area(), at = Math.floor(this.port.y0 + ((y - a.y) / a.h) * (this.port.y1 - this.port.y0));
    return y < a.y ? -1 : this.rows[at] ?? -1;
  }

  private hover(x: number, y: number): void {
    const row = this.rowAt(x, y), incident = this.page.incident, a = this.area();
    if (row < 0) return;
    const time = this.first + this.port.x0 + ((x - a.x) / a.w) * (this.port.x1 - this.port.x0);
    let found = -1;
    for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++) {
      if (incident.begin[call] && incident.begin[call] <= time && (incident.end[call] || this.last) >= time) found = call;
    }
    const what = found >= 0 ? `${incident.callName(found)} on ${incident.commName(incident.commOf(row, found))}: ${incident.stateName(incident.state[found])} ${incident.siteOf(found)}` : "between calls";
    this.tip.textContent = `rank ${incident.ranks.rank[row]} — ${what}`;
  }

  key(event: KeyboardEvent): boolean { return this.port.key(event); }
}

function seconds(value: number): string {
  const size = Math.abs(value);
  return size >= 1 ? `${value.toFixed(2)} s` : size >= 1e-3 ? `${(value * 1e3).toFixed(2)} ms` : `${(value * 1e6).toFixed(0)} µs`;
}
