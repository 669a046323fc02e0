'use strict';
// The data of the page, and how elements are made from it. What packets say goes into the
// document as text, never as markup: el is the only place that makes elements.

const data = JSON.parse(document.getElementById('data').textContent);

const byId = (id) => document.getElementById(id);

function fill(node, attrs, children) {
  for (const [k, v] of Object.entries(attrs)) {
    if (k === 'text') node.textContent = v;
    else if (k === 'click') node.addEventListener('click', v);
    else if (v !== undefined && v !== false) node.setAttribute(k, v);
  }
  node.append(...children.filter((c) => c));
  return node;
}

const el = (name, attrs = {}, ...children) => fill(document.createElement(name), attrs, children);
const svg = (name, attrs = {}, ...children) => fill(document.createElementNS('http://www.w3.org/2000/svg', name), attrs, children);

const number = (n) => n.toLocaleString('en');
const plural = (n, one, many = one + 's') => `${number(n)} ${n === 1 ? one : many}`;
const seconds = (ns) => (ns / 1e9).toFixed(6);

// span writes a duration with three digits and its unit.
function span(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['\u00b5s', 1e3]]) {
    if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${ns} ns`;
}

// mild says that a rule is not broken but bent.
const mild = (rule) => rule !== undefined && rule.severity !== 'error';
const severity = (id) => (data.rules[id] ? data.rules[id].severity : 'error');

// Neighbouring XIDs get colours far apart: the golden angle.
data.conns ??= [];
for (const conn of data.conns) {
  const hues = new Map();
  conn.rows ??= [];
  conn.marks ??= [];
  conn.rows.forEach((row, i) => {
    row.i = i;
    if (!row.xid) return;
    if (!hues.has(row.xid)) hues.set(row.xid, Math.round(215 + hues.size * 137.508) % 360);
    row.hue = hues.get(row.xid);
  });
  conn.client = conn.initiator === 0 ? conn.opener : conn.accepter;
  conn.server = conn.initiator === 0 ? conn.accepter : conn.opener;
}
// What is being looked at. Everything that changes it goes through the functions here, and
// everything that shows it is told through on().

const view = {
  conn: 0, // index into data.conns
  rows: [], // the rows that pass the filter, in order
  at: -1, // the chosen one, an index into rows
  open: false, // its details are shown
  test: () => true, // the filter
};

const watchers = { conn: [], rows: [], at: [], open: [] };
const on = (what, f) => watchers[what].push(f);
const tell = (what) => watchers[what].forEach((f) => f());

const connection = () => data.conns[view.conn] || { rows: [], marks: [] };
const chosen = () => view.rows[view.at];

// refilter makes view.rows again and keeps the chosen row, or the one behind it.
function refilter() {
  const was = chosen();
  view.rows = connection().rows.filter(view.test);
  const next = was ? view.rows.findIndex((r) => r.i >= was.i) : -1;
  view.at = was && next < 0 ? view.rows.length - 1 : next;
  tell('rows');
  tell('at');
}

function showConn(i) {
  if (i < 0 || i >= data.conns.length || i === view.conn) return;
  view.conn = i;
  view.at = -1;
  view.rows = connection().rows.filter(view.test);
  tell('conn');
  tell('rows');
  tell('at');
}

function choose(at) {
  if (view.rows.length === 0) return;
  view.at = Math.max(0, Math.min(view.rows.length - 1, at));
  tell('at');
}

function showDetails(open) {
  if (open === view.open || (open && !chosen())) return;
  view.open = open;
  tell('open');
}

// goTo chooses a row by its index in the connection; a filter that hides it is cleared.
function goTo(conn, i) {
  showConn(conn);
  let at = view.rows.findIndex((r) => r.i === i);
  if (at < 0 && i >= 0 && i < connection().rows.length) {
    setFilter('');
    at = i;
  }
  if (at >= 0) choose(at);
}

// nextMark chooses the next row with a violation in steps of 1 or -1.
function nextMark(step) {
  const n = view.rows.length;
  let at = view.at < 0 && step < 0 ? n : view.at;
  for (at += step; at >= 0 && at < n; at += step) {
    if (view.rows[at].marks) {
      choose(at);
      return;
    }
  }
}
// The filter: words that must all hold.

// words splits at spaces outside of quotes.
const words = (s) => (s.match(/(?:[^\s"]|"[^"]*"?)+/g) || []).map((w) => w.replaceAll('"', ''));

const rulesOf = (row) => (row.marks || []).map((m) => connection().marks[m].rule);

// line is what plain words are looked for in; made once per row.
function line(row) {
  row.line ??= [row.op, row.text, row.xid, row.err, ...rulesOf(row)].filter(Boolean).join(' ').toLowerCase();
  return row.line;
}

const places = {
  op: (row, v) => row.op.toLowerCase().includes(v) || row.kind.includes(v),
  xid: (row, v) => (row.xid || '').includes(v),
  rule: (row, v) => rulesOf(row).some((id) => id.toLowerCase().includes(v)),
  field: (row, v) => JSON.stringify(row.fields || '').toLowerCase().includes(v),
  frame: (row, v) => {
    const [from, to = from] = v.split('-').map(Number);
    return row.first <= to && row.frame >= from;
  },
};

// test makes a predicate of one word.
function test(word) {
  const [, place, value] = word.match(/^([a-z]+):(.*)$/) || [];
  if (word === '!') return (row) => Boolean(row.marks);
  if (Object.hasOwn(places, place ?? '')) return (row) => places[place](row, value);
  return (row) => line(row).includes(word);
}

// compile makes a predicate of a whole filter.
function compile(text) {
  const tests = words(text.toLowerCase()).map((w) => {
    if (w.length < 2 || w[0] !== '-') return test(w);
    const t = test(w.slice(1));
    return (row) => !t(row);
  });
  return (row) => tests.every((t) => t(row));
}

function setFilter(text) {
  if (byId('filter').value !== text) byId('filter').value = text;
  view.test = compile(text);
  refilter();
}

byId('filter').addEventListener('input', () => setFilter(byId('filter').value));

on('rows', () => {
  const all = connection().rows.length;
  const some = view.rows.length;
  byId('matches').textContent = byId('filter').value.trim() ? `${number(some)} of ${number(all)}` : plural(all, 'message');
  byId('empty').hidden = some > 0;
  byId('empty').textContent = all === 0 ? 'No iWARP messages in this capture.' : 'No message passes the filter. Esc clears it.';
});
// The ladder. Only the rows in sight are in the document; a capture of 10,000 messages costs
// what fits on the screen.

const ROW = 36; // pixels; page.css says the same
const SPARE = 6; // rows drawn above and below what is in sight
const GAP = 100e6; // nanoseconds of silence that are pointed out

const ladder = byId('ladder');
const space = byId('space');
const drawn = new Map(); // index into view.rows -> element

const head = (d, full) => svg('svg', { x: '100%', overflow: 'visible' }, svg('path', { d, class: full ? 'full' : '' }));
const stroke = (y, style) => svg('line', { x1: 0, x2: '100%', y1: y, y2: y, class: style });

// Arrows by kind of row, drawn from left to right.
const arrows = {
  send: () => [stroke(6, ''), head('M0 6 l-9 -4 v8 z', true)],
  write: () => [stroke(4, ''), stroke(8, ''), head('M-11 -1 L0 6 L-11 13', false)],
  read: () => [stroke(6, 'dash'), head('M-9 2 L0 6 L-9 10', false)],
  response: () => [stroke(4, 'dash'), stroke(8, 'dash'), head('M-11 -1 L0 6 L-11 13', false)],
  request: () => [stroke(6, 'dashdot'), head('M0 6 l-6 -4 l-6 4 l6 4 z', true)],
  answer: () => [stroke(6, 'dashdot'), head('M0 6 l-6 -4 l-6 4 l6 4 z', false)],
  startup: () => [stroke(6, 'dots'), head('M0 6 l-9 -4 v8 z', false)],
  terminate: () => [stroke(6, ''), head('M-10 1 l10 10 M0 1 l-10 10', false)],
  undecoded: () => [stroke(6, 'dots')],
  close: () => [stroke(6, ''), head('M-1 0 v12', false)],
};

const arrow = (kind) => svg('svg', { class: 'arrow', 'aria-hidden': 'true' }, ...(arrows[kind] || arrows.undecoded)());

// spoken says a row in words, for those who hear the page.
function spoken(row) {
  const way = row.dir === connection().initiator ? 'client to server' : 'server to client';
  const faults = row.marks ? `, ${plural(row.marks.length, 'violation')}: ${rulesOf(row).join(', ')}` : '';
  return `${seconds(row.at)} s, frame ${row.frame}, ${way}, ${row.op} ${row.text || ''}${row.xid ? `, XID ${row.xid}` : ''}${faults}`;
}

function what(row) {
  const rules = [...new Set(rulesOf(row))];
  return el('span', { class: 'what' },
    ...rules.slice(0, 3).map((id) => el('span', { class: `rule ${severity(id)}`, text: id })),
    el('b', { text: row.op }),
    el('span', { text: ` ${row.text || ''}` }),
    row.segments > 1 && el('span', { class: 'for', text: ` in ${number(row.segments)} segments` }),
    row.xid && el('span', { class: 'for mono', text: `  ${row.xid}` }),
    row.err && !row.marks && el('span', { class: 'for', text: `  !! ${row.err}` }));
}

function draw(at) {
  const row = view.rows[at];
  const before = view.rows[at - 1];
  const pause = before ? row.at - before.at : 0;
  const bent = row.marks && rulesOf(row).every((id) => mild(data.rules[id]));
  const node = el('div', {
    id: `row-${row.i}`, role: 'option', 'data-kind': row.kind,
    class: `row ${row.kind}${row.dir === connection().initiator ? '' : ' back'}${row.xid ? ' call' : ''}` +
      `${row.marks ? ' marked' : ''}${bent ? ' mild' : ''}${pause >= GAP ? ' gap' : ''}`,
    'data-gap': pause >= GAP ? `${span(pause)} later` : undefined,
    'aria-selected': String(at === view.at), 'aria-setsize': view.rows.length, 'aria-posinset': at + 1, 'aria-label': spoken(row),
  },
  el('span', { class: 'when' }, el('b', { text: seconds(row.at) }), `\n#${row.frame}`),
  el('div', { class: 'lane' }, what(row), arrow(row.kind)),
  el('span', { class: 'size', text: row.kind === 'close' ? '' : `${number(row.len)}${row.lasted ? `\n${span(row.lasted)}` : ''}` }));
  node.style.top = `${at * ROW}px`;
  if (row.hue !== undefined) node.style.setProperty('--hue', row.hue);
  node.addEventListener('click', () => { choose(at); showDetails(true); });
  return node;
}

