"use strict";
// Texts of logs reach the page through textContent alone.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [texts, ...packed] = data.jobs;
  const page = document.getElementById("page"), drill = document.getElementById("drill"), find = document.getElementById("find");
  const PAGE = 200;
  const unpack = v => v === null ? null : typeof v === "number" ? texts[-1 - v] : Array.isArray(v) && v.length === 1 && typeof v[0] === "number" && v[0] >= 0 ? v[0] : v;
  const report = n => {
    const [logs, date, hours, cards, from, user, state, runs] = packed[n];
    return {key: data.keys[n], logs: logs.map(l => l.map(unpack)), date: unpack(date), hours: unpack(hours), cards: unpack(cards),
      from: unpack(from), user: unpack(user), state: unpack(state), runs};
  };
  const run = r => ({title: unpack(r[0]), outcome: unpack(r[1]), limit: unpack(r[2]), figures: r[3].map(f => f.map(unpack)),
    findings: r[4].map(f => f.map(unpack)), changes: r[5].map(f => f.map(unpack))});
  const make = (name, text, parent, href) => {
    const node = document.createElement(name);
    if (text !== undefined && text !== null) node.textContent = text;
    if (href) node.href = href;
    if (parent) parent.append(node);
    return node;
  };
  const table = (heads, rows, parent) => {
    const box = make("div", null, parent);
    box.className = "box"; box.tabIndex = 0;
    const t = make("table", null, box), head = make("tr", null, make("thead", null, t)), body = make("tbody", null, t);
    heads.forEach(h => make("th", h, head));
    rows.forEach(row => {
      const tr = make("tr", null, body);
      row.forEach(cell => { const td = make("td", null, tr); if (cell instanceof Node) td.append(cell); else td.textContent = cell ?? ""; });
    });
    return t;
  };
  const link = (text, href) => make("a", text, null, href);
  const round = v => v === null ? "" : v.toLocaleString("en", {maximumFractionDigits: 2});
  const back = parent => { const p = make("p", null, parent); p.className = "crumbs"; make("a", "back to the page", p, "#"); };
  const row = n => {
    const one = report(n), last = one.runs.length ? run(one.runs[one.runs.length - 1]) : null;
    const top = last && last.findings.length ? last.findings[0][0] : "";
    return [link(one.key, "#job/" + n), one.date, round(one.hours), one.cards ?? "", last ? last.title : "", last ? last.outcome : one.logs[0][1], top, one.logs[0][0]];
  };
  const list = (title, numbers) => {
    drill.replaceChildren(); back(drill);
    make("h2", title + ": " + numbers.length.toLocaleString("en") + (numbers.length === 1 ? " job" : " jobs"), drill);
    const place = make("div", null, drill);
    let shown = 0;
    const more = () => {
      table(["job", "began", "hours", "cards", "last run", "outcome", "first finding", "log"], numbers.slice(shown, shown + PAGE).map(row), place);
      shown += PAGE;
      if (shown >= numbers.length) button.remove(); else button.textContent = "more (" + (numbers.length - shown).toLocaleString("en") + " left)";
    };
    const button = make("button", "more", drill);
    button.addEventListener("click", more);
    more();
  };
  const job = n => {
    const one = report(n);
    drill.replaceChildren(); back(drill);
    make("h2", one.key, drill);
    const facts = [["began", one.date], ["hours", one.hours === null ? one.from : round(one.hours) + " (from " + one.from + ")"], ["cards", one.cards ?? "not known"]];
    if (one.user) facts.push(["user", one.user]);
    if (one.state) facts.push(["state", one.state]);
    table(["", ""], facts, drill);
    make("h3", "Logs", drill);
    table(["file", "read", ""], one.logs, drill);
    one.runs.map(run).forEach((r, i) => {
      make("h3", "Run " + (i + 1) + ": " + r.title, drill);
      make("p", "Outcome: " + r.outcome + ". Limit: " + r.limit + ".", drill);
      if (r.figures.length) table(["figure", ""], r.figures.map(([name, value]) => [name, round(value)]), drill);
      if (r.findings.length) { make("h3", "Findings", drill); table(["rule", "what", "severity", "line"], r.findings.map(([id, severity, line]) => [id, data.titles[id] ?? "", severity, line ?? ""]), drill); }
      if (r.changes.length) { make("h3", "Plan", drill); table(["setting", "from", "to", "expected"], r.changes, drill); }
    });
    const p = make("p", "The full report, with the lines that prove it: ", drill);
    make("code", "logdoctor fleet show STORE --job '" + one.key + "' -o report.json", p);
  };
  const route = () => {
    const [name, number] = decodeURIComponent(location.hash.slice(1)).split("/");
    const lines = data.lists[name];
    const drilling = name === "all" || name === "job" || name === "find" || (lines && number !== undefined);
    page.hidden = drilling; drill.hidden = !drilling;
    if (name === "all") list("All jobs", data.keys.map((_, n) => n));
    else if (name === "job" && packed[number]) job(Number(number));
    else if (name === "find") {
      const words = location.hash.slice(6).toLowerCase(), wanted = decodeURIComponent(words);
      list("Jobs with " + wanted, data.keys.map((_, n) => n).filter(n => data.keys[n].toLowerCase().includes(wanted) || report(n).logs.some(l => l[0].toLowerCase().includes(wanted))));
    } else if (drilling) list(lines[number][0], lines[number][1]);
    if (drilling) scrollTo(0, 0);
  };
  find.addEventListener("change", () => { location.hash = find.value ? "find/" + encodeURIComponent(find.value) : ""; });
  addEventListener("hashchange", route);
  route();
})();
