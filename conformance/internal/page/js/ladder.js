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