// inSight returns the first and the last index that the window needs.
function inSight() {
  const first = Math.floor(ladder.scrollTop / ROW);
  const n = Math.ceil(ladder.clientHeight / ROW);
  return [first, Math.min(view.rows.length - 1, first + n)];
}

function drawWindow() {
  const [first, last] = inSight();
  for (const [at, node] of drawn) {
    if (at < first - SPARE || at > last + SPARE) {
      node.remove();
      drawn.delete(at);
    }
  }
  for (let at = Math.max(0, first - SPARE); at <= Math.min(last + SPARE, view.rows.length - 1); at++) {
    if (drawn.has(at)) continue;
    drawn.set(at, draw(at));
    space.append(drawn.get(at));
  }
  const row = chosen();
  if (row && drawn.has(view.at)) ladder.setAttribute('aria-activedescendant', `row-${row.i}`);
  else ladder.removeAttribute('aria-activedescendant');
}

function redraw() {
  drawn.forEach((node) => node.remove());
  drawn.clear();
  space.style.height = `${view.rows.length * ROW}px`;
  drawWindow();
}

// reveal scrolls so that the chosen row is in sight, with some air around it.
function reveal() {
  const top = view.at * ROW;
  const air = Math.min(2 * ROW, ladder.clientHeight / 4);
  if (top < ladder.scrollTop + air) ladder.scrollTop = top - air;
  else if (top + ROW > ladder.scrollTop + ladder.clientHeight - air) ladder.scrollTop = top + ROW + air - ladder.clientHeight;
}

