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
