'use strict';

/** Each can be told from a light and a dark page, and from its neighbours by those who see few
 * colours; dashes and markers tell what colours do not. */
const COLOURS = ['#1f77d0', '#d55e00', '#0a9b72', '#c264a0', '#a88500', '#868b94', '#d0312d', '#8b5cd6', '#0891b2', '#8f5a3c'];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const HEIGHT = 280;
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
  return { stroke: soft, grid: quiet, ticks: quiet, size, font: '12px system-ui, sans-serif', values: (u, ticks) => ticks.map((tick) => (tick === null ? '' : values(tick))) };
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

/**
 * Lines over x. `series`: {name, number, values, thin}; `marks(ctx, u)` draws above them.
 * Returns the chart, as wide as its place and redrawn with it.
 */
function chart(place, { x, series, logX, logY, xName, yName, marks, onCursor, sync }) {
  const scale = (log) => (log ? { distr: 3, range: snug } : {});
  const ticksOf = (log, name) => (log ? { splits: name === format.bytes ? byteTicks : logTicks } : {});
  const line = ({ name, number, thin }) => ({
    label: name,
    stroke: look(number).colour,
    width: thin ? 1 : 2,
    dash: look(number).dash,
    spanGaps: true,
    points: { show: false },
  });
  const markers = (u) => {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left - 6, u.bbox.top - 6, u.bbox.width + 12, u.bbox.height + 12);
    ctx.clip();
    series.filter((it) => !it.thin).forEach((it) => {
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
    marks?.(ctx, u);
    ctx.restore();
  };
  const made = new uPlot({
    width: Math.max(place.clientWidth, 200),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, ...(sync ? { sync: { key: sync } } : {}) },
    scales: { x: { time: false, ...scale(logX) }, y: logY ? scale(true) : { range: linearRange } },
    axes: [{ ...axis(xName, 34), ...ticksOf(logX, xName), space: 46 }, { ...axis(yName, 56), ...ticksOf(logY) }],
    series: [{}, ...series.map(line)],
    hooks: { draw: [markers], setCursor: onCursor ? [(u) => onCursor(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, 'x') : null)] : [] },
  }, [x, ...series.map((it) => it.values.map((value) => (logY && value <= 0 ? null : value)))], place);
  // The canvas is a picture; the table beside it says the same.
  made.ctx.canvas.setAttribute('aria-hidden', 'true');
  return made;
}