on('conn', () => {
  const c = connection();
  byId('left').replaceChildren(el('b', { text: 'Initiator' }), el('span', { class: 'mono', text: c.client || '' }));
  byId('right').replaceChildren(el('b', { text: 'Responder' }), el('span', { class: 'mono', text: c.server || '' }));
  ladder.scrollTop = 0;
});
on('rows', redraw);
on('at', () => {
  if (view.at >= 0) reveal();
  drawWindow();
  drawn.forEach((node, at) => node.setAttribute('aria-selected', String(at === view.at)));
});
ladder.addEventListener('scroll', () => requestAnimationFrame(() => { drawWindow(); drawBand(); }));
new ResizeObserver(drawWindow).observe(ladder);
// Credits: what the requester asked for, what it was granted, how many of its calls waited. The axis below is linear
// time or counts messages, as the ladder does, with times written along it, and says which; the other one is
// logarithmic, since one waiting call and 128 credits are both worth seeing.

const plot = byId('plot');
const H = 96;
const TOP = 8;
const BASE = 80; // y of zero
const LEFT = 28;

let scale; // { width, rows, max, from, to }
let linear = true; // the axis below is time

// x is the place of a row, by its index.
function x(i) {
  const room = scale.width - LEFT - 4;
  if (!linear) return LEFT + (room * (i + 0.5)) / Math.max(1, scale.rows);
  const row = connection().rows[i];
  return LEFT + (room * ((row ? row.at : scale.to) - scale.from)) / Math.max(1, scale.to - scale.from);
}
const y = (v) => BASE - ((BASE - TOP) * Math.log1p(v)) / Math.log1p(scale.max);

