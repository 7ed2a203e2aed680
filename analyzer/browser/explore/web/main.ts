// The page: the verdict at the top, one view below it, the selected rank on the right.
import { Incident, readIncident } from "./data";
import { fillDetails } from "./details";
import { button, el } from "./dom";
import { FocusView } from "./focus";
import { GraphView } from "./graph";
import { MatrixView } from "./matrix";
import { SearchBox } from "./search";
import { SpeedView } from "./speed";
import { StacksView } from "./stacks";
import { StartView } from "./start";
import { commTable, rankTable } from "./tables";
import { TimelineView } from "./timeline";
import { Page, Place, View } from "./view";

const VIEWS: [string, string][] = [
  ["answer", "Answer"], ["matrix", "Matrix"], ["waits", "Wait-for"], ["timeline", "Timeline"], ["stacks", "Stacks"], ["ranks", "Ranks"],
  ["comms", "Communicators"], ["speed", "Speed"], ["report", "Report"], ["start", "Start"],
];
const KEYS: [string, string][] = [
  ["1 to 9", "views"], ["w", "the whole job; press again to go back to the answer"], ["/", "search: rank, host, communicator, #call, function"],
  ["+ - 0", "zoom in, zoom out, show all (matrix, timeline)"], ["arrows", "move (matrix, timeline)"], ["c", "next culprit"], ["Escape", "close, or clear the selection"],
  ["t", "switch between light and dark"], ["?", "show these keys"],
];

class Main implements Page {
  private readonly views = new Map<string, View>();
  private readonly tabs = new Map<string, HTMLButtonElement>();
  private readonly body = el("main");
  private readonly details = el("aside");
  private readonly help = el("div", "help");
  private readonly trouble = el("p", "bad");
  private readonly search: SearchBox;
  private current = "answer";
  private at: Place = { rank: -1, comm: -1, op: -1 };

  constructor(readonly incident: Incident) {
    this.search = new SearchBox(this, text => { (this.view("stacks") as StacksView).search(text); this.open("stacks"); });
    this.build();
    incident.changed = () => this.draw();
    this.readHash();
    if (incident.served) requestAnimationFrame(() => window.setTimeout(() => incident.grid(-1))); // after the first paint
    window.addEventListener("hashchange", () => this.readHash());
    window.addEventListener("resize", () => this.draw());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  place(): Place { return this.at; }

  select(place: Partial<Place>): void { this.open(this.current, place); }

  open(view: string, place: Partial<Place> = {}): void {
    this.current = VIEWS.some(([name]) => name === view) ? view : "answer";
    this.at = { ...this.at, ...place };
    const parts: string[] = [];
    if (this.current !== "answer") parts.push("view=" + this.current);
    if (this.at.rank >= 0) parts.push("rank=" + this.at.rank);
    if (this.at.comm >= 0) parts.push("comm=" + encodeURIComponent(this.incident.commName(this.at.comm)));
    if (this.at.op >= 0) parts.push("op=" + this.at.op);
    history.replaceState(null, "", "#" + parts.join("&"));
    this.draw();
  }

  private readHash(): void {
    const asked = new URLSearchParams(document.location.hash.slice(1)), number = (name: string) => (/^\d{1,9}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : -1);
    const comm = asked.get("comm"), rank = number("rank"), op = number("op");
    this.at = { rank, op, comm: comm === null ? -1 : this.incident.file.comms.findIndex(one => one.name === comm) };
    const view = asked.get("view") ?? (rank >= 0 && op >= 0 ? "matrix" : "answer");
    this.current = VIEWS.some(([name]) => name === view) ? view : "answer";
    this.draw();
  }

  private build(): void {
    const { file } = this.incident, section = file.sections[0], healthy = file.verdict === "HEALTHY";
    document.title = `${file.verdict} ${file.job} - Lockstep`;
    const title = section?.title ?? "", chip = el("span", healthy ? "chip ok" : "chip", file.verdict);
    const head = el("header", "", el("h1", "", chip, " " + title));
    const facts = [file.job && `job ${file.job}`, this.incident.rows > 0 && file.read,
      file.findings.length > 1 && `${file.findings.length} findings`,
      file.note].filter(Boolean).join(" · ");
    const nav = el("nav");
    VIEWS.forEach(([name, label], at) => {
      const tab = button(label, () => this.open(name), "tab");
      if (at < 9) tab.append(el("kbd", "", String(at + 1)));
      this.tabs.set(name, tab);
      nav.append(tab);
    });
    nav.append(el("span", "gap"), this.search.root, button("◐", () => this.theme(), "icon"), button("?", () => this.toggleHelp(), "icon"));
    head.append(el("p", "faint", facts), this.trouble);
    this.help.hidden = true;
    const list = el("dl");
    for (const [key, what] of KEYS) list.append(el("dt", "", el("kbd", "", key)), el("dd", "", what));
    this.help.append(el("h2", "", "Keys"), list);
    document.body.append(head, nav, el("div", "middle", this.body, this.details), this.help);
  }

  private report(): View {
    const root = el("div", "report scroll"), { file } = this.incident;
    for (const section of file.sections) {
      const rows = el("dl");
      for (const [label, lines] of section.rows) rows.append(el("dt", "", label), el("dd", "", ...lines.map(line => el("p", "", line))));
      root.append(el("section", "card", section.title ? el("h2", "", section.title) : el("h2", "", "Data"), rows));
    }
    if (file.unknown.length) root.append(el("section", "card", el("h2", "", "Unknown"), ...file.unknown.map(line => el("p", "", line))));
    return { root, draw: () => undefined };
  }

  // Creates a view when it is first shown.
  private view(name: string): View {
    const made = this.views.get(name);
    if (made) return made;
    const make: Record<string, () => View> = {
      answer: () => new FocusView(this), matrix: () => new MatrixView(this), waits: () => new GraphView(this), stacks: () => new StacksView(this),
      timeline: () => new TimelineView(this), ranks: () => rankTable(this), comms: () => commTable(this), speed: () => new SpeedView(this), report: () => this.report(), start: () => new StartView(this),
    };
    const view = make[name]();
    this.views.set(name, view);
    return view;
  }

  private draw(): void {
    const view = this.view(this.current);
    if (this.body.firstChild !== view.root) this.body.replaceChildren(view.root);
    for (const [name, tab] of this.tabs) tab.setAttribute("aria-current", String(name === this.current));
    this.trouble.textContent = this.incident.trouble;
    fillDetails(this.details, this);
    view.draw();
  }

  private theme(): void {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.draw();
  }

  private toggleHelp(): void { this.help.hidden = !this.help.hidden; }

  private nextCulprit(): void {
    const all = [...this.incident.culprits], now = all.indexOf(this.at.rank);
    if (all.length) this.select({ rank: all[(now + 1) % all.length], comm: this.incident.focusComm, op: this.incident.focusSeq });
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) { if (event.key === "Escape") target.blur(); return; }
    const number = Number(event.key);
    if (number >= 1 && number <= VIEWS.length) this.open(VIEWS[number - 1][0]);
    else if (event.key === "w") this.open(this.current === "matrix" ? "answer" : "matrix", { rank: -1, comm: -1, op: -1 });
    else if (event.key === "/") this.search.focus();
    else if (event.key === "?") this.toggleHelp();
    else if (event.key === "t") this.theme();
    else if (event.key === "c") this.nextCulprit();
    else if (event.key === "Escape") { if (!this.help.hidden) this.toggleHelp(); else this.select({ rank: -1, comm: -1, op: -1 }); }
    else if (!this.view(this.current).key?.(event)) return;
    event.preventDefault();
  }
}

new Main(readIncident());
