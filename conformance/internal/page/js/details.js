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
const titles = { infiniband: 'InfiniBand', iwarp_mpa: 'MPA', iwarp_ddp: 'DDP', iwarp_rdma: 'RDMAP', rpcordma: 'RPC-over-RDMA', rpc: 'RPC' };

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