// series returns [index, value] pairs of the rows that tell the value.
function series(of) {
  const points = [];
  for (const row of connection().rows) {
    const v = of(row);
    if (v !== undefined) points.push([row.i, v]);
  }
  return points;
}

// steps draws points as a staircase, one step per pixel at most: the highest value in it.
function steps(points, closed) {
  const columns = new Map();
  for (const [i, v] of points) {
    const px = Math.round(x(i));
    columns.set(px, Math.max(v, columns.get(px) ?? 0));
  }
  let d = '';
  for (const [px, v] of columns) d += d ? `H${px}V${y(v).toFixed(1)}` : `M${px} ${y(v).toFixed(1)}`;
  if (!d) return d;
  d += `H${(x(scale.rows - 1) + 1).toFixed(0)}`;
  return closed ? `${d}V${BASE}H${Math.round(x(points[0][0]))}Z` : d;
}

function axes(factor) {
  const nodes = [];
  for (let v = 0; v <= scale.max; v = v === 0 ? 1 : v * factor) {
    nodes.push(svg('line', { class: 'grid', x1: LEFT, x2: scale.width, y1: y(v), y2: y(v) }),
      svg('text', { x: LEFT - 5, y: y(v) + 3, 'text-anchor': 'end', text: v < 1e4 ? v : v.toExponential(0) }));
  }
  const rows = connection().rows;
  if (linear && rows.length) {
    const n = Math.max(1, Math.min(8, Math.floor(scale.width / 130)));
    for (let k = 0; k < n; k++) {
      const at = scale.from + ((scale.to - scale.from) * k) / n;
      nodes.push(svg('text', { x: LEFT + ((scale.width - LEFT - 4) * k) / n, y: H - 2, text: `${seconds(at)} s` }));
    }
    return nodes;
  }
  const ticks = Math.max(1, Math.min(8, Math.floor(scale.width / 130), rows.length));
  for (let n = 0; n < ticks && rows.length; n++) {
    const i = Math.min(rows.length - 1, Math.round((n * rows.length) / ticks));
    nodes.push(svg('text', { x: x(i), y: H - 2, text: `${seconds(rows[i].at)} s` }));
  }
  return nodes;
}

const most = (points) => points.reduce((m, p) => Math.max(m, p[1]), 0);

// lines are what is drawn: [class, points, words]. Without credits the sizes of the messages are.
function lines() {
  const conn = connection();
  const asked = series((r) => (r.dir === conn.requester ? r.credit : undefined));
  if (asked.length === 0) return [['open', series((r) => r.len), 'octets per message']];
  return [['open', series((r) => r.open), 'calls waiting'], ['asked', asked, 'asked for'],
    ['granted', series((r) => (r.dir !== conn.requester ? r.credit : undefined)), 'credits granted']];
}

