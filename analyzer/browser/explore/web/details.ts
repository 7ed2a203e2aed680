// Everything known about the selected rank, shown next to the view.
import { State } from "./file";
import { button, el } from "./dom";
import { Page } from "./view";

const CALLS = 14;

export function fillDetails(box: HTMLElement, page: Page): void {
  const { incident } = page, { rank, comm, op } = page.place(), row = incident.rowOf.get(rank);
  box.replaceChildren();
  box.hidden = rank < 0;
  if (rank < 0) return;
  box.append(button("×", () => page.select({ rank: -1, comm: -1, op: -1 }), "close"), el("h2", incident.culprits.has(rank) ? "bad" : "", `Rank ${rank}`));
  if (row === undefined) { box.append(el("p", "", "No data from this rank.")); return; }
  box.append(el("p", "", incident.where(row), incident.ranks.pid[row] ? `, PID ${incident.ranks.pid[row]}` : ""), el("p", "state", incident.stateText(row)));
  const calls = el("table"), end = incident.endCall[row];
  if (!incident.here[row]) incident.want([row]);
  let first = Math.max(incident.firstCall[row], end - CALLS);
  for (let call = incident.firstCall[row]; call < end && op >= 0; call++) {
    if (incident.seq[call] === op && (comm < 0 || incident.commOf(row, call) === comm)) first = Math.max(incident.firstCall[row], Math.min(first, call - CALLS / 2));
  }
  for (let call = first; call < Math.min(end, first + CALLS); call++) {
    const inComm = incident.commOf(row, call), chosen = incident.seq[call] === op && (comm < 0 || inComm === comm), state = incident.state[call];
    calls.append(el("tr", (chosen ? "chosen " : "") + (state >= State.failed ? "bad" : ""), el("td", "", incident.callName(call)), el("td", "", incident.commName(inComm)),
      el("td", "", incident.stateName(state)), el("td", "faint", incident.siteOf(call))));
  }
  const m = comm >= 0 ? incident.membershipIn(row, comm) : -1;
  if (op >= 0 && m >= 0 && incident.issued[m] >= -1 && incident.issued[m] < op)
    calls.append(el("tr", "bad chosen", el("td", "", `#${op}`), el("td", "", incident.commName(comm)), el("td", "", incident.stateName(State.missing)), el("td")));
  if (!incident.here[row]) calls.append(el("tr", "", el("td", "faint", incident.served ? incident.trouble || "loading from the server" : "not on this page")));
  box.append(el("h3", "", "Calls"), calls, el("h3", "", "Stack"));
  const stacks = incident.stacksOf(rank);
  for (const stack of stacks) box.append(el("ol", "stack", ...stack.frames.slice(0, 40).map(([text], at) => el("li", at === stack.own ? "own" : "", text))));
  if (!stacks.length) box.append(el("p", "faint", "No stack was taken."));
  box.append(button("In the matrix (2)", () => page.open("matrix")));
}
