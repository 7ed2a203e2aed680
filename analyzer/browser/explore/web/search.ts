// The search box for ranks, hosts, communicators, calls and frames.
import { Incident, runsCount } from "./data";
import { el, plural } from "./dom";
import { Page } from "./view";

interface Hit { text: string; go(): void }
const MOST = 30;

export function find(page: Page, wanted: string, openStacks: (text: string) => void): Hit[] {
  const { incident } = page, text = wanted.trim().toLowerCase(), hits: Hit[] = [];
  if (!text) return hits;
  const number = /^(?:rank\s*)?(\d+)$/.exec(text), call = /^#(\d+)$/.exec(text);
  if (number) addRank(page, hits, Number(number[1]));
  if (call) addCalls(page, hits, Number(call[1]));
  const hosts = new Map<number, boolean>(); // by text: whether it contains the query
  const here = (name: number): boolean => {
    let known = hosts.get(name);
    if (known === undefined) hosts.set(name, known = incident.text(name).toLowerCase().includes(text));
    return known;
  };
  for (let row = 0; row < incident.rows && hits.length < MOST; row++) {
    const rank = incident.ranks.rank[row];
    if (here(incident.ranks.host[row])) hits.push({ text: `rank ${rank}, ${incident.where(row)}`, go: () => page.select({ rank, comm: -1, op: -1 }) });
  }
  incident.file.comms.forEach((comm, index) => {
    if (hits.length < MOST && comm.name.toLowerCase().includes(text))
      hits.push({ text: `communicator ${comm.name}, ${plural(comm.size, "member")}`, go: () => page.open("matrix", { rank: comm.ranks[0] ?? -1, comm: index, op: -1 }) });
  });
  const seen = new Set<number>(), { frame, ranks } = incident.file.stacks;
  frame.forEach((name, node) => {
    if (hits.length >= MOST || seen.has(name) || !incident.text(name).toLowerCase().includes(text)) return;
    seen.add(name);
    hits.push({ text: `frame ${incident.text(name)}, ${plural(runsCount(ranks[node]), "rank")}`, go: () => openStacks(incident.text(name)) });
  });
  return hits;
}

function addRank(page: Page, hits: Hit[], rank: number): void {
  const row = page.incident.rowOf.get(rank);
  if (row !== undefined) hits.push({ text: `rank ${rank}, ${page.incident.where(row)}: ${page.incident.stateText(row)}`, go: () => page.select({ rank, comm: -1, op: -1 }) });
}

// Adds the first rank of each communicator that has a call with this number. If a call is not on the page, its kind is unknown.
function addCalls(page: Page, hits: Hit[], seq: number): void {
  const incident: Incident = page.incident, seen = new Set<number>();
  const add = (row: number, comm: number, name: string) => {
    seen.add(comm);
    const rank = incident.ranks.rank[row];
    hits.push({ text: `${name} on ${incident.commName(comm)}`, go: () => page.open("matrix", { rank, comm, op: seq }) });
  };
  for (let row = 0; row < incident.rows && hits.length < MOST; row++) {
    for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++) {
      const comm = incident.commOf(row, call);
      if (incident.seq[call] === seq && !seen.has(comm)) add(row, comm, incident.callName(call));
    }
  }
  for (let row = 0; row < incident.rows && hits.length < MOST; row++) {
    for (let m = incident.firstMembership[row]; m < incident.firstMembership[row + 1] && hits.length < MOST; m++) {
      if (incident.issued[m] >= seq && !seen.has(incident.memberComm[m])) add(row, incident.memberComm[m], `#${seq}`);
    }
  }
}

export class SearchBox {
  readonly root = el("div", "search");
  private readonly input = el("input");
  private readonly list = el("div", "hits");
  private hits: Hit[] = [];

  constructor(private readonly page: Page, private readonly openStacks: (text: string) => void) {
    this.input.type = "search";
    this.input.id = "search";
    this.input.placeholder = "rank, host, communicator, #call, function  ( / )";
    this.root.append(this.input, this.list);
    this.input.addEventListener("input", () => this.fill());
    this.input.addEventListener("keydown", event => {
      if (event.key === "Enter" && this.hits.length) this.take(this.hits[0]);
      if (event.key === "Escape") this.close();
    });
    this.input.addEventListener("blur", () => this.list.replaceChildren()); // a click on a hit is handled before this
  }

  focus(): void { this.input.focus(); this.input.select(); }
  private close(): void { this.input.value = ""; this.list.replaceChildren(); this.input.blur(); }
  private take(hit: Hit): void { this.close(); hit.go(); }

  private fill(): void {
    this.hits = find(this.page, this.input.value, this.openStacks);
    const lines = this.hits.map(hit => {
      const line = el("div", "hit", hit.text);
      line.addEventListener("mousedown", () => this.take(hit));
      return line;
    });
    if (!lines.length && this.input.value.trim()) lines.push(el("div", "hit faint", "nothing found"));
    this.list.replaceChildren(...lines);
  }
}
