"use strict";
(() => {
  // file.ts
  var State = {
    outside: 0,
    completed: 1,
    gone: 2,
    issued: 3,
    enqueued: 4,
    started: 5,
    waiting: 6,
    noData: 7,
    failed: 8,
    mismatch: 9,
    missing: 10,
    behind: 11
  };
  var WaitKind = { healthy: 0, victim: 1, cause: 2, cycle: 3, noData: 4 };
  function bytes(base64) {
    const text = atob(base64), out = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++)
      out[i] = text.charCodeAt(i);
    return out.buffer;
  }

  // lanes.ts
  var Grid = class {
    // the state of columns before a row's first run
    constructor(file, lane, rows) {
      this.lane = lane;
      this.columns = file.columns;
      this.firstSeq = file.firstSeq;
      this.from = new Int32Array(bytes(file.from));
      this.length = new Uint16Array(bytes(file.length));
      this.state = new Uint8Array(bytes(file.state));
      const runs = new Uint32Array(bytes(file.runs)), of = new Uint32Array(bytes(file.rows));
      this.patterns = runs.length;
      this.start = new Uint32Array(runs.length + 1);
      for (let p = 0; p < runs.length; p++)
        this.start[p + 1] = this.start[p] + runs[p];
      this.patternOf = new Int32Array(rows).fill(-1);
      for (let i = 0, row = 0; i + 1 < of.length; row += of[i], i += 2)
        this.patternOf.fill(of[i + 1] - 1, row, row + of[i]);
      this.before = lane < 0 ? State.outside : State.gone;
    }
    // Calls `each` with first column, end column and state of a pattern's runs between two columns.
    visit(pattern, first, last, each) {
      let at = this.from[pattern];
      if (this.before !== State.outside && at > first)
        each(first, Math.min(at, last), this.before);
      for (let run = this.start[pattern]; run < this.start[pattern + 1] && at < last; run++) {
        const end = at + this.length[run];
        if (end > first)
          each(Math.max(at, first), Math.min(end, last), this.state[run]);
        at = end;
      }
    }
    stateAt(row, column) {
      let found = State.outside;
      if (this.patternOf[row] >= 0)
        this.visit(this.patternOf[row], column, column + 1, (_from, _to, state) => {
          found = state;
        });
      return found;
    }
  };

  // data.ts
  var PYTHON = 1;
  var ROWS_AT_ONCE = 16;
  var MOST_CALLS = 4e6;
  function joined(first, second) {
    if (!first.length)
      return second;
    const out = new first.constructor(first.length + second.length);
    out.set(first);
    out.set(second, first.length);
    return out;
  }
  function starts(counts) {
    const out = new Uint32Array(counts.length + 1);
    for (let i = 0; i < counts.length; i++)
      out[i + 1] = out[i] + counts[i];
    return out;
  }
  function runsCount(runs) {
    let count2 = 0;
    for (let i = 0; i + 1 < runs.length; i += 2)
      count2 += runs[i + 1] - runs[i] + 1;
    return count2;
  }
  function inRuns(runs, rank) {
    for (let i = 0; i + 1 < runs.length; i += 2)
      if (rank >= runs[i] && rank <= runs[i + 1])
        return true;
    return false;
  }
  function runsRanks(runs, limit = Infinity) {
    const out = [];
    for (let i = 0; i + 1 < runs.length; i += 2)
      for (let r = runs[i]; r <= runs[i + 1] && out.length < limit; r++)
        out.push(r);
    return out;
  }
  function runsText(runs, limit = 12) {
    const parts = [];
    for (let i = 0; i + 1 < runs.length && parts.length < limit; i += 2)
      parts.push(runs[i] === runs[i + 1] ? `${runs[i]}` : `${runs[i]}-${runs[i + 1]}`);
    const more = runs.length / 2 > limit ? ", \u2026" : "";
    return (runsCount(runs) === 1 ? "rank " : "ranks ") + parts.join(", ") + more;
  }
  var Incident = class {
    constructor(file) {
      this.file = file;
      // by row: 1 if its calls are on the page
      this.membership = new Uint16Array(0);
      this.kind = new Uint8Array(0);
      this.state = new Uint8Array(0);
      this.seq = new Int32Array(0);
      this.peer = new Int32Array(0);
      this.begin = new Uint32Array(0);
      this.end = new Uint32Array(0);
      this.site = new Uint32Array(0);
      this.rowOf = /* @__PURE__ */ new Map();
      // row of each rank
      this.culprits = /* @__PURE__ */ new Set();
      // Called when requested data has arrived, or the server does not answer.
      this.changed = () => void 0;
      this.trouble = "";
      // why the server does not answer
      this.asked = [];
      this.asking = false;
      this.grids = null;
      this.gridsAsked = false;
      const none = { rank: [], host: [], gpu: [], pid: [], state: [], stage: [], cls: [], lag: [], lost: [] };
      this.ranks = { ...none, ...file.ranks };
      const { calls, memberships } = file;
      this.firstCall = new Uint32Array(this.rows);
      this.endCall = new Uint32Array(this.rows);
      this.here = new Uint8Array(this.rows);
      if (!this.served)
        this.addCalls(calls, this.ranks.rank.map((_, row) => row));
      this.firstMembership = starts(new Uint32Array(bytes(memberships.ofRank)));
      this.memberComm = new Uint32Array(bytes(memberships.comm));
      this.issued = new Int32Array(bytes(memberships.issued));
      this.completed = new Int32Array(bytes(memberships.completed));
      this.ranks.rank.forEach((rank, row) => this.rowOf.set(rank, row));
      const first = file.findings[0];
      if (first)
        for (const rank of runsRanks(first.ranks))
          this.culprits.add(rank);
      this.focusComm = first ? first.comm : -1;
      this.focusSeq = first ? first.seq : -1;
    }
    get rows() {
      return this.ranks.rank.length;
    }
    get served() {
      return this.file.grids === null;
    }
    // the server has the data that is not on the page
    // Adds the calls of these rows, in this order.
    addCalls(file, rows) {
      let at = this.seq.length;
      new Uint32Array(bytes(file.ofRank)).forEach((count2, i) => {
        this.firstCall[rows[i]] = at;
        at += count2;
        this.endCall[rows[i]] = at;
        this.here[rows[i]] = Number(count2 > 0 || this.served);
      });
      this.membership = joined(this.membership, new Uint16Array(bytes(file.membership)));
      this.kind = joined(this.kind, new Uint8Array(bytes(file.kind)));
      this.state = joined(this.state, new Uint8Array(bytes(file.state)));
      this.seq = joined(this.seq, new Int32Array(bytes(file.seq)));
      this.peer = joined(this.peer, new Int32Array(bytes(file.peer)));
      this.begin = joined(this.begin, new Uint32Array(bytes(file.begin)));
      this.end = joined(this.end, new Uint32Array(bytes(file.end)));
      this.site = joined(this.site, new Uint32Array(bytes(file.site)));
    }
    // Requests from the server the calls of these rows that the page does not have.
    want(rows) {
      if (!this.served)
        return;
      this.asked = rows.filter((row) => !this.here[row]);
      void this.ask();
    }
    async ask() {
      if (this.asking)
        return;
      this.asking = true;
      while (this.asked.length && !this.trouble) {
        const rows = this.asked.slice(0, ROWS_AT_ONCE);
        const calls = await this.fetched(`calls.json?${rows.join(",")}`);
        this.asked = this.asked.filter((row) => !rows.includes(row));
        if (!calls)
          break;
        if (this.seq.length > MOST_CALLS)
          this.forget();
        this.addCalls(calls, rows);
        this.changed();
      }
      this.asking = false;
    }
    // Drops the calls of the rows that were requested first. Rows in sight are requested again if necessary.
    forget() {
      const least = this.seq.length - MOST_CALLS / 2;
      let cut = this.seq.length;
      for (const first of this.firstCall)
        if (first >= least)
          cut = Math.min(cut, first);
      for (let row = 0; row < this.rows; row++) {
        const kept = this.firstCall[row] >= cut;
        this.firstCall[row] -= kept ? cut : this.firstCall[row];
        this.endCall[row] -= kept ? cut : this.endCall[row];
        if (!kept)
          this.here[row] = 0;
      }
      this.membership = this.membership.slice(cut);
      this.kind = this.kind.slice(cut);
      this.state = this.state.slice(cut);
      this.seq = this.seq.slice(cut);
      this.peer = this.peer.slice(cut);
      this.begin = this.begin.slice(cut);
      this.end = this.end.slice(cut);
      this.site = this.site.slice(cut);
    }
    async fetched(path) {
      try {
        const answer = await fetch(path);
        if (answer.ok)
          return await answer.json();
        this.trouble = `the server cannot provide ${path.split("?")[0]}: ${(await answer.text()).trim()}`;
      } catch {
        this.trouble = "lockstep serve does not answer; is it still running?";
      }
      this.changed();
      return null;
    }
    // Returns the grid of a lane; for lane -1, of every call in program order. Null if it has not yet arrived from the
    // server, or is too large for the page.
    grid(lane) {
      if (!this.grids) {
        if (this.file.grids)
          this.decodeGrids(this.file.grids);
        else if (!this.gridsAsked) {
          this.gridsAsked = true;
          void this.fetched("grids.json").then((files) => {
            if (files) {
              this.decodeGrids(files);
              this.changed();
            }
          });
        }
      }
      return this.grids?.[lane + 1] ?? null;
    }
    decodeGrids(files) {
      this.grids = files.map((file, at) => new Grid(file, at - 1, this.rows));
    }
    stateName(state) {
      return this.file.states[state]?.[0] ?? "";
    }
    stateMeaning(state) {
      return this.file.states[state]?.[1] ?? "";
    }
    text(index) {
      return this.file.texts[index] ?? "";
    }
    host(row) {
      return this.text(this.ranks.host[row]);
    }
    stateText(row) {
      return this.text(this.ranks.state[row]);
    }
    commOf(row, call) {
      return this.memberComm[this.firstMembership[row] + this.membership[call]];
    }
    commName(comm) {
      return this.file.comms[comm]?.name ?? "";
    }
    siteOf(call) {
      return call < this.site.length ? this.text(this.site[call]) : "";
    }
    kindName(call) {
      return this.file.kinds[this.kind[call]]?.[0] ?? "call";
    }
    collective(call) {
      return this.file.kinds[this.kind[call]]?.[1] === 1;
    }
    pointToPoint(call) {
      return this.file.kinds[this.kind[call]]?.[1] === 2;
    }
    callName(call) {
      const kind = this.kindName(call);
      const peer = this.pointToPoint(call) && this.peer[call] >= 0 ? (kind === "Send" ? " to " : " from ") + this.peer[call] : "";
      return kind + peer + (this.seq[call] >= 0 ? " #" + this.seq[call] : "");
    }
    // Returns the index of the rank's membership in a communicator; -1 if there is none.
    membershipIn(row, comm) {
      for (let m = this.firstMembership[row]; m < this.firstMembership[row + 1]; m++)
        if (this.memberComm[m] === comm)
          return m;
      return -1;
    }
    waitClass(row) {
      return this.file.waits.classes[this.ranks.cls[row]];
    }
    where(row) {
      const gpu = this.ranks.gpu[row] >= 0 ? `, GPU ${this.ranks.gpu[row]}` : "";
      return this.host(row) + gpu;
    }
    // Stacks of a rank. Stacks with Python frames come first, because they are more informative than the interpreter's own frames.
    stacksOf(rank) {
      const { parent, ranks, frame, kind, own } = this.file.stacks, ends = /* @__PURE__ */ new Set();
      for (let node = 0; node < parent.length; node++) {
        if (!inRuns(ranks[node], rank))
          continue;
        ends.delete(parent[node]);
        ends.add(node);
      }
      let out = [...ends].map((end) => {
        const frames = [];
        let code = -1;
        for (let node = end; node >= 0; node = parent[node]) {
          if (node === own[end])
            code = frames.length;
          frames.push([this.text(frame[node]), kind[node]]);
        }
        return { frames, own: code };
      });
      if (!out.length)
        out = this.file.findings.flatMap((finding) => finding.stacks).filter((one) => inRuns(one.ranks, rank) && one.frames.length > 0);
      const python = (stack) => Number(stack.frames.some((one) => one[1] === PYTHON));
      return out.sort((a, b) => python(b) - python(a));
    }
    // The call in a cell; -1: there is none, or it is not on the page.
    callAt(grid, row, column) {
      const first = this.firstCall[row], end = this.endCall[row];
      if (grid.lane < 0) {
        const call = end - (grid.columns - column);
        return call >= first && call < end ? call : -1;
      }
      for (let call = end - 1; call >= first; call--) {
        if (this.seq[call] === grid.firstSeq + column && this.collective(call) && this.file.comms[this.commOf(row, call)]?.lane === grid.lane)
          return call;
      }
      return -1;
    }
  };
  function readIncident() {
    return new Incident(JSON.parse(document.getElementById("data").textContent));
  }

  // dom.ts
  function el(tag, className = "", ...children) {
    const out = document.createElement(tag);
    if (className)
      out.className = className;
    for (const child of children)
      if (child)
        out.append(child);
    return out;
  }
  function button(text, click, className = "") {
    const out = el("button", className, text);
    out.type = "button";
    out.addEventListener("click", click);
    return out;
  }
  function count(n) {
    return n.toLocaleString("en-US");
  }
  function plural(n, one) {
    return `${count(n)} ${one}${n === 1 ? "" : "s"}`;
  }
  function payload(bytes2) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = bytes2, unit = 0;
    while (value >= 1024 && unit + 1 < units.length) {
      value /= 1024;
      unit++;
    }
    return `${value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)} ${units[unit]}`;
  }
  function gigabytes(rate) {
    return (rate / 1e9).toPrecision(3);
  }
  function percent(share) {
    return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
  }
  function context(canvas, width, height) {
    const scale2 = window.devicePixelRatio || 1;
    if (width < 1 || height < 1)
      return null;
    canvas.width = Math.round(width * scale2);
    canvas.height = Math.round(height * scale2);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g?.setTransform(scale2, 0, 0, scale2, 0, 0);
    return g;
  }
  function fitText(g, text, width) {
    if (g.measureText(text).width <= width)
      return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = low + high + 1 >> 1;
      if (g.measureText(text.slice(0, middle) + "\u2026").width <= width)
        low = middle;
      else
        high = middle - 1;
    }
    return low > 0 ? text.slice(0, low) + "\u2026" : "";
  }

  // details.ts
  var CALLS = 14;
  function fillDetails(box, page) {
    const { incident } = page, { rank, comm, op } = page.place(), row = incident.rowOf.get(rank);
    box.replaceChildren();
    box.hidden = rank < 0;
    if (rank < 0)
      return;
    box.append(button("\xD7", () => page.select({ rank: -1, comm: -1, op: -1 }), "close"), el("h2", incident.culprits.has(rank) ? "bad" : "", `Rank ${rank}`));
    if (row === void 0) {
      box.append(el("p", "", "No data from this rank."));
      return;
    }
    box.append(el("p", "", incident.where(row), incident.ranks.pid[row] ? `, PID ${incident.ranks.pid[row]}` : ""), el("p", "state", incident.stateText(row)));
    const calls = el("table"), end = incident.endCall[row];
    if (!incident.here[row])
      incident.want([row]);
    let first = Math.max(incident.firstCall[row], end - CALLS);
    for (let call = incident.firstCall[row]; call < end && op >= 0; call++) {
      if (incident.seq[call] === op && (comm < 0 || incident.commOf(row, call) === comm))
        first = Math.max(incident.firstCall[row], Math.min(first, call - CALLS / 2));
    }
    for (let call = first; call < Math.min(end, first + CALLS); call++) {
      const inComm = incident.commOf(row, call), chosen = incident.seq[call] === op && (comm < 0 || inComm === comm), state = incident.state[call];
      calls.append(el(
        "tr",
        (chosen ? "chosen " : "") + (state >= State.failed ? "bad" : ""),
        el("td", "", incident.callName(call)),
        el("td", "", incident.commName(inComm)),
        el("td", "", incident.stateName(state)),
        el("td", "faint", incident.siteOf(call))
      ));
    }
    const m = comm >= 0 ? incident.membershipIn(row, comm) : -1;
    if (op >= 0 && m >= 0 && incident.issued[m] >= -1 && incident.issued[m] < op)
      calls.append(el("tr", "bad chosen", el("td", "", `#${op}`), el("td", "", incident.commName(comm)), el("td", "", incident.stateName(State.missing)), el("td")));
    if (!incident.here[row])
      calls.append(el("tr", "", el("td", "faint", incident.served ? incident.trouble || "loading from the server" : "not on this page")));
    box.append(el("h3", "", "Calls"), calls, el("h3", "", "Stack"));
    const stacks = incident.stacksOf(rank);
    for (const stack of stacks)
      box.append(el("ol", "stack", ...stack.frames.slice(0, 40).map(([text], at) => el("li", at === stack.own ? "own" : "", text))));
    if (!stacks.length)
      box.append(el("p", "faint", "No stack was taken."));
    box.append(button("In the matrix (2)", () => page.open("matrix")));
  }

  // colors.ts
  var names = [
    [State.outside, "outside"],
    [State.completed, "completed"],
    [State.gone, "gone"],
    [State.issued, "issued"],
    [State.enqueued, "enqueued"],
    [State.started, "started"],
    [State.waiting, "waiting"],
    [State.noData, "nodata"],
    [State.failed, "failed"],
    [State.mismatch, "mismatch"],
    [State.missing, "missing"],
    [State.behind, "behind"]
  ];
  function palette() {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(`--${name}`).trim();
    const state = [];
    for (const [number, name] of names)
      state[number] = read(name);
    return {
      state,
      text: read("text"),
      faint: read("faint"),
      line: read("line"),
      back: read("back"),
      accent: read("accent"),
      bad: read("bad"),
      band: read("band")
    };
  }
  var severity = [];
  [
    State.outside,
    State.gone,
    State.completed,
    State.issued,
    State.enqueued,
    State.started,
    State.behind,
    State.waiting,
    State.noData,
    State.failed,
    State.mismatch,
    State.missing
  ].forEach((state, place) => {
    severity[state] = place;
  });
  var FONT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
  var BOLD = "bold " + FONT;

  // focus.ts
  var ROW = 30;
  var HEAD = 44;
  var LABEL = 230;
  var NOTE = 330;
  var CELL = 40;
  var BESIDE = ["job", "python", "stack"];
  var FocusView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "focus");
      this.canvas = el("canvas", "picture");
      this.tip = el("div", "tip");
      this.focus = page.incident.file.focus ?? { comm: -1, title: "", fault: "", columns: 1, faultColumn: 0, firstSeq: -1, rows: [] };
      this.root.append(this.canvas, this.tip, this.cards());
      this.canvas.addEventListener("click", (event) => this.click(event));
      this.canvas.addEventListener("mousemove", (event) => this.hover(event));
      this.canvas.addEventListener("mouseleave", () => {
        this.tip.textContent = "";
      });
    }
    cards() {
      const incident = this.page.incident, left = el("div"), out = el("div"), finding = incident.file.findings[0], section = incident.file.sections[0];
      const culprit = [...incident.culprits][0];
      if (finding) {
        const stacks = culprit === void 0 ? [] : incident.stacksOf(culprit), card = el("section", "card");
        card.append(el("h2", "", culprit === void 0 ? "Stack" : `Stack of rank ${culprit}`));
        for (const stack of stacks.slice(0, 2))
          card.append(el("ol", "stack", ...stack.frames.slice(0, 24).map(([text], at) => el("li", at === stack.own ? "own" : "", text))));
        if (!stacks.length)
          card.append(el("p", "faint", finding.stacks.find((stack) => stack.refused)?.refused || "No stack was taken."));
        out.append(card);
      }
      if (finding && finding.sites.length) {
        const card = el("section", "card sites", el("h2", "", "Call sites"));
        for (const [ranks, op, place] of finding.sites.slice(0, 8)) {
          const bad = runsRanks(ranks, 100).some((rank) => incident.culprits.has(rank));
          card.append(el("p", bad ? "bad" : "", el("b", "", place || "not recorded"), el("br"), `${op}, ${runsText(ranks)}`));
        }
        out.append(card);
      }
      for (const mismatch of incident.file.mismatches.slice(0, 1)) {
        const card = el("section", "card", el("h2", "", `Calls differ in ${mismatch.field}`));
        for (const group of mismatch.groups.slice(0, 6))
          card.append(el("p", group.usual ? "" : "bad", el("b", "", group.value), el("br"), runsText(group.ranks)));
        out.append(card);
      }
      if (section) {
        const card = el("section", "card wide", el("h2", "", "What to do, and why"));
        const list = el("dl");
        const order = [...section.rows.filter((row) => row[0] === "do"), ...section.rows.filter((row) => !BESIDE.includes(row[0]) && row[0] !== "do")];
        for (const [label, lines] of order)
          list.append(el("dt", "", label), el("dd", "", ...lines.map((line) => el("p", "", line))));
        card.append(list);
        left.append(card);
      }
      const all = el("div", "cards", left, out), more = el(
        "p",
        "more",
        button("Whole job (w)", () => this.page.open("matrix", { rank: -1, comm: -1, op: -1 })),
        " ",
        button("Who waits for whom (3)", () => this.page.open("waits"))
      );
      all.append(more);
      return all;
    }
    geometry() {
      const width = Math.max(600, this.root.clientWidth - 36), note = width > 1e3 ? NOTE : 20;
      const cell = Math.min(CELL, (width - LABEL - note) / this.focus.columns);
      return { width, cell, end: LABEL + this.focus.columns * cell };
    }
    draw() {
      const { width, cell, end } = this.geometry(), { rows, fault, faultColumn } = this.focus, height = HEAD + rows.length * ROW + 8;
      const g = context(this.canvas, width, height);
      if (!g)
        return;
      const colors = palette(), x = LABEL + faultColumn * cell;
      g.fillStyle = colors.back;
      g.fillRect(0, 0, width, height);
      g.textBaseline = "middle";
      if (fault) {
        g.fillStyle = colors.band;
        g.fillRect(x - 2, HEAD - 6, cell + 4, height - HEAD + 2);
      }
      this.drawHead(g, colors, x, cell);
      rows.forEach((row, at) => this.drawRow(g, colors, row, HEAD + at * ROW, cell, end, width));
      this.drawMark(g, colors, x, cell, end, width);
    }
    drawHead(g, colors, x, cell) {
      const { title, fault, faultColumn, firstSeq } = this.focus;
      g.font = BOLD;
      g.fillStyle = colors.text;
      g.fillText(fitText(g, title, LABEL - 16), 8, 16);
      g.font = FONT;
      g.fillStyle = colors.faint;
      if (this.focus.comm < 0)
        return;
      if (firstSeq < 0)
        g.fillText("the last sends and receives of each rank, newest on the right", LABEL, 28);
      else
        for (let column = faultColumn - 5; column >= 0; column -= 5)
          g.fillText(`#${firstSeq + column}`, LABEL + column * cell + 2, 28);
      if (!fault)
        return;
      g.fillStyle = colors.bad;
      g.font = BOLD;
      g.textAlign = "center";
      g.fillText(fault, x + cell / 2, 14);
      g.textAlign = "left";
      g.beginPath();
      g.moveTo(x + cell / 2 - 7, 25);
      g.lineTo(x + cell / 2 + 7, 25);
      g.lineTo(x + cell / 2, 36);
      g.fill();
    }
    drawRow(g, colors, row, y, cell, end, width) {
      const middle = y + ROW / 2 - 2;
      if (row.culprit) {
        g.fillStyle = colors.band;
        g.fillRect(0, y - 2, width, ROW);
        g.fillStyle = colors.bad;
        g.fillRect(0, y - 2, 4, ROW);
      }
      g.font = row.culprit || !row.cells.length ? BOLD : FONT;
      g.fillStyle = row.culprit ? colors.bad : colors.text;
      const label = fitText(g, row.label, LABEL - 20);
      g.fillText(label, 10, middle);
      const used = g.measureText(label).width;
      g.font = FONT;
      g.fillStyle = colors.faint;
      g.fillText(fitText(g, row.place, LABEL - 30 - used), 18 + used, middle);
      if (!row.cells.length) {
        g.fillStyle = colors.state[row.kind === WaitKind.healthy ? State.completed : row.kind === WaitKind.noData ? State.noData : State.waiting];
        g.fillRect(LABEL, y + 8, Math.max(end - LABEL, 60), ROW - 20);
        return;
      }
      row.cells.forEach(([state, call], column) => {
        const x = LABEL + column * cell, w = Math.max(2, cell - 2), h = ROW - 6;
        if (state === State.gone || state === State.missing && !row.culprit) {
          g.strokeStyle = colors.line;
          g.setLineDash([3, 3]);
          g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
          g.setLineDash([]);
          return;
        }
        if (state === State.outside || state === State.missing)
          return;
        g.fillStyle = colors.state[state];
        g.fillRect(x, y, w, h);
        if (state === State.mismatch || state === State.failed) {
          g.strokeStyle = colors.bad;
          g.lineWidth = 3;
          g.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
          g.lineWidth = 1;
        }
        if (call && cell >= 22) {
          g.fillStyle = state === State.completed || state === State.issued ? colors.faint : colors.text;
          g.textAlign = "center";
          g.fillText(call, x + w / 2, middle, w);
          g.textAlign = "left";
        }
      });
    }
    // Marks the fault with a red frame, a red cross if there is no call, and a text next to it.
    drawMark(g, colors, x, cell, end, width) {
      this.focus.rows.forEach((row, at) => {
        const y = HEAD + at * ROW, w = Math.max(8, cell - 2), h = ROW - 6;
        if (row.culprit && this.focus.fault) {
          g.strokeStyle = colors.bad;
          g.lineWidth = 3;
          g.strokeRect(x + 1, y + 1, w - 2, h - 2);
          g.beginPath();
          const cx = x + w / 2, cy = y + h / 2, r = Math.min(7, w / 3);
          if (row.cells[this.focus.faultColumn]?.[0] === State.missing) {
            g.moveTo(cx - r, cy - r);
            g.lineTo(cx + r, cy + r);
            g.moveTo(cx + r, cy - r);
            g.lineTo(cx - r, cy + r);
          }
          g.stroke();
          g.lineWidth = 1;
        }
        if (end + 100 > width || !row.state)
          return;
        g.font = row.culprit ? BOLD : FONT;
        g.fillStyle = row.culprit ? colors.bad : colors.faint;
        const from = end + 10;
        g.fillText(fitText(g, (row.culprit ? "\u25C0 " : "") + row.state, width - from - 6), from, y + ROW / 2 - 2);
      });
    }
    at(event) {
      const row = this.focus.rows[Math.floor((event.offsetY - HEAD) / ROW)];
      return row ? { row, column: Math.floor((event.offsetX - LABEL) / this.geometry().cell) } : null;
    }
    hover(event) {
      const found = this.at(event);
      if (found)
        this.tip.textContent = `${found.row.label} ${found.row.place} \u2014 ${found.row.cells[found.column]?.[2] || found.row.state}`;
    }
    click(event) {
      const found = this.at(event);
      if (!found)
        return;
      const { firstSeq, comm } = this.focus, seq = firstSeq >= 0 && found.row.cells[found.column]?.[1] ? firstSeq + found.column : -1;
      if (runsCount(found.row.ranks) === 1)
        this.page.select({ rank: found.row.ranks[0], comm, op: seq });
      else
        this.page.open("waits");
    }
  };

  // graph.ts
  var WIDTH = 300;
  var HEIGHT = 62;
  var GAP_X = 148;
  var GAP_Y = 14;
  var MOST = 60;
  var GraphView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "graph scroll");
      this.canvas = el("canvas");
      this.boxes = [];
      this.leftOut = 0;
      this.width = 0;
      this.height = 0;
      this.layout();
      const what = el("p", "faint", "Each box is a set of ranks in one state. An arrow points to what a box waits for; causes are on the left.");
      if (this.leftOut)
        what.append(` ${count(this.leftOut)} more ${this.leftOut === 1 ? "box is" : "boxes are"} not drawn.`);
      this.root.append(what, this.canvas);
      this.canvas.addEventListener("click", (event) => {
        const box = this.boxes.find((b) => event.offsetX >= b.x && event.offsetX <= b.x + WIDTH && event.offsetY >= b.y && event.offsetY <= b.y + HEIGHT);
        if (!box)
          return;
        const one = page.incident.file.waits.classes[box.node];
        page.select({ rank: runsRanks(one.ranks, 1)[0] ?? -1, comm: one.comm, op: one.seq });
      });
    }
    layout() {
      const { classes, edges } = this.page.incident.file.waits;
      const layer = new Array(classes.length).fill(-1);
      let front = classes.map((_, node) => node).filter((node) => classes[node].kind === WaitKind.cause || classes[node].kind === WaitKind.cycle);
      const waiters = /* @__PURE__ */ new Map();
      for (const [from, to] of edges)
        waiters.set(to, [...waiters.get(to) ?? [], from]);
      for (let depth = 0; front.length; depth++) {
        for (const node of front)
          layer[node] = depth;
        front = [...new Set(front.flatMap((node) => waiters.get(node) ?? []))].filter((node) => layer[node] < 0);
      }
      const columns = Math.max(0, ...layer) + 1, filled = new Array(columns + 1).fill(0);
      classes.forEach((one, node) => {
        if (one.kind === WaitKind.healthy && layer[node] < 0)
          return;
        const column = layer[node] < 0 ? columns : layer[node];
        if (filled[column] >= MOST) {
          this.leftOut++;
          return;
        }
        this.boxes.push({ node, x: 12 + column * (WIDTH + GAP_X), y: 12 + filled[column]++ * (HEIGHT + GAP_Y) });
      });
      this.width = Math.max(0, ...this.boxes.map((box) => box.x + WIDTH)) + 12;
      this.height = Math.max(0, ...this.boxes.map((box) => box.y + HEIGHT)) + 12;
    }
    draw() {
      const { classes, edges } = this.page.incident.file.waits, colors = palette();
      if (!this.boxes.length) {
        this.canvas.replaceWith(el("p", "", "No rank waits for another."));
        return;
      }
      const g = context(this.canvas, Math.max(this.width, 600), this.height);
      if (!g)
        return;
      const place = new Map(this.boxes.map((box) => [box.node, box]));
      g.fillStyle = colors.back;
      g.fillRect(0, 0, this.canvas.width, this.canvas.height);
      g.font = FONT;
      g.textBaseline = "middle";
      for (const [from, to, why, cycle] of edges) {
        const a = place.get(from), b = place.get(to);
        if (!a || !b)
          continue;
        const x1 = a.x, y1 = a.y + HEIGHT / 2, x2 = b.x + WIDTH, y2 = b.y + HEIGHT / 2;
        g.strokeStyle = g.fillStyle = cycle || classes[to].kind === WaitKind.cause ? colors.bad : colors.faint;
        g.beginPath();
        g.moveTo(x1, y1);
        g.bezierCurveTo(x1 - 40, y1, x2 + 50, y2, x2 + 8, y2);
        g.stroke();
        g.beginPath();
        g.moveTo(x2, y2);
        g.lineTo(x2 + 9, y2 - 5);
        g.lineTo(x2 + 9, y2 + 5);
        g.fill();
        if (x1 > x2)
          g.fillText(fitText(g, why, GAP_X - 22), x2 + 14, y1 - 9);
      }
      for (const box of this.boxes) {
        const one = classes[box.node], bad = one.kind === WaitKind.cause || one.kind === WaitKind.cycle;
        g.fillStyle = bad ? colors.band : colors.back;
        g.fillRect(box.x, box.y, WIDTH, HEIGHT);
        g.strokeStyle = bad ? colors.bad : colors.line;
        g.lineWidth = bad ? 3 : 1;
        g.strokeRect(box.x, box.y, WIDTH, HEIGHT);
        g.lineWidth = 1;
        g.font = BOLD;
        g.fillStyle = bad ? colors.bad : colors.text;
        g.fillText(fitText(g, one.label, WIDTH - 16), box.x + 8, box.y + 14);
        g.font = FONT;
        g.fillStyle = colors.text;
        g.fillText(fitText(g, one.state, WIDTH - 16), box.x + 8, box.y + 32);
        g.fillStyle = colors.faint;
        g.fillText(fitText(g, runsText(one.ranks, 6), WIDTH - 16), box.x + 8, box.y + 50);
      }
    }
  };

  // viewport.ts
  var Viewport = class {
    constructor(redraw, mostHigh = Infinity) {
      this.redraw = redraw;
      this.mostHigh = mostHigh;
      this.x0 = 0;
      this.x1 = 1;
      this.y0 = 0;
      this.y1 = 1;
      this.width = 1;
      this.height = 1;
    }
    size(width, height) {
      if (width === this.width && height === this.height)
        return;
      this.width = Math.max(1, width);
      this.height = Math.max(1, height);
      this.all();
    }
    all() {
      this.set(0, this.width, 0, this.height);
    }
    set(x0, x1, y0, y1) {
      [this.x0, this.x1] = inside(x0, x1, this.width);
      const extra = Math.max(0, y1 - y0 - this.mostHigh) / 2;
      [this.y0, this.y1] = inside(y0 + extra, y1 - extra, this.height);
    }
    zoom(factor, atX, atY, both = true) {
      const cx = this.x0 + (this.x1 - this.x0) * atX, cy = this.y0 + (this.y1 - this.y0) * atY;
      const w = (this.x1 - this.x0) * factor, h = (this.y1 - this.y0) * (both ? factor : 1);
      this.set(cx - w * atX, cx + w * (1 - atX), cy - h * atY, cy + h * (1 - atY));
      this.redraw();
    }
    move(dx, dy) {
      this.set(this.x0 + dx, this.x1 + dx, this.y0 + dy, this.y1 + dy);
      this.redraw();
    }
    // Shows a cell in the center of this many columns and rows.
    showCell(x, y, columns, rows) {
      this.set(x + 0.5 - columns / 2, x + 0.5 + columns / 2, y + 0.5 - rows / 2, y + 0.5 + rows / 2);
    }
    key(event) {
      const stepX = (this.x1 - this.x0) / 8, stepY = (this.y1 - this.y0) / 8;
      switch (event.key) {
        case "+":
        case "=":
          this.zoom(0.7, 0.5, 0.5);
          return true;
        case "-":
          this.zoom(1 / 0.7, 0.5, 0.5);
          return true;
        case "0":
          this.all();
          this.redraw();
          return true;
        case "ArrowLeft":
          this.move(-stepX, 0);
          return true;
        case "ArrowRight":
          this.move(stepX, 0);
          return true;
        case "ArrowUp":
          this.move(0, -stepY);
          return true;
        case "ArrowDown":
          this.move(0, stepY);
          return true;
        default:
          return false;
      }
    }
    // `area` returns the picture's position on the canvas.
    attach(canvas, area, click) {
      let from = null;
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        const a = area();
        const atX = clamp((event.offsetX - a.x) / a.w), atY = clamp((event.offsetY - a.y) / a.h);
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, atX, atY, !event.shiftKey);
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        from = { x: event.clientX, y: event.clientY, moved: false };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (!from)
          return;
        const dx = event.clientX - from.x, dy = event.clientY - from.y;
        if (!from.moved && Math.abs(dx) + Math.abs(dy) < 4)
          return;
        const a = area();
        from = { x: event.clientX, y: event.clientY, moved: true };
        this.move(-dx / a.w * (this.x1 - this.x0), -dy / a.h * (this.y1 - this.y0));
      });
      canvas.addEventListener("pointerup", (event) => {
        if (from && !from.moved)
          click(event.offsetX, event.offsetY);
        from = null;
      });
    }
  };
  function clamp(share) {
    return Math.min(1, Math.max(0, share));
  }
  function inside(low, high, size) {
    const width = Math.min(size, Math.max(high - low, Math.min(1, size)));
    const start = Math.min(Math.max(0, low), size - width);
    return [start, start + width];
  }

  // matrix.ts
  var LEFT = 150;
  var TOP = 26;
  var RIGHT = 40;
  var MatrixView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "matrix fill");
      this.canvas = el("canvas");
      this.box = el("div", "canvas", this.canvas);
      this.tip = el("div", "tip");
      this.choice = el("select");
      this.port = new Viewport(() => this.draw());
      this.shown = "";
      // by row: the rank's current state
      this.picture = el("canvas");
      // the last drawn cells, for redraws that only change what is on top of them
      this.pictured = [];
      const incident = page.incident;
      this.choice.append(new Option("every call, in program order", "-1"));
      incident.file.lanes.forEach((lane, at) => this.choice.append(new Option(`collectives of ${lane}`, String(at))));
      const collective = !/^(Send|Recv)/i.test(incident.file.findings[0]?.op ?? "");
      this.choice.value = String((collective && incident.file.comms[incident.focusComm]?.lane) ?? -1);
      this.choice.addEventListener("change", () => {
        this.port.all();
        this.draw();
      });
      this.now = Uint8Array.from(incident.ranks.rank, (rank, row) => stateNow(incident.culprits.has(rank), incident.waitClass(row)?.kind));
      const hint = el("span", "faint", "wheel or + and - zoom, drag or arrows move, 0 shows all, click selects a cell");
      this.root.append(el("div", "bar", this.choice, hint), this.box, this.tip, this.legend());
      this.port.attach(this.canvas, () => this.area(), (x, y) => this.click(x, y));
      this.canvas.addEventListener("mousemove", (event) => this.hover(event.offsetX, event.offsetY));
    }
    get lane() {
      return Number(this.choice.value);
    }
    legend() {
      const out = el("div", "legend"), names2 = ["completed", "issued", "enqueued", "waiting", "behind", "missing", "mismatch", "failed"];
      for (const name of names2) {
        const key = el("span", "", el("i", "key " + name), this.page.incident.stateName(State[name]));
        key.title = this.page.incident.stateMeaning(State[name]);
        out.append(key);
      }
      return out;
    }
    area() {
      return { x: LEFT, y: TOP, w: Math.max(1, this.box.clientWidth - LEFT - RIGHT), h: Math.max(1, this.box.clientHeight - TOP) };
    }
    draw() {
      const { rank, comm, op } = this.page.place(), incident = this.page.incident, asked = `${rank} ${comm} ${op}`;
      const row = incident.rowOf.get(rank), g = context(this.canvas, this.box.clientWidth, this.box.clientHeight);
      if (row !== void 0 && asked !== this.shown)
        this.chooseLane(comm);
      const grid = incident.grid(this.lane);
      if (!g)
        return;
      if (!grid) {
        this.drawNothing(g);
        return;
      }
      this.port.size(Math.max(1, grid.columns), Math.max(1, incident.rows));
      if (row !== void 0 && asked !== this.shown)
        this.showPlace(grid, row, op);
      this.shown = asked;
      this.keepCells(grid);
      g.drawImage(this.picture, 0, 0, this.box.clientWidth, this.box.clientHeight);
      this.drawAxes(g, grid);
    }
    keepCells(grid) {
      const { x0, x1, y0, y1 } = this.port, { clientWidth, clientHeight } = this.box;
      const shows = [grid, x0, x1, y0, y1, clientWidth, clientHeight, window.devicePixelRatio, palette().back, this.page.incident.seq.length];
      if (shows.every((one, at) => one === this.pictured[at]))
        return;
      const g = context(this.picture, clientWidth, clientHeight);
      if (!g)
        return;
      this.pictured = shows;
      this.drawCells(g, grid);
    }
    drawNothing(g) {
      const { incident } = this.page;
      g.fillStyle = palette().text;
      g.font = FONT;
      g.fillText(incident.served ? incident.trouble || "loading the calls of all ranks" : "This page is too small to contain the calls.", 20, 40);
    }
    chooseLane(comm) {
      const lane = this.page.incident.file.comms[comm]?.lane ?? -1;
      if (lane >= 0 && this.lane >= 0)
        this.choice.value = String(lane);
    }
    showPlace(grid, row, op) {
      if (op < 0)
        return;
      const column = grid.firstSeq >= 0 ? op - grid.firstSeq : this.columnOf(grid, row, op);
      if (column >= 0 && column < grid.columns)
        this.port.showCell(column, row, 24, 24);
    }
    columnOf(grid, row, op) {
      const { incident } = this.page, { comm } = this.page.place();
      for (let call = incident.endCall[row] - 1; call >= incident.firstCall[row]; call--) {
        if (incident.seq[call] === op && (comm < 0 || incident.commOf(row, call) === comm))
          return grid.columns - (incident.endCall[row] - call);
      }
      return -1;
    }
    // A line is one rank, or all ranks on one pixel: then the worst state is drawn. The same applies to columns.
    drawCells(g, grid) {
      const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, rows = this.page.incident.rows;
      g.fillStyle = colors.back;
      g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
      const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), wide = cw >= 1, first = Math.floor(x0), last = Math.min(Math.ceil(x1), grid.columns);
      const line = new Uint8Array(wide ? Math.max(0, last - first) : Math.ceil(a.w)), seen = new Int32Array(grid.patterns).fill(-1);
      const gapX = cw > 6 ? 1 : 0, gapY = ch > 6 ? 1 : 0, late = [];
      g.save();
      g.beginPath();
      g.rect(a.x, a.y, a.w, a.h);
      g.clip();
      const paint = (from, to, state) => {
        const begin = wide ? from - first : Math.max(0, Math.floor((from - x0) * cw)), end = wide ? to - first : Math.min(line.length, Math.ceil((to - x0) * cw));
        for (let at = begin; at < end; at++)
          if (severity[state] > severity[line[at]])
            line[at] = state;
      };
      const lines = ch >= 1 ? Math.ceil(y1) - Math.floor(y0) : Math.ceil(a.h);
      for (let n = 0; n < lines; n++) {
        const row = ch >= 1 ? Math.floor(y0) + n : Math.floor(y0 + n / ch), end = Math.min(rows, ch >= 1 ? row + 1 : Math.max(row + 1, Math.floor(y0 + (n + 1) / ch)));
        if (row >= rows)
          break;
        line.fill(State.outside);
        for (let r = row; r < end; r++) {
          const pattern = grid.patternOf[r];
          if (pattern < 0 || seen[pattern] === n)
            continue;
          seen[pattern] = n;
          grid.visit(pattern, first, last, paint);
        }
        const y = a.y + (ch >= 1 ? (row - y0) * ch : n), height = ch >= 1 ? ch - gapY : 1;
        for (let at = 0; at < line.length; ) {
          let to = at + 1;
          while (to < line.length && line[to] === line[at])
            to++;
          const state = line[at], x = a.x + (wide ? (first + at - x0) * cw : at), right = a.x + (wide ? (first + to - x0) * cw - gapX : to);
          at = to;
          if (state === State.outside)
            continue;
          if (severity[state] >= severity[State.failed]) {
            late.push([state, x, y, Math.max(1, right - x), Math.max(3, height)]);
            continue;
          }
          g.fillStyle = colors.state[state];
          g.fillRect(x, y, right - x, height);
        }
      }
      for (const [state, x, y, w, h] of late) {
        g.fillStyle = colors.state[state];
        g.fillRect(x, y, w, h);
      }
      if (gapX) {
        g.fillStyle = colors.back;
        for (let column = first + 1; column < last; column++)
          g.fillRect(a.x + (column - x0) * cw - gapX, a.y, gapX, a.h);
      }
      if (cw > 90 && ch > 14)
        this.drawNames(g, grid, cw, ch);
      g.restore();
      this.drawNow(g, ch);
    }
    drawNames(g, grid, cw, ch) {
      const { incident } = this.page, a = this.area(), { x0, x1, y0, y1 } = this.port, inSight = [];
      g.fillStyle = palette().text;
      g.font = FONT;
      g.textBaseline = "middle";
      for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), incident.rows); row++) {
        inSight.push(row);
        for (let column = Math.floor(x0); column < Math.min(Math.ceil(x1), grid.columns); column++) {
          const call = incident.callAt(grid, row, column), x = Math.max(a.x, a.x + (column - x0) * cw);
          if (call >= 0)
            g.fillText(fitText(g, incident.callName(call), cw - 8), x + 4, a.y + (row + 0.5 - y0) * ch);
        }
      }
      incident.want(inSight);
    }
    // One cell for each rank: moving, waiting, at fault. A stuck job is visible in every lane.
    drawNow(g, ch) {
      const colors = palette(), a = this.area(), { y0, y1 } = this.port, rows = Math.min(Math.ceil(y1), this.page.incident.rows);
      for (let row = Math.floor(y0); row < rows; ) {
        let worst = this.now[row], end = row + 1;
        for (; end < rows && (end - row) * ch < 1; end++)
          if (severity[this.now[end]] > severity[worst])
            worst = this.now[end];
        g.fillStyle = colors.state[worst];
        const top = Math.floor(a.y + (row - y0) * ch), bottom = Math.ceil(a.y + (end - y0) * ch);
        g.fillRect(a.x + a.w + 6, top, 14, Math.max(worst === State.missing ? 3 : 1, bottom - top - (ch > 6 ? 1 : 0)));
        row = end;
      }
    }
    drawAxes(g, grid) {
      const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, incident = this.page.incident;
      const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), place = this.page.place();
      g.font = FONT;
      g.textBaseline = "middle";
      g.fillStyle = colors.back;
      g.fillRect(0, 0, LEFT, a.h + TOP);
      g.fillRect(0, 0, a.w + LEFT + RIGHT, TOP);
      g.fillStyle = colors.faint;
      const stepX = nice(90 / cw), stepY = nice(16 / ch);
      for (let column = Math.ceil(x0 / stepX) * stepX; column < Math.min(x1, grid.columns); column += stepX) {
        const text = grid.firstSeq >= 0 ? `#${grid.firstSeq + column}` : `${column - grid.columns + 1}`;
        g.fillText(text, a.x + (column - x0) * cw + 2, 13);
      }
      for (let row2 = Math.ceil(y0 / stepY) * stepY; row2 < Math.min(y1, incident.rows); row2 += stepY) {
        const y = a.y + (row2 + 0.5 - y0) * ch;
        if (incident.culprits.has(incident.ranks.rank[row2]))
          continue;
        g.fillText(fitText(g, `${incident.ranks.rank[row2]}  ${incident.host(row2)}`, LEFT - 20), 8, y);
      }
      g.fillText("now", a.x + a.w + 2, 13);
      g.font = BOLD;
      let lastY = -100;
      for (const rank of incident.culprits) {
        const row2 = incident.rowOf.get(rank);
        if (row2 === void 0 || row2 + 1 < y0 || row2 > y1)
          continue;
        const y = Math.min(Math.max(a.y + (row2 + 0.5 - y0) * ch, a.y + 4), a.y + a.h - 4);
        g.fillStyle = colors.bad;
        g.beginPath();
        g.moveTo(a.x + a.w + RIGHT, y - 7);
        g.lineTo(a.x + a.w + RIGHT, y + 7);
        g.lineTo(a.x + a.w + 24, y);
        g.fill();
        if (Math.abs(y - lastY) < 14)
          continue;
        lastY = y;
        g.fillStyle = colors.back;
        g.fillRect(0, y - 9, LEFT - 2, 18);
        g.fillStyle = colors.bad;
        g.fillText(fitText(g, `rank ${rank} \u25B6`, LEFT - 10), 8, y);
        g.fillRect(LEFT - 4, y - Math.max(2, ch / 2), 4, Math.max(4, ch));
      }
      this.ring(g, grid, colors.bad, incident.focusSeq, [...incident.culprits].slice(0, 4));
      const row = incident.rowOf.get(place.rank);
      if (row !== void 0 && row + 1 > y0 && row < y1) {
        g.strokeStyle = colors.accent;
        g.lineWidth = 2;
        g.strokeRect(a.x, a.y + (row - y0) * ch, a.w, Math.max(3, ch));
        g.lineWidth = 1;
      }
    }
    // A circle around the faulty cell makes it visible in the picture of the whole job.
    ring(g, grid, color, seq, ranks) {
      const a = this.area(), { x0, x1, y0, y1 } = this.port, cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), incident = this.page.incident;
      for (const rank of ranks) {
        const row = incident.rowOf.get(rank);
        if (row === void 0)
          continue;
        const column = grid.firstSeq >= 0 && seq >= 0 ? seq - grid.firstSeq : grid.columns - 1;
        if (column < x0 - 1 || column > x1 || row < y0 - 1 || row > y1 || column >= grid.columns)
          continue;
        g.strokeStyle = color;
        g.lineWidth = 3;
        g.beginPath();
        g.ellipse(a.x + (column + 0.5 - x0) * cw, a.y + (row + 0.5 - y0) * ch, Math.max(12, cw * 0.7), Math.max(12, ch * 0.7), 0, 0, 7);
        g.stroke();
        g.lineWidth = 1;
      }
    }
    cell(grid, x, y) {
      const a = this.area(), { x0, x1, y0, y1 } = this.port;
      const column = Math.floor(x0 + (x - a.x) / a.w * (x1 - x0)), row = Math.floor(y0 + (y - a.y) / a.h * (y1 - y0));
      return y < a.y || row >= this.page.incident.rows ? null : { row, column: x < a.x || column >= grid.columns ? -1 : column };
    }
    hover(x, y) {
      const incident = this.page.incident, grid = incident.grid(this.lane), found = grid && this.cell(grid, x, y);
      if (!grid || !found)
        return;
      const call = found.column >= 0 ? incident.callAt(grid, found.row, found.column) : -1;
      const name = call >= 0 ? incident.callName(call) + " on " + incident.commName(incident.commOf(found.row, call)) : grid.firstSeq >= 0 ? `#${grid.firstSeq + found.column}` : "call";
      const what = found.column < 0 ? incident.stateText(found.row) : `${name}: ${incident.stateName(grid.stateAt(found.row, found.column))}`;
      this.tip.textContent = `rank ${incident.ranks.rank[found.row]} (${incident.where(found.row)}) \u2014 ${what} ${call >= 0 ? incident.siteOf(call) : ""}`;
    }
    click(x, y) {
      const incident = this.page.incident, grid = incident.grid(this.lane), found = grid && this.cell(grid, x, y);
      if (!grid || !found)
        return;
      const call = found.column >= 0 ? incident.callAt(grid, found.row, found.column) : -1;
      const place = {
        rank: incident.ranks.rank[found.row],
        comm: call >= 0 ? incident.commOf(found.row, call) : -1,
        op: call >= 0 ? incident.seq[call] : found.column >= 0 && grid.firstSeq >= 0 ? grid.firstSeq + found.column : -1
      };
      this.shown = `${place.rank} ${place.comm} ${place.op}`;
      this.page.select(place);
    }
    key(event) {
      return this.port.key(event);
    }
  };
  function nice(least) {
    for (let step = 1; ; step *= 10)
      for (const factor of [1, 2, 5])
        if (step * factor >= least)
          return step * factor;
  }
  function stateNow(culprit, kind) {
    if (culprit)
      return State.missing;
    if (kind === WaitKind.noData)
      return State.noData;
    return kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause ? State.waiting : State.completed;
  }

  // search.ts
  var MOST2 = 30;
  function find(page, wanted, openStacks) {
    const { incident } = page, text = wanted.trim().toLowerCase(), hits = [];
    if (!text)
      return hits;
    const number = /^(?:rank\s*)?(\d+)$/.exec(text), call = /^#(\d+)$/.exec(text);
    if (number)
      addRank(page, hits, Number(number[1]));
    if (call)
      addCalls(page, hits, Number(call[1]));
    const hosts = /* @__PURE__ */ new Map();
    const here = (name) => {
      let known2 = hosts.get(name);
      if (known2 === void 0)
        hosts.set(name, known2 = incident.text(name).toLowerCase().includes(text));
      return known2;
    };
    for (let row = 0; row < incident.rows && hits.length < MOST2; row++) {
      const rank = incident.ranks.rank[row];
      if (here(incident.ranks.host[row]))
        hits.push({ text: `rank ${rank}, ${incident.where(row)}`, go: () => page.select({ rank, comm: -1, op: -1 }) });
    }
    incident.file.comms.forEach((comm, index) => {
      if (hits.length < MOST2 && comm.name.toLowerCase().includes(text))
        hits.push({ text: `communicator ${comm.name}, ${plural(comm.size, "member")}`, go: () => page.open("matrix", { rank: comm.ranks[0] ?? -1, comm: index, op: -1 }) });
    });
    const seen = /* @__PURE__ */ new Set(), { frame, ranks } = incident.file.stacks;
    frame.forEach((name, node) => {
      if (hits.length >= MOST2 || seen.has(name) || !incident.text(name).toLowerCase().includes(text))
        return;
      seen.add(name);
      hits.push({ text: `frame ${incident.text(name)}, ${plural(runsCount(ranks[node]), "rank")}`, go: () => openStacks(incident.text(name)) });
    });
    return hits;
  }
  function addRank(page, hits, rank) {
    const row = page.incident.rowOf.get(rank);
    if (row !== void 0)
      hits.push({ text: `rank ${rank}, ${page.incident.where(row)}: ${page.incident.stateText(row)}`, go: () => page.select({ rank, comm: -1, op: -1 }) });
  }
  function addCalls(page, hits, seq) {
    const incident = page.incident, seen = /* @__PURE__ */ new Set();
    const add = (row, comm, name) => {
      seen.add(comm);
      const rank = incident.ranks.rank[row];
      hits.push({ text: `${name} on ${incident.commName(comm)}`, go: () => page.open("matrix", { rank, comm, op: seq }) });
    };
    for (let row = 0; row < incident.rows && hits.length < MOST2; row++) {
      for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++) {
        const comm = incident.commOf(row, call);
        if (incident.seq[call] === seq && !seen.has(comm))
          add(row, comm, incident.callName(call));
      }
    }
    for (let row = 0; row < incident.rows && hits.length < MOST2; row++) {
      for (let m = incident.firstMembership[row]; m < incident.firstMembership[row + 1] && hits.length < MOST2; m++) {
        if (incident.issued[m] >= seq && !seen.has(incident.memberComm[m]))
          add(row, incident.memberComm[m], `#${seq}`);
      }
    }
  }
  var SearchBox = class {
    constructor(page, openStacks) {
      this.page = page;
      this.openStacks = openStacks;
      this.root = el("div", "search");
      this.input = el("input");
      this.list = el("div", "hits");
      this.hits = [];
      this.input.type = "search";
      this.input.id = "search";
      this.input.placeholder = "rank, host, communicator, #call, function  ( / )";
      this.root.append(this.input, this.list);
      this.input.addEventListener("input", () => this.fill());
      this.input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && this.hits.length)
          this.take(this.hits[0]);
        if (event.key === "Escape")
          this.close();
      });
      this.input.addEventListener("blur", () => this.list.replaceChildren());
    }
    focus() {
      this.input.focus();
      this.input.select();
    }
    close() {
      this.input.value = "";
      this.list.replaceChildren();
      this.input.blur();
    }
    take(hit) {
      this.close();
      hit.go();
    }
    fill() {
      this.hits = find(this.page, this.input.value, this.openStacks);
      const lines = this.hits.map((hit) => {
        const line = el("div", "hit", hit.text);
        line.addEventListener("mousedown", () => this.take(hit));
        return line;
      });
      if (!lines.length && this.input.value.trim())
        lines.push(el("div", "hit faint", "nothing found"));
      this.list.replaceChildren(...lines);
    }
  };

  // tables.ts
  var MOST3 = 100;
  var few = () => Math.min(MOST3, Math.ceil(window.innerHeight / 20));
  var NAMES = new Intl.Collator("en", { numeric: true });
  function textOf(column, row) {
    return column.text ? column.text(row) : String(column.value(row));
  }
  function compared(a, b) {
    if (a === b)
      return 0;
    if (typeof a === "number" && typeof b === "number")
      return a - b;
    return a === "" ? -1 : b === "" ? 1 : NAMES.compare(String(a), String(b));
  }
  var Table = class {
    constructor(columns, rows, sort, bad, chosen, click, embedded = false) {
      this.columns = columns;
      this.rows = rows;
      this.chosen = chosen;
      this.click = click;
      this.embedded = embedded;
      this.root = el("div", "table scroll");
      this.filter = el("input");
      this.head = el("tr");
      this.body = el("tbody");
      this.note = el("span", "faint");
      this.by = 0;
      this.down = false;
      this.texts = [];
      // by row: 1 if the row is drawn as bad
      this.order = [];
      // the rows on the page
      this.count = 0;
      // number of rows that match the filter
      this.limit = few();
      // maximum number of rows in the document
      this.shown = null;
      if (embedded)
        this.root.className = "table";
      [this.by, this.down] = sort;
      this.marks = Uint8Array.from({ length: rows }, (_, row) => Number(bad(row)));
      this.filter.placeholder = "filter";
      this.filter.addEventListener("input", () => this.arrange());
      columns.forEach((column, at) => {
        const cell = el("th", "", column.name);
        cell.tabIndex = 0;
        cell.title = column.meaning ?? "";
        const sortBy = () => {
          this.down = this.by === at ? !this.down : false;
          this.by = at;
          this.arrange();
        };
        cell.addEventListener("click", sortBy);
        cell.addEventListener("keydown", (event) => {
          if (event.key === "Enter")
            sortBy();
        });
        this.head.append(cell);
      });
      this.root.addEventListener("scroll", () => {
        if (this.limit === MOST3 || this.root.scrollTop + 2 * this.root.clientHeight < this.root.scrollHeight)
          return;
        const from = this.limit;
        this.limit = MOST3;
        this.body.append(...this.lines(from));
      });
      this.root.append(el("div", "bar", this.filter, this.note), el("table", "", el("thead", "", this.head), this.body));
      this.arrange();
    }
    // Keeps the first rows in the column's order: only a few are shown, so the others need not be sorted.
    arrange() {
      const wanted = this.filter.value.trim().toLowerCase(), { value } = this.columns[this.by], sign = this.down ? -1 : 1, first = [], values = [];
      this.count = 0;
      for (let row = 0; row < this.rows; row++) {
        if (wanted && !this.words(row).includes(wanted))
          continue;
        this.count++;
        const own = value(row), before = (at) => this.marks[row] - this.marks[first[at]] || sign * compared(values[at], own);
        if (first.length === MOST3 && before(MOST3 - 1) <= 0)
          continue;
        let low = 0, high = first.length;
        while (low < high) {
          const middle = low + high >> 1;
          if (before(middle) > 0)
            high = middle;
          else
            low = middle + 1;
        }
        first.splice(low, 0, row);
        values.splice(low, 0, own);
        if (first.length > MOST3) {
          first.pop();
          values.pop();
        }
      }
      this.order = first;
      this.limit = few();
      this.root.scrollTop = 0;
      this.fill();
    }
    fill() {
      this.note.textContent = this.count > MOST3 ? `${count(this.count - MOST3)} more rows; use the filter` : plural(this.count, "row");
      this.body.replaceChildren(...this.lines(0));
      [...this.head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== this.by ? "none" : this.down ? "descending" : "ascending"));
    }
    lines(from) {
      const isChosen = this.chosen();
      return this.order.slice(from, this.limit).map((row) => {
        const line = el("tr", (this.marks[row] ? "bad " : "") + (isChosen(row) ? "chosen" : ""), ...this.columns.map((column) => el("td", "", textOf(column, row))));
        line.addEventListener("click", () => this.click(row));
        return line;
      });
    }
    // All text that the filter searches.
    words(row) {
      var _a;
      return (_a = this.texts)[row] ?? (_a[row] = this.columns.map((column) => textOf(column, row)).join("\n").toLowerCase());
    }
    draw() {
      const now = document.location.hash;
      if (now !== this.shown || this.embedded) {
        this.shown = now;
        this.fill();
      }
    }
  };
  function named(page, columns) {
    return columns.map(([key, value]) => {
      const [name, meaning] = page.incident.file.columns[key];
      return { name, meaning, value };
    });
  }
  var known = (value) => value < 0 ? "" : value;
  function rankTable(page) {
    const { incident } = page, ranks = incident.ranks;
    const columns = named(page, [
      ["rank", (row) => ranks.rank[row]],
      ["host", (row) => incident.host(row)],
      ["gpu", (row) => known(ranks.gpu[row])],
      ["pid", (row) => ranks.pid[row] || ""],
      ["stage", (row) => known(ranks.stage[row])],
      ["class", (row) => incident.file.waitKinds[incident.waitClass(row)?.kind ?? WaitKind.healthy]],
      ["lag", (row) => known(ranks.lag[row])],
      ["lost", (row) => ranks.lost[row]],
      ["state", (row) => incident.stateText(row)]
    ]);
    return new Table(
      columns,
      incident.rows,
      [0, false],
      (row) => incident.culprits.has(ranks.rank[row]),
      () => (row) => ranks.rank[row] === page.place().rank,
      (row) => page.select({ rank: ranks.rank[row], comm: -1, op: -1 })
    );
  }
  function commTable(page) {
    const { incident } = page, comms = incident.file.comms;
    const low = comms.map(() => Infinity), high = comms.map(() => -Infinity), seen = comms.map(() => 0);
    for (let m = 0; m < incident.memberComm.length; m++) {
      const comm = incident.memberComm[m], issued = incident.issued[m];
      if (comm >= comms.length || issued === -2)
        continue;
      low[comm] = Math.min(low[comm], Math.max(issued, 0));
      high[comm] = Math.max(high[comm], Math.max(issued, 0));
      seen[comm]++;
    }
    const columns = [
      ...named(page, [["comm", (comm) => comms[comm].name], ["size", (comm) => comms[comm].size]]),
      { name: "Recorded", meaning: "Members with data", value: (comm) => seen[comm] },
      { name: "Newest call", value: (comm) => seen[comm] ? high[comm] : "" },
      { name: "Spread", meaning: "Calls between the first and the last member", value: (comm) => seen[comm] ? high[comm] - low[comm] : "" },
      { name: "Members", value: (comm) => runsCount(comms[comm].ranks) ? runsText(comms[comm].ranks, 8) : "unknown" }
    ];
    return new Table(
      columns,
      comms.length,
      [0, false],
      (comm) => comm === incident.focusComm,
      () => (comm) => comm === page.place().comm,
      (comm) => page.open("matrix", { rank: comms[comm].ranks[0] ?? -1, comm, op: -1 })
    );
  }
  function speedTable(speeds, chosen, click) {
    const share = (rate) => (at) => speeds[at].roof > 0 ? speeds[at].rate[rate] / speeds[at].roof : -1;
    const shown = (value) => ({ value: (at) => known(value(at)), text: (at) => value(at) < 0 ? "?" : percent(value(at)) });
    const columns = [
      { name: "Operation", value: (at) => speeds[at].op },
      { name: "Payload", meaning: "As nccl-tests counts it", value: (at) => speeds[at].bytes, text: (at) => payload(speeds[at].bytes) },
      { name: "Ranks", value: (at) => speeds[at].ranks },
      { name: "Hosts", meaning: "Hosts that each communicator spans", value: (at) => speeds[at].hosts || "" },
      { name: "Comms", value: (at) => speeds[at].comms },
      { name: "Calls", meaning: "Number of measured calls", value: (at) => speeds[at].rate[0] },
      { name: "GB/s", meaning: "Bus bandwidth, the median", value: (at) => speeds[at].rate[2], text: (at) => gigabytes(speeds[at].rate[2]) },
      { name: "Share", meaning: "Share of the possible speed", ...shown(share(2)) },
      { name: "10 %", meaning: "A tenth of the calls were slower", ...shown(share(1)) },
      { name: "90 %", meaning: "A tenth of the calls were faster", ...shown(share(3)) },
      { name: "Possible GB/s", value: (at) => speeds[at].roof || "", text: (at) => speeds[at].roof > 0 ? gigabytes(speeds[at].roof) : "unknown" },
      { name: "Possible by", value: (at) => speeds[at].roofName },
      { name: "Clock", value: (at) => speeds[at].clock }
    ];
    return new Table(columns, speeds.length, [0, false], () => false, () => (at) => at === chosen(), click, true);
  }
  function startTable(page, start) {
    const seconds2 = (value) => ({ value: (at) => known(value(at)), text: (at) => value(at) < 0 ? "" : value(at).toFixed(3) });
    const columns = [
      { name: "Rank", value: (at) => start.ranks[at].rank },
      { name: "Host", value: (at) => start.ranks[at].host },
      { name: "Last in", meaning: "Creations in which the rank arrived last, by a second or more", value: (at) => `${start.ranks[at].last}/${start.ranks[at].creations}` },
      { name: "Late by s", meaning: "Total lateness in these creations", ...seconds2((at) => start.ranks[at].late) },
      ...start.phases.map((phase, nth) => ({ name: `${phase.column} s`, meaning: phase.name, ...seconds2((at) => start.ranks[at].seconds[nth]) }))
    ];
    return new Table(
      columns,
      start.ranks.length,
      [3, true],
      () => false,
      () => (at) => start.ranks[at].rank === page.place().rank,
      (at) => page.select({ rank: start.ranks[at].rank, comm: -1, op: -1 }),
      true
    );
  }

  // speed.ts
  var LEFT2 = 72;
  var BELOW = 44;
  var TOP2 = 14;
  var SIZE_HEIGHT = 250;
  var HOST_HEIGHT = 190;
  var NEAR = 14;
  var MARKS = ["\u25CF", "\u25A0", "\u25B2", "\u25C6", "\u25BC", "\u25CB", "\u25A1", "\u25B3", "\u25C7", "\u25BD"];
  var SHARE = { value: (speed, rate) => speed.roof > 0 ? rate / speed.roof : -1, label: (value) => `${(100 * value).toFixed(0)} %` };
  function ratesUpTo(top) {
    return { value: (_, rate) => rate / top, label: (value) => gigabytes(value * top) + (value < 1 ? "" : " GB/s") };
  }
  function scale(speed) {
    return `${count(speed.ranks)} ranks` + (speed.hosts === 1 ? " on one host" : speed.hosts ? ` on ${count(speed.hosts)} hosts` : "");
  }
  var SpeedView = class {
    // x, y, speed
    constructor(page) {
      this.page = page;
      this.root = el("div", "speed scroll");
      this.bySize = el("canvas");
      this.byHost = el("canvas");
      this.hostTitle = el("h2");
      this.note = el("p", "faint");
      this.tip = el("div", "tip");
      this.table = null;
      this.series = /* @__PURE__ */ new Map();
      // kind of operation and number of ranks: its symbol
      this.chosen = 0;
      this.points = [];
      const { speeds } = page.incident.file;
      if (!speeds.length) {
        this.root.append(el("p", "", "Not measured: the data does not contain times of the operations themselves."));
        return;
      }
      for (const speed of speeds)
        if (!this.series.has(this.seriesOf(speed)))
          this.series.set(this.seriesOf(speed), this.series.size);
      this.table = speedTable(speeds, () => this.chosen, (speed) => {
        this.chosen = speed;
        this.draw();
      });
      this.root.append(el("h2", "", "Bus bandwidth by message size"), this.note, this.bySize, this.tip, this.hostTitle, this.byHost, this.table.root);
      this.bySize.addEventListener("mousemove", (event) => {
        const at = this.near(event);
        this.tip.textContent = at < 0 ? "" : this.text(speeds[at]);
      });
      this.bySize.addEventListener("click", (event) => {
        const at = this.near(event);
        if (at >= 0) {
          this.chosen = at;
          this.draw();
        }
      });
      this.byHost.addEventListener("mousemove", (event) => {
        const host = this.hostAt(event);
        this.tip.textContent = host ? this.hostText(host) : "";
      });
      this.byHost.addEventListener("click", (event) => {
        const host = this.hostAt(event);
        if (host)
          this.selectHost(host[0]);
      });
    }
    seriesOf(speed) {
      return `${speed.op}, ${scale(speed)}`;
    }
    // Without a roofline, 100 % is unknown, and the axis shows GB/s.
    get known() {
      return this.page.incident.file.speeds.some((speed) => speed.roof > 0);
    }
    rateText(speed, [n, low, median, high]) {
      const all = `${gigabytes(median)} GB/s, 10 to 90 % of ${count(n)} calls: ${gigabytes(low)} to ${gigabytes(high)} GB/s`;
      return speed.roof > 0 ? `${percent(median / speed.roof)} of ${gigabytes(speed.roof)} GB/s (${speed.roofName}); ${all}` : `${all}; the possible speed is unknown`;
    }
    text(speed) {
      return `${speed.op} of ${payload(speed.bytes)}, ${scale(speed)}: ${this.rateText(speed, speed.rate)}`;
    }
    hostText([host, ...rate]) {
      return `${host}: ${this.rateText(this.page.incident.file.speeds[this.chosen], rate)}`;
    }
    draw() {
      if (!this.table)
        return;
      const { speeds } = this.page.incident.file, width = Math.max(200, this.root.clientWidth - 34), colors = palette(), speed = speeds[this.chosen];
      const left = speeds.filter((one) => one.roof <= 0).length;
      this.note.textContent = !this.known ? "The possible speed is unknown, so there is no 100 %; lockstep analyze --line-rate GBITS or --nccl-tests FILE sets it." : "100 % is the possible speed (" + [...new Set(speeds.filter((one) => one.roof > 0).map((one) => one.roofName))].slice(0, 3).join("; ") + "). Lines span 10 to 90 % of the calls." + (left ? ` For ${count(left)} of ${count(speeds.length)} rows this is unknown; the table shows their GB/s.` : "");
      this.drawSizes(width, colors);
      const hosts = speed.hostRates.length;
      this.hostTitle.textContent = `${speed.op} of ${payload(speed.bytes)}, ${scale(speed)}: ` + (hosts === 0 ? speed.comms === 1 ? "one communicator, so all its hosts have the same speed" : "the hosts are unknown" : hosts < speed.hostsMeasured ? `the slowest ${count(hosts)} of ${count(speed.hostsMeasured)} hosts` : `${count(hosts)} hosts, slowest first`);
      this.byHost.hidden = hosts === 0;
      if (hosts)
        this.drawHosts(width, colors, speed);
      this.table.draw();
    }
    axes(g, width, height, colors, axis) {
      const y = (value) => TOP2 + (1 - Math.min(value, 1.05)) * (height - TOP2 - BELOW);
      g.font = FONT;
      g.textBaseline = "middle";
      g.textAlign = "right";
      for (let step = 0; step <= 4; step++) {
        g.strokeStyle = colors.line;
        g.globalAlpha = step === 4 ? 1 : 0.5;
        g.beginPath();
        g.moveTo(LEFT2, y(step / 4));
        g.lineTo(width - 8, y(step / 4));
        g.stroke();
        g.globalAlpha = 1;
        g.fillStyle = colors.faint;
        g.fillText(axis.label(step / 4), LEFT2 - 6, y(step / 4));
      }
      g.textAlign = "left";
      return y;
    }
    drawSizes(width, colors) {
      const g = context(this.bySize, width, SIZE_HEIGHT), { speeds } = this.page.incident.file;
      if (!g)
        return;
      g.clearRect(0, 0, width, SIZE_HEIGHT);
      const axis = this.known ? SHARE : ratesUpTo(Math.max(...speeds.map((speed) => speed.rate[3])));
      const y = this.axes(g, width, SIZE_HEIGHT, colors, axis), shown = speeds.filter((speed) => axis.value(speed, 1) >= 0), sizes = shown.map((speed) => Math.log2(speed.bytes));
      const first = Math.floor(Math.min(...sizes)), last = Math.max(first + 1, Math.ceil(Math.max(...sizes)));
      const x = (bytes2) => LEFT2 + 20 + (Math.log2(bytes2) - first) / (last - first) * (width - LEFT2 - 60);
      g.textAlign = "center";
      const every = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.floor((width - LEFT2) / 70))));
      for (let power = first; power <= last; power += every)
        g.fillText(payload(2 ** power), x(2 ** power), SIZE_HEIGHT - BELOW + 12);
      this.points = [];
      g.textBaseline = "middle";
      speeds.forEach((speed, at) => {
        if (axis.value(speed, 1) < 0)
          return;
        const px = x(speed.bytes), [, low, median, high] = speed.rate, py = y(axis.value(speed, median)), mark = MARKS[this.series.get(this.seriesOf(speed)) % MARKS.length];
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
      let legend = LEFT2;
      for (const [name, number] of this.series) {
        const text = `${MARKS[number % MARKS.length]} ${name}`;
        g.fillStyle = colors.text;
        if (legend + g.measureText(text).width > width - 30) {
          g.fillText("\u2026", legend, SIZE_HEIGHT - 10);
          break;
        }
        g.fillText(text, legend, SIZE_HEIGHT - 10);
        legend += g.measureText(text).width + 22;
      }
    }
    hostStep(width) {
      return Math.min(60, (width - LEFT2 - 8) / this.page.incident.file.speeds[this.chosen].hostRates.length);
    }
    drawHosts(width, colors, speed) {
      const g = context(this.byHost, width, HOST_HEIGHT), axis = speed.roof > 0 ? SHARE : ratesUpTo(Math.max(...speed.hostRates.map((rate) => rate[4])));
      const value = (rate) => axis.value(speed, rate);
      if (!g)
        return;
      g.clearRect(0, 0, width, HOST_HEIGHT);
      const y = this.axes(g, width, HOST_HEIGHT, colors, axis), step = this.hostStep(width);
      let free = 0;
      speed.hostRates.forEach(([host, , low, median, high], at) => {
        const left = LEFT2 + at * step, middle = left + step / 2;
        g.fillStyle = colors.state[5];
        g.fillRect(left + 1, y(value(median)), Math.max(1, step - 2), y(0) - y(value(median)));
        g.strokeStyle = colors.text;
        g.beginPath();
        g.moveTo(middle, y(value(low)));
        g.lineTo(middle, y(value(high)));
        g.stroke();
        if (left < free)
          return;
        g.fillStyle = colors.faint;
        const name = fitText(g, host, 110);
        g.fillText(name, left + 1, HOST_HEIGHT - BELOW + 14);
        free = left + g.measureText(name).width + 10;
      });
    }
    near(event) {
      let best = -1, distance = NEAR * NEAR;
      for (const [x, y, at] of this.points) {
        const d = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
        if (d < distance) {
          best = at;
          distance = d;
        }
      }
      return best;
    }
    hostAt(event) {
      return this.page.incident.file.speeds[this.chosen].hostRates[Math.floor((event.offsetX - LEFT2) / this.hostStep(this.byHost.clientWidth))];
    }
    selectHost(host) {
      const { incident } = this.page, row = incident.ranks.host.findIndex((_, at) => incident.host(at) === host);
      if (row >= 0)
        this.page.select({ rank: incident.ranks.rank[row], comm: -1, op: -1 });
    }
  };

  // stacks.ts
  var StacksView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "stacks scroll");
      this.children = /* @__PURE__ */ new Map();
      this.open = /* @__PURE__ */ new Set();
      this.filter = el("input");
      this.list = el("div", "tree");
      this.shown = -1;
      const { parent, ranks } = page.incident.file.stacks;
      parent.forEach((above, node) => this.children.set(above, [...this.children.get(above) ?? [], node]));
      for (const nodes of this.children.values())
        nodes.sort((a, b) => Number(this.bad(b)) - Number(this.bad(a)) || runsCount(ranks[b]) - runsCount(ranks[a]) || a - b);
      parent.forEach((above, node) => {
        if (this.bad(node) || above < 0 || this.children.get(above).length === 1)
          this.open.add(node);
      });
      this.filter.placeholder = "only stacks with this function or file";
      this.filter.addEventListener("input", () => this.fill());
      const all = button("Open all", () => {
        parent.forEach((_, node) => this.open.add(node));
        this.fill();
      });
      const none = button("Close all", () => {
        this.open.clear();
        this.fill();
      });
      this.root.append(el("div", "bar", this.filter, all, none), this.list);
      this.fill();
    }
    bad(node) {
      const runs = this.page.incident.file.stacks.ranks[node];
      for (const rank of this.page.incident.culprits)
        if (inRuns(runs, rank))
          return true;
      return false;
    }
    matches(wanted) {
      const { parent, frame } = this.page.incident.file.stacks, out = /* @__PURE__ */ new Set();
      for (let node = parent.length - 1; node >= 0; node--) {
        if (out.has(node) || this.page.incident.text(frame[node]).toLowerCase().includes(wanted))
          for (let n = node; n >= 0; n = parent[n])
            out.add(n);
      }
      return out;
    }
    fill() {
      const { ranks, frame, parent } = this.page.incident.file.stacks, incident = this.page.incident;
      const wanted = this.filter.value.trim().toLowerCase(), kept = wanted ? this.matches(wanted) : null;
      const total = Math.max(1, incident.rows), rank = this.page.place().rank;
      this.list.replaceChildren();
      if (!parent.length)
        this.list.append(el("p", "faint", "No stacks were taken."));
      let left = 3e3;
      const add = (node, depth) => {
        if (kept && !kept.has(node) || left-- < 0)
          return;
        const below = this.children.get(node) ?? [], n = runsCount(ranks[node]), open = kept !== null || this.open.has(node);
        const line = el("div", "node" + (this.bad(node) ? " bad" : "") + (inRuns(ranks[node], rank) ? " chosen" : ""));
        const width = el("i", "width");
        width.style.width = `${Math.max(1, n / total * 100)}px`;
        const name = el("span", "frame", (below.length ? open ? "\u25BE " : "\u25B8 " : "\u2022 ") + incident.text(frame[node]));
        name.style.paddingLeft = `${Math.min(depth, 60) * 14}px`;
        line.append(el("span", "count", count(n)), el("span", "share", width), name);
        if (!below.length)
          line.append(el("span", "faint", runsText(ranks[node], 4)));
        line.addEventListener("click", () => {
          if (!below.length) {
            this.page.select({ rank: runsRanks(ranks[node], 1)[0] ?? -1, comm: -1, op: -1 });
            return;
          }
          if (open)
            this.open.delete(node);
          else
            this.open.add(node);
          this.fill();
        });
        this.list.append(line);
        if (open)
          for (const child of below)
            add(child, depth + 1);
      };
      for (const node of this.children.get(-1) ?? [])
        add(node, 0);
      if (left < 0)
        this.list.append(el("p", "faint", "There are more stacks; use the filter."));
    }
    draw() {
      if (this.page.place().rank !== this.shown) {
        this.shown = this.page.place().rank;
        this.fill();
      }
    }
    search(text) {
      this.filter.value = text;
      this.fill();
    }
  };

  // start.ts
  var LEFT3 = 72;
  var TOP3 = 14;
  var BELOW2 = 26;
  var HEIGHT2 = 300;
  var SCALE = 4;
  var COLORS = [State.waiting, State.completed, State.started, State.issued, State.noData, State.mismatch];
  var StartView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "start scroll");
      this.canvas = el("canvas");
      this.tip = el("div", "tip");
      this.legend = el("div", "legend");
      this.ranks = [];
      // ascending by rank, so that ranks of a host are next to each other
      this.table = null;
      const { start } = page.incident.file;
      if (!start || !start.ranks.length) {
        this.root.append(el("p", "", start?.text || "Not recorded: the data does not contain times of communicator creation."));
        return;
      }
      this.ranks = [...start.ranks].sort((a, b) => a.rank - b.rank);
      this.table = startTable(page, start);
      const shown = start.ranks.length < page.incident.rows ? `the ${count(start.ranks.length)} ranks that others waited for most, and the slowest` : `${count(start.ranks.length)} ranks`;
      this.root.append(el("p", "", start.text), el("h2", "", `Phases by rank: ${shown}`), this.canvas, this.tip, this.legend, this.table.root);
      this.canvas.addEventListener("mousemove", (event) => {
        const at = this.ranks[this.at(event)];
        this.tip.textContent = at ? this.text(start, at) : "";
      });
      this.canvas.addEventListener("click", (event) => {
        const at = this.ranks[this.at(event)];
        if (at)
          page.select({ rank: at.rank, comm: -1, op: -1 });
      });
    }
    text(start, rank) {
      return `rank ${rank.rank} on ${rank.host || "an unknown host"}: ` + start.phases.map((phase, at) => `${phase.name} ${rank.seconds[at] < 0 ? "not recorded" : rank.seconds[at].toFixed(3) + " s"}`).join(", ");
    }
    step(width) {
      return (width - LEFT3 - 8) / this.ranks.length;
    }
    at(event) {
      return Math.floor((event.offsetX - LEFT3) / this.step(this.canvas.clientWidth));
    }
    draw() {
      const { start } = this.page.incident.file, width = Math.max(200, this.root.clientWidth - 34), g = context(this.canvas, width, HEIGHT2), colors = palette();
      if (!this.table || !start || !g)
        return;
      const sum = (rank) => rank.seconds.reduce((all, one) => all + Math.max(one, 0), 0);
      const most = Math.max(1e-9, ...this.ranks.map(sum)), y = (seconds2) => TOP3 + (1 - seconds2 / most) * (HEIGHT2 - TOP3 - BELOW2), step = this.step(width);
      g.clearRect(0, 0, width, HEIGHT2);
      g.font = FONT;
      g.textBaseline = "middle";
      g.textAlign = "right";
      for (let tick = 0; tick <= SCALE; tick++) {
        g.fillStyle = colors.line;
        g.fillRect(LEFT3, y(most * tick / SCALE), width - LEFT3 - 8, 1);
        g.fillStyle = colors.faint;
        g.fillText(`${(most * tick / SCALE).toPrecision(3)} s`, LEFT3 - 6, y(most * tick / SCALE));
      }
      g.textAlign = "left";
      let free = 0;
      this.ranks.forEach((rank, at) => {
        const left = LEFT3 + at * step;
        let from = 0;
        rank.seconds.forEach((seconds2, phase) => {
          if (seconds2 <= 0)
            return;
          g.fillStyle = colors.state[COLORS[phase % COLORS.length]];
          g.fillRect(left, y(from + seconds2), Math.max(1, step - (step > 4 ? 1 : 0)), y(from) - y(from + seconds2));
          from += seconds2;
        });
        if (rank.rank === this.page.place().rank) {
          g.strokeStyle = colors.accent;
          g.lineWidth = 2;
          g.strokeRect(left, y(from), Math.max(2, step), y(0) - y(from));
        }
        if (left < free)
          return;
        g.fillStyle = colors.faint;
        const name = fitText(g, String(rank.rank), 60);
        g.fillText(name, left, HEIGHT2 - BELOW2 / 2);
        free = left + g.measureText(name).width + 14;
      });
      this.legend.replaceChildren(...start.phases.map((phase, at) => {
        const key = el("span", "key");
        key.style.background = colors.state[COLORS[at % COLORS.length]];
        return el("span", "", key, `${phase.name}: ` + (phase.ranks ? `median ${phase.median.toFixed(3)} s, longest ${phase.longest.toFixed(3)} s` + (phase.longestRank >= 0 ? ` (rank ${phase.longestRank})` : "") : "not recorded"));
      }));
      this.table.draw();
    }
  };

  // timeline.ts
  var LEFT4 = 150;
  var TOP4 = 26;
  var MOST_ROWS = 120;
  var TimelineView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "timeline fill");
      this.canvas = el("canvas");
      this.box = el("div", "canvas", this.canvas);
      this.tip = el("div", "tip");
      this.first = Infinity;
      this.last = 0;
      const incident = page.incident;
      this.rows = incident.ranks.rank.map((_, row) => row);
      const bad = (row) => Number(incident.culprits.has(incident.ranks.rank[row]));
      const peer = (row) => Number(incident.membershipIn(row, incident.focusComm) >= 0);
      if (!incident.served)
        this.rows = this.rows.filter((row) => incident.here[row]);
      const rank = incident.ranks.rank.map((_, row) => 2 * bad(row) + peer(row));
      this.rows.sort((a, b) => rank[b] - rank[a] || a - b);
      this.port = new Viewport(() => this.draw(), incident.served ? MOST_ROWS : Infinity);
      this.fit();
      this.root.append(
        el("div", "bar", el("span", "faint", "culprits first, then their peers; wheel zooms, Shift+wheel zooms only in time; drag or arrows move; 0 shows all")),
        this.box,
        this.tip
      );
      this.port.attach(this.canvas, () => this.area(), (x, y) => {
        const row = this.rowAt(x, y);
        if (row >= 0)
          page.select({ rank: incident.ranks.rank[row], comm: -1, op: -1 });
      });
      this.canvas.addEventListener("mousemove", (event) => this.hover(event.offsetX, event.offsetY));
    }
    // Sets the visible time when the first calls have arrived.
    fit() {
      const { begin, end, served, file } = this.page.incident;
      if (this.first !== Infinity || !begin.length)
        return;
      for (let call = 0; call < begin.length; call++) {
        if (!begin[call])
          continue;
        this.first = Math.min(this.first, begin[call]);
        this.last = Math.max(this.last, begin[call], end[call]);
      }
      if (this.first === Infinity)
        return;
      const newest = begin.filter((time) => time > 0).sort(), early = newest[Math.floor(newest.length * (served ? 0.8 : 0.1))] ?? this.first;
      if (served) {
        this.first = 1;
        this.last = Math.max(this.last, file.calls.span);
      }
      if (this.first >= this.last)
        this.last = this.first + 1;
      this.last += (this.last - this.first) * 0.03;
      this.port.size(Math.max(1, this.last - this.first), Math.max(1, this.rows.length));
      this.port.set(early - this.first, this.last - this.first, 0, Math.min(this.rows.length, 40));
    }
    area() {
      return { x: LEFT4, y: TOP4, w: Math.max(1, this.box.clientWidth - LEFT4 - 12), h: Math.max(1, this.box.clientHeight - TOP4) };
    }
    draw() {
      const g = context(this.canvas, this.box.clientWidth, this.box.clientHeight), colors = palette(), incident = this.page.incident;
      if (!g)
        return;
      if (this.first === Infinity) {
        incident.want(this.rows.slice(0, 40));
        this.fit();
      }
      const a = this.area(), { x0, x1, y0, y1 } = this.port, scale2 = a.w / (x1 - x0), ch = a.h / (y1 - y0);
      g.fillStyle = colors.back;
      g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
      g.font = FONT;
      g.textBaseline = "middle";
      if (this.first === Infinity) {
        g.fillStyle = colors.text;
        g.fillText(incident.served && !incident.begin.length ? incident.trouble || "loading the calls" : "The recording has no times.", 20, 40);
        return;
      }
      incident.want(this.rows.slice(Math.floor(y0), Math.ceil(y1)));
      const step = Math.max(1, Math.floor(1 / ch));
      for (let at = Math.floor(y0); at < Math.min(this.rows.length, Math.ceil(y1)); at += step) {
        const row = this.rows[at], y = a.y + (at - y0) * ch, rank = incident.ranks.rank[row], culprit = incident.culprits.has(rank);
        const h = Math.max(1, ch * step - (ch > 6 ? 2 : 0));
        if (culprit || rank === this.page.place().rank) {
          g.fillStyle = colors.band;
          g.fillRect(0, y, a.w + LEFT4, h);
        }
        let drawn = Infinity;
        const names2 = [];
        for (let call = incident.endCall[row] - 1; call >= incident.firstCall[row]; call--) {
          const state = incident.state[call], begin = incident.begin[call];
          if (!begin)
            continue;
          const end = incident.end[call] || (state === State.completed || state === State.issued ? begin : this.last);
          const left = a.x + (begin - this.first - x0) * scale2, right = a.x + (end - this.first - x0) * scale2;
          if (right < a.x || left > a.x + a.w)
            continue;
          const x = Math.max(a.x, left), w = Math.max(1.5, Math.min(right, a.x + a.w) - x);
          if (state === State.completed && w < 2 && Math.floor(x) === drawn)
            continue;
          if (state === State.completed)
            drawn = Math.floor(x);
          g.fillStyle = state === State.completed ? colors.state[State.started] : colors.state[state];
          g.fillRect(x, y, w, h);
          if (w > 60 && ch > 13)
            names2.push([call, x, w]);
        }
        g.fillStyle = colors.text;
        for (let n = names2.length - 1, free = Infinity, taken = -1; n >= 0; n--) {
          const [call, x, w] = names2[n];
          if (x < taken && x + w > free)
            continue;
          free = Math.min(free, x);
          taken = Math.max(taken, x + w);
          g.fillText(fitText(g, incident.callName(call), w - 6), x + 3, y + h / 2);
        }
        if (culprit && ch > 6)
          this.drawCulprit(g, row, y, h, scale2);
        if (ch * step >= 11 || culprit) {
          g.font = culprit ? BOLD : FONT;
          g.fillStyle = culprit ? colors.bad : colors.faint;
          g.fillText(fitText(g, `${rank}  ${incident.host(row)}`, LEFT4 - 16), 8, y + h / 2);
          g.font = FONT;
        }
      }
      g.fillStyle = colors.faint;
      const unit = incident.file.calls.unitNs / 1e9;
      for (let tick = 0; tick <= 6; tick++) {
        const at = x0 + (x1 - x0) * tick / 6 + this.first - this.last;
        g.textAlign = tick === 6 ? "right" : "left";
        g.fillText(seconds(at * unit), a.x + a.w * tick / 6, 13);
      }
      g.textAlign = "left";
    }
    // Draws what a culprit does instead of its next call, from the end of its last call on.
    drawCulprit(g, row, y, h, scale2) {
      const incident = this.page.incident, a = this.area(), colors = palette();
      let from = 0;
      for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++)
        from = Math.max(from, incident.end[call], incident.begin[call]);
      const x = Math.max(a.x, a.x + (from - this.first - this.port.x0) * scale2), w = a.x + a.w - x;
      if (!from || w < 4)
        return;
      g.strokeStyle = g.fillStyle = colors.bad;
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 1, w - 2, h - 2);
      g.lineWidth = 1;
      const text = incident.stateText(row);
      g.textAlign = "right";
      if (x - a.x > 120)
        g.fillText(fitText(g, text, x - a.x - 12), x - 6, y + h / 2);
      g.textAlign = "left";
    }
    rowAt(_x, y) {
      const a = this.area(), at = Math.floor(this.port.y0 + (y - a.y) / a.h * (this.port.y1 - this.port.y0));
      return y < a.y ? -1 : this.rows[at] ?? -1;
    }
    hover(x, y) {
      const row = this.rowAt(x, y), incident = this.page.incident, a = this.area();
      if (row < 0)
        return;
      const time = this.first + this.port.x0 + (x - a.x) / a.w * (this.port.x1 - this.port.x0);
      let found = -1;
      for (let call = incident.firstCall[row]; call < incident.endCall[row]; call++) {
        if (incident.begin[call] && incident.begin[call] <= time && (incident.end[call] || this.last) >= time)
          found = call;
      }
      const what = found >= 0 ? `${incident.callName(found)} on ${incident.commName(incident.commOf(row, found))}: ${incident.stateName(incident.state[found])} ${incident.siteOf(found)}` : "between calls";
      this.tip.textContent = `rank ${incident.ranks.rank[row]} \u2014 ${what}`;
    }
    key(event) {
      return this.port.key(event);
    }
  };
  function seconds(value) {
    const size = Math.abs(value);
    return size >= 1 ? `${value.toFixed(2)} s` : size >= 1e-3 ? `${(value * 1e3).toFixed(2)} ms` : `${(value * 1e6).toFixed(0)} \xB5s`;
  }

  // main.ts
  var VIEWS = [
    ["answer", "Answer"],
    ["matrix", "Matrix"],
    ["waits", "Wait-for"],
    ["timeline", "Timeline"],
    ["stacks", "Stacks"],
    ["ranks", "Ranks"],
    ["comms", "Communicators"],
    ["speed", "Speed"],
    ["report", "Report"],
    ["start", "Start"]
  ];
  var KEYS = [
    ["1 to 9", "views"],
    ["w", "the whole job; press again to go back to the answer"],
    ["/", "search: rank, host, communicator, #call, function"],
    ["+ - 0", "zoom in, zoom out, show all (matrix, timeline)"],
    ["arrows", "move (matrix, timeline)"],
    ["c", "next culprit"],
    ["Escape", "close, or clear the selection"],
    ["t", "switch between light and dark"],
    ["?", "show these keys"]
  ];
  var Main = class {
    constructor(incident) {
      this.incident = incident;
      this.views = /* @__PURE__ */ new Map();
      this.tabs = /* @__PURE__ */ new Map();
      this.body = el("main");
      this.details = el("aside");
      this.help = el("div", "help");
      this.trouble = el("p", "bad");
      this.current = "answer";
      this.at = { rank: -1, comm: -1, op: -1 };
      this.search = new SearchBox(this, (text) => {
        this.view("stacks").search(text);
        this.open("stacks");
      });
      this.build();
      incident.changed = () => this.draw();
      this.readHash();
      if (incident.served)
        requestAnimationFrame(() => window.setTimeout(() => incident.grid(-1)));
      window.addEventListener("hashchange", () => this.readHash());
      window.addEventListener("resize", () => this.draw());
      window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      document.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.draw()).observe(this.body);
    }
    place() {
      return this.at;
    }
    select(place) {
      this.open(this.current, place);
    }
    open(view, place = {}) {
      this.current = VIEWS.some(([name]) => name === view) ? view : "answer";
      this.at = { ...this.at, ...place };
      const parts = [];
      if (this.current !== "answer")
        parts.push("view=" + this.current);
      if (this.at.rank >= 0)
        parts.push("rank=" + this.at.rank);
      if (this.at.comm >= 0)
        parts.push("comm=" + encodeURIComponent(this.incident.commName(this.at.comm)));
      if (this.at.op >= 0)
        parts.push("op=" + this.at.op);
      history.replaceState(null, "", "#" + parts.join("&"));
      this.draw();
    }
    readHash() {
      const asked = new URLSearchParams(document.location.hash.slice(1)), number = (name) => /^\d{1,9}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : -1;
      const comm = asked.get("comm"), rank = number("rank"), op = number("op");
      this.at = { rank, op, comm: comm === null ? -1 : this.incident.file.comms.findIndex((one) => one.name === comm) };
      const view = asked.get("view") ?? (rank >= 0 && op >= 0 ? "matrix" : "answer");
      this.current = VIEWS.some(([name]) => name === view) ? view : "answer";
      this.draw();
    }
    build() {
      const { file } = this.incident, section = file.sections[0], healthy = file.verdict === "HEALTHY";
      document.title = `${file.verdict} ${file.job} - Lockstep`;
      const title = section?.title ?? "", chip = el("span", healthy ? "chip ok" : "chip", file.verdict);
      const head = el("header", "", el("h1", "", chip, " " + title));
      const facts = [
        file.job && `job ${file.job}`,
        this.incident.rows > 0 && file.read,
        file.findings.length > 1 && `${file.findings.length} findings`,
        file.note
      ].filter(Boolean).join(" \xB7 ");
      const nav = el("nav");
      VIEWS.forEach(([name, label], at) => {
        const tab = button(label, () => this.open(name), "tab");
        if (at < 9)
          tab.append(el("kbd", "", String(at + 1)));
        this.tabs.set(name, tab);
        nav.append(tab);
      });
      nav.append(el("span", "gap"), this.search.root, button("\u25D0", () => this.theme(), "icon"), button("?", () => this.toggleHelp(), "icon"));
      head.append(el("p", "faint", facts), this.trouble);
      this.help.hidden = true;
      const list = el("dl");
      for (const [key, what] of KEYS)
        list.append(el("dt", "", el("kbd", "", key)), el("dd", "", what));
      this.help.append(el("h2", "", "Keys"), list);
      document.body.append(head, nav, el("div", "middle", this.body, this.details), this.help);
    }
    report() {
      const root = el("div", "report scroll"), { file } = this.incident;
      for (const section of file.sections) {
        const rows = el("dl");
        for (const [label, lines] of section.rows)
          rows.append(el("dt", "", label), el("dd", "", ...lines.map((line) => el("p", "", line))));
        root.append(el("section", "card", section.title ? el("h2", "", section.title) : el("h2", "", "Data"), rows));
      }
      if (file.unknown.length)
        root.append(el("section", "card", el("h2", "", "Unknown"), ...file.unknown.map((line) => el("p", "", line))));
      return { root, draw: () => void 0 };
    }
    // Creates a view when it is first shown.
    view(name) {
      const made = this.views.get(name);
      if (made)
        return made;
      const make = {
        answer: () => new FocusView(this),
        matrix: () => new MatrixView(this),
        waits: () => new GraphView(this),
        stacks: () => new StacksView(this),
        timeline: () => new TimelineView(this),
        ranks: () => rankTable(this),
        comms: () => commTable(this),
        speed: () => new SpeedView(this),
        report: () => this.report(),
        start: () => new StartView(this)
      };
      const view = make[name]();
      this.views.set(name, view);
      return view;
    }
    draw() {
      const view = this.view(this.current);
      if (this.body.firstChild !== view.root)
        this.body.replaceChildren(view.root);
      for (const [name, tab] of this.tabs)
        tab.setAttribute("aria-current", String(name === this.current));
      this.trouble.textContent = this.incident.trouble;
      fillDetails(this.details, this);
      view.draw();
    }
    theme() {
      const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      this.draw();
    }
    toggleHelp() {
      this.help.hidden = !this.help.hidden;
    }
    nextCulprit() {
      const all = [...this.incident.culprits], now = all.indexOf(this.at.rank);
      if (all.length)
        this.select({ rank: all[(now + 1) % all.length], comm: this.incident.focusComm, op: this.incident.focusSeq });
    }
    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey)
        return;
      const target = event.target;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
        if (event.key === "Escape")
          target.blur();
        return;
      }
      const number = Number(event.key);
      if (number >= 1 && number <= VIEWS.length)
        this.open(VIEWS[number - 1][0]);
      else if (event.key === "w")
        this.open(this.current === "matrix" ? "answer" : "matrix", { rank: -1, comm: -1, op: -1 });
      else if (event.key === "/")
        this.search.focus();
      else if (event.key === "?")
        this.toggleHelp();
      else if (event.key === "t")
        this.theme();
      else if (event.key === "c")
        this.nextCulprit();
      else if (event.key === "Escape") {
        if (!this.help.hidden)
          this.toggleHelp();
        else
          this.select({ rank: -1, comm: -1, op: -1 });
      } else if (!this.view(this.current).key?.(event))
        return;
      event.preventDefault();
    }
  };
  new Main(readIncident());
})();
