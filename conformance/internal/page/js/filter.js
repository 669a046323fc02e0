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
