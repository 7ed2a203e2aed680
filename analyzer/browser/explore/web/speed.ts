// How fast each kind and size of operation was, as a share of the possible speed: by message size and by host.
import { FONT, palette, Palette } from "./colors";
import { context, count, el, fitText, gigabytes, payload, percent } from "./dom";
import { Rate, Speed } from "./file";
import { speedTable } from "./tables";
import { Page, View } from "./view";

const LEFT = 72, BELOW = 44, TOP = 14, SIZE_HEIGHT = 250, HOST_HEIGHT = 190, NEAR = 14;
const MARKS = ["●", "■", "▲", "◆", "▼", "○", "□", "△", "◇", "▽"];

// A vertical axis. value() is 0 to 1, or negative if unknown.
interface Axis { value(speed: Speed, rate: number): number; label(value: number): string }
const SHARE: Axis = { value: (speed, rate) => (speed.roof > 0 ? rate / speed.roof : -1), label: value => `${(100 * value).toFixed(0)} %` };
function ratesUpTo(top: number): Axis { return { value: (_, rate) => rate / top, label: value => gigabytes(value * top) + (value < 1 ? "" : " GB/s") }; }

function scale(speed: Speed): string { return `${count(speed.ranks)} ranks` + (speed.hosts === 1 ? " on one host" : speed.hosts ? ` on ${count(speed.hosts)} hosts` : ""); }

export class SpeedView implements View {
  readonly root = el("div", "speed scroll");
  private readonly bySize = el("canvas"); private readonly byHost = el("canvas");
  private readonly hostTitle = el("h2"); private readonly note = el("p", "faint"); private readonly tip = el("div", "tip");
  private readonly table: View | null = null;
  private readonly series = new Map<string, number>(); // kind of operation and number of ranks: its symbol
  private chosen = 0;
  private points: [number, number, number][] = []; // x, y, speed

  constructor(private readonly page: Page) {
    const { speeds } = page.incident.file;
    if (!speeds.length) {
      this.root.append(el("p", "", "Not measured: the data does not contain times of the operations themselves."));
      return;
    }
    for (const speed of speeds) if (!this.series.has(this.seriesOf(speed))) this.series.set(this.seriesOf(speed), this.series.size);
    this.table = speedTable(speeds, () => this.chosen, speed => { this.chosen = speed; this.draw(); });
    this.root.append(el("h2", "", "Bus bandwidth by message size"), this.note, this.bySize, this.tip, this.hostTitle, this.byHost, this.table.root);
    this.bySize.addEventListener("mousemove", event => { const at = this.near(event); this.tip.textContent = at < 0 ? "" : this.text(speeds[at]); });
    this.bySize.addEventListener("click", event => { const at = this.near(event); if (at >= 0) { this.chosen = at; this.draw(); } });
    this.byHost.addEventListener("mousemove", event => { const host = this.hostAt(event); this.tip.textContent = host ? this.hostText(host) : ""; });
    this.byHost.addEventListener("click", event => { const host = this.hostAt(event); if (host) this.selectHost(host[0]); });
  }

  private seriesOf(speed: Speed): string { return `${speed.op}, ${scale(speed)}`; }
  // Without a roofline, 100 % is unknown, and the axis shows GB/s.
  private get known(): boolean { return this.page.incident.file.speeds.some(speed => speed.roof > 0); }

  private rateText(speed: Speed, [n, low, median, high]: Rate): string {
    const all = `${gigabytes(median)} GB/s, 10 to 90 % of ${count(n)} calls: ${gigabytes(low)} to ${gigabytes(high)} GB/s`;
    return speed.roof > 0 ? `${percent(median / speed.roof)} of ${gigabytes(speed.roof)} GB/s (${speed.roofName}); ${all}` : `${all}; the possible speed is unknown`;
  }
  private text(speed: Speed): string { return `${speed.op} of ${payload(speed.bytes)}, ${scale(speed)}: ${this.rateText(speed, speed.rate)}`; }
  private hostText([host, ...rate]: [string, ...Rate]): string { return `${host}: ${this.rateText(this.page.incident.file.speeds[this.chosen], rate)}`; }

  draw(): void {
    if (!this.table) return;
    const { speeds } = this.page.incident.file, width = Math.max(200, this.root.clientWidth - 34), colors = palette(), speed = speeds[this.chosen];
    const left = speeds.filter(one => one.roof <= 0).length;
    this.note.textContent = !this.known ? "The possible speed is unknown, so there is no 100 %; lockstep analyze --line-rate GBITS or --nccl-tests FILE sets it."
      : "100 % is the possible speed (" + [...new Set(speeds.filter(one => one.roof > 0).map(one => one.roofName))].slice(0, 3).join("; ") + "). Lines span 10 to 90 % of the calls."
        + (left ? ` For ${count(left)} of ${count(speeds.length)} rows this is unknown; the table shows their GB/s.` : "");
    this.drawSizes(width, colors);
    const hosts = speed.hostRates.length;
    this.hostTitle.textContent = `${speed.op} of ${payload(speed.bytes)}, ${scale(speed)}: ` + (hosts === 0
      ? speed.comms === 1 ? "one communicator, so all its hosts have the same speed" : "the hosts are unknown"
      : hosts < speed.hostsMeasured ? `the slowest ${count(hosts)} of ${count(speed.hostsMeasured)} hosts` : `${count(hosts)} hosts, slowest first`);
    this.byHost.hidden = hosts === 0;
    if (hosts) this.drawHosts(width, colors, speed);
    this.table.draw();
  }

