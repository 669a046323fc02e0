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
