'use strict';

/** Numbers as people read them; what has no value is a dash. */
const format = {
  count: (n) => Math.round(n).toLocaleString('en-US'),
  percent: (share) => (share === null ? '–' : `${(share * 100).toFixed(2)} %`),
  mops: (n) => (n === null || n === undefined ? '–' : n >= 100 ? n.toFixed(0) : n >= 1 ? n.toFixed(2) : format.small(n, 3)),
  /** So many decimals, or more where they would show fewer than two digits. */
  small: (n, decimals) => n.toFixed(Math.min(20, Math.max(decimals, n > 0 ? 1 - Math.floor(Math.log10(n)) : 0))),
  us: (n) => (n === null || n === undefined ? '–' : n < 1 ? `${format.digits(n * 1000)} ns` : n < 1000 ? `${format.digits(n)} µs` : `${format.digits(n / 1000)} ms`),
  digits: (n) => (n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toPrecision(3)),
  bytes: (n) => {
    const [scaled, unit] = format.scaled(n);
    return unit === 'B' ? `${Math.round(n)} B` : `${scaled.toFixed(1)} ${unit}`;
  },
  /** For an axis: 64 MiB. */
  shortBytes: (n) => {
    const [scaled, unit] = format.scaled(n);
    return `${+scaled.toPrecision(3)} ${unit}`;
  },
  /** What would be rounded up to 1024.0 has the next unit. */
  scaled: (n) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let power = 0;
    while (n / 1024 ** power >= 1023.95 && power < units.length - 1) power += 1;
    return [n / 1024 ** power, units[power]];
  },
  /** For an axis: a size, and its share of everything below. */
  sizeOf: (name, everything) => (n) => `${name(n)}\n${+((n / everything) * 100).toPrecision(2)} %`,
  /** An amount of money for an axis. */
  price: (n) => (n >= 1000 ? format.short(n) : `${+n.toPrecision(2)}`),
  /** For an axis: 10k, 1.5M. */
  short: (n) => {
    const [unit, name] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']].find(([least]) => n >= least) ?? [1, ''];
    return `${+(n / unit).toPrecision(3)}${name}`;
  },
};

/** A new element with text, which is never taken for markup. */
function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** The same with the words between backticks as code. */
function prose(tag, text, className) {
  const made = element(tag, undefined, className);
  made.append(...text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? element('code', part) : part)));
  return made;
}

function fillRow(row, tag, cells) {
  for (const cell of cells) {
    const [text, className] = Array.isArray(cell) ? cell : [cell];
    const made = element(tag, text, className);
    if (tag === 'th') made.scope = 'col';
    row.append(made);
  }
  return row;
}

function fillTable(table, headers, rows) {
  table.tHead.replaceChildren(fillRow(element('tr'), 'th', headers));
  table.tBodies[0].replaceChildren(...rows);
}

function definitions(list, entries) {
  list.replaceChildren(...entries.map(([name, value, more]) => {
    const group = element('div');
    const shown = element('dd', value);
    if (more) shown.append(prose('small', more));
    group.append(element('dt', name), shown);
    return group;
  }));
}
