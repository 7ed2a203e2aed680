// Tables. A click on a column sorts by it, and a filter shows only rows that contain a text.
import { runsCount, runsText, WaitKind } from "./data";
import { count, el, plural } from "./dom";
import { Page, View } from "./view";

const MOST = 100; // rows on the page at once: more are slow, and nobody reads them

const NAMES = new Intl.Collator("en", { numeric: true });

type Value = string | number;
interface Column { name: string; value(row: number): Value }

class Table implements View {
  readonly root = el("div", "table scroll");
  private readonly filter = el("input");
  private readonly head = el("tr");
  private readonly body = el("tbody");
  private readonly note = el("span", "faint");
  private by = 0; private down = false;
  private readonly texts: (string | undefined)[] = [];
  private readonly marks: Uint8Array; // by row: 1 if it is bad
  private order: number[] = [];
  private shown: string | null = null;

  constructor(private readonly columns: Column[], private readonly rows: number, sort: [number, boolean], bad: (row: number) => boolean,
    private readonly chosen: () => (row: number) => boolean, private readonly click: (row: number) => void) {
    [this.by, this.down] = sort;
    this.marks = Uint8Array.from({ length: rows }, (_, row) => Number(bad(row)));
    this.filter.placeholder = "filter";
    this.filter.addEventListener("input", () => this.arrange());
    columns.forEach((column, at) => {
      const cell = el("th", "", column.name);
      cell.tabIndex = 0;
      const sortBy = () => { this.down = this.by === at ? !this.down : false; this.by = at; this.arrange(); };
      cell.addEventListener("click", sortBy);
      cell.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(); });
      this.head.append(cell);
    });
    this.root.append(el("div", "bar", this.filter, this.note), el("table", "", el("thead", "", this.head), this.body));
    this.arrange();
  }

  // The rows that the filter leaves, sorted.
  private arrange(): void {
    const wanted = this.filter.value.trim().toLowerCase(), rows: number[] = [], keys = this.keys(this.by), sign = this.down ? -1 : 1;
    for (let row = 0; row < this.rows; row++) if (!wanted || this.words(row).includes(wanted)) rows.push(row);
    this.order = rows.sort((a, b) => this.marks[b] - this.marks[a] || sign * (keys[a] - keys[b]) || a - b);
    this.fill();
  }

  // By row: numbers that sort as the column's values.
  private keys(column: number): Float64Array {
    const { value } = this.columns[column], names = new Set<string>(), keys = new Float64Array(this.rows);
    for (let row = 0; row < this.rows; row++) { const one = value(row); if (typeof one === "string" && one) names.add(one); }
    const place = new Map([...names].sort(NAMES.compare).map((name, at) => [name, at]));
    for (let row = 0; row < this.rows; row++) { const one = value(row); keys[row] = typeof one === "number" ? one : place.get(one) ?? -Infinity; }
    return keys;
  }

  private fill(): void {
    const rows = this.order, isChosen = this.chosen();
    this.note.textContent = rows.length > MOST ? `${count(rows.length - MOST)} more rows: narrow them with the filter` : plural(rows.length, "row");
    this.body.replaceChildren(...rows.slice(0, MOST).map(row => {
      const line = el("tr", (this.marks[row] ? "bad " : "") + (isChosen(row) ? "chosen" : ""), ...this.columns.map(column => el("td", "", String(column.value(row)))));
      line.addEventListener("click", () => this.click(row));
      return line;
    }));
    [...this.head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== this.by ? "none" : this.down ? "descending" : "ascending"));
  }

  // All that the filter looks at.
  private words(row: number): string {
    return this.texts[row] ??= this.columns.map(column => column.value(row)).join("\n").toLowerCase();
  }

  draw(): void {
    const now = document.location.hash;
    if (now !== this.shown) { this.shown = now; this.fill(); }
  }
}

const known = (value: number): Value => (value < 0 ? "" : value);

export function rankTable(page: Page): View {
  const { incident } = page, ranks = incident.ranks;
  const columns: Column[] = [
    { name: "rank", value: row => ranks.rank[row] }, { name: "host", value: row => incident.host(row) }, { name: "GPU", value: row => known(ranks.gpu[row]) },
    { name: "PID", value: row => ranks.pid[row] || "" }, { name: "stage", value: row => known(ranks.stage[row]) },
    { name: "role", value: row => incident.file.waitKinds[incident.waitClass(row)?.kind ?? WaitKind.healthy] }, { name: "behind by", value: row => known(ranks.lag[row]) },
    { name: "lost records", value: row => ranks.lost[row] }, { name: "state", value: row => incident.stateText(row) },
  ];
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
  const columns: Column[] = [
    { name: "communicator", value: comm => comms[comm].name }, { name: "members", value: comm => comms[comm].size },
    { name: "recorded", value: comm => seen[comm] }, { name: "newest call", value: comm => (seen[comm] ? high[comm] : "") },
    { name: "spread", value: comm => (seen[comm] ? high[comm] - low[comm] : "") },
    { name: "ranks", value: comm => (runsCount(comms[comm].ranks) ? runsText(comms[comm].ranks, 8) : "not known") },
  ];
  return new Table(columns, comms.length, [0, false], comm => comm === incident.focusComm, () => comm => comm === page.place().comm,
    comm => page.open("matrix", { rank: comms[comm].ranks[0] ?? -1, comm, op: -1 }));
}