function drawChart() {
  const conn = connection();
  const all = lines();
  const max = Math.min(1e9, Math.max(4, ...all.map((l) => most(l[1]))));
  const times = conn.rows.map((r) => r.at);
  scale = { width: plot.clientWidth, rows: conn.rows.length, max,
    from: times.reduce((a, b) => Math.min(a, b), Infinity), to: times.reduce((a, b) => Math.max(a, b), -Infinity) };
  if (!conn.rows.length) scale.from = scale.to = 0;
  const clip = (points) => points.map(([i, v]) => [i, Math.min(v, max)]);
  const marks = new Set(conn.rows.filter((r) => r.marks).map((r) => Math.round(x(r.i))));
  plot.replaceChildren(...axes(all.length > 1 ? 4 : 100),
    svg('rect', { class: 'band', id: 'band', y: 0, height: BASE, x: 0, width: 0 }),
    ...all.map(([name, points]) => svg('path', { class: name, d: steps(clip(points), name === 'open') })),
    ...[...marks].map((px) => svg('path', { class: 'mark', d: `M${px - 4} 0h8l-4 7z` })),
    svg('line', { class: 'cursor', id: 'cursor', y1: 0, y2: BASE, x1: -1, x2: -1 }));
  describe(all, marks.size);
  drawBand();
}

function describe(all, marks) {
  const words = all.map(([name, points, text]) => [name, `${text}, up to ${number(most(points))}`]).reverse();
  if (marks) words.push(['mark', 'violations']);
  byId('caption').replaceChildren(...words.map(([c, text]) => el('span', { class: c, text })));
  plot.setAttribute('aria-label', words.map((w) => w[1]).join('; '));
}

// drawBand shows what part of the connection the ladder shows, and the chosen message.
function drawBand() {
  const band = byId('band');
  if (!band) return;
  const [first, last] = inSight();
  const rows = view.rows;
  if (rows.length) {
    const from = x(rows[Math.min(first, rows.length - 1)].i);
    const to = x(rows[Math.max(0, last)].i);
    band.setAttribute('x', from);
    band.setAttribute('width', Math.max(2, to - from));
  }
  const at = chosen() ? x(chosen().i) : -9;
  byId('cursor').setAttribute('x1', at);
  byId('cursor').setAttribute('x2', at);
}

// under returns the index of the row at a place of the axis.
function under(px) {
  if (!linear) return Math.floor(((px - LEFT) * scale.rows) / (scale.width - LEFT - 4));
  const at = scale.from + ((px - LEFT) * (scale.to - scale.from)) / (scale.width - LEFT - 4);
  const i = connection().rows.findIndex((r) => r.at >= at);
  return i < 0 ? connection().rows.length - 1 : i;
}

function showAxis(time) {
  linear = time;
  byId('axis').textContent = linear ? 'Axis: time, linear' : 'Axis: order of messages';
  drawChart();
}
byId('axis').addEventListener('click', () => showAxis(!linear));

plot.addEventListener('click', (ev) => {
  const i = under(ev.clientX - plot.getBoundingClientRect().left);
  const at = view.rows.findIndex((r) => r.i >= i);
  choose(at < 0 ? view.rows.length - 1 : at);
});
on('conn', () => showAxis(linear));
on('rows', drawBand);
on('at', drawBand);
new ResizeObserver(drawChart).observe(plot);
// One message: what is wrong with it, its fields, its octets.

const details = byId('details');

function fault(m) {
  const rule = data.rules[m.rule] || { level: '', source: '', text: '', quote: '', severity: 'error' };
  return el('div', { class: `fault${mild(rule) ? ' mild' : ''}` },
    el('div', {}, el('span', { class: `rule ${severity(m.rule)}`, text: m.rule }), ` ${m.detail}`),
    el('div', { class: 'law', text: `${rule.level} (${rule.source}): ${rule.text}` }),
    rule.quote && el('div', { class: 'law' }, el('q', { text: rule.quote })),
    m.folded > 0 && el('details', { class: 'law' }, el('summary', { text: plural(m.folded, 'consequence') }),
      el('ul', {}, ...(m.after || []).map((text) => el('li', { text })),
        m.folded > (m.after || []).length && el('li', { text: `and ${number(m.folded - (m.after || []).length)} more` }))));
}

// flatten turns nested values into [name, text] pairs: reads.0.rdma_length.
function flatten(value, name, out) {
  if (value !== null && typeof value === 'object') {
    for (const [k, v] of Object.entries(value)) flatten(v, name ? `${name}.${k}` : k, out);
  } else {
    out.push([name, String(value)]);
  }
  return out;
}