  private axes(g: CanvasRenderingContext2D, width: number, height: number, colors: Palette, axis: Axis): (value: number) => number {
    const y = (value: number) => TOP + (1 - Math.min(value, 1.05)) * (height - TOP - BELOW);
    g.font = FONT;
    g.textBaseline = "middle";
    g.textAlign = "right";
    for (let step = 0; step <= 4; step++) {
      g.strokeStyle = colors.line;
      g.globalAlpha = step === 4 ? 1 : 0.5;
      g.beginPath();
      g.moveTo(LEFT, y(step / 4));
      g.lineTo(width - 8, y(step / 4));
      g.stroke();
      g.globalAlpha = 1;
      g.fillStyle = colors.faint;
      g.fillText(axis.label(step / 4), LEFT - 6, y(step / 4));
    }
    g.textAlign = "left";
    return y;
  }

  private drawSizes(width: number, colors: Palette): void {
    const g = context(this.bySize, width, SIZE_HEIGHT), { speeds } = this.page.incident.file;
    if (!g) return;
    g.clearRect(0, 0, width, SIZE_HEIGHT);
    const axis = this.known ? SHARE : ratesUpTo(Math.max(...speeds.map(speed => speed.rate[3])));
    const y = this.axes(g, width, SIZE_HEIGHT, colors, axis), shown = speeds.filter(speed => axis.value(speed, 1) >= 0), sizes = shown.map(speed => Math.log2(speed.bytes));
    const first = Math.floor(Math.min(...sizes)), last = Math.max(first + 1, Math.ceil(Math.max(...sizes)));
    const x = (bytes: number) => LEFT + 20 + ((Math.log2(bytes) - first) / (last - first)) * (width - LEFT - 60);
    g.textAlign = "center";
    const every = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.floor((width - LEFT) / 70))));
    for (let power = first; power <= last; power += every) g.fillText(payload(2 ** power), x(2 ** power), SIZE_HEIGHT - BELOW + 12);
    this.points = [];
    g.textBaseline = "middle";
    speeds.forEach((speed, at) => {
      if (axis.value(speed, 1) < 0) return;
      const px = x(speed.bytes), [, low, median, high] = speed.rate, py = y(axis.value(speed, median)), mark = MARKS[this.series.get(this.seriesOf(speed))! % MARKS.length];
      g.strokeStyle = g.fillStyle = at === this.chosen ? colors.accent : colors.text;
      g.lineWidth = at === this.chosen ? 3 : 1.5;
      g.beginPath();
      g.moveTo(px, y(axis.value(speed, low)));
      g.lineTo(px, y(axis.value(speed, high)));
      g.stroke();
      g.fillText(mark, px, py);
      this.points.push([px, py, at]);
    });
    g.lineWidth = 1;
    g.textAlign = "left";
    let legend = LEFT;
    for (const [name, number] of this.series) {
      const text = `${MARKS[number % MARKS.length]} ${name}`;
      g.fillStyle = colors.text;
      if (legend + g.measureText(text).width > width - 30) { g.fillText("…", legend, SIZE_HEIGHT - 10); break; }
      g.fillText(text, legend, SIZE_HEIGHT - 10);
      legend += g.measureText(text).width + 22;
    }
  }

  private hostStep(width: number): number { return Math.min(60, (width - LEFT - 8) / this.page.incident.file.speeds[this.chosen].hostRates.length); }

  private drawHosts(width: number, colors: Palette, speed: Speed): void {
    const g = context(this.byHost, width, HOST_HEIGHT), axis = speed.roof > 0 ? SHARE : ratesUpTo(Math.max(...speed.hostRates.map(rate => rate[4])));
    const value = (rate: number) => axis.value(speed, rate);
    if (!g) return;
    g.clearRect(0, 0, width, HOST_HEIGHT);
    const y = this.axes(g, width, HOST_HEIGHT, colors, axis), step = this.hostStep(width);
    let free = 0;
    speed.hostRates.forEach(([host, , low, median, high], at) => {
      const left = LEFT + at * step, middle = left + step / 2;
      g.fillStyle = colors.state[5];
      g.fillRect(left + 1, y(value(median)), Math.max(1, step - 2), y(0) - y(value(median)));
      g.strokeStyle = colors.text;
      g.beginPath();
      g.moveTo(middle, y(value(low)));
      g.lineTo(middle, y(value(high)));
      g.stroke();
      if (left < free) return;
      g.fillStyle = colors.faint;
      const name = fitText(g, host, 110);
      g.fillText(name, left + 1, HOST_HEIGHT - BELOW + 14);
      free = left + g.measureText(name).width + 10;
    });
  }

  private near(event: MouseEvent): number {
    let best = -1, distance = NEAR * NEAR;
    for (const [x, y, at] of this.points) {
      const d = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (d < distance) { best = at; distance = d; }
    }
    return best;
  }

  private hostAt(event: MouseEvent): [string, ...Rate] | undefined {
    return this.page.incident.file.speeds[this.chosen].hostRates[Math.floor((event.offsetX - LEFT) / this.hostStep(this.byHost.clientWidth))];
  }

  private selectHost(host: string): void {
    const { incident } = this.page, row = incident.ranks.host.findIndex((_, at) => incident.host(at) === host);
    if (row >= 0) this.page.select({ rank: incident.ranks.rank[row], comm: -1, op: -1 });
  }
}
