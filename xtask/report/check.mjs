// Opens reports in headless Chromium, and fails unless each stands by itself: no request to
// anywhere, no error, charts that are drawn and react, labels that lie upon no other, the claims of
// the data and no more, nothing that axe-core objects to, no page wider than a phone, and on wider
// screens no table to scroll and no text that runs out of its box.
// Screenshots are for people to look at.
//
//     node check.mjs CHROMIUM FOLDER REPORT.html…

import { mkdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import axe from 'axe-core';
import puppeteer from 'puppeteer-core';

const [chromium, folder, ...reports] = process.argv.slice(2);
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 360, height: 740 };
/** A window on a desk, and half a one, in px. */
const WIDTHS = [1300, 800];
const problems = [];

/** Remembers what is wrong, and goes on: one run names everything. */
function check(holds, problem) {
  if (!holds) problems.push(problem);
}

/**
 * Of each canvas a number for what it shows, what share of it is of lines' colours (text, axes
 * and grid are grey), and how wide it is on the page.
 */
function drawn(page) {
  return page.$$eval('.chart canvas', (canvases) => canvases.map((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let hash = 0;
    for (const word of new Uint32Array(data.buffer)) hash = (Math.imul(hash, 31) + word) | 0;
    let coloured = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue, opaque] = data.subarray(at, at + 4);
      if (opaque > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) coloured += 1;
    }
    coloured /= canvas.width * canvas.height;
    return { hash, coloured, width: canvas.checkVisibility() ? canvas.getBoundingClientRect().width : 0 };
  }));
}

const text = (page, selector) => page.$eval(selector, (it) => it.textContent);

/** Does something, and says whether what is drawn over size and what is read are others then. */
async function changes(page, act) {
  const before = [await drawn(page), await text(page, '#inspector'), await text(page, '#size-name')];
  await act();
  await new Promise((done) => setTimeout(done, 60));
  const after = [await drawn(page), await text(page, '#inspector'), await text(page, '#size-name')];
  const charts = before[0].some((it, at) => it.hash !== after[0][at]?.hash);
  return { charts, table: before[1] !== after[1], size: before[2] !== after[2] };
}

/** Labels lie upon no other, within their chart, and each line over size has one at its end. */
async function labelsApart(page, name, where) {
  const found = await page.evaluate(() => {
    const box = (it) => it.getBoundingClientRect();
    const meet = (one, other) => one.left < other.right - 0.5 && other.left < one.right - 0.5 && one.top < other.bottom - 0.5 && other.top < one.bottom - 0.5;
    return [...document.querySelectorAll('.chart')].filter((chart) => chart.checkVisibility()).map((chart) => {
      const labels = [...chart.querySelectorAll('.label')];
      const problems = [];
      labels.forEach((one, at) => {
        const other = labels.slice(at + 1).find((it) => meet(box(one), box(it)));
        if (other) problems.push(`${one.textContent} lies upon ${other.textContent}`);
        const [inner, outer] = [box(one), box(chart.querySelector('.uplot'))];
        const within = inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
        if (!within) problems.push(`${one.textContent} is cut off`);
      });
      return { id: chart.id, problems, ends: labels.filter((it) => it.classList.contains('end')).length };
    });
  });
  const shown = await page.$$eval('#toggles button[aria-pressed="true"]', (them) => them.length);
  // Of a policy that the profile does not have no speed is drawn.
  const { traces } = JSON.parse(await text(page, '#data'));
  const known = new Set(traces[0].cells.filter((it) => it.predicted.some((here) => here !== null)).map((it) => it.policy)).size;
  for (const { id, problems: here, ends } of found) {
    here.forEach((problem) => check(false, `${name}, ${where}, ${id}: ${problem}`));
    const lines = { misses: shown, mops: known, response: known }[id] ?? 0;
    if (lines > 1) check(ends === lines, `${name}, ${where}, ${id}: ${ends} names of ${lines} lines`);
  }
}

/** What the page claims stands in its data, which is what the terminal tells; prices come first. */
async function saysTheSame(page, name) {
  const data = JSON.parse(await text(page, '#data'));
  // Not of the body, which holds the data too.
  const told = (await text(page, 'header')) + (await text(page, 'main'));
  for (const sentence of [data.answer, ...data.cautions, ...data.reasons, ...data.sure]) {
    // The page shows words between backticks as code.
    check(told.includes(sentence.replaceAll('`', '')), `${name}: does not say: ${sentence}`);
  }
  check(!told.includes('`'), `${name}: shows a backtick`);
  check(!data.growth || (await text(page, '#key')).includes(data.growth), `${name}: the charts do not say: ${data.growth}`);
  check(!/never slower/.test(await text(page, 'main')), `${name}: says that more is never slower`);
  const rows = data.on_each.rows.flatMap((it) => [it.name, it.best, it.behind, it.alone]);
  const each = await text(page, '#each');
  check(rows.every((it) => each.includes(it)), `${name}: does not say all of each trace: ${each}`);
  const isShown = await page.$eval('#each', (it) => it.checkVisibility());
  check(isShown === (data.traces.length > 1), `${name}: ${isShown ? 'shows' : 'hides'} what is said of each trace`);
  const first = await page.$$eval('.chart canvas', (canvases) => canvases[0]?.closest('.chart').id);
  check(first === (data.costs ? 'cost' : 'misses'), `${name}: the first chart is ${first}`);
  const months = data.sizes.filter((it) => it.a_month !== null).map((it) => it.a_month);
  check(months.every((it) => !/^[0.]*$/.test(it)), `${name}: costs that are told as nothing: ${months}`);
}