const list = (pairs) => el('dl', { class: 'fields' }, ...pairs.map(([k, v]) => el('div', {}, el('dt', { text: k }), el('dd', { text: v }))));

// titles name the groups of fields, which are named after Wireshark's protocols.
const titles = { iwarp_mpa: 'MPA', iwarp_ddp: 'DDP', iwarp_rdma: 'RDMAP', rpcordma: 'RPC-over-RDMA', rpc: 'RPC' };

function fields(row) {
  const top = [];
  const groups = [];
  for (const [k, v] of Object.entries(row.fields || {})) {
    if (v !== null && typeof v === 'object') groups.push(el('h3', { text: titles[k] || k }), list(flatten(v, '', [])));
    else top.push([k, String(v)]);
  }
  return [el('h3', { text: row.segments > 1 ? 'Frame, the last of its message' : 'Frame' }), list(top), ...groups];
}

const hex = (n, width) => n.toString(16).padStart(width, '0');
const graphic = (c) => (c >= 0x20 && c < 0x7f ? String.fromCharCode(c) : '.');

// layered joins neighbours of one layer, so that a line of octets is a few spans.
function layered(octets, from, parts, write) {
  const out = [];
  let last;
  for (let i = 0; i < octets.length; i++) {
    const part = parts.find((p) => from + i < p.end);
    const name = part ? part.name : 'payload';
    if (!last || last.className !== name) out.push((last = el('span', { class: name })));
    last.textContent += write(octets[i], i);
  }
  return out;
}

function octets(row) {
  if (!row.octets) return [];
  const b = Uint8Array.from(atob(row.octets), (c) => c.charCodeAt(0));
  const parts = row.parts || [];
  const pre = el('pre', { class: 'hex', tabindex: '0', 'aria-label': 'Octets' });
  for (let at = 0; at < b.length; at += 16) {
    const some = b.subarray(at, at + 16);
    pre.append(el('span', { class: 'at', text: `${hex(at, 4)}  ` }),
      ...layered(some, at, parts, (c, i) => `${hex(c, 2)}${i === 7 ? '  ' : ' '}`),
      ' '.repeat((16 - some.length) * 3 + (some.length < 8 ? 2 : 1)),
      ...layered(some, at, parts, graphic), '\n');
  }
  const more = row.of > b.length ? `the first ${number(b.length)} of ${number(row.of)} octets` : plural(b.length, 'octet');
  const whose = row.segments > 1 ? ` of the first of ${number(row.segments)} frames` : '';
  return [el('h3', { text: `Octets: ${more}${whose}` }),
    el('div', { class: 'layers' }, ...[['mpa', 'MPA'], ['ddp', 'DDP, RDMAP'], ['header', 'RPC-over-RDMA'], ['payload', 'payload']]
      .filter(([n]) => parts.some((p) => p.name === n)).map(([c, text]) => el('span', { class: c, text }))),
    pre];
}

function jump(row) {
  if (!row.peer) return null;
  const peer = connection().rows[row.peer - 1];
  const name = row.text && row.text.includes('call') && peer.dir !== row.dir ? 'Reply' : 'Call';
  return el('button', { class: 'jump', type: 'button', text: `${name} in frame ${peer.frame}`, click: () => goTo(view.conn, peer.i) });
}

function showMessage() {
  const row = chosen();
  if (!view.open || !row) return;
  const conn = connection();
  details.replaceChildren(...[
    el('header', {}, el('h2', { text: `${row.op} ${row.text || ''}` }),
      el('button', { type: 'button', 'aria-label': 'Close details', text: 'Close', click: () => { showDetails(false); ladder.focus(); } })),
    el('p', { class: 'place' }, el('a', { href: linkTo(row), text: `#packet-${row.frame}` })),
    el('p', { class: 'place', text: `frame ${row.first === row.frame ? row.frame : `${row.first} to ${row.frame}`}, ${seconds(row.at)} s, ` +
      `${row.dir === conn.initiator ? 'initiator to responder' : 'responder to initiator'}, ${plural(row.len, 'octet')}` +
      `${row.segments > 1 ? ` in ${number(row.segments)} segments over ${span(row.lasted)}` : ''}` }),
    ...(row.marks || []).map((m) => fault(conn.marks[m])),
    row.err && el('div', { class: 'fault mild', text: row.err }),
    jump(row),
    ...(row.fields ? fields(row) : []),
    ...octets(row),
  ].filter(Boolean));
  details.scrollTop = 0;
}

