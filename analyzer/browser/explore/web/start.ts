// The start of the job: how long each rank spent in each phase.
import { FONT, palette } from "./colors";
import { context, count, el, fitText } from "./dom";
import { Start, State } from "./file";
import { startTable } from "./tables";
import { Page, View } from "./view";

const LEFT = 72, TOP = 14, BELOW = 26, HEIGHT = 300, SCALE = 4;
const COLORS = [State.waiting, State.completed, State.started, State.issued, State.noData, State.mismatch]; // by phase

export class StartView implements View {
  readonly root = el("div", "start scroll");
  private readonly canvas = el("canvas"); private readonly tip = el("div", "tip"); private readonly legend = el("div", "legend");
  private readonly ranks: Start["ranks"] = []; // ascending by rank, so that ranks of a host are next to each other
  private readonly table: View | null = null;

  constructor(private readonly page: Page) {
    const { start } = page.incident.file;
    if (!start || !start.ranks.length) {
      this.root.append(el("p", "", start?.text || "Not recorded: the data does not contain times of communicator creation."));
      return;
    }
    this.ranks = [...start.ranks].sort((a, b) => a.rank - b.rank);
    this.table = startTable(page, start);
    const shown = start.ranks.length < page.incident.rows ? `the ${count(start.ranks.length)} ranks that others waited for most, and the slowest` : `${count(start.ranks.length)} ranks`;
    this.root.append(el("p", "", start.text), el("h2", "", `Phases by rank: ${shown}`), this.canvas, this.tip, this.legend, this.table.root);
    this.canvas.addEventListener("mousemove", event => { const at = this.ranks[this.at(event)]; this.tip.textContent = at ? this.text(start, at) : ""; });
    this.canvas.addEventListener("click", event => { const at = this.ranks[this.at(event)]; if (at) page.select({ rank: at.rank, comm: -1, op: -1 }); });
  }

  private text(start: Start, rank: Start["ranks"][0]): string {
    return `rank ${rank.rank} on ${rank.host || "an unknown host"}: ` + start.phases.map((phase, at) => `${phase.name} ${rank.seconds[at] < 0 ? "not recorded" : rank.seconds[at].toFixed(3) + " s"}`).join(", ");
  }
  private step(width: number): number { return (width - LEFT - 8) / this.ranks.length; }
  private at(event: MouseEvent): number { return Math.floor((event.offsetX - LEFT) / this.step(this.canvas.clientWidth)); }

  draw(): void {
    const { start } = this.page.incident.file, width = Math.max(200, this.root.clientWidth - 34), g = context(this.canvas, width, HEIGHT), colors = palette();
    if (!this.table || !start || !g) return;
    const sum = (rank: Start["ranks"][0]) => rank.seconds.reduce((all, one) => all + Math.max(one, 0), 0);
    const most = Math.max(1e-9, ...this.ranks.map(sum)), y = (seconds: number) => TOP + (1 - seconds / most) * (HEIGHT - TOP - BELOW), step = this.step(width);
    g.clearRect(0, 0, width, HEIGHT);
    g.font = FONT;
    g.textBaseline = "middle";
    g.textAlign = "right";
    for (let tick = 0; tick <= SCALE; tick++) {
      g.fillStyle = colors.line;
      g.fillRect(LEFT, y((most * tick) / SCALE), width - LEFT - 8, 1);
      g.fillStyle = colors.faint;
      g.fillText(`${((most * tick) / SCALE).toPrecision(3)} s`, LEFT - 6, y((most * tick) / SCALE));
    }
    g.textAlign = "left";
    let free = 0;
    this.ranks.forEach((rank, at) => {
      const left = LEFT + at * step;
      let from = 0;
      rank.seconds.forEach((seconds, phase) => {
        if (seconds <= 0) return;
        g.fillStyle = colors.state[COLORS[phase % COLORS.length]];
        g.fillRect(left, y(from + seconds), Math.max(1, step - (step > 4 ? 1 : 0)), y(from) - y(from + seconds));
        from += seconds;
      });
      if (rank.rank === this.page.place().rank) { g.strokeStyle = colors.accent; g.lineWidth = 2; g.strokeRect(left, y(from), Math.max(2, step), y(0) - y(from)); }
      if (left < free) return;
      g.fillStyle = colors.faint;
      const name = fitText(g, String(rank.rank), 60);
      g.fillText(name, left, HEIGHT - BELOW / 2);
      free = left + g.measureText(name).width + 14;
    });
    this.legend.replaceChildren(...start.phases.map((phase, at) => {
      const key = el("span", "key");
      key.style.background = colors.state[COLORS[at % COLORS.length]];
      return el("span", "", key, `${phase.name}: ` + (phase.ranks ? `median ${phase.median.toFixed(3)} s, longest ${phase.longest.toFixed(3)} s` + (phase.longestRank >= 0 ? ` (rank ${phase.longestRank})` : "") : "not recorded"));
    }));
    this.table.draw();
  }
}
