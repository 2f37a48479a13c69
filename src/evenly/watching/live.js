// The live page: takes records as server-sent events, keeps the last of them, and draws what they say.
// Texts of records reach the page as text only (textContent and attributes), never as markup.
"use strict"

const KEPT = 600, DRAWN = 180, STRIPS = 12, STRIP_BATCHES = 60, LISTED = 60, RUNS = 16
const SILENT_S = 120
const SVG = "http://www.w3.org/2000/svg"
const ALWAYS_WIDE = ["lambda-card", "graph-card", "queues-card"]
const DECIDED = { change: "changed", refusal: "refused", move: "moved", effect: "measured", start: "started", end: "ended" }
const runs = new Map()
let chosen = null, lastId = "", epoch = "", title = "", drawing = false, source = null, retry = 0, heard = 0, chosenFrom = ""
const pointed = {}

const byId = id => document.getElementById(id)
const finite = value => typeof value === "number" && Number.isFinite(value)
const digits = (value, most = 3) => !finite(value) ? "–" :
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(most)))
const short = value => {  // for axes and tiles: 12.5k, 3M
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([least]) => Math.abs(value) >= least)
  return steps ? `${digits(value / (steps[0] === 1e4 ? 1e3 : steps[0]))}${steps[1]}` : digits(value)
}
const percent = value => finite(value) ? `${Math.abs(value) >= 100 ? Math.round(value) : value.toFixed(1)} %` : "–"
const seconds = ms => !finite(ms) ? "–" : ms >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`
const ago = passed => passed < 7200 ? `${Math.round(passed / 60)} min` : passed < 172800 ? `${Math.round(passed / 3600)} h` : `${Math.round(passed / 86400)} days`
const cut = (text, room) => [...text].length > room ? `${[...text].slice(0, room - 1).join("")}…` : text
const apart = text => `\u2068${text}\u2069`  // letters that turn the direction of writing turn nothing beside them
const clock = time => new Date(time * 1000).toLocaleTimeString("en-GB")

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, typeof value === "number" ? +value.toFixed(2) : value)
  for (const child of children) made.append(child)
  return made
}
const tip = text => svg("title", {}, text)

function html(name, cls, ...children) {
  const made = document.createElement(name)
  if (cls) made.className = cls
  made.append(...children)
  return made
}

// ---- records in

function take(fact) {
  const key = `${fact.kind} ${fact.run}`  // a dataflow and the keyed query of its state have one identity
  let run = runs.get(key)
  if (!run) {
    run = { key, id: fact.run, name: "", kind: fact.kind, batches: [], marks: [], decisions: [], graph: null, status: "running",
      instances: null, version: null, changes: 0, restarts: 0, seen: 0, begun: fact.time }
    runs.set(key, run)
    if (runs.size > RUNS) {  // as the server does: the one that was heard of longest ago, be it the first that there was or not
      const others = [...runs.values()].filter(one => one.key !== chosen && one.key !== key)
      runs.delete(others.reduce((oldest, one) => one.heard < oldest.heard ? one : oldest).key)
    }
    if (chosen === null) chosen = key
  }
  run.name = fact.name || run.name
  run.time = fact.time
  run.heard = ++heard
  if (finite(fact.mapping_version)) run.version = fact.mapping_version
  if (fact.event === "batch") {
    run.status = "running"
    run.batches.push({ ...fact.batch, time: fact.time, at: run.seen++, version: fact.mapping_version })
    if (run.batches.length > KEPT) run.batches.splice(0, run.batches.length - KEPT)
    return
  }
  if (fact.event === "start") {
    if (run.seen || run.status === "ended") { run.restarts += 1; run.marks.push({ at: run.seen - 0.5, kind: "restart", fact }) }
    run.status = "running"
    run.instances = fact.instances ?? run.instances
    run.graph = fact.graph ?? run.graph
  }
  if (fact.event === "end") { run.status = fact.error ? "failed" : "ended" }
  if (fact.event === "change") { run.changes += 1; run.marks.push({ at: run.seen - 0.5, kind: "change", fact }) }
  run.decisions.unshift(fact)
  run.decisions.length = Math.min(run.decisions.length, LISTED)
  const first = run.batches.length ? run.batches[0].at : 0
  run.marks = run.marks.filter(mark => mark.at >= first - 1)
}

// ---- charts

function frame(box, height, top, unit, count) {
  const width = Math.max(box.clientWidth, 240), left = 56, right = 10, low = height - 20, high = 22
  const y = value => low - (low - high) * Math.min(value / top, 1)
  const x = at => left + (width - left - right) * (count > 1 ? at / (count - 1) : 0.5)
  const drawn = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" })
  for (let step = 0; step <= 4; step++) {
    const at = y(top * step / 4)
    drawn.append(svg("line", { class: step ? "gridline" : "axis", x1: left, x2: width - right, y1: at, y2: at }),
      svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, step === 4 ? `${short(top)}${unit}` : short(top * step / 4)))
  }
  return { drawn, x, y, left, right, low, high, width, height }
}

function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 1e-9)))
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(part => part * power).find(top => top >= most * 1.02) ?? 10 * power
}

function path(points) { return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") }

function over(run, id, series, unit, readout, height) {
  const box = byId(id), batches = run.batches.slice(-DRAWN)
  const values = batches.flatMap(batch => series.map(one => one.of(batch))).filter(finite)
  const { drawn, x, y, left, right, low, high, width } = frame(box, height, niceTop(Math.max(...values, 0) || 1), unit, batches.length)
  const first = batches.length ? batches[0].at : 0
  let free = width - right  // the newest change is named; an older one only where that leaves room
  for (const mark of run.marks.filter(one => one.at >= first - 0.5).reverse()) {
    const at = Math.min(Math.max(x(mark.at - first), left), width - right), group = svg("g", { class: mark.kind }, tip(mark.kind === "change" ?
      `mapping ${mark.fact.mapping_version ?? ""}: ${mark.fact.decision.reason}` : `started again at ${clock(mark.fact.time)}`))
    group.append(svg("line", { x1: at, x2: at, y1: high, y2: low }))
    if (mark.kind === "change") {
      const label = finite(mark.fact.mapping_version) ? `v${mark.fact.mapping_version}` : mark.fact.decision.what.slice(0, 8) || "plan", wide = 9 + 7 * label.length
      const place = Math.min(Math.max(at - wide / 2, left), width - right - wide)
      if (place + wide <= free) { free = place - 2; group.append(svg("rect", { x: place, y: 2, width: wide, height: 18, rx: 4 }), svg("text", { x: place + wide / 2, y: 15, "text-anchor": "middle" }, label)) }
    }
    drawn.append(group)
  }
  for (const one of series) {
    const points = batches.map((batch, at) => [x(at), one.of(batch)]).filter(([, value]) => finite(value)).map(([at, value]) => [at, y(value)])
    if (!points.length) continue
    if (one.filled) drawn.append(svg("path", { class: "under", d: `${path(points)}L${points.at(-1)[0]} ${low}L${points[0][0]} ${low}Z` }))
    drawn.append(svg("path", { class: one.cls, d: path(points) }))
  }
  if (batches.length) {
    drawn.append(svg("text", { x: left, y: height - 4 }, `batch ${batches[0].number}, ${clock(batches[0].time)}`))
    drawn.append(svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, `${batches.at(-1).number}, ${clock(batches.at(-1).time)}`))
    const place = pointed[id] === undefined ? batches.length - 1 :
      Math.max(0, Math.min(batches.length - 1, Math.round((pointed[id] - left) / (width - left - right) * (batches.length - 1))))
    if (pointed[id] !== undefined) drawn.append(svg("line", { class: "cursor", x1: x(place), x2: x(place), y1: high, y2: low }))
    const value = series[0].of(batches[place])
    if (finite(value)) drawn.append(svg("circle", { class: "dot", cx: x(place), cy: y(value), r: 4 }))
    byId(`${id}-now`).textContent = readout(batches[place])
    drawn.setAttribute("aria-label", readout(batches[place]))
  }
  box.replaceChildren(drawn)
}

function bars(id, loads, unit, readout, { kind = "bar", signals = [] } = {}) {
  const box = byId(id), listed = loads.values && loads.values.length, mean = loads.total / loads.count
  const shown = listed ? loads.values.map((value, at) => [at, value]) : [...loads.busiest ?? []]
  const { drawn, y, left, right, low, width } = frame(box, 200, niceTop(loads.most > 0 ? loads.most : 1), "", shown.length)
  const step = (width - left - right) / Math.max(shown.length, 1)
  shown.forEach(([instance, value], at) => {
    const high = value > 1.1 * mean && kind === "bar" ? " high" : ""
    drawn.append(svg("rect", { class: kind === "bar" ? `bar${high}` : `bar ${kind}`, x: left + at * step + step * 0.1, y: y(value), width: Math.max(step * 0.8, 0.6), height: Math.max(low - y(value), 0) },
      tip(`instance ${instance}: ${digits(value, 6)} ${unit}, ${digits(mean ? value / mean : 1)} times the mean`)))
    if (step >= 18 || (step >= 5 && at % 10 === 0)) drawn.append(svg("text", { x: left + at * step + step / 2, y: low + 15, "text-anchor": "middle" }, String(instance)))
    if (signals.includes(instance)) {
      const at_x = left + at * step + step / 2
      drawn.append(svg("path", { class: "signal", d: `M${at_x - 6} 12L${at_x + 6} 12L${at_x} 2Z` }, tip(`queue ${instance} may send`)))
    }
  })
  drawn.append(svg("line", { class: "mean", x1: left, x2: width - right, y1: y(mean), y2: y(mean) }))
  byId(`${id}-now`).textContent = readout + (listed ? "" : `; the busiest ${shown.length} of ${loads.count.toLocaleString("en-US")}`)
  drawn.setAttribute("aria-label", byId(`${id}-now`).textContent)
  box.replaceChildren(drawn)
}

function strips(run) {
  const batches = run.batches.slice(-STRIP_BATCHES), share = new Map(), box = byId("keys")
  batches.forEach((batch, at) => (batch.heavy_keys ?? []).forEach(one => {
    if (!share.has(one.key)) share.set(one.key, new Map())
    share.get(one.key).set(at, one)
  }))
  const peak = key => Math.max(...[...share.get(key).values()].map(one => one.share_pct))
  const keys = [...share.keys()].sort((a, b) => peak(b) - peak(a)).slice(0, STRIPS), last = batches.length - 1
  keys.sort((a, b) => (share.get(b).get(last)?.share_pct ?? 0) - (share.get(a).get(last)?.share_pct ?? 0))
  const width = Math.max(box.clientWidth, 240), name = Math.min(130, width * 0.32), high = 22, cell = (width - name - 58) / STRIP_BATCHES
  const most = Math.max(...keys.map(peak), 1e-9)
  const drawn = svg("svg", { width, height: keys.length * high + 4, viewBox: `0 0 ${width} ${keys.length * high + 4}`, role: "img" })
  keys.forEach((key, row) => {
    const y = row * high + 2, now = share.get(key).get(last)
    drawn.append(svg("text", { class: now ? "strong" : "", x: 0, y: y + 14 }, cut(key, Math.floor(name / 8.4)), tip(key)))
    drawn.append(svg("rect", { class: "cell-ground", x: name, y, width: cell * STRIP_BATCHES, height: high - 4 }))
    for (const [at, one] of share.get(key)) drawn.append(svg("rect", { class: "cell", x: name + at * cell, y, width: Math.max(cell - 0.3, 0.5), height: high - 4,
      "fill-opacity": 0.15 + 0.85 * one.share_pct / most }, tip(`${apart(key)}: ${percent(one.share_pct)} of batch ${batches[at].number}${finite(one.instance) ? `, on instance ${one.instance}` : ""}`)))
    drawn.append(svg("text", { class: now ? "strong" : "", x: width, y: y + 14, "text-anchor": "end" }, now ? percent(now.share_pct) : "left"))
  })
  box.replaceChildren(drawn)
  let came = "", went = ""
  for (let at = 1; at < batches.length; at++) {
    const before = new Set((batches[at - 1].heavy_keys ?? []).map(one => one.key)), now = new Set((batches[at].heavy_keys ?? []).map(one => one.key))
    for (const key of now) if (!before.has(key)) came = `${apart(key)} entered in batch ${batches[at].number}`
    for (const key of before) if (!now.has(key)) went = `${apart(key)} left in batch ${batches[at].number}`
  }
  byId("keys-now").textContent = [came, went].filter(Boolean).join("; ") || "share of the load, batch by batch"
}

function graph(run, batch) {
  const box = byId("graph"), { operators } = run.graph, edges = (run.graph.edges ?? []).filter(([from, to]) => operators[from] && operators[to]), seen = new Map((batch?.operators ?? []).map(one => [one.name, one]))
  const layer = operators.map(() => 0)
  for (let turn = 0; turn < operators.length; turn++) for (const [from, to] of edges) layer[to] = Math.min(Math.max(layer[to], layer[from] + 1), operators.length)
  const used = [...new Set(layer)].sort((a, b) => a - b)
  layer.forEach((at, one) => { layer[one] = used.indexOf(at) })
  const rows = [], place = operators.map((_, at) => (rows[layer[at]] ??= []).push(at) - 1), layers = used.length
  const width = Math.max(box.clientWidth, 240), upright = width < 150 * layers, deep = Math.max(...rows.map(row => row.length))
  const wide = upright ? Math.max(Math.min(150, width / deep - 10), 96) : 124, high = 58
  const across = upright ? Math.max(width, deep * (wide + 10)) : width, tall = upright ? layers * (high + 26) : Math.max(deep * (high + 18), 90)
  const spot = at => {
    const along = (layer[at] + 0.5) / layers, beside = (place[at] + 0.5) / rows[layer[at]].length
    return upright ? [beside * across, along * tall] : [along * across, beside * tall]
  }
  const drawn = svg("svg", { width: across, height: tall, viewBox: `0 0 ${across} ${tall}`, role: "img" })
  for (const [from, to] of edges) {
    const [x1, y1] = spot(from), [x2, y2] = spot(to)
    drawn.append(svg("path", { class: "edge", d: upright ? `M${x1} ${y1 + high / 2}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2 - high / 2}` :
      `M${x1 + wide / 2} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2 - wide / 2} ${y2}` }))
  }
  let busiest = null
  operators.forEach((operator, at) => {
    const now = seen.get(operator.name), [x, y] = spot(at), part = now && batch.duration_ms ? (now.duration_ms ?? 0) / batch.duration_ms : 0
    const late = now && finite(now.planned_ms) && now.duration_ms > 1.25 * now.planned_ms
    if (now && (!busiest || now.duration_ms > busiest.duration_ms)) busiest = now
    const told = [operator.name, operator.role, now && `${seconds(now.duration_ms)} of the batch`, now && finite(now.planned_ms) && `planned ${seconds(now.planned_ms)}`,
      now && finite(now.busy_pct) && `threads busy ${percent(now.busy_pct)}`, now && finite(now.imbalance_pct) && `λ ${percent(now.imbalance_pct)}`].filter(Boolean).join(", ")
    const box_of = { x: x - wide / 2, y: y - high / 2, width: wide, height: high, rx: 6 }
    drawn.append(svg("g", { class: late ? "node late" : "node" }, tip(told), svg("rect", { class: "ground", ...box_of }),
      svg("rect", { class: "fill", ...box_of, "fill-opacity": Math.min(0.06 + 0.6 * part, 0.6) }), svg("rect", { class: "frame", ...box_of }),
      svg("text", { class: "strong", x, y: y - 8, "text-anchor": "middle" }, cut(operator.name, Math.floor(wide / 8.8))),
      svg("text", { x, y: y + 12, "text-anchor": "middle" }, now ? `${seconds(now.duration_ms)}, ${Math.round(100 * part)} %` : operator.role || "")))
  })
  byId("graph-now").textContent = busiest ? `${busiest.name} takes most of the batch: ${seconds(busiest.duration_ms)}` +
    (finite(busiest.planned_ms) ? `, planned ${seconds(busiest.planned_ms)}` : "") + "; dashed: a quarter over its plan" : ""
  box.replaceChildren(drawn)
}

function decisions(run) {
  byId("decisions").replaceChildren(...run.decisions.map(fact => {
    const made = fact.decision ?? {}, what = fact.event === "end" && fact.error ? `failed: ${fact.error}` : fact.event === "start" ? (finite(fact.instances) ? `with ${fact.instances} instances` : "") : made.reason === DECIDED[fact.event] ? "" : made.reason ?? ""
    const told = [finite(made.before_pct) && `λ before ${percent(made.before_pct)}`, finite(made.expected_pct) && `promised ${percent(made.expected_pct)}`, finite(made.after_pct) && `λ after ${percent(made.after_pct)}`,
      finite(made.kept_pct) && `without it ${percent(made.kept_pct)}`, finite(made.moved_load_pct) && `${percent(made.moved_load_pct)} of the load moved`, finite(made.stood_ms) && `stood still for ${seconds(made.stood_ms)}`].filter(Boolean).join(" · ")
    const line = html("li", fact.event === "end" && fact.error ? "failure" : fact.event, html("time", "", clock(fact.time)), " ", html("b", "", `${made.what ? `${made.what} ` : ""}${DECIDED[fact.event]}${fact.event === "change" && finite(fact.mapping_version) ? ` to v${fact.mapping_version}` : ""}`), " ", html("bdi", "", what))
    if (told) line.append(html("small", "", told))
    return line
  }))
  byId("decisions-now").textContent = `${run.changes} ${run.changes === 1 ? "change" : "changes"}, ${run.restarts} ${run.restarts === 1 ? "restart" : "restarts"} seen`
}

// ---- the page

function numbersOf(run) {
  const batch = run.batches.at(-1) ?? {}, before = run.batches.at(-2), loads = batch.busy_ms_by_instance ?? batch.rows_by_instance ?? null
  const rate = before && batch.time > before.time ? batch.rows / (batch.time - before.time) : batch.duration_ms ? 1000 * batch.rows / batch.duration_ms : null
  return { run: run.id, name: run.name, kind: run.kind, status: run.status, batch: batch.number ?? null, rows: batch.rows ?? null, rows_per_s: rate, imbalance_pct: batch.imbalance_pct ?? null, expected_pct: batch.expected_pct ?? null,
    duration_ms: batch.duration_ms ?? null, bound_ms: batch.bound_ms ?? null, planned_ms: batch.planned_ms ?? null, mapping_version: run.version, instances: run.instances ?? batch.instances ?? null, loads,
    heavy_keys: batch.heavy_keys ?? [], operators: batch.operators ?? [], queues: batch.queues ?? null, changes: run.changes, restarts: run.restarts, decisions: run.decisions.length, batches_kept: run.batches.length }
}

function tiles(now) {
  const ratio = now.duration_ms && now.bound_ms ? now.duration_ms / now.bound_ms : null
  const shown = [["imbalance", "λ of the last batch", percent(now.imbalance_pct), finite(now.expected_pct) ? `expected ${percent(now.expected_pct)}` : "", finite(now.imbalance_pct) ? (now.imbalance_pct > Math.max(20, 2 * (now.expected_pct ?? 0)) ? "bad" : "good") : ""],
    ["took", "batch took", seconds(now.duration_ms), ratio ? `${ratio.toFixed(2)} × bound` : "", ""], ["rate", "rows/s", now.rows_per_s >= 1e6 ? short(now.rows_per_s) : digits(now.rows_per_s), "", ""],
    ["version", "mapping", now.mapping_version === null ? "–" : `v${now.mapping_version}`, `${now.changes} ${now.changes === 1 ? "change" : "changes"}`, ""],
    ["count", "instances", now.instances === null ? "–" : now.instances.toLocaleString("en-US"), "", ""], ["batch", "batch", now.batch === null ? "–" : now.batch.toLocaleString("en-US"), "", ""]]
  byId("tiles").replaceChildren(...shown.filter(([, , value]) => value !== "–").map(([id, label, value, more, cls]) => {
    const tile = html("div", cls, html("dt", "", label), html("dd", "", html("span", "", value), " ", html("small", "", more)))
    tile.id = `tile-${id}`
    return tile
  }))
}

function legend(id, parts) {
  byId(id).replaceChildren(...parts.map(([cls, text]) => html("span", "", html("i", cls), text)))
}

function show(id, wanted) { byId(id).hidden = !wanted }

function choices(run) {
  const shown = [...runs.values()].map(one => {
    const alike = [...runs.values()].some(other => other !== one && other.name === one.name && other.name && other.kind === one.kind)
    return [one.key, `${one.name || one.id} (${one.kind}${alike ? `, ${clock(one.begun)}` : ""})`]
  })
  if (chosenFrom !== JSON.stringify(shown)) {  // a button that is made anew under a pointer is never clicked
    chosenFrom = JSON.stringify(shown)
    byId("runs").replaceChildren(...shown.map(([key, label]) => {
      const button = html("button", "", label)
      button.value = key
      button.onclick = () => { chosen = key; later() }
      return button
    }))
  }
  for (const button of byId("runs").children) button.setAttribute("aria-current", String(button.value === run?.key))
}

function draw() {
  drawing = false
  const run = runs.get(chosen) ?? runs.values().next().value  // what was chosen may be gone with the server that told of it
  choices(run)
  show("runs", runs.size > 1)
  byId("lead").textContent = title
  show("status", !!run)
  for (const id of ["lambda", "instances", "duration", "keys", "graph", "queues", "decisions"]) if (!run) show(`${id}-card`, false)
  if (!run) return
  const now = numbersOf(run), batch = run.batches.at(-1)
  document.title = `${run.name || run.id}: λ ${percent(now.imbalance_pct)} – Evenly`
  byId("name").textContent = run.name || run.id
  const silent = run.status === "running" ? Date.now() / 1000 - run.time : 0  // a job that was killed tells no end
  byId("status").textContent = silent > SILENT_S ? `running when last heard of, ${ago(silent)} ago` : run.status
  byId("status").className = `pill ${run.status === "running" && silent <= SILENT_S ? "good" : run.status === "failed" ? "bad" : ""}`
  tiles(now)
  const any = of => run.batches.some(of)
  show("lambda-card", any(one => finite(one.imbalance_pct)))
  show("duration-card", any(one => finite(one.duration_ms)))
  show("instances-card", !!now.loads)
  show("keys-card", any(one => one.heavy_keys?.length))
  show("graph-card", !!run.graph)
  show("queues-card", !!now.queues?.backlogs)
  show("decisions-card", true)
  let pair = null  // a card without a neighbour takes the whole width
  for (const card of document.querySelectorAll(".card:not([hidden])")) {
    if (ALWAYS_WIDE.includes(card.id)) { pair?.classList.add("wide-card"); pair = null; continue }
    card.classList.remove("wide-card")
    pair = pair ? null : card
  }
  pair?.classList.add("wide-card")
  if (!byId("lambda-card").hidden) over(run, "lambda", [{ cls: "seen", filled: true, of: one => one.imbalance_pct }, { cls: "expected", of: one => one.expected_pct }], " %",
    one => `batch ${one.number}: λ ${percent(one.imbalance_pct)}` + (finite(one.expected_pct) ? `, expected ${percent(one.expected_pct)}` : "") + (finite(one.version) ? `, mapping v${one.version}` : ""), 230)
  if (!byId("duration-card").hidden) over(run, "duration", [{ cls: "seen", filled: true, of: one => one.duration_ms }, { cls: "bound", of: one => one.bound_ms }, { cls: "plan", of: one => one.planned_ms }], "",
    one => `batch ${one.number}: ${seconds(one.duration_ms)}` + (finite(one.bound_ms) ? `, at least ${seconds(one.bound_ms)}` : "") + (finite(one.planned_ms) ? `, planned ${seconds(one.planned_ms)}` : ""), 220)
  legend("lambda-legend", [["seen", "observed"], ...any(one => finite(one.expected_pct)) ? [["expected", "expected by the mapping"]] : [], ...run.marks.some(one => one.kind === "change") ? [["change", "mapping or plan changed"]] : [], ...run.restarts ? [["restart", "started again"]] : []])
  legend("duration-legend", [["seen", "ms a batch"], ...any(one => finite(one.bound_ms)) ? [["bound", "lower bound"]] : [], ...any(one => finite(one.planned_ms)) ? [["plan", "planned"]] : []])
  if (now.loads) bars("instances", now.loads, batch.busy_ms_by_instance ? "ms busy" : "rows", `${batch.busy_ms_by_instance ? "ms busy" : "rows"} of each in batch ${batch.number}${batch.operator ? ` at ${batch.operator}` : ""}; dashed: the mean, ${digits(now.loads.total / now.loads.count, 4)}`)
  if (!byId("keys-card").hidden) strips(run)
  if (run.graph) graph(run, batch)
  if (now.queues?.backlogs) bars("queues", now.queues.backlogs, "rows waiting", `${now.queues.policy || "no policy"}: ${now.queues.may_send ? `${digits(now.queues.backlogs.total, 6)} rows wait; ▲ may send: ${now.queues.may_send.join(", ")}` : `the most rows that waited in each queue in batch ${batch.number}`}`, { kind: "waits", signals: now.queues.may_send ?? [] })
  decisions(run)
  byId("numbers").textContent = JSON.stringify({ ...now, connection: byId("connection").textContent, runs: [...runs.values()].map(one => one.id), last_id: lastId })
}

function later() {
  if (!drawing) { drawing = true; requestAnimationFrame(draw) }
}

function connected(text, cls) {
  byId("connection").textContent = text
  byId("connection").className = `pill ${cls}`
  later()
}

function connect() {
  source = new EventSource(`events${lastId ? `?after=${encodeURIComponent(lastId)}` : ""}`)
  source.addEventListener("hello", event => {
    const told = JSON.parse(event.data)
    title = told.title
    if (epoch !== told.epoch || told.fresh) { runs.clear(); show("notice", false); if (epoch && epoch !== told.epoch) lastId = "" }
    epoch = told.epoch
    retry = 0
    connected("live", "good")
  })
  source.addEventListener("fact", event => { lastId = event.lastEventId; take(JSON.parse(event.data)); later() })
  source.addEventListener("notice", event => { lastId = event.lastEventId; byId("notice").textContent = JSON.parse(event.data).text; show("notice", true) })
  source.onerror = () => {
    connected("connection lost, trying again", "bad")
    source.close()  // our own way is the same whether the server is gone, refuses, or was started anew
    retry = Math.min(retry + 1, 10)
    setTimeout(connect, 200 * retry)
  }
}

for (const id of ["lambda", "duration"]) {
  byId(id).addEventListener("pointermove", event => { pointed[id] = event.clientX - byId(id).getBoundingClientRect().left; later() })
  byId(id).addEventListener("pointerleave", () => { delete pointed[id]; later() })
}
addEventListener("resize", later)
setInterval(later, 20000)
addEventListener("beforeprint", draw)
draw()
connect()