on('open', () => {
  details.hidden = !view.open;
  showMessage();
});
on('at', () => {
  if (!chosen()) showDetails(false);
  showMessage();
});
// The list of connections and, for the one that is shown, of what is wrong with it.

const LISTED = 100; // violations of one rule that are listed; n and N walk through all

function drawConns() {
  byId('conns').replaceChildren(...data.conns.map((c, i) => el('li', {},
    el('button', { type: 'button', 'aria-current': String(i === view.conn), click: () => showConn(i) },
      el('span', { class: 'ends', text: c.client ? `${c.id}  ${c.client} \u2192 ${c.server}` : `${c.id}` }),
      el('span', { class: 'about' },
        el('span', { text: `${c.what || ''}, ${plural(c.rows.length, 'message')}` }),
        c.broken > 0 && el('span', { class: 'count', text: number(c.broken), title: plural(c.broken, 'violation') }))))));
}

function drawFound() {
  const conn = connection();
  const byRule = Map.groupBy(conn.marks, (m) => m.rule);
  const groups = [...byRule].map(([id, marks]) => el('details', byRule.size < 6 ? { open: '' } : {},
    el('summary', {}, el('span', { class: `rule ${severity(id)}`, text: id }), ` ${number(marks.length)}`),
    el('p', { class: 'law', text: data.rules[id] ? data.rules[id].text : '' }),
    el('ul', {}, ...marks.slice(0, LISTED).map((m) => el('li', {},
      el('button', { type: 'button', text: `frame ${m.frame}: ${m.detail}${m.folded ? ` (and ${plural(m.folded, 'consequence')})` : ''}`,
        click: () => { showSide(false); goTo(view.conn, m.row); showDetails(m.row >= 0); } })))),
    marks.length > LISTED && el('p', { class: 'law', text: `and ${number(marks.length - LISTED)} more: n and N walk through all` })));
  if (groups.length === 0) groups.push(el('p', { class: 'none', text: 'None on this connection.' }));
  const more = conn.broken - conn.marks.length;
  if (more > 0) groups.push(el('p', { class: 'none', text: `${plural(more, 'violation')} more: counted, not kept.` }));
  byId('found').replaceChildren(...groups);
  const unknown = conn.unknown || [];
  byId('unknown-part').hidden = unknown.length === 0;
  byId('unknown').replaceChildren(...unknown.map((text) => el('li', { text })));
}

// drawTimes shows how long calls took, the procedures with the most time first.
function drawTimes() {
  const times = [...(connection().times || [])].sort((a, b) => b.sum - a.sum);
  byId('times-part').hidden = times.length === 0;
  byId('times').replaceChildren(
    el('thead', {}, el('tr', {}, ...['Procedure', 'Calls', 'Min', 'Avg', 'Max', 'Sum'].map((t) => el('th', { scope: 'col', text: t })))),
    el('tbody', {}, ...times.map((t) => el('tr', {}, el('th', { scope: 'row', text: t.name.replace(/^NFSv[34] /, '') }),
      ...[number(t.calls), span(t.min), span(Math.round(t.sum / t.calls)), span(t.max), span(t.sum)].map((v) => el('td', { text: v }))))));
}

// showSide opens the side bar where there is no room for it; elsewhere it is always there.
function showSide(open) {
  document.body.classList.toggle('menu', open);
  byId('menu').setAttribute('aria-expanded', String(open));
}
byId('menu').addEventListener('click', () => showSide(!document.body.classList.contains('menu')));

function drawSummary() {
  const sum = (f) => data.conns.reduce((n, c) => n + f(c), 0);
  const parts = [plural(data.conns.length, 'connection'), plural(sum((c) => c.rows.length), 'message'),
    plural(sum((c) => c.broken), 'violation')];
  if (data.hidden) parts.push(`${plural(data.hidden, 'frame')} behind these are not on this page`);
  byId('summary').textContent = parts.join(', ');
}

on('conn', () => { drawConns(); drawFound(); drawTimes(); });
// The keyboard, and the help that names its keys.

