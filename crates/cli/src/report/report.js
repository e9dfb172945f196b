'use strict';

(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const state = { trace: data.recommended.trace ?? 0, setting: data.setting, hidden: new Set(), size: 0 };
  let charts = [];
  let workloadCharts = [];

  const trace = () => data.traces[state.trace];
  const objects = (capacity) => (data.unit === 'bytes' ? format.bytes(capacity) : `${format.count(capacity)} object${capacity === 1 ? '' : 's'}`);
  /** With the memory, which is another for each policy. */
  const amount = (capacity, policy) => objects(capacity) + (cellOf(policy, capacity)?.bytes ? ` (${format.bytes(cellOf(policy, capacity).bytes)})` : '');
  const shareOf = (capacity, all = trace().everything) => (capacity > all ? 'over 100 %' : format.percent(capacity / all));
  const everything = () => Math.max(...data.traces.map((it) => it.everything));
  const sizes = () => [...new Set(trace().cells.map((cell) => cell.capacity))].sort((a, b) => a - b);
  const cellOf = (policy, capacity) => trace().cells.find((cell) => cell.policy === policy && cell.capacity === capacity);
  const predicted = (cell) => cell?.predicted[state.setting] ?? null;
  /** More hits than p*: there a larger cache is a slower one. */
  const isPast = (cell) => predicted(cell) !== null && predicted(cell).p_star[1] < 0.9995 && 1 - cell.miss_ratio > predicted(cell).p_star[1];
  const shown = () => data.policies.map((name, number) => ({ name, number })).filter(({ number }) => !state.hidden.has(number));
  const settingOf = (number) => {
    const { cores, backend_us, mpl } = data.settings[number];
    return `${cores} core${cores === 1 ? '' : 's'}, ${format.count(mpl)} requests at a time, ${format.us(backend_us)} for a miss`;
  };
  /** What limits throughput, in words. */
  const limitName = (bottleneck) => (data.limits[bottleneck] ?? data.limits['%'].replace('%', bottleneck)).replaceAll('`', '');
  const isChosen = (it) => data.recommended.is_size && it.capacity === data.recommended.capacity && it.policy === data.recommended.policy;
  const settingName = () => settingOf(state.setting);

  function sentences(list, texts) {
    list.replaceChildren(...texts.map((text) => prose('li', text)));
  }

  function fillPage() {
    byId('answer').textContent = data.answer;
    sentences(byId('cautions'), data.cautions);
    byId('cautions').hidden = data.cautions.length === 0;
    fillWorth();
    fillEach();
    byId('about').textContent = data.traces.map((it) => `${it.name}: ${format.count(it.requests)} requests, ${it.sample_rate < 1 ? `about ${format.count(it.objects)} objects, of which ${format.percent(it.sample_rate)} were replayed` : `${format.count(it.objects)} objects`}`).join(' · ');
    sentences(byId('reasons'), data.reasons);
    sentences(byId('sure'), [...data.sure, ...data.assumptions]);
    byId('costs').hidden = data.costs === null;
    if (data.costs) [byId('cap-costs').textContent, byId('cost-key').textContent] = [data.costs.title, data.costs.key];
    byId('missed-bytes').hidden = data.unit !== 'bytes';
    byId('command').textContent = data.command;
    byId('version').textContent = `frazil ${data.frazil}, ${data.made}`;
    document.title = `Frazil: ${data.answer}`;
  }

  /** The sizes that are named, with what each leaves, as they are for the chosen setting. */
  function fillWorth() {
    byId('worth').hidden = data.sizes.length === 0;
    byId('worth-name').textContent = `${data.worth_title}, for ${settingOf(data.setting)}`;
    const money = data.sizes.some((it) => it.a_month !== null);
    const inBytes = data.unit === 'bytes';
    const rows = data.sizes.map((it) => {
      const speed = it.mops === null ? ['–', '–'] : [format.mops(it.mops), format.us(it.response_us)];
      const row = fillRow(element('tr'), 'td', [[it.name + (isChosen(it) ? ' (recommended)' : ''), 'word'], [amount(it.capacity, it.policy), 'wraps'], shareOf(it.capacity, everything()), format.percent(it.miss_ratio), format.percent(it.avoided), ...(inBytes ? [format.percent(it.byte_miss_ratio)] : []), ...speed, ...(money ? [it.a_month] : []), [data.policies[it.policy], 'word']]);
      if (isChosen(it)) row.className = 'chosen';
      return row;
    });
    fillTable(byId('worth'), [['size', 'word'], 'capacity', 'of all', 'misses', 'avoided', ...(inBytes ? ['bytes missed'] : []), 'M requests/s', 'mean latency', ...(money ? ['a month'] : []), ['use', 'word']], rows);
  }

  /** What is recommended on each of several traces, for the chosen setting. */
  function fillEach() {
    const { title, rows } = data.on_each;
    byId('each-box').hidden = rows.length === 0;
    byId('each-name').textContent = `${title}, for ${settingOf(data.setting)}`;
    const row = (it) => {
      const best = `${it.best} (${format.mops(it.best_mops)} M/s)`;
      const made = fillRow(element('tr'), 'td', [[it.name + (it.is_worst ? ' (worst)' : ''), 'word'], format.percent(it.miss_ratio), format.mops(it.mops), format.us(it.mean_us), format.us(it.p99_us), [best, 'word'], [it.behind, 'wraps'], [it.alone, 'word']]);
      if (it.is_worst) made.className = 'chosen';
      return made;
    };
    fillTable(byId('each'), [['trace', 'word'], 'misses', 'M requests/s', 'mean latency', 'p99', ['fastest there', 'word'], 'behind', ['alone', 'word']], rows.map(row));
  }

  /** What the size after the recommended one gains, for the chosen setting. */
  function stepCard() {
    const { step } = data.recommended;
    return data.setting === state.setting ? step : [step[0], '–', `known for ${settingOf(data.setting)}`];
  }

  function fillCards() {
    const { policy, capacity } = data.recommended;
    const cell = cellOf(policy, capacity);
    const here = predicted(cell);
    const [low, high] = here ? [here.low_mops, here.high_mops].map(format.mops) : [];
    const { cores, backend_us } = data.settings[state.setting];
    const delays = trace().delays && backend_us === data.settings[data.setting].backend_us;
    const without = backend_us > 0 && !delays ? ', without delayed hits' : '';
    const range = low === high ? '' : `${low} to ${high}, ${data.range_source}; `;
    const guess = cores > data.measured_cores ? `, extrapolated from ${data.measured_cores} cores` : '';
    const on = data.traces.length > 1 ? `on ${trace().name}, ` : '';
    const anything = ['Avoidable misses', format.percent(data.avoidable), 'of misses, with a cache for all objects'];
    definitions(byId('cards'), !data.recommended.is_size ? [anything] : [
      ['Throughput', here ? `${format.mops(here.mops)} M/s` : 'unknown', `${on}${range}${cores} core${cores === 1 ? '' : 's'}${guess}`],
      ['Misses', format.percent(cell.miss_ratio), `${on}with ${amount(capacity, policy)}`],
      ['Mean latency', here ? format.us(here.response_us) : 'unknown', here ? on + limitName(here.bottleneck) + without : ''],
      stepCard(),
    ]);
    const other = data.setting !== state.setting;
    byId('other').hidden = !other;
    byId('other').textContent = other ? `The charts are for ${settingName()}. The advice and its reasons are for ${settingOf(data.setting)}; for other settings another policy or size may be better.` : '';
  }

  function option(value, text) {
    const made = element('option', text);
    made.value = value;
    return made;
  }

  function fillControls() {
    const distinct = (key) => [...new Set(data.settings.map((it) => it[key]))];
    byId('trace').append(...data.traces.map((it, number) => option(number, it.name)));
    byId('trace-label').hidden = data.traces.length < 2;
    byId('trace').value = state.trace;
    byId('cores').append(...distinct('cores').map((cores) => option(cores, cores)));
    byId('backend').append(...distinct('backend_us').map((us) => option(us, format.us(us))));
    const { cores, backend_us } = data.settings[state.setting];
    byId('cores').value = cores;
    byId('backend').value = backend_us;
    for (const id of ['trace', 'cores', 'backend', 'log-size', 'log-value']) byId(id).addEventListener('change', changed);
    byId('size').addEventListener('input', () => lookAt(Number(byId('size').value)));
    byId('toggles').append(...data.policies.map(toggle));
    byId('controls').addEventListener('submit', (event) => event.preventDefault());
  }

  function toggle(name, number) {
    const button = element('button');
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    const swatch = element('canvas');
    swatch.setAttribute('aria-hidden', 'true');
    [swatch.width, swatch.height] = [68, 24];
    const ctx = swatch.getContext('2d');
    const { colour, dash, marker } = look(number);
    [ctx.strokeStyle, ctx.fillStyle, ctx.lineWidth] = [colour, colour, 4];
    ctx.setLineDash(dash.map((length) => length * 2));
    ctx.beginPath();
    ctx.moveTo(0, 12);
    ctx.lineTo(68, 12);
    ctx.stroke();
    drawMarker(ctx, marker, 34, 12, 7);
    ctx.fill();
    button.append(swatch, element('span', name));
    button.addEventListener('click', () => {
      if (!state.hidden.delete(number)) state.hidden.add(number);
      button.setAttribute('aria-pressed', String(!state.hidden.has(number)));
      draw();
    });
    return button;
  }

  function changed() {
    state.trace = Number(byId('trace').value);
    const wanted = (it) => it.cores === Number(byId('cores').value) && it.backend_us === Number(byId('backend').value);
    state.setting = data.settings.findIndex(wanted);
    draw();
  }

  const sizeName = data.unit === 'bytes' ? format.shortBytes : format.short;

  /** The sizes that have names, for a chart. */
  function marks() {
    return data.sizes.map((it) => ({ size: it.capacity, name: it.name, chosen: isChosen(it) }));
  }

  /** A ring around what is recommended, smaller ones around the others that are named. */
  function ringChosen(ctx, u, valueOf) {
    const { ink, warn } = theme();
    ctx.lineWidth = 1.5 * devicePixelRatio;
    const ring = (cell, r) => {
      const value = cell && valueOf(cell);
      if (value === null || value === undefined) return;
      ctx.beginPath();
      ctx.arc(u.valToPos(cell.capacity, 'x', true), u.valToPos(value, 'y', true), r * devicePixelRatio, 0, 2 * Math.PI);
      ctx.stroke();
    };
    ctx.strokeStyle = ink;
    data.sizes.filter((it) => !state.hidden.has(it.policy)).forEach((it) => ring(cellOf(it.policy, it.capacity), isChosen(it) ? 8 : 5));
    ctx.strokeStyle = warn;
    trace().cells.filter((cell) => !state.hidden.has(cell.policy) && isPast(cell)).forEach((cell) => ring(cell, 6));
  }

  /** Memory, misses and both by size: none without prices. */
  function drawCosts() {
    const { costs } = data;
    if (costs === null) return [];
    const { all, chosen, without_cache: without } = costs;
    const line = (name, number, value) => ({ name, number, values: all.map(value) });
    const series = [
      line('memory', 0, (it) => it.memory),
      line('misses', 1, (it) => it.misses),
      line('both', 3, (it) => it.sum),
      { ...line('no cache', 5, () => without), plain: true },
    ];
    return [chart(byId('cost'), {
      x: all.map((it) => it.capacity), series, logX: byId('log-size').checked, logY: byId('log-value').checked,
      xName: sizeName, yName: format.price, shares: everything(),
      marks: chosen ? [{ size: chosen.capacity, name: costs.label, chosen: true }] : [],
    })];
  }

  function overSize(id, valueOf, yName, extra) {
    const all = sizes();
    let x = all;
    let series = shown().map(({ name, number }) => ({ name, number, values: all.map((capacity) => valueOf(cellOf(number, capacity))) }));
    const curve = extra?.();
    if (curve) {
      // Of one size alone, what surrounds it.
      const around = all.length > 1 ? 1 : 8;
      const [first, last] = [all[0] / around, all[all.length - 1] * around];
      const within = curve.points.filter(([capacity]) => capacity >= first && capacity <= last);
      const joined = uPlot.join([[x, ...series.map((it) => it.values)], [within.map((it) => it[0]), within.map((it) => it[1] * 100)]]);
      [x] = joined;
      series = series.map((it, number) => ({ ...it, values: [...joined[number + 1]] }));
      series.unshift({ name: 'lru at every size', number: curve.number, thin: true, values: [...joined[joined.length - 1]] });
    }
    return chart(byId(id), {
      x, series, logX: byId('log-size').checked, logY: byId('log-value').checked,
      xName: sizeName, yName, shares: trace().everything, marks: marks(),
      over: (ctx, u) => ringChosen(ctx, u, valueOf), onCursor: (value) => value !== null && lookNear(value), sync: 'size',
    });
  }

  function lruCurve() {
    const number = data.policies.indexOf('lru');
    const points = trace().lru_curve;
    return points && number >= 0 && !state.hidden.has(number) ? { points, number } : null;
  }

  function draw() {
    charts.forEach((it) => it.destroy());
    const of = (key) => (cell) => predicted(cell)?.[key] ?? null;
    charts = [
      overSize('misses', (cell) => (cell ? cell.miss_ratio * 100 : null), (n) => `${+n.toPrecision(3)} %`, lruCurve),
      ...(data.unit === 'bytes' ? [overSize('bytes', (cell) => (cell ? cell.byte_miss_ratio * 100 : null), (n) => `${+n.toPrecision(3)} %`)] : []),
      ...drawCosts(),
      overSize('mops', of('mops'), format.short),
      overSize('response', of('response_us'), (n) => (n >= 1000 ? `${format.short(n / 1000)} ms` : `${+n.toPrecision(3)} µs`)),
    ];
    byId('size').max = sizes().length - 1;
    byId('size').disabled = sizes().length < 2;
    const past = trace().cells.some((cell) => !state.hidden.has(cell.policy) && isPast(cell));
    const growth = data.setting === state.setting ? data.growth : null;
    byId('key').textContent = [
      data.recommended.is_size ? 'Dashed line and ring: the recommended size and policy. Dotted lines: the other named sizes.' : 'No size is recommended.',
      lruCurve() ? 'Thin: lru at every size.' : '',
      past ? 'Ring in another colour: a hit ratio above p*, beyond which more hits lower the throughput.' : '',
      growth ?? '',
      `For ${settingName()}.`,
    ].filter(Boolean).join(' ');
    fillCards();
    fillAll();
    lookAt(Math.min(state.size, sizes().length - 1));
    drawWorkload();
  }

  function lookNear(capacity) {
    const far = (it) => Math.abs(Math.log(it / capacity));
    const all = sizes();
    lookAt(all.reduce((best, it, at) => (far(it) < far(all[best]) ? at : best), 0));
  }

  function rowOf(cell, withSize) {
    const here = predicted(cell);
    const chosen = isChosen(cell);
    const [low, high] = here ? [here.low_mops, here.high_mops].map(format.mops) : [];
    const spread = low === high ? '' : ` (${low}–${high})`;
    const limit = here ? `${limitName(here.bottleneck)}${isPast(cell) ? `; past p* of ${format.percent(here.p_star[1])} hits` : ''}` : 'costs unknown';
    const name = data.policies[cell.policy] + (chosen ? ' (recommended)' : '');
    const cells = [[name, 'word'], format.percent(cell.miss_ratio)];
    if (data.unit === 'bytes') cells.push(format.percent(cell.byte_miss_ratio));
    cells.push([here ? format.mops(here.mops) + spread : '–', 'wraps'], here ? format.us(here.response_us) : '–', [limit, isPast(cell) ? 'word past' : 'word']);
    if (withSize) cells.unshift(amount(cell.capacity, cell.policy));
    const row = fillRow(element('tr'), 'td', cells);
    if (chosen) row.className = 'chosen';
    return row;
  }

  function headers() {
    return [['policy', 'word'], 'misses', ...(data.unit === 'bytes' ? ['bytes missed'] : []), 'M requests/s', 'mean latency', ['what limits', 'word']];
  }

  /** Shows a size in the table and on the slider. */
  function lookAt(number) {
    state.size = number;
    const capacity = sizes()[number];
    byId('size').value = number;
    byId('size-name').textContent = `${amount(capacity)}, ${shareOf(capacity)} of all`;
    byId('size').setAttribute('aria-valuetext', byId('size-name').textContent);
    byId('at-size').textContent = `With ${amount(capacity)} (${shareOf(capacity)})`;
    const rows = shown().map(({ number: policy }) => cellOf(policy, capacity)).filter(Boolean);
    const fastest = (cell) => predicted(cell)?.mops ?? -1;
    rows.sort((one, other) => fastest(other) - fastest(one));
    fillTable(byId('inspector'), headers(), rows.map((cell) => rowOf(cell, false)));
  }

  function fillAll() {
    const cells = trace().cells.filter((cell) => !state.hidden.has(cell.policy));
    fillTable(byId('all'), ['capacity', ...headers()], cells.map((cell) => rowOf(cell, true)));
  }

  function workloadChart(title, told, options) {
    const figure = element('figure');
    const caption = element('figcaption', title);
    caption.append(element('small', told));
    const place = element('div', undefined, 'chart');
    figure.append(caption, place);
    byId('workload').append(figure);
    workloadCharts.push(chart(place, options));
  }

  function drawWorkload() {
    workloadCharts.forEach((it) => it.destroy());
    workloadCharts = [];
    byId('workload').replaceChildren();
    const { workload, name, requests, everything } = trace();
    const alpha = workload.zipf_alpha === null ? 'too few objects' : `alpha ${workload.zipf_alpha.toFixed(2)}`;
    definitions(byId('facts'), [
      ['Trace', name],
      ['Requests', format.count(requests)],
      [data.unit === 'bytes' ? 'All objects are' : 'All objects', amount(everything)],
      ['Popularity by Zipf', alpha],
      ['Objects requested once', format.percent(workload.one_hit_objects)],
      ['Requests for those', format.percent(workload.one_hit_requests)],
    ]);
    const line = (label, number, values) => ({ name: label, number, values, thin: false });
    const column = (rows, at, times = 1) => rows.map((row) => row[at] * times);
    const percent = (n) => `${+n.toPrecision(3)} %`;
    const { popularity, reuse, working_set: sets, sizes: bytes } = workload;
    workloadChart('Popularity', `requests by rank of the object; a straight line is Zipf’s law${trace().sample_rate < 1 ? '; the hottest may be missing from a sample' : ''}`, { x: column(popularity, 0), series: [line('requests', 0, column(popularity, 1))], logX: true, logY: true, xName: format.short, yName: format.short });
    if (reuse.some((row) => row[1] > 0)) workloadChart('Reuse', '% of requests whose object was requested at most so many requests before', { x: column(reuse, 0), series: [line('requests', 1, column(reuse, 1, 100))], logX: true, xName: format.short, yName: percent });
    workloadChart('Working set', 'distinct objects so far, and since the last point, by requests', { x: column(sets, 0), series: [line('so far', 4, column(sets, 1)), line('recent', 1, column(sets, 2))], xName: format.short, yName: format.short });
    byId('workload').classList.toggle('four', bytes !== null);
    if (bytes) workloadChart('Sizes', '% of objects, and of bytes, in objects no larger', { x: column(bytes, 0), series: [line('objects', 4, column(bytes, 1, 100)), line('bytes', 1, column(bytes, 2, 100))], logX: true, xName: format.shortBytes, yName: percent });
  }

  function resize() {
    for (const it of [...charts, ...workloadCharts]) it.setSize({ width: Math.max(it.root.parentNode.clientWidth, 200), height: it.height });
  }

  fillPage();
  fillControls();
  state.size = Math.max(0, sizes().indexOf(data.recommended.capacity));
  draw();
  let waiting = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(resize);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
})();
