'use strict';

/** Each can be told from a light and a dark page, and from its neighbours by those who see few
 * colours; dashes and markers tell what colours do not. */
const COLOURS = ['#1f77d0', '#d55e00', '#0a9b72', '#c264a0', '#a88500', '#868b94', '#d0312d', '#8b5cd6', '#0891b2', '#8f5a3c'];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const HEIGHT = 300;
const Y_AXIS = 56;
/** Markers a line has at most: more would hide it. */
const MARKERS = 16;

function look(number) {
  return { colour: COLOURS[number % COLOURS.length], dash: DASHES[Math.floor(number / 3) % DASHES.length], marker: number % 4 };
}

/** A disc, a square, a triangle or a diamond. */
function drawMarker(ctx, marker, x, y, r) {
  ctx.beginPath();
  if (marker === 0) ctx.arc(x, y, r, 0, 2 * Math.PI);
  if (marker === 1) ctx.rect(x - r, y - r, 2 * r, 2 * r);
  if (marker === 2) { ctx.moveTo(x - r, y + r); ctx.lineTo(x + r, y + r); ctx.lineTo(x, y - r); ctx.closePath(); }
  if (marker === 3) { ctx.moveTo(x - r, y); ctx.lineTo(x, y - r); ctx.lineTo(x + r, y); ctx.lineTo(x, y + r); ctx.closePath(); }
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of('--ink'), soft: of('--soft'), line: of('--line'), paper: of('--paper'), warn: of('--warn') };
}

function axis(values, size) {
  const { soft, line } = theme();
  const quiet = { stroke: line, width: 1 };
  return { stroke: soft, grid: quiet, ticks: quiet, size, lineGap: 1.2, font: '12px system-ui, sans-serif', values: (u, ticks) => ticks.map((tick) => (tick === null ? '' : values(tick))) };
}

/** Ticks of a logarithmic axis at powers of ten and, if these are few, at twice and five times. */
function logTicks(u, axisIndex, min, max) {
  const ticks = [];
  const few = Math.log10(max / min) < 2.5;
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power += 1) {
    for (const times of few ? [1, 2, 5] : [1]) {
      const tick = times * 10 ** power;
      if (tick >= min && tick <= max) ticks.push(tick);
    }
  }
  return ticks;
}

/** Ticks of a logarithmic axis of bytes, at powers of two. */
function byteTicks(u, axisIndex, min, max) {
  const ticks = [];
  const step = Math.max(1, Math.ceil(Math.log2(max / min) / 5));
  for (let power = Math.ceil(Math.log2(min)); 2 ** power <= max; power += 1) {
    if (power % step === 0) ticks.push(2 ** power);
  }
  return ticks;
}

/** The least and the most of a logarithmic axis: uPlot would go to the next powers of ten. */
function snug(u, min, max) {
  return min > 0 && max > min ? [min / 1.15, max * 1.15] : [Math.max(min, 1e-9) / 2, Math.max(max, 1e-9) * 2];
}

/** From nothing on, unless all lines lie in the upper half: there they are looked at closely. */
function linearRange(u, min, max) {
  if (!(max > 0)) return [0, 1];
  const from = min > max / 2 ? min - (max - min) * 0.1 : Math.min(0, min);
  return from < max ? [from, max + (max - from) * 0.05] : [0, max * 1.05];
}

/** Labels: their font, a line of them, and what is between two in a row. */
const LABEL = '12px system-ui, sans-serif';
const LABEL_LINE = 15;
const LABEL_GAP = 8;
/** From the end of a line to its label. */
const LEAD = 14;
const LONG = 40;

function textWidth(text) {
  textWidth.ctx ??= document.createElement('canvas').getContext('2d');
  textWidth.ctx.font = LABEL;
  return textWidth.ctx.measureText(text).width;
}

/** Places moved apart, in the order they had, and within two ends as long as there is room. */
function spread(places, low, high) {
  const order = places.map((_, at) => at).sort((a, b) => places[a] - places[b]);
  const moved = [...places];
  let least = low;
  for (const at of order) {
    moved[at] = Math.max(moved[at], least);
    least = moved[at] + LABEL_LINE;
  }
  let most = high;
  for (const at of order.reverse()) {
    moved[at] = Math.min(moved[at], most);
    most = moved[at] - LABEL_LINE;
  }
  return moved;
}

/** For each mark, in order of place: the row above the plot, and where its text begins. */
function markRows(marks, width) {
  const ends = [];
  return marks.map(({ at, name }) => {
    const wide = textWidth(name);
    const left = Math.max(0, Math.min(at - wide / 2, width - wide));
    let row = ends.findIndex((end) => end + LABEL_GAP <= left);
    if (row < 0) row = ends.length;
    ends[row] = left + wide;
    return { row, left };
  });
}

/** Text over a chart, at a place within its plot. */
function label(text, left, top, className) {
  const made = element('span', text, `label ${className}`);
  made.style.left = `${left}px`;
  made.style.top = `${top}px`;
  return made;
}

