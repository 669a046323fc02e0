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
