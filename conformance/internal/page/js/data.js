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