/** An upright line at each mark: dashed where it is chosen, dotted elsewhere. */
function drawMarks(u, marks, rows) {
  const { ctx } = u;
  ctx.strokeStyle = theme().ink;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  marks.forEach(({ size, chosen }, number) => {
    const at = u.valToPos(size, 'x', true);
    ctx.setLineDash((chosen ? [5, 4] : [1.5, 4]).map((length) => length * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(at, u.bbox.top - (rows[number].row * LABEL_LINE + 3) * devicePixelRatio);
    ctx.lineTo(at, u.bbox.top + u.bbox.height);
    ctx.stroke();
  });
  ctx.setLineDash([]);
}

/** Names lines at their ends, with a thin line from each end to its name. */
function nameEnds(u, named, wide) {
  const { ctx } = u;
  const ends = named.flatMap(({ name, number, values }) => {
    const at = values.findLastIndex((value) => (value ?? null) !== null);
    if (at < 0) return [];
    return [{ name, number, x: u.valToPos(u.data[0][at], 'x'), y: u.valToPos(values[at], 'y') }];
  });
  const height = u.over.clientHeight;
  const places = spread(ends.map((it) => it.y), 0, height);
  return ends.map(({ name, number, x, y }, at) => {
    ctx.strokeStyle = look(number).colour;
    ctx.lineWidth = devicePixelRatio;
    // A long lead is dotted, as it must not look like data.
    ctx.setLineDash((u.over.clientWidth - x > LONG ? [1, 4] : []).map((length) => length * devicePixelRatio));
    const place = (left, top) => [u.bbox.left + left * devicePixelRatio, u.bbox.top + top * devicePixelRatio];
    ctx.beginPath();
    ctx.moveTo(...place(x, y));
    ctx.lineTo(...place(u.over.clientWidth + LEAD - 3, places[at]));
    ctx.stroke();
    ctx.setLineDash([]);
    const made = label(name, u.over.clientWidth + LEAD, places[at] - LABEL_LINE / 2, 'end');
    made.style.maxWidth = `${wide}px`;
    return made;
  });
}

/**
 * Lines over x. `series`: {name, number, values, thin}; several are named at their ends, but for
 * thin ones. `marks`: sizes that have names, in order: {size, name, chosen}; `over(ctx, u)` draws
 * above all. Returns the chart, as wide as its place and redrawn with it.
 */
function chart(place, { x, series, logX, logY, xName, yName, marks = [], over, onCursor, sync, shares }) {
  const scale = (log) => (log ? { distr: 3, range: snug } : {});
  const ticksOf = (log, name) => (log ? { splits: name === format.shortBytes ? byteTicks : logTicks } : {});
  const line = ({ name, number, thin }) => ({
    label: name,
    stroke: look(number).colour,
    width: thin ? 1 : 2,
    dash: look(number).dash,
    spanGaps: true,
    points: { show: false },
  });
  const kept = (values) => values.map((value) => (logY && value <= 0 ? null : value));
  const full = series.filter((it) => !it.thin);
  const named = full.length > 1 ? full.map((it) => ({ ...it, values: kept(it.values) })) : [];
  const widest = Math.ceil(Math.max(0, ...named.map((it) => textWidth(it.name))));
  const right = widest > 0 ? widest + LEAD + 2 : 8;
  const rowsOf = (u, width) => {
    const [min, max] = [u.scales.x.min, u.scales.x.max];
    const share = (size) => (logX ? Math.log(size / min) / Math.log(max / min) : (size - min) / (max - min));
    return markRows(marks.map(({ size, name }) => ({ at: share(size) * width, name })), width);
  };
  const above = (u) => {
    if (marks.length === 0) return 8;
    const rows = u.scales.x.min === null ? marks.map((_, row) => ({ row })) : rowsOf(u, u.width - right - Y_AXIS);
    return 6 + LABEL_LINE * (1 + Math.max(...rows.map((it) => it.row)));
  };
  const markers = (u) => {
    const { ctx } = u;
    ctx.save();
    const rows = rowsOf(u, u.over.clientWidth);
    drawMarks(u, marks, rows);
    series.filter((it) => !it.thin && !it.plain).forEach((it) => {
      const { colour, marker } = look(it.number);
      ctx.fillStyle = colour;
      const places = it.values.map((value, at) => at).filter((at) => (it.values[at] ?? null) !== null);
      const step = Math.ceil(places.length / MARKERS);
      places.filter((at, number) => number % step === 0).forEach((at) => {
        const value = it.values[at];
        if (logY && value <= 0) return;
        drawMarker(ctx, marker, u.valToPos(x[at], 'x', true), u.valToPos(value, 'y', true), 3.2 * devicePixelRatio);
        ctx.fill();
      });
    });
    over?.(ctx, u);
    const labels = element('div', undefined, 'labels');
    labels.setAttribute('aria-hidden', 'true');
    labels.append(...nameEnds(u, named, widest));
    labels.append(...marks.map(({ name, chosen }, at) => label(name, rows[at].left, -LABEL_LINE * (rows[at].row + 1) - 2, chosen ? 'mark chosen' : 'mark')));
    u.over.querySelector('.labels')?.remove();
    u.over.append(labels);
    ctx.restore();
  };
  const xNames = shares ? format.sizeOf(xName, shares) : xName;
  const made = new uPlot({
    width: Math.max(place.clientWidth, 200),
    height: Math.max(HEIGHT, named.length * LABEL_LINE + 90),
    padding: [above, right, null, null],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, ...(sync ? { sync: { key: sync } } : {}) },
    scales: { x: { time: false, ...scale(logX) }, y: logY ? scale(true) : { range: linearRange } },
    axes: [{ ...axis(xNames, shares ? 48 : 34), ...ticksOf(logX, xName), space: 52 }, { ...axis(yName, Y_AXIS), ...ticksOf(logY) }],
    series: [{}, ...series.map(line)],
    hooks: { draw: [markers], setCursor: onCursor ? [(u) => onCursor(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, 'x') : null)] : [] },
  }, [x, ...series.map((it) => kept(it.values))], place);
  // The canvas is a picture; the table beside it says the same.
  made.ctx.canvas.setAttribute('aria-hidden', 'true');
  return made;
}
