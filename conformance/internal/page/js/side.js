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