function toggleTheme() {
  const root = document.documentElement;
  const dark = getComputedStyle(root).colorScheme === 'dark' ||
    (!root.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
  root.dataset.theme = dark ? 'light' : 'dark';
}

function escape() {
  if (view.open) {
    showDetails(false);
    ladder.focus();
  } else if (byId('filter').value) {
    setFilter('');
  }
}

function followXID() {
  const row = chosen();
  if (row && row.peer) goTo(view.conn, row.peer - 1);
}

const page = () => Math.max(1, Math.floor(ladder.clientHeight / ROW) - 2);

const bindings = {
  j: () => choose(view.at + 1),
  k: () => choose(Math.max(0, view.at) - 1),
  ArrowDown: () => choose(view.at + 1),
  ArrowUp: () => choose(Math.max(0, view.at) - 1),
  PageDown: () => choose(view.at + page()),
  PageUp: () => choose(view.at - page()),
  g: () => choose(0),
  G: () => choose(view.rows.length - 1),
  Home: () => choose(0),
  End: () => choose(view.rows.length - 1),
  Enter: () => { showDetails(true); if (view.open) details.focus(); },
  Escape: escape,
  n: () => nextMark(1),
  N: () => nextMark(-1),
  x: followXID,
  '[': () => showConn(view.conn - 1),
  ']': () => showConn(view.conn + 1),
  '/': () => byId('filter').select(),
  a: () => showAxis(!linear),
  t: toggleTheme,
  '?': () => byId('keys').showModal(),
};

// scrolls are keys that a focused panel needs for itself.
const scrolls = ['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End'];

document.addEventListener('keydown', (ev) => {
  const act = bindings[ev.key];
  if (!act || ev.ctrlKey || ev.metaKey || ev.altKey || byId('keys').open) return;
  const where = ev.target;
  if (where === byId('filter')) {
    if (ev.key === 'Enter' || ev.key === 'ArrowDown') {
      ladder.focus();
      if (view.at < 0) choose(0);
    } else if (ev.key === 'Escape') {
      setFilter('');
      ladder.focus();
    } else {
      return;
    }
  } else if (scrolls.includes(ev.key) && where.closest('#details, #side') || ev.key === 'Enter' && where.closest('button, summary')) {
    return; // theirs
  } else {
    act();
  }
  ev.preventDefault();
});

byId('theme').addEventListener('click', toggleTheme);
byId('help').addEventListener('click', bindings['?']);

byId('signs').append(...[
  ['send', 'call', 'Send, Immediate Data; the colour is the XID\u2019s'],
  ['write', 'call', 'RDMA Write'],
  ['read', 'call', 'RDMA Read Request'],
  ['response', 'call', 'RDMA Read Response'],
  ['request', '', 'Atomic, Flush, Verify, Atomic Write'],
  ['answer', '', 'and their responses'],
  ['startup', '', 'MPA startup frame'],
  ['terminate', '', 'Terminate'],
  ['close', '', 'end of the stream'],
  ['undecoded', '', 'octets that were not decoded'],
].map(([kind, call, text]) => el('li', { class: `key ${kind} ${call}` }, arrow(kind), el('span', { text }))));
// Links: #packet-N is the message that packet N completes or, failing that, is a part of.

function follow() {
  const n = Number((location.hash.match(/^#packet-([1-9][0-9]*)$/) || [])[1]);
  if (!n) return false;
  let at;
  data.conns.forEach((c, i) => c.rows.forEach((r) => {
    const far = r.frame === n ? 0 : r.first <= n && n <= r.frame ? 1 : 2;
    if (far < 2 && (!at || far < at.far)) at = { conn: i, row: r.i, far };
  }));
  if (!at) return false;
  goTo(at.conn, at.row);
  showDetails(true);
  return true;
}

const linkTo = (row) => `#packet-${row.frame}`;

// The address names the chosen message; going back does not step through all that were chosen before.
on('at', () => {
  const row = chosen();
  if (row && location.hash !== linkTo(row)) {
    try { history.replaceState(null, '', linkTo(row)); } catch { /* a page that was opened from a blob has no history */ }
  }
});
window.addEventListener('hashchange', () => { follow(); });
// The beginning: the first connection with a violation, or else the first.

view.conn = Math.max(0, data.conns.findIndex((c) => c.marks.length > 0));
view.rows = connection().rows;
drawSummary();
tell('conn');
tell('rows');
follow();
ladder.focus();
