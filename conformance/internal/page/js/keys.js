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
  ['startup', '', 'startup frame'],
  ['terminate', '', 'Terminate'],
  ['close', '', 'end of the stream'],
  ['undecoded', '', 'octets that were not decoded'],
].map(([kind, call, text]) => el('li', { class: `key ${kind} ${call}` }, arrow(kind), el('span', { text }))));
