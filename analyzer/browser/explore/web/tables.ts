// Tables. Clicking a column sorts by it; the filter shows only the rows that contain the typed text.
import { runsCount, runsText } from "./data";
import { Speed, Start, WaitKind } from "./file";
import { count, el, gigabytes, payload, percent, plural } from "./dom";
import { Page, View } from "./view";

const MOST = 100; // more rows would be slow and too many to read
// Rows that fill a window; scrolling adds the others.
const few = () => Math.min(MOST, Math.ceil(window.innerHeight / 20));

const NAMES = new Intl.Collator("en", { numeric: true });

type Value = string | number;
interface Column { name: string; meaning?: string; value(row: number): Value; text?(row: number): string }

function textOf(column: Column, row: number): string { return column.text ? column.text(row) : String(column.value(row)); }

// Unknown values come first.
function compared(a: Value, b: Value): number {
  if (a === b) return 0;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return a === "" ? -1 : b === "" ? 1 : NAMES.compare(String(a), String(b));
}

class Table implements View {
  readonly root = el("div", "table scroll");
  private readonly filter = el("input");
  private readonly head = el("tr");
  private readonly body = el("tbody");
  private readonly note = el("span", "faint");
  private by = 0; private down = false;
  private readonly texts: (string | undefined)[] = [];
  private readonly marks: Uint8Array; // by row: 1 if the row is drawn as bad
  private order: number[] = []; // the rows on the page
  private count = 0; // number of rows that match the filter
  private limit = few(); // maximum number of rows in the document
  private shown: string | null = null;

  constructor(private readonly columns: Column[], private readonly rows: number, sort: [number, boolean], bad: (row: number) => boolean,
    private readonly chosen: () => (row: number) => boolean, private readonly click: (row: number) => void, private readonly embedded = false) {
    if (embedded) this.root.className = "table"; // the surrounding element scrolls
    [this.by, this.down] = sort;
    this.marks = Uint8Array.from({ length: rows }, (_, row) => Number(bad(row)));
    this.filter.placeholder = "filter";
    this.filter.addEventListener("input", () => this.arrange());
    columns.forEach((column, at) => {
      const cell = el("th", "", column.name);
      cell.tabIndex = 0;
      cell.title = column.meaning ?? "";
      const sortBy = () => { this.down = this.by === at ? !this.down : false; this.by = at; this.arrange(); };
      cell.addEventListener("click", sortBy);
      cell.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(); });
      this.head.append(cell);
    });
    this.root.addEventListener("scroll", () => {
      if (this.limit === MOST || this.root.scrollTop + 2 * this.root.clientHeight < this.root.scrollHeight) return;
      const from = this.limit;
      this.limit = MOST;
      this.body.append(...this.lines(from));
    });
    this.root.append(el("div", "bar", this.filter, this.note), el("table", "", el("thead", "", this.head), this.body));
    this.arrange();
  }

  // Keeps the first rows in the column's order: only a few are shown, so the others need not be sorted.
  private arrange(): void {
    const wanted = this.filter.value.trim().toLowerCase(), { value } = this.columns[this.by], sign = this.down ? -1 : 1, first: number[] = [], values: Value[] = [];
    this.count = 0;
    for (let row = 0; row < this.rows; row++) {
      if (wanted && !this.words(row).includes(wanted)) continue;
      this.count++;
      const own = value(row), before = (at: number) => this.marks[row] - this.marks[first[at]] || sign * compared(values[at], own);
      if (first.length === MOST && before(MOST - 1) <= 0) continue;
      let low = 0, high = first.length;
      while (low < high) { const middle = (low + high) >> 1; if (before(middle) > 0) high = middle; else low = middle + 1; }
      first.splice(low, 0, row);
      values.splice(low, 0, own);
      if (first.length > MOST) { first.pop(); values.pop(); }
    }
    this.order = first;
    this.limit = few();
    this.root.scrollTop = 0;
    this.fill();
  }

  private fill(): void {
    this.note.textContent = this.count > MOST ? `${count(this.count - MOST)} more rows; use the filter` : plural(this.count, "row");
    this.body.replaceChildren(...this.lines(0));
    [...this.head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== this.by ? "none" : this.down ? "descending" : "ascending"));
  }

  private lines(from: number): HTMLElement[] {
    const isChosen = this.chosen();
    return this.order.slice(from, this.limit).map(row => {
      const line = el("tr", (this.marks[row] ? "bad " : "") + (isChosen(row) ? "chosen" : ""), ...this.columns.map(column => el("td", "", textOf(column, row))));
      line.addEventListener("click", () => this.click(row));
      return line;
    });
  }

  // All text that the filter searches.
  private words(row: number): string {
    return this.texts[row] ??= this.columns.map(column => textOf(column, row)).join("\n").toLowerCase();
  }

  draw(): void {
    const now = document.location.hash;
    if (now !== this.shown || this.embedded) { this.shown = now; this.fill(); }
  }
}

// Columns that the viewer also has, under the same names.
function named(page: Page, columns: [string, (row: number) => Value][]): Column[] {
  return columns.map(([key, value]) => { const [name, meaning] = page.incident.file.columns[key]; return { name, meaning, value }; });
}

