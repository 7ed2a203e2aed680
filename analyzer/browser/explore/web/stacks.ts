// All stacks as one tree, outermost frame first. The culprits' paths start open.
import { inRuns, runsCount, runsRanks, runsText } from "./data";
import { button, count, el } from "./dom";
import { Page, View } from "./view";

export class StacksView implements View {
  readonly root = el("div", "stacks scroll");
  private readonly children = new Map<number, number[]>();
  private readonly open = new Set<number>();
  private readonly filter = el("input");
  private readonly list = el("div", "tree");
  private shown = -1;

  constructor(private readonly page: Page) {
    const { parent, ranks } = page.incident.file.stacks;
    parent.forEach((above, node) => this.children.set(above, [...(this.children.get(above) ?? []), node]));
    for (const nodes of this.children.values())
      nodes.sort((a, b) => Number(this.bad(b)) - Number(this.bad(a)) || runsCount(ranks[b]) - runsCount(ranks[a]) || a - b);
    // Opens the culprits' frames, the outermost frames, and frames that have no siblings.
    parent.forEach((above, node) => { if (this.bad(node) || above < 0 || this.children.get(above)!.length === 1) this.open.add(node); });
    this.filter.placeholder = "only stacks with this function or file";
    this.filter.addEventListener("input", () => this.fill());
    const all = button("Open all", () => { parent.forEach((_, node) => this.open.add(node)); this.fill(); });
    const none = button("Close all", () => { this.open.clear(); this.fill(); });
    this.root.append(el("div", "bar", this.filter, all, none), this.list);
    this.fill();
  }

  private bad(node: number): boolean {
    const runs = this.page.incident.file.stacks.ranks[node];
    for (const rank of this.page.incident.culprits) if (inRuns(runs, rank)) return true;
    return false;
  }

  private matches(wanted: string): Set<number> {
    const { parent, frame } = this.page.incident.file.stacks, out = new Set<number>();
    for (let node = parent.length - 1; node >= 0; node--) {
      if (out.has(node) || this.page.incident.text(frame[node]).toLowerCase().includes(wanted)) for (let n = node; n >= 0; n = parent[n]) out.add(n);
    }
    return out;
  }

  private fill(): void {
    const { ranks, frame, parent } = this.page.incident.file.stacks, incident = this.page.incident;
    const wanted = this.filter.value.trim().toLowerCase(), kept = wanted ? this.matches(wanted) : null;
    const total = Math.max(1, incident.rows), rank = this.page.place().rank;
    this.list.replaceChildren();
    if (!parent.length) this.list.append(el("p", "faint", "No stacks were taken."));
    let left = 3000;
    const add = (node: number, depth: number): void => {
      if ((kept && !kept.has(node)) || left-- < 0) return;
      const below = this.children.get(node) ?? [], n = runsCount(ranks[node]), open = kept !== null || this.open.has(node);
      const line = el("div", "node" + (this.bad(node) ? " bad" : "") + (inRuns(ranks[node], rank) ? " chosen" : ""));
      const width = el("i", "width");
      width.style.width = `${Math.max(1, (n / total) * 100)}px`;
      const name = el("span", "frame", (below.length ? (open ? "▾ " : "▸ ") : "• ") + incident.text(frame[node]));
      name.style.paddingLeft = `${Math.min(depth, 60) * 14}px`;
      line.append(el("span", "count", count(n)), el("span", "share", width), name);
      if (!below.length) line.append(el("span", "faint", runsText(ranks[node], 4)));
      line.addEventListener("click", () => {
        if (!below.length) { this.page.select({ rank: runsRanks(ranks[node], 1)[0] ?? -1, comm: -1, op: -1 }); return; }
        if (open) this.open.delete(node); else this.open.add(node);
        this.fill();
      });
      this.list.append(line);
      if (open) for (const child of below) add(child, depth + 1);
    };
    for (const node of this.children.get(-1) ?? []) add(node, 0);
    if (left < 0) this.list.append(el("p", "faint", "There are more stacks; use the filter."));
  }

  draw(): void {
    if (this.page.place().rank !== this.shown) { this.shown = this.page.place().rank; this.fill(); }
  }

  search(text: string): void { this.filter.value = text; this.fill(); }
}
