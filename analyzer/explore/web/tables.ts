// Tables that sort by a click on a column and show the rows that hold a text.
import { runsCount, runsText, WaitKind } from "./data";
import { count, el, plural } from "./dom";
import { Page, View } from "./view";

const MOST = 2000; // rows on the page at once

type Value = string | number;
interface Column { name: string; value(row: number): Value }

class Table implements View {
  readonly root = el("div", "table scroll");
  private readonly filter = el("input");
  private readonly head = el("tr");
  private readonly body = el("tbody");
  private readonly note = el("span", "faint");
  private by = 0; private down = false;
  private shown: string | null = null;

  constructor(private readonly columns: Column[], private readonly rows: number, sort: [number, boolean], private readonly bad: (row: number) => boolean,
    private readonly chosen: () => (row: number) => boolean, private readonly click: (row: number) => void) {
    [this.by, this.down] = sort;
    this.filter.placeholder = "filter";
    this.filter.addEventListener("input", () => this.fill());
    columns.forEach((column, at) => {
      const cell = el("th", "", column.name);
      cell.tabIndex = 0;
      const sortBy = () => { this.down = this.by === at ? !this.down : false; this.by = at; this.fill(); };
      cell.addEventListener("click", sortBy);
      cell.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(); });
      this.head.append(cell);
    });
    this.root.append(el("div", "bar", this.filter, this.note), el("table", "", el("thead", "", this.head), this.body));
    this.fill();
  }

  private fill(): void {
    const wanted = this.filter.value.trim().toLowerCase(), rows: number[] = [], isChosen = this.chosen();
    for (let row = 0; row < this.rows; row++) {
      if (!wanted || this.columns.some(column => String(column.value(row)).toLowerCase().includes(wanted))) rows.push(row);
    }
    const { value } = this.columns[this.by], sign = this.down ? -1 : 1;
    rows.sort((a, b) => Number(this.bad(b)) - Number(this.bad(a)) || sign * compare(value(a), value(b)) || a - b);
    this.note.textContent = rows.length > MOST ? `${count(rows.length - MOST)} more rows: narrow them with the filter` : plural(rows.length, "row");
    this.body.replaceChildren(...rows.slice(0, MOST).map(row => {
      const line = el("tr", (this.bad(row) ? "bad " : "") + (isChosen(row) ? "chosen" : ""), ...this.columns.map(column => el("td", "", String(column.value(row)))));
      line.addEventListener("click", () => this.click(row));
      return line;
    }));
    [...this.head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== this.by ? "none" : this.down ? "descending" : "ascending"));
  }

  draw(): void {
    const now = document.location.hash;
    if (now !== this.shown) { this.shown = now; this.fill(); }
  }
}

function compare(a: Value, b: Value): number {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

const known = (value: number): Value => (value < 0 ? "" : value);
const CLASSES = ["moves", "waits", "cause", "in a circle", "no data"];

export function rankTable(page: Page): View {
  const { incident } = page, ranks = incident.ranks;
  const columns: Column[] = [
    { name: "rank", value: row => ranks.rank[row] }, { name: "host", value: row => incident.host(row) }, { name: "GPU", value: row => known(ranks.gpu[row]) },
    { name: "PID", value: row => ranks.pid[row] || "" }, { name: "stage", value: row => known(ranks.stage[row]) },
    { name: "role", value: row => CLASSES[incident.waitClass(row)?.kind ?? WaitKind.healthy] }, { name: "behind by", value: row => known(ranks.lag[row]) },
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