const known = (value: number): Value => (value < 0 ? "" : value);

export function rankTable(page: Page): View {
  const { incident } = page, ranks = incident.ranks;
  const columns = named(page, [
    ["rank", row => ranks.rank[row]], ["host", row => incident.host(row)], ["gpu", row => known(ranks.gpu[row])], ["pid", row => ranks.pid[row] || ""],
    ["stage", row => known(ranks.stage[row])], ["class", row => incident.file.waitKinds[incident.waitClass(row)?.kind ?? WaitKind.healthy]],
    ["lag", row => known(ranks.lag[row])], ["lost", row => ranks.lost[row]], ["state", row => incident.stateText(row)],
  ]);
  return new Table(columns, incident.rows, [0, false], row => incident.culprits.has(ranks.rank[row]), () => row => ranks.rank[row] === page.place().rank,
    row => page.select({ rank: ranks.rank[row], comm: -1, op: -1 }));
}

export function commTable(page: Page): View {
  const { incident } = page, comms = incident.file.comms;
  const low = comms.map(() => Infinity), high = comms.map(() => -Infinity), seen = comms.map(() => 0);
  for (let m = 0; m < incident.memberComm.length; m++) {
    const comm = incident.memberComm[m], issued = incident.issued[m];
    if (comm >= comms.length || issued === -2) continue;
    low[comm] = Math.min(low[comm], Math.max(issued, 0));
    high[comm] = Math.max(high[comm], Math.max(issued, 0));
    seen[comm]++;
  }
  const columns = [...named(page, [["comm", comm => comms[comm].name], ["size", comm => comms[comm].size]]),
    { name: "Recorded", meaning: "Members with data", value: (comm: number) => seen[comm] },
    { name: "Newest call", value: (comm: number) => (seen[comm] ? high[comm] : "") },
    { name: "Spread", meaning: "Calls between the first and the last member", value: (comm: number) => (seen[comm] ? high[comm] - low[comm] : "") },
    { name: "Members", value: (comm: number) => (runsCount(comms[comm].ranks) ? runsText(comms[comm].ranks, 8) : "unknown") },
  ];
  return new Table(columns, comms.length, [0, false], comm => comm === incident.focusComm, () => comm => comm === page.place().comm,
    comm => page.open("matrix", { rank: comms[comm].ranks[0] ?? -1, comm, op: -1 }));
}

export function speedTable(speeds: Speed[], chosen: () => number, click: (speed: number) => void): View {
  const share = (rate: number) => (at: number) => (speeds[at].roof > 0 ? speeds[at].rate[rate] / speeds[at].roof : -1);
  const shown = (value: (at: number) => number) => ({ value: (at: number) => known(value(at)), text: (at: number) => (value(at) < 0 ? "?" : percent(value(at))) });
  const columns: Column[] = [
    { name: "Operation", value: at => speeds[at].op }, { name: "Payload", meaning: "As nccl-tests counts it", value: at => speeds[at].bytes, text: at => payload(speeds[at].bytes) },
    { name: "Ranks", value: at => speeds[at].ranks }, { name: "Hosts", meaning: "Hosts that each communicator spans", value: at => speeds[at].hosts || "" },
    { name: "Comms", value: at => speeds[at].comms }, { name: "Calls", meaning: "Number of measured calls", value: at => speeds[at].rate[0] },
    { name: "GB/s", meaning: "Bus bandwidth, the median", value: at => speeds[at].rate[2], text: at => gigabytes(speeds[at].rate[2]) },
    { name: "Share", meaning: "Share of the possible speed", ...shown(share(2)) }, { name: "10 %", meaning: "A tenth of the calls were slower", ...shown(share(1)) },
    { name: "90 %", meaning: "A tenth of the calls were faster", ...shown(share(3)) },
    { name: "Possible GB/s", value: at => speeds[at].roof || "", text: at => (speeds[at].roof > 0 ? gigabytes(speeds[at].roof) : "unknown") },
    { name: "Possible by", value: at => speeds[at].roofName }, { name: "Clock", value: at => speeds[at].clock },
  ];
  return new Table(columns, speeds.length, [0, false], () => false, () => at => at === chosen(), click, true);
}

export function startTable(page: Page, start: Start): View {
  const seconds = (value: (at: number) => number) => ({ value: (at: number) => known(value(at)), text: (at: number) => (value(at) < 0 ? "" : value(at).toFixed(3)) });
  const columns: Column[] = [
    { name: "Rank", value: at => start.ranks[at].rank }, { name: "Host", value: at => start.ranks[at].host },
    { name: "Last in", meaning: "Creations in which the rank arrived last, by a second or more", value: at => `${start.ranks[at].last}/${start.ranks[at].creations}` },
    { name: "Late by s", meaning: "Total lateness in these creations", ...seconds(at => start.ranks[at].late) },
    ...start.phases.map((phase, nth) => ({ name: `${phase.column} s`, meaning: phase.name, ...seconds(at => start.ranks[at].seconds[nth]) })),
  ];
  return new Table(columns, start.ranks.length, [3, true], () => false, () => at => start.ranks[at].rank === page.place().rank,
    at => page.select({ rank: start.ranks[at].rank, comm: -1, op: -1 }), true);
}
