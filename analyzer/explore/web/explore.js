"use strict";
(() => {
  // data.ts
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
  var PYTHON = 1;
  function bytes(base64) {
    const text = atob(base64), out = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++)
      out[i] = text.charCodeAt(i);
    return out.buffer;
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
      this.rowOf = /* @__PURE__ */ new Map();
      // of a rank
      this.culprits = /* @__PURE__ */ new Set();
      const none = { rank: [], host: [], gpu: [], pid: [], state: [], stage: [], cls: [], lag: [], lost: [] };
      this.ranks = { ...none, ...file.ranks };
      const { calls, memberships } = file;
      this.firstCall = starts(new Uint32Array(bytes(calls.ofRank)));
      this.membership = new Uint16Array(bytes(calls.membership));
      this.kind = new Uint8Array(bytes(calls.kind));
      this.state = new Uint8Array(bytes(calls.state));
      this.seq = new Int32Array(bytes(calls.seq));
      this.peer = new Int32Array(bytes(calls.peer));
      this.begin = new Uint32Array(bytes(calls.begin));
      this.end = new Uint32Array(bytes(calls.end));
      this.site = new Uint32Array(bytes(calls.site));
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
      return this.site.length ? this.text(this.site[call]) : "";
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
    // The membership of a rank in a communicator; -1 none.
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
    // Stacks of a rank, each with the innermost frame first. Those with Python frames come first: they say more than the interpreter's own.
    stacksOf(rank) {
      const { parent, ranks, frame, kind } = this.file.stacks, paths = /* @__PURE__ */ new Map();
      for (let node = 0; node < parent.length; node++) {
        if (!inRuns(ranks[node], rank))
          continue;
        const outer = paths.get(parent[node]) ?? [];
        paths.delete(parent[node]);
        paths.set(node, [[this.text(frame[node]), kind[node]], ...outer]);
      }
      let out = [...paths.values()];
      if (!out.length)
        out = this.file.findings.flatMap((finding) => finding.stacks).filter((one) => inRuns(one.ranks, rank) && one.frames.length > 0).map((one) => one.frames);
      const python = (stack) => Number(stack.some((one) => one[1] === PYTHON));
      return out.sort((a, b) => python(b) - python(a));
    }
  };
  function readIncident() {
    return new Incident(JSON.parse(document.getElementById("data").textContent));
  }

  // dom.ts
  function el(tag, className2 = "", ...children) {
    const out = document.createElement(tag);
    if (className2)
      out.className = className2;
    for (const child of children)
      if (child)
        out.append(child);
    return out;
  }
  function button(text, click, className2 = "") {
    const out = el("button", className2, text);
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
  function context(canvas, width, height) {
    const scale = window.devicePixelRatio || 1;
    if (width < 1 || height < 1)
      return null;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g?.setTransform(scale, 0, 0, scale, 0, 0);
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
  var COLUMNS = 30;
  var AFTER = 3;
  var FAULT = COLUMNS - 1 - AFTER;
  var ROW = 30;
  var HEAD = 44;
  var LABEL = 230;
  var NOTE = 330;
  var CELL = 40;
  var BESIDE = ["job", "python", "stack"];
  var MOST_CULPRITS = 4;
  var PEERS = 8;
  function short(name) {
    const words = {
      AllReduce: "AR",
      AllGather: "AG",
      ReduceScatter: "RS",
      Broadcast: "BC",
      Reduce: "RD",
      Send: "S",
      Recv: "R",
      AlltoAll: "A2A",
      Gather: "GA",
      Scatter: "SC"
    };
    return words[name] ?? name.slice(0, 3);
  }
  function cells(incident, row, comm, seq, collective) {
    const states = new Array(COLUMNS).fill(State.outside), calls = new Array(COLUMNS).fill(-1);
    const m = incident.membershipIn(row, comm);
    if (m < 0)
      return { states, calls };
    const own = [];
    for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
      if (incident.commOf(row, call) === comm && (collective ? incident.collective(call) : incident.pointToPoint(call)))
        own.push(call);
    }
    if (!collective) {
      const bad = incident.culprits.has(incident.ranks.rank[row]);
      const open = own.findIndex((call) => ![State.completed, State.issued].includes(incident.state[call]));
      const first = open >= 0 ? open : bad ? own.length : own.length - 1;
      own.forEach((call, place) => {
        const at = FAULT + place - first;
        if (at < 0 || at >= COLUMNS)
          return;
        states[at] = incident.state[call];
        calls[at] = call;
      });
      if (bad && open < 0)
        states[FAULT] = State.missing;
      return { states, calls };
    }
    const newest = Math.max(seq, 0), issued = incident.issued[m];
    for (let column = 0; column < COLUMNS; column++) {
      const number = newest - FAULT + column;
      if (number < 0 || column > FAULT)
        continue;
      if (issued === -2 || number <= issued)
        states[column] = number < 1 ? State.outside : State.gone;
      else
        states[column] = incident.culprits.has(incident.ranks.rank[row]) ? State.missing : State.behind;
    }
    for (const call of own) {
      const column = incident.seq[call] - newest + FAULT;
      if (column < 0 || column >= COLUMNS)
        continue;
      states[column] = incident.state[call];
      calls[column] = call;
    }
    return { states, calls };
  }
  function merge(parts) {
    const out = parts[0] ?? { states: new Array(COLUMNS).fill(State.outside), calls: new Array(COLUMNS).fill(-1) };
    for (const part of parts.slice(1)) {
      part.states.forEach((state, column) => {
        if (severity[state] > severity[out.states[column]]) {
          out.states[column] = state;
          out.calls[column] = part.calls[column];
        }
      });
    }
    return out;
  }
  var FocusView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "focus");
      this.canvas = el("canvas", "picture");
      this.tip = el("div", "tip");
      this.rows = [];
      const incident = page.incident;
      this.finding = incident.file.findings[0];
      let comm = incident.focusComm;
      const first = incident.rowOf.get([...incident.culprits][0] ?? incident.ranks.rank[0] ?? -1);
      if (comm < 0 && first !== void 0 && incident.firstCall[first + 1] > incident.firstCall[first])
        comm = incident.commOf(first, incident.firstCall[first + 1] - 1);
      this.comm = comm;
      this.collective = !this.finding || !/^(Send|Recv)/i.test(this.finding.op);
      this.seq = this.finding && this.finding.seq >= 0 ? this.finding.seq : this.newest();
      this.makeRows();
      this.root.append(this.canvas, this.tip, this.cards());
      this.canvas.addEventListener("click", (event) => this.click(event));
      this.canvas.addEventListener("mousemove", (event) => this.hover(event));
      this.canvas.addEventListener("mouseleave", () => {
        this.tip.textContent = "";
      });
    }
    newest() {
      const incident = this.page.incident;
      let newest = -1;
      for (let m = 0; m < incident.memberComm.length; m++)
        if (incident.memberComm[m] === this.comm)
          newest = Math.max(newest, incident.issued[m]);
      return newest;
    }
    makeRows() {
      const incident = this.page.incident, comm = incident.file.comms[this.comm];
      const members = comm ? runsRanks(comm.ranks, 1e5) : [];
      const culprits = [...incident.culprits], shown = culprits.slice(0, MOST_CULPRITS);
      const others = members.filter((rank) => !incident.culprits.has(rank));
      const near = shown.length ? others.filter((rank) => rank < shown[0]).slice(-PEERS / 2) : [];
      const peers = [...near, ...others.filter((rank) => !near.includes(rank) && (!shown.length || rank > shown[0])).slice(0, PEERS - near.length)];
      const single = (rank) => {
        const row = incident.rowOf.get(rank), culprit = incident.culprits.has(rank);
        const found = row === void 0 ? merge([]) : cells(incident, row, this.comm, this.seq, this.collective);
        const state = row === void 0 ? "no data" : incident.stateText(row);
        return { label: `rank ${rank}`, sub: row === void 0 ? "no data" : incident.where(row), ranks: [rank], culprit, ...found, note: state };
      };
      const group = (ranks, label, sub) => {
        if (!ranks.length)
          return;
        const rows = ranks.map((rank) => incident.rowOf.get(rank)).filter((row) => row !== void 0);
        const parts = rows.slice(0, 2e3).map((row) => cells(incident, row, this.comm, this.seq, this.collective));
        this.rows.push({ label, sub, ranks, culprit: false, ...merge(parts), note: this.stateOf(rows) });
      };
      for (const rank of peers.filter((rank2) => shown.length && rank2 < shown[0]))
        this.rows.push(single(rank));
      for (const rank of shown)
        this.rows.push(single(rank));
      if (culprits.length > shown.length) {
        group(culprits.slice(MOST_CULPRITS), `${count(culprits.length - shown.length)} more culprits`, "");
        this.rows[this.rows.length - 1].culprit = true;
      }
      for (const rank of peers.filter((rank2) => !shown.length || rank2 > shown[0]))
        this.rows.push(single(rank));
      const left = new Set(others);
      for (const rank of peers)
        left.delete(rank);
      group([...left], plural(left.size, "more member"), "of " + incident.commName(this.comm));
      const inside2 = new Set(members), outside = incident.ranks.rank.filter((rank) => !inside2.has(rank) && !incident.culprits.has(rank));
      const waiting = outside.filter((rank) => {
        const kind = incident.waitClass(incident.rowOf.get(rank))?.kind;
        return kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause;
      });
      const rest = outside.length - waiting.length;
      const bar = (ranks, what) => {
        if (ranks.length)
          this.rows.push({ label: `${count(ranks.length)} more: ${what}`, sub: "", ranks, culprit: false, states: [], calls: [], note: this.stateOf(ranks.map((rank) => incident.rowOf.get(rank))), kind: what });
      };
      bar(waiting, "waiting");
      if (rest > 0) {
        const set = new Set(waiting);
        bar(outside.filter((rank) => !set.has(rank)), "not waiting");
      }
      const missing = runsCount(incident.file.missing);
      if (missing)
        this.rows.push({ label: `${count(missing)} more: no data`, sub: "", ranks: [], culprit: false, states: [], calls: [], note: "", kind: "no data" });
    }
    stateOf(rows) {
      const counts = /* @__PURE__ */ new Map();
      for (const row of rows) {
        const state = this.page.incident.stateText(row).replace(/_\d+\b/g, "_*");
        counts.set(state, (counts.get(state) ?? 0) + 1);
      }
      const most = [...counts].sort((a, b) => b[1] - a[1])[0];
      return !most ? "" : counts.size === 1 ? most[0] : `${count(most[1])}: ${most[0]}`;
    }
    cards() {
      const incident = this.page.incident, left = el("div"), out = el("div"), finding = this.finding, section = incident.file.sections[0];
      const culprit = [...incident.culprits][0];
      if (finding) {
        const stacks = culprit === void 0 ? [] : incident.stacksOf(culprit), card = el("section", "card");
        const places = [finding.place, ...finding.stacks.map((stack) => stack.place)].filter((place) => place !== "");
        card.append(el("h2", "", culprit === void 0 ? "Stack" : `Stack of rank ${culprit}`));
        for (const stack of stacks.slice(0, 2))
          card.append(el("ol", "stack", ...stack.slice(0, 24).map(([text]) => el("li", places.some((place) => sameFrame(text, place)) ? "own" : "", text))));
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
    // `left`: of column 0, which lies further left than the picture where there are few calls; `end`: of the last column.
    geometry() {
      const width = Math.max(600, this.root.clientWidth - 36), note = width > 1e3 ? NOTE : 20;
      let first = FAULT, last = FAULT;
      for (const row of this.rows) {
        row.states.forEach((state, column) => {
          if (state !== State.outside) {
            first = Math.min(first, column);
            last = Math.max(last, column);
          }
        });
      }
      const shown = last - first + 1, cell = Math.min(CELL, (width - LABEL - note) / shown), left = LABEL - first * cell;
      return { width, left, cell, end: left + (last + 1) * cell };
    }
    draw() {
      const { width, cell, left, end } = this.geometry(), height = HEAD + this.rows.length * ROW + 8;
      const g = context(this.canvas, width, height);
      if (!g)
        return;
      const colors = palette(), x = left + FAULT * cell;
      g.fillStyle = colors.back;
      g.fillRect(0, 0, width, height);
      g.textBaseline = "middle";
      if (this.finding && this.comm >= 0) {
        g.fillStyle = colors.band;
        g.fillRect(x - 2, HEAD - 6, cell + 4, height - HEAD + 2);
      }
      this.drawHead(g, colors, x, cell, left);
      this.rows.forEach((row, at) => this.drawRow(g, colors, row, HEAD + at * ROW, left, cell, end, width));
      this.drawMark(g, colors, x, cell, end, width);
    }
    drawHead(g, colors, x, cell, left) {
      const incident = this.page.incident, comm = incident.file.comms[this.comm];
      g.font = BOLD;
      g.fillStyle = colors.text;
      if (comm)
        g.fillText(fitText(g, `${comm.name}, ${plural(comm.size, "member")}`, LABEL - 16), 8, 16);
      g.font = FONT;
      g.fillStyle = colors.faint;
      if (this.comm < 0)
        return;
      if (this.collective) {
        for (let column = FAULT - 5; column >= 0; column -= 5) {
          const seq = this.seq - FAULT + column;
          if (seq >= 1 && left + column * cell >= LABEL)
            g.fillText(`#${seq}`, left + column * cell + 2, 28);
        }
      } else
        g.fillText("its last calls, newest at the right", LABEL, 28);
      if (!this.finding)
        return;
      g.fillStyle = colors.bad;
      g.font = BOLD;
      const label = `${this.finding.op || "call"}${this.seq >= 0 ? " #" + this.seq : ""}`;
      g.textAlign = "center";
      g.fillText(label, x + cell / 2, 14);
      g.textAlign = "left";
      g.beginPath();
      g.moveTo(x + cell / 2 - 7, 25);
      g.lineTo(x + cell / 2 + 7, 25);
      g.lineTo(x + cell / 2, 36);
      g.fill();
    }
    drawRow(g, colors, row, y, left, cell, end, width) {
      const middle = y + ROW / 2 - 2, incident = this.page.incident;
      if (row.culprit) {
        g.fillStyle = colors.band;
        g.fillRect(0, y - 2, width, ROW);
        g.fillStyle = colors.bad;
        g.fillRect(0, y - 2, 4, ROW);
      }
      g.font = row.culprit || !row.states.length ? BOLD : FONT;
      g.fillStyle = row.culprit ? colors.bad : colors.text;
      const label = fitText(g, row.label, LABEL - 20);
      g.fillText(label, 10, middle);
      const used = g.measureText(label).width;
      g.font = FONT;
      g.fillStyle = colors.faint;
      g.fillText(fitText(g, row.sub, LABEL - 30 - used), 18 + used, middle);
      if (!row.states.length) {
        g.fillStyle = row.kind === "waiting" ? colors.state[State.enqueued] : row.kind === "no data" ? colors.state[State.noData] : colors.state[State.completed];
        g.fillRect(LABEL, y + 8, Math.max(end - LABEL, 60), ROW - 20);
        return;
      }
      row.states.forEach((state, column) => {
        if (state === State.outside)
          return;
        const x = left + column * cell, w = Math.max(2, cell - 2), h = ROW - 6;
        g.fillStyle = colors.state[state];
        if (state === State.behind || state === State.gone) {
          g.strokeStyle = colors.line;
          g.setLineDash([3, 3]);
          g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
          g.setLineDash([]);
          return;
        }
        if (state === State.missing)
          return;
        g.fillRect(x, y, w, h);
        if (state === State.mismatch || state === State.failed) {
          g.strokeStyle = colors.bad;
          g.lineWidth = 3;
          g.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
          g.lineWidth = 1;
        }
        const call = row.calls[column];
        if (call >= 0 && cell >= 22) {
          g.fillStyle = state === State.completed || state === State.issued ? colors.faint : colors.text;
          g.textAlign = "center";
          g.fillText(short(incident.kindName(call)), x + w / 2, middle, w);
          g.textAlign = "left";
        }
      });
    }
    // The mark that is found without searching: a red frame, with a red cross where there is no call, and words beside it.
    drawMark(g, colors, x, cell, end, width) {
      this.rows.forEach((row, at) => {
        const y = HEAD + at * ROW, w = Math.max(8, cell - 2), h = ROW - 6;
        if (row.culprit && this.finding) {
          g.strokeStyle = colors.bad;
          g.lineWidth = 3;
          g.strokeRect(x + 1, y + 1, w - 2, h - 2);
          g.beginPath();
          const cx = x + w / 2, cy = y + h / 2, r = Math.min(7, w / 3);
          if (row.states[FAULT] === State.missing) {
            g.moveTo(cx - r, cy - r);
            g.lineTo(cx + r, cy + r);
            g.moveTo(cx + r, cy - r);
            g.lineTo(cx - r, cy + r);
          }
          g.stroke();
          g.lineWidth = 1;
        }
        if (end + 100 > width || !row.note)
          return;
        g.font = row.culprit ? BOLD : FONT;
        g.fillStyle = row.culprit ? colors.bad : colors.faint;
        const from = end + 10;
        g.fillText(fitText(g, (row.culprit ? "\u25C0 " : "") + row.note, width - from - 6), from, y + ROW / 2 - 2);
      });
    }
    at(event) {
      const { left, cell } = this.geometry(), row = this.rows[Math.floor((event.offsetY - HEAD) / ROW)];
      return row ? { row, column: Math.floor((event.offsetX - left) / cell) } : null;
    }
    hover(event) {
      const found = this.at(event), incident = this.page.incident;
      if (!found)
        return;
      const state = found.row.states[found.column], call = found.row.calls[found.column] ?? -1;
      const what = state === void 0 ? found.row.note : `${call >= 0 ? incident.callName(call) + ": " : ""}${stateName(incident, state)} ${call >= 0 ? incident.siteOf(call) : ""}`;
      this.tip.textContent = `${found.row.label} ${found.row.sub} \u2014 ${what}`;
    }
    click(event) {
      const found = this.at(event);
      if (!found)
        return;
      const call = found.row.calls[found.column] ?? -1;
      if (found.row.ranks.length === 1)
        this.page.select({ rank: found.row.ranks[0], comm: this.comm, op: call >= 0 ? this.page.incident.seq[call] : -1 });
      else
        this.page.open("waits");
    }
  };
  function stateName(incident, state) {
    return state === State.behind ? "not come yet" : state === State.gone ? "record gone" : incident.file.states[state] ?? "";
  }
  function sameFrame(frame, place) {
    return place.split(/[\s()]+/).filter((word) => word !== "").every((word) => frame.includes(word));
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
      box.append(el("p", "", "No data of this rank."));
      return;
    }
    box.append(el("p", "", incident.where(row), incident.ranks.pid[row] ? `, PID ${incident.ranks.pid[row]}` : ""), el("p", "state", incident.stateText(row)));
    const calls = el("table");
    let first = Math.max(incident.firstCall[row], incident.firstCall[row + 1] - CALLS);
    for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1] && op >= 0; call++) {
      if (incident.seq[call] === op && (comm < 0 || incident.commOf(row, call) === comm))
        first = Math.max(incident.firstCall[row], Math.min(first, call - CALLS / 2));
    }
    for (let call = first; call < Math.min(incident.firstCall[row + 1], first + CALLS); call++) {
      const inComm = incident.commOf(row, call), chosen = incident.seq[call] === op && (comm < 0 || inComm === comm), state = incident.state[call];
      calls.append(el(
        "tr",
        (chosen ? "chosen " : "") + (state >= State.failed ? "bad" : ""),
        el("td", "", incident.callName(call)),
        el("td", "", incident.commName(inComm)),
        el("td", "", stateName(incident, state)),
        el("td", "faint", incident.siteOf(call))
      ));
    }
    const m = comm >= 0 ? incident.membershipIn(row, comm) : -1;
    if (op >= 0 && m >= 0 && incident.issued[m] >= -1 && incident.issued[m] < op)
      calls.append(el("tr", "bad chosen", el("td", "", `#${op}`), el("td", "", incident.commName(comm)), el("td", "", "never issued"), el("td")));
    box.append(el("h3", "", "Calls"), calls, el("h3", "", "Stack"));
    const stacks = incident.stacksOf(rank);
    for (const stack of stacks)
      box.append(el("ol", "stack", ...stack.slice(0, 40).map((frame) => el("li", "", frame[0]))));
    if (!stacks.length)
      box.append(el("p", "faint", "No stack was taken."));
    box.append(button("In the matrix (2)", () => page.open("matrix")));
  }

  // graph.ts
  var WIDTH = 330;
  var HEIGHT = 62;
  var GAP_X = 110;
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
      const what = el("p", "faint", "Each box is a set of ranks in one state. An arrow points to what a box waits for; causes are at the left.");
      if (this.leftOut)
        what.append(` ${plural(this.leftOut, "box")} more: not drawn.`);
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
        this.canvas.replaceWith(el("p", "", "Nobody waits for anybody."));
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
        g.fillText(fitText(g, `${plural(runsCount(one.ranks), "rank")}: ${runsText(one.ranks, 6)}`, WIDTH - 16), box.x + 8, box.y + 50);
      }
    }
  };

  // lanes.ts
  var kMostColumns = 2e3;
  function className(comm) {
    return /^[0-9a-f]{16}$/.test(comm.name) ? `unnamed, ${plural(comm.size, "member")}` : comm.name.replace(/\d+$/, "*");
  }
  function laneNames(incident) {
    const sizes = /* @__PURE__ */ new Map();
    for (const comm of incident.file.comms)
      sizes.set(className(comm), (sizes.get(className(comm)) ?? 0) + comm.size);
    return [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a) || a.localeCompare(b)).slice(0, 40);
  }
  function programGrid(incident) {
    let columns = 1;
    for (let row = 0; row < incident.rows; row++)
      columns = Math.max(columns, incident.firstCall[row + 1] - incident.firstCall[row]);
    const states = new Uint8Array(incident.rows * columns), calls = new Int32Array(states.length).fill(-1);
    for (let row = 0; row < incident.rows; row++) {
      const end = incident.firstCall[row + 1];
      for (let call = incident.firstCall[row]; call < end; call++) {
        const cell = row * columns + columns - (end - call);
        states[cell] = incident.state[call];
        calls[cell] = call;
      }
    }
    return { columns, firstSeq: -1, states, calls };
  }
  function laneGrid(incident, lane) {
    const ofLane = incident.file.comms.map((comm) => className(comm) === lane);
    const issued = /* @__PURE__ */ new Map();
    let first = Infinity, last = -Infinity;
    const each = (visit) => {
      for (let row = 0; row < incident.rows; row++) {
        for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
          const comm = incident.commOf(row, call);
          if (ofLane[comm] && incident.seq[call] >= 0 && incident.collective(call))
            visit(row, call, comm);
        }
      }
    };
    each((_row, call, comm) => {
      first = Math.min(first, incident.seq[call]);
      last = Math.max(last, incident.seq[call]);
      issued.set(comm, Math.max(issued.get(comm) ?? -1, incident.seq[call]));
    });
    if (first > last)
      return { columns: 0, firstSeq: 0, states: new Uint8Array(0), calls: new Int32Array(0) };
    first = Math.max(first, last - kMostColumns + 1);
    const columns = last - first + 1;
    const states = new Uint8Array(incident.rows * columns), calls = new Int32Array(states.length).fill(-1);
    for (let row = 0; row < incident.rows; row++) {
      for (let m = incident.firstMembership[row]; m < incident.firstMembership[row + 1]; m++) {
        const comm = incident.memberComm[m], newest = issued.get(comm) ?? -1;
        if (!ofLane[comm])
          continue;
        const own = incident.issued[m];
        const missing = incident.culprits.has(incident.ranks.rank[row]) ? State.missing : State.behind;
        for (let seq = first; seq <= newest; seq++)
          states[row * columns + seq - first] = own === -2 || seq <= own ? State.gone : missing;
      }
    }
    each((row, call) => {
      if (incident.seq[call] < first)
        return;
      const cell = row * columns + incident.seq[call] - first;
      states[cell] = incident.state[call];
      calls[cell] = call;
    });
    return { columns, firstSeq: first, states, calls };
  }

  // viewport.ts
  var Viewport = class {
    constructor(redraw) {
      this.redraw = redraw;
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
      [this.y0, this.y1] = inside(y0, y1, this.height);
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
    // Shows a cell with some of what is around it.
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
    // `area`: where on the canvas the picture is.
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
      const incident = page.incident, lanes = laneNames(incident);
      this.choice.append(new Option("every call, in program order", ""));
      for (const lane of lanes)
        this.choice.append(new Option(`collectives of ${lane}`, lane));
      const focus = incident.file.comms[incident.focusComm], name = focus ? className(focus) : "";
      const collective = !/^(Send|Recv)/i.test(incident.file.findings[0]?.op ?? "");
      this.choice.value = collective && lanes.includes(name) ? name : "";
      this.grid = this.make();
      this.choice.addEventListener("change", () => {
        this.grid = this.make();
        this.port.all();
        this.draw();
      });
      const hint = el("span", "faint", "wheel or + and - zoom, drag or arrows move, 0 shows all, click for a cell");
      this.root.append(el("div", "bar", this.choice, hint), this.box, this.tip, this.legend());
      this.port.attach(this.canvas, () => this.area(), (x, y) => this.click(x, y));
      this.canvas.addEventListener("mousemove", (event) => this.hover(event.offsetX, event.offsetY));
    }
    make() {
      const incident = this.page.incident;
      const grid = this.choice.value ? laneGrid(incident, this.choice.value) : programGrid(incident);
      this.port.size(Math.max(1, grid.columns), Math.max(1, incident.rows));
      return grid;
    }
    legend() {
      const out = el("div", "legend"), names2 = ["completed", "issued", "enqueued", "waiting", "behind", "missing", "mismatch", "failed"];
      for (const name of names2)
        out.append(el("span", "", el("i", "key " + name), stateName(this.page.incident, State[name])));
      return out;
    }
    area() {
      return { x: LEFT, y: TOP, w: Math.max(1, this.box.clientWidth - LEFT - RIGHT), h: Math.max(1, this.box.clientHeight - TOP) };
    }
    draw() {
      const { rank, comm, op } = this.page.place(), incident = this.page.incident, asked = `${rank} ${comm} ${op}`;
      const row = incident.rowOf.get(rank);
      if (row !== void 0 && asked !== this.shown)
        this.showPlace(row, comm, op);
      this.shown = asked;
      const g = context(this.canvas, this.box.clientWidth, this.box.clientHeight);
      if (!g)
        return;
      this.port.size(Math.max(1, this.grid.columns), Math.max(1, incident.rows));
      this.drawCells(g);
      this.drawAxes(g);
    }
    showPlace(row, comm, op) {
      const asked = this.page.incident.file.comms[comm], lane = asked ? className(asked) : "";
      if (lane !== "" && this.choice.value && lane !== this.choice.value) {
        if ([...this.choice.options].some((option) => option.value === lane)) {
          this.choice.value = lane;
          this.grid = this.make();
        }
      }
      if (op < 0)
        return;
      const column = this.grid.firstSeq >= 0 ? op - this.grid.firstSeq : this.columnOf(row, comm, op);
      if (column >= 0 && column < this.grid.columns)
        this.port.showCell(column, row, 24, 24);
    }
    columnOf(row, comm, op) {
      for (let column = this.grid.columns - 1; column >= 0; column--) {
        const call = this.grid.calls[row * this.grid.columns + column];
        if (call >= 0 && this.page.incident.seq[call] === op && (comm < 0 || this.page.incident.commOf(row, call) === comm))
          return column;
      }
      return -1;
    }
    drawCells(g) {
      const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, { columns, states } = this.grid;
      g.fillStyle = colors.back;
      g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
      const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), stepX = Math.max(1, Math.floor(1 / cw)), stepY = Math.max(1, Math.floor(1 / ch));
      const late = [];
      g.save();
      g.beginPath();
      g.rect(a.x, a.y, a.w, a.h);
      g.clip();
      const gapX = cw > 6 ? 1 : 0, gapY = ch > 6 ? 1 : 0;
      for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), this.page.incident.rows); row += stepY) {
        for (let column = Math.floor(x0); column < Math.min(Math.ceil(x1), columns); column += stepX) {
          let worst = State.outside;
          for (let r = row; r < Math.min(row + stepY, this.page.incident.rows); r++) {
            for (let c = column; c < Math.min(column + stepX, columns); c++) {
              const state = states[r * columns + c];
              if (severity[state] > severity[worst])
                worst = state;
            }
          }
          if (worst === State.outside)
            continue;
          const x = Math.max(a.x, a.x + (column - x0) * cw), y = Math.max(a.y, a.y + (row - y0) * ch);
          const right = a.x + (column + stepX - x0) * cw - gapX;
          const bad = severity[worst] >= severity[State.failed], bottom = Math.max(a.y + (row + stepY - y0) * ch - gapY, y + (bad ? 3 : 0.7));
          if (bad)
            late.push([worst, x, y, right - x, bottom - y]);
          g.fillStyle = colors.state[worst];
          g.fillRect(x, y, Math.max(0.7, right - x), bottom - y);
          const call = this.grid.calls[row * columns + column];
          if (cw > 90 && ch > 14 && call >= 0) {
            g.fillStyle = colors.text;
            g.font = FONT;
            g.textBaseline = "middle";
            g.fillText(fitText(g, this.page.incident.callName(call), cw - 8), x + 4, (y + bottom) / 2);
          }
        }
      }
      for (const [state, x, y, w, h] of late) {
        g.fillStyle = colors.state[state];
        g.fillRect(x, y, Math.max(1, w), h);
      }
      g.restore();
      this.drawNow(g, ch);
    }
    // One cell a rank: moving, waiting, at fault. A job that is stuck is seen to be stuck whatever the lane.
    drawNow(g, ch) {
      const colors = palette(), a = this.area(), { y0, y1 } = this.port, incident = this.page.incident;
      for (let row = Math.floor(y0); row < Math.min(Math.ceil(y1), incident.rows); row++) {
        const kind = incident.waitClass(row)?.kind, bad = incident.culprits.has(incident.ranks.rank[row]);
        const state = bad ? State.missing : kind === WaitKind.noData ? State.noData : kind === WaitKind.victim || kind === WaitKind.cycle || kind === WaitKind.cause ? State.waiting : State.completed;
        g.fillStyle = colors.state[state];
        g.fillRect(a.x + a.w + 6, a.y + (row - y0) * ch, 14, Math.max(bad ? 3 : 1, ch - (ch > 6 ? 1 : 0)));
      }
    }
    drawAxes(g) {
      const colors = palette(), a = this.area(), { x0, x1, y0, y1 } = this.port, incident = this.page.incident;
      const cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), place = this.page.place();
      g.font = FONT;
      g.textBaseline = "middle";
      g.fillStyle = colors.back;
      g.fillRect(0, 0, LEFT, a.h + TOP);
      g.fillRect(0, 0, a.w + LEFT + RIGHT, TOP);
      g.fillStyle = colors.faint;
      const stepX = nice(90 / cw), stepY = nice(16 / ch);
      for (let column = Math.ceil(x0 / stepX) * stepX; column < Math.min(x1, this.grid.columns); column += stepX) {
        const text = this.grid.firstSeq >= 0 ? `#${this.grid.firstSeq + column}` : `${column - this.grid.columns + 1}`;
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
      incident.ranks.rank.forEach((rank, row2) => {
        if (!incident.culprits.has(rank) || row2 + 1 < y0 || row2 > y1)
          return;
        const y = Math.min(Math.max(a.y + (row2 + 0.5 - y0) * ch, a.y + 4), a.y + a.h - 4);
        g.fillStyle = colors.bad;
        g.beginPath();
        g.moveTo(a.x + a.w + RIGHT, y - 7);
        g.lineTo(a.x + a.w + RIGHT, y + 7);
        g.lineTo(a.x + a.w + 24, y);
        g.fill();
        if (y - lastY < 14)
          return;
        lastY = y;
        g.fillStyle = colors.back;
        g.fillRect(0, y - 9, LEFT - 2, 18);
        g.fillStyle = colors.bad;
        g.fillText(fitText(g, `rank ${rank} \u25B6`, LEFT - 10), 8, y);
        g.fillRect(LEFT - 4, y - Math.max(2, ch / 2), 4, Math.max(4, ch));
      });
      this.ring(g, colors.bad, incident.focusSeq, [...incident.culprits].slice(0, 4));
      const row = incident.rowOf.get(place.rank);
      if (row !== void 0 && row + 1 > y0 && row < y1) {
        g.strokeStyle = colors.accent;
        g.lineWidth = 2;
        g.strokeRect(a.x, a.y + (row - y0) * ch, a.w, Math.max(3, ch));
        g.lineWidth = 1;
      }
    }
    // A circle around the cell at fault, so that it is found in the picture of the whole job.
    ring(g, color, seq, ranks) {
      if (this.grid.firstSeq < 0 && seq >= 0)
        seq = -1;
      const a = this.area(), { x0, x1, y0, y1 } = this.port, cw = a.w / (x1 - x0), ch = a.h / (y1 - y0), incident = this.page.incident;
      for (const rank of ranks) {
        const row = incident.rowOf.get(rank);
        if (row === void 0)
          continue;
        const column = this.grid.firstSeq >= 0 && seq >= 0 ? seq - this.grid.firstSeq : this.grid.columns - 1;
        if (column < x0 - 1 || column > x1 || row < y0 - 1 || row > y1 || column >= this.grid.columns)
          continue;
        g.strokeStyle = color;
        g.lineWidth = 3;
        g.beginPath();
        g.ellipse(a.x + (column + 0.5 - x0) * cw, a.y + (row + 0.5 - y0) * ch, Math.max(12, cw * 0.7), Math.max(12, ch * 0.7), 0, 0, 7);
        g.stroke();
        g.lineWidth = 1;
      }
    }
    cell(x, y) {
      const a = this.area(), { x0, x1, y0, y1 } = this.port;
      const column = Math.floor(x0 + (x - a.x) / a.w * (x1 - x0)), row = Math.floor(y0 + (y - a.y) / a.h * (y1 - y0));
      return y < a.y || row >= this.page.incident.rows ? null : { row, column: x < a.x || column >= this.grid.columns ? -1 : column };
    }
    hover(x, y) {
      const found = this.cell(x, y), incident = this.page.incident;
      if (!found)
        return;
      const index = found.row * this.grid.columns + found.column, call = found.column >= 0 ? this.grid.calls[index] : -1;
      const what = found.column < 0 ? incident.stateText(found.row) : `${call >= 0 ? incident.callName(call) + " on " + incident.commName(incident.commOf(found.row, call)) : "#" + (this.grid.firstSeq + found.column)}: ${stateName(incident, this.grid.states[index])}`;
      this.tip.textContent = `rank ${incident.ranks.rank[found.row]} (${incident.where(found.row)}) \u2014 ${what} ${call >= 0 ? incident.siteOf(call) : ""}`;
    }
    click(x, y) {
      const found = this.cell(x, y), incident = this.page.incident;
      if (!found)
        return;
      const call = found.column >= 0 ? this.grid.calls[found.row * this.grid.columns + found.column] : -1;
      const place = { rank: incident.ranks.rank[found.row], comm: call >= 0 ? incident.commOf(found.row, call) : -1, op: call >= 0 ? incident.seq[call] : -1 };
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
    incident.ranks.rank.forEach((rank, row) => {
      if (hits.length < MOST2 && incident.host(row).toLowerCase().includes(text))
        hits.push({ text: `rank ${rank}, ${incident.where(row)}`, go: () => page.select({ rank, comm: -1, op: -1 }) });
    });
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
    for (let row = 0; row < incident.rows && hits.length < MOST2; row++) {
      for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
        const comm = incident.commOf(row, call);
        if (incident.seq[call] !== seq || seen.has(comm))
          continue;
        seen.add(comm);
        const rank = incident.ranks.rank[row];
        hits.push({ text: `${incident.callName(call)} on ${incident.commName(comm)}`, go: () => page.open("matrix", { rank, comm, op: seq }) });
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
      this.input.addEventListener("blur", () => window.setTimeout(() => this.list.replaceChildren(), 200));
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
        this.list.append(el("p", "faint", "More stacks: narrow them with the filter."));
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

  // tables.ts
  var MOST3 = 2e3;
  var Table = class {
    constructor(columns, rows, sort, bad, chosen, click) {
      this.columns = columns;
      this.rows = rows;
      this.bad = bad;
      this.chosen = chosen;
      this.click = click;
      this.root = el("div", "table scroll");
      this.filter = el("input");
      this.head = el("tr");
      this.body = el("tbody");
      this.note = el("span", "faint");
      this.by = 0;
      this.down = false;
      this.shown = null;
      [this.by, this.down] = sort;
      this.filter.placeholder = "filter";
      this.filter.addEventListener("input", () => this.fill());
      columns.forEach((column, at) => {
        const cell = el("th", "", column.name);
        cell.tabIndex = 0;
        const sortBy = () => {
          this.down = this.by === at ? !this.down : false;
          this.by = at;
          this.fill();
        };
        cell.addEventListener("click", sortBy);
        cell.addEventListener("keydown", (event) => {
          if (event.key === "Enter")
            sortBy();
        });
        this.head.append(cell);
      });
      this.root.append(el("div", "bar", this.filter, this.note), el("table", "", el("thead", "", this.head), this.body));
      this.fill();
    }
    fill() {
      const wanted = this.filter.value.trim().toLowerCase(), rows = [], isChosen = this.chosen();
      for (let row = 0; row < this.rows; row++) {
        if (!wanted || this.columns.some((column) => String(column.value(row)).toLowerCase().includes(wanted)))
          rows.push(row);
      }
      const { value } = this.columns[this.by], sign = this.down ? -1 : 1;
      rows.sort((a, b) => Number(this.bad(b)) - Number(this.bad(a)) || sign * compare(value(a), value(b)) || a - b);
      this.note.textContent = rows.length > MOST3 ? `${count(rows.length - MOST3)} more rows: narrow them with the filter` : plural(rows.length, "row");
      this.body.replaceChildren(...rows.slice(0, MOST3).map((row) => {
        const line = el("tr", (this.bad(row) ? "bad " : "") + (isChosen(row) ? "chosen" : ""), ...this.columns.map((column) => el("td", "", String(column.value(row)))));
        line.addEventListener("click", () => this.click(row));
        return line;
      }));
      [...this.head.children].forEach((cell, at) => cell.setAttribute("aria-sort", at !== this.by ? "none" : this.down ? "descending" : "ascending"));
    }
    draw() {
      const now = document.location.hash;
      if (now !== this.shown) {
        this.shown = now;
        this.fill();
      }
    }
  };
  function compare(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  }
  var known = (value) => value < 0 ? "" : value;
  var CLASSES = ["moves", "waits", "cause", "in a circle", "no data"];
  function rankTable(page) {
    const { incident } = page, ranks = incident.ranks;
    const columns = [
      { name: "rank", value: (row) => ranks.rank[row] },
      { name: "host", value: (row) => incident.host(row) },
      { name: "GPU", value: (row) => known(ranks.gpu[row]) },
      { name: "PID", value: (row) => ranks.pid[row] || "" },
      { name: "stage", value: (row) => known(ranks.stage[row]) },
      { name: "role", value: (row) => CLASSES[incident.waitClass(row)?.kind ?? WaitKind.healthy] },
      { name: "behind by", value: (row) => known(ranks.lag[row]) },
      { name: "lost records", value: (row) => ranks.lost[row] },
      { name: "state", value: (row) => incident.stateText(row) }
    ];
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
      { name: "communicator", value: (comm) => comms[comm].name },
      { name: "members", value: (comm) => comms[comm].size },
      { name: "recorded", value: (comm) => seen[comm] },
      { name: "newest call", value: (comm) => seen[comm] ? high[comm] : "" },
      { name: "spread", value: (comm) => seen[comm] ? high[comm] - low[comm] : "" },
      { name: "ranks", value: (comm) => runsCount(comms[comm].ranks) ? runsText(comms[comm].ranks, 8) : "not known" }
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

  // timeline.ts
  var LEFT2 = 150;
  var TOP2 = 26;
  var TimelineView = class {
    constructor(page) {
      this.page = page;
      this.root = el("div", "timeline fill");
      this.canvas = el("canvas");
      this.box = el("div", "canvas", this.canvas);
      this.tip = el("div", "tip");
      this.port = new Viewport(() => this.draw());
      this.first = Infinity;
      this.last = 0;
      const incident = page.incident;
      this.rows = incident.ranks.rank.map((_, row) => row);
      const bad = (row) => Number(incident.culprits.has(incident.ranks.rank[row]));
      const peer = (row) => Number(incident.membershipIn(row, incident.focusComm) >= 0);
      this.rows.sort((a, b) => bad(b) - bad(a) || peer(b) - peer(a) || a - b);
      for (let call = 0; call < incident.begin.length; call++) {
        if (!incident.begin[call])
          continue;
        this.first = Math.min(this.first, incident.begin[call]);
        this.last = Math.max(this.last, incident.begin[call], incident.end[call]);
      }
      if (this.first >= this.last)
        this.last = this.first + 1;
      this.last += (this.last - this.first) * 0.03;
      this.port.size(Math.max(1, this.last - this.first), Math.max(1, this.rows.length));
      const begins = incident.begin.filter((time) => time > 0).sort(), early = (begins[Math.floor(begins.length * 0.1)] ?? this.first) - this.first;
      this.port.set(early, this.last - this.first, 0, Math.min(this.rows.length, 40));
      this.root.append(
        el("div", "bar", el("span", "faint", "culprits first, then their peers; wheel zooms, with Shift in time alone; drag or arrows move; 0 shows all")),
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
    area() {
      return { x: LEFT2, y: TOP2, w: Math.max(1, this.box.clientWidth - LEFT2 - 12), h: Math.max(1, this.box.clientHeight - TOP2) };
    }
    draw() {
      const g = context(this.canvas, this.box.clientWidth, this.box.clientHeight), colors = palette(), incident = this.page.incident;
      if (!g)
        return;
      const a = this.area(), { x0, x1, y0, y1 } = this.port, scale = a.w / (x1 - x0), ch = a.h / (y1 - y0);
      g.fillStyle = colors.back;
      g.fillRect(0, 0, this.box.clientWidth, this.box.clientHeight);
      g.font = FONT;
      g.textBaseline = "middle";
      if (this.first === Infinity) {
        g.fillStyle = colors.text;
        g.fillText("The recording has no times.", 20, 40);
        return;
      }
      const step = Math.max(1, Math.floor(1 / ch));
      for (let at = Math.floor(y0); at < Math.min(this.rows.length, Math.ceil(y1)); at += step) {
        const row = this.rows[at], y = a.y + (at - y0) * ch, rank = incident.ranks.rank[row], culprit = incident.culprits.has(rank);
        const h = Math.max(1, ch * step - (ch > 6 ? 2 : 0));
        if (culprit || rank === this.page.place().rank) {
          g.fillStyle = colors.band;
          g.fillRect(0, y, a.w + LEFT2, h);
        }
        for (let call = incident.firstCall[row + 1] - 1; call >= incident.firstCall[row]; call--) {
          const state = incident.state[call], begin = incident.begin[call];
          if (!begin)
            continue;
          const end = incident.end[call] || (state === State.completed || state === State.issued ? begin : this.last);
          const left = a.x + (begin - this.first - x0) * scale, right = a.x + (end - this.first - x0) * scale;
          if (right < a.x || left > a.x + a.w)
            continue;
          const x = Math.max(a.x, left), w = Math.max(1.5, Math.min(right, a.x + a.w) - x);
          g.fillStyle = state === State.completed ? colors.state[State.started] : colors.state[state];
          g.fillRect(x, y, w, h);
          if (w > 60 && ch > 13) {
            g.fillStyle = colors.text;
            g.fillText(fitText(g, incident.callName(call), w - 6), x + 3, y + h / 2);
          }
        }
        if (culprit && ch > 6)
          this.drawCulprit(g, row, y, h, scale);
        if (ch * step >= 11 || culprit) {
          g.font = culprit ? BOLD : FONT;
          g.fillStyle = culprit ? colors.bad : colors.faint;
          g.fillText(fitText(g, `${rank}  ${incident.host(row)}`, LEFT2 - 16), 8, y + h / 2);
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
    // From the end of its last call on: what it is in instead of the next.
    drawCulprit(g, row, y, h, scale) {
      const incident = this.page.incident, a = this.area(), colors = palette();
      let from = 0;
      for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++)
        from = Math.max(from, incident.end[call], incident.begin[call]);
      const x = Math.max(a.x, a.x + (from - this.first - this.port.x0) * scale), w = a.x + a.w - x;
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
      for (let call = incident.firstCall[row]; call < incident.firstCall[row + 1]; call++) {
        if (incident.begin[call] && incident.begin[call] <= time && (incident.end[call] || this.last) >= time)
          found = call;
      }
      const what = found >= 0 ? `${incident.callName(found)} on ${incident.commName(incident.commOf(row, found))}: ${stateName(incident, incident.state[found])} ${incident.siteOf(found)}` : "between calls";
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
    ["waits", "Waits"],
    ["stacks", "Stacks"],
    ["timeline", "Timeline"],
    ["ranks", "Ranks"],
    ["comms", "Communicators"],
    ["report", "Report"]
  ];
  var KEYS = [
    ["1 to 8", "views"],
    ["w", "the whole job; again: back to the answer"],
    ["/", "search: rank, host, communicator, #call, function"],
    ["+ - 0", "zoom in, zoom out, all (matrix, timeline)"],
    ["arrows", "move (matrix, timeline)"],
    ["c", "the next culprit"],
    ["Escape", "close what is open; nothing selected"],
    ["t", "light or dark"],
    ["?", "these keys"]
  ];
  var Main = class {
    constructor(incident) {
      this.incident = incident;
      this.views = /* @__PURE__ */ new Map();
      this.tabs = /* @__PURE__ */ new Map();
      this.body = el("main");
      this.details = el("aside");
      this.help = el("div", "help");
      this.current = "answer";
      this.at = { rank: -1, comm: -1, op: -1 };
      this.search = new SearchBox(this, (text) => {
        this.view("stacks").search(text);
        this.open("stacks");
      });
      this.build();
      this.readHash();
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
        `${count(this.incident.rows)} of ${count(Math.max(file.expected, this.incident.rows))} ranks read`,
        file.findings.length > 1 && `${file.findings.length} findings`,
        file.calls.leftOut > 0 && `the newest ${count(file.calls.perRank)} calls of each rank are here, ${count(file.calls.leftOut)} older are left out`
      ].filter(Boolean).join(" \xB7 ");
      const nav = el("nav");
      VIEWS.forEach(([name, label], at) => {
        const tab = button(label, () => this.open(name), "tab");
        tab.append(el("kbd", "", String(at + 1)));
        this.tabs.set(name, tab);
        nav.append(tab);
      });
      nav.append(el("span", "gap"), this.search.root, button("\u25D0", () => this.theme(), "icon"), button("?", () => this.toggleHelp(), "icon"));
      head.append(el("p", "faint", facts));
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
        root.append(el("section", "card", el("h2", "", "Not known"), ...file.unknown.map((line) => el("p", "", line))));
      return { root, draw: () => void 0 };
    }
    // Made when it is first looked at.
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
        report: () => this.report()
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
