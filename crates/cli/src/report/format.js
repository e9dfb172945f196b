'use strict';

/** Numbers as people read them; what has no value is a dash. */
const format = {
  count: (n) => Math.round(n).toLocaleString('en-US'),
  percent: (share) => (share === null ? '–' : `${(share * 100).toFixed(2)} %`),
  mops: (n) => (n === null || n === undefined ? '–' : format.digits(n)),
  us: (n) => (n === null || n === undefined ? '–' : n < 1000 ? `${format.digits(n)} µs` : `${format.digits(n / 1000)} ms`),
  digits: (n) => (n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toPrecision(3)),
  bytes: (n) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(n, 1)) / 10)));
    const scaled = n / 1024 ** power;
    return `${Number.isInteger(scaled) || power === 0 ? scaled : scaled.toFixed(1)} ${units[power]}`;
  },
  /** For an axis: 10k, 1.5M. */
  short: (n) => {
    const [unit, name] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']].find(([least]) => n >= least) ?? [1, ''];
    return `${+(n / unit).toPrecision(3)}${name}`;
  },
};

/** What limits throughput, in words. */
function limitName(bottleneck) {
  return { backend: 'waiting for the backend', cores: 'the cores are busy', none: 'nothing takes turns' }[bottleneck] ?? `turns at ${bottleneck}`;
}

/** A new element with text, which is never taken for markup. */
function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
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
    if (more) shown.append(element('small', more));
    group.append(element('dt', name), shown);
    return group;
  }));
}