/** On a screen that is wider than a phone all is seen at once, as wide as it is. */
async function fits(page, name) {
  await page.$$eval('details', (them) => them.forEach((it) => { it.open = true; }));
  for (const width of WIDTHS) {
    await page.setViewport({ width, height: 900 });
    await new Promise((done) => setTimeout(done, 150));
    const cut = await page.evaluate(() => {
      const boxes = '.scroll, .cards > div, .cards dt, .cards dd, .facts > div, .facts dd, h1, h2, p, li, th, td, caption, figcaption, button, label, select, pre';
      const all = [...document.querySelectorAll(boxes)].filter((it) => it.checkVisibility() && it.clientWidth > 0);
      return all.filter((it) => it.scrollWidth > it.clientWidth + 1).map((it) => `${it.scrollWidth} px in ${it.clientWidth}: ${it.tagName} ${it.id} ${it.textContent.trim().slice(0, 60)}`);
    });
    cut.forEach((it) => check(false, `${name}, ${width} px wide: cut off: ${it}`));
    await page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true });
  }
  await page.$$eval('details', (them) => them.forEach((it) => { it.open = false; }));
  await page.setViewport(WIDE);
}

async function reacts(page, name) {
  const toggles = await page.$$('#toggles button');
  if (toggles.length > 1) {
    const hidden = await changes(page, () => toggles[0].click());
    check(hidden.charts && hidden.table, `${name}: hiding a policy changes nothing`);
    check(await toggles[0].evaluate((it) => it.getAttribute('aria-pressed')) === 'false', `${name}: a hidden policy is not said to be`);
    await toggles[0].click();
  }
  for (const id of ['log-size', 'log-value']) {
    const other = await changes(page, () => page.click(`#${id}`));
    check(other.charts, `${name}: ${id} changes nothing`);
    await labelsApart(page, name, id);
    await page.click(`#${id}`);
  }
  for (const id of ['cores', 'backend']) {
    const others = await page.$$eval(`#${id} option`, (options) => options.filter((it) => !it.selected).map((it) => it.value));
    check(others.length >= 4, `${name}: too few ${id} to pick`);
    const chosen = await page.$eval(`#${id}`, (it) => it.value);
    const other = await changes(page, () => page.select(`#${id}`, others.at(-1)));
    check(other.charts && other.table, `${name}: other ${id} change nothing`);
    check(await page.$eval('#other', (it) => !it.hidden && it.textContent.length > 40), `${name}: other ${id} are not told from those of the advice`);
    await page.select(`#${id}`, chosen);
  }
  if (await page.$eval('#size', (it) => it.max === '0')) {
    check(await page.$eval('#size', (it) => it.disabled), `${name}: a slider of one size`);
    return;
  }
  await page.focus('#size');
  await page.keyboard.press('Home');
  const moved = await changes(page, () => page.keyboard.press('ArrowRight'));
  check(moved.table && moved.size, `${name}: arrow keys read no other size`);
  const over = await page.$('#misses .u-over');
  await over.scrollIntoView();
  const place = await over.boundingBox();
  const hovered = await changes(page, () => page.mouse.move(place.x + place.width * 0.9, place.y + 40));
  check(hovered.table && hovered.size, `${name}: hovering reads no other size`);
}

async function looksRight(page, name, scheme) {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  for (const [kind, size] of [['wide', WIDE], ['narrow', NARROW]]) {
    await page.setViewport(size);
    await new Promise((done) => setTimeout(done, 150));
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    await labelsApart(page, name, kind);
    check(width <= size.width, `${name}: ${width} px wide on a page of ${size.width}`);
    await page.screenshot({ path: `${folder}/${name}-${scheme}-${kind}.png`, fullPage: true });
  }
  await page.setViewport(WIDE);
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  for (const it of violations) problems.push(`${name}, ${scheme}: ${it.id}: ${it.help}: ${it.nodes[0].target}`);
}

async function look(browser, report) {
  const name = basename(report, '.html');
  const page = await browser.newPage();
  const url = pathToFileURL(resolve(report)).href;
  page.on('request', (request) => check(request.url() === url, `${name}: asks for ${request.url()}`));
  page.on('console', (message) => {
    // Looking at pixels is this check's doing.
    const ours = message.text().startsWith('Canvas2D: Multiple readback');
    check(ours || !['error', 'warn'].includes(message.type()), `${name}: ${message.text()}`);
  });
  page.on('pageerror', (error) => check(false, `${name}: ${error}`));
  page.on('dialog', (dialog) => { check(false, `${name}: a name in the data ran`); dialog.dismiss(); });
  await page.setViewport(WIDE);
  await page.goto(url, { waitUntil: 'load' });
  const charts = await drawn(page);
  check(charts.length >= 5, `${name}: ${charts.length} charts`);
  charts.forEach(({ coloured, width }, at) => {
    check(coloured > 0.0001 && coloured < 0.2, `${name}: chart ${at} is lines to a share of ${coloured}`);
    check(width > 200, `${name}: chart ${at} is ${width} px wide`);
  });
  check((await text(page, 'h1')).startsWith('Use '), `${name}: no answer on top`);
  await saysTheSame(page, name);
  await fits(page, name);
  await reacts(page, name);
  for (const scheme of ['light', 'dark']) await looksRight(page, name, scheme);
  await page.close();
}

mkdirSync(folder, { recursive: true });
const browser = await puppeteer.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu'] });
try {
  for (const report of reports) await look(browser, report);
} finally {
  await browser.close();
}
problems.forEach((problem) => console.error(problem));
console.log(`${reports.length} reports, ${problems.length} problems, screenshots in ${folder}`);
process.exitCode = problems.length > 0 || reports.length === 0 ? 1 : 0;
