// The other figures of a section, by kind.

const pageScroll = (...children) => el('div', { class: 'scroll' }, ...children);

function tokensPart(part) {
  const rows = part.rows.map((row) => ({ label: row.label, values: row.values.map(real) }));
  const about = readout('Point at a token.');
  const bar = colourBar(part.unit);
  let row = 0;
  const strip = tokenStrip({
    ids: data.tokens, label: 'Tokens of the prompt', onLeave: about.rest,
    onPoint: (i) => about.say(el('b', { text: quoted(data.tokens[i]) }), ` column ${firstColumn + i}, id ${data.tokens[i]}`,
      ...rows.map((each) => el('span', { class: 'chip' }, `${each.label} `, el('span', { class: 'chip-number',
        text: Number.isNaN(each.values[i]) ? 'none' : `${number(each.values[i])} ${part.unit || ''}`.trim() })))),
  });
  const draw = () => {
    const { values } = rows[row];
    const scale = scaleFor(values, values.some((x) => x < 0) ? {} : { low: 0 });
    strip.paint(values, scale);
    bar.show(scale);
  };
  drawn(draw);
  const which = rows.length < 2 ? null
    : choice('Colours show', rows.map((each) => each.label), (i) => { row = i; draw(); });
  return el('div', {}, which, strip.node, about.node, bar.node);
}

function nextPart(part) {
  const table = el('div', { class: 'next-table', 'aria-live': 'polite' });
  const pick = (i) => table.replaceChildren(
    el('p', { class: 'readout' }, 'After ', el('b', { text: named(i) })), tokenTable(part.top[i], 'probability'));
  const strip = tokenStrip({ ids: data.tokens, label: 'Tokens: choose one to see what comes next', onPick: pick,
    pickOnFocus: true });
  const last = data.tokens.length - 1;
  strip.select(last);
  pick(last);
  return el('div', {}, strip.node, table);
}

const kColumnsAtOnce = 64;

function lensPart(part) {
  const about = readout('Point at a cell to see the likeliest tokens there.');
  const order = part.points.map((_, i) => part.points.length - 1 - i);  // the last layer on top
  const labels = order.map((i) => part.points[i].replace(/^blocks\.(\d+)\.(hook_)?/, '$1 '));
  const scale = scaleFor([], { low: 0, high: 1 });
  const bar = colourBar('probability');
  drawn(() => bar.show(scale));
  const box = el('div');
  const show = (from) => {
    const columns = part.columns.slice(from, from + kColumnsAtOnce);
    const top = (r, c) => part.top[order[r]][from + c];
    const map = heatMap({
      rows: labels, columns: columns.map((i) => axisLabels()[i]), label: 'Logit lens', columnName: 'tokens',
      rowName: 'points, the last on top', cell: { least: 56, most: 96, height: 24 }, scale: () => scale,
      value: (r, c) => (top(r, c).length ? real(top(r, c)[0][1]) : NaN), text: (r, c) => pieceText(top(r, c)[0][0]),
      onPoint: (r, c) => about.say(el('b', { text: named(columns[c]) }), ` at ${part.points[order[r]]} `,
        tokenChips(top(r, c))),
      onLeave: about.rest,
    });
    box.replaceChildren(map.node);
  };
  show(0);
  return el('div', {}, pages(part.columns.length, show), box, about.node, bar.node);
}

/** Buttons that go through many columns. */
function pages(count, show) {
  if (count <= kColumnsAtOnce) return null;
  let from = 0;
  const where = el('span', { class: 'where', 'aria-live': 'polite' });
  const turn = (step) => {
    from = clamp(from + step, 0, Math.floor((count - 1) / kColumnsAtOnce) * kColumnsAtOnce);
    where.textContent = `tokens ${from} to ${Math.min(from + kColumnsAtOnce, count) - 1} of ${count}`;
    earlier.disabled = from === 0;
    later.disabled = from + kColumnsAtOnce >= count;
    show(from);
  };
  const button = (text, step) => el('button', { type: 'button', class: 'quiet', text, click: () => turn(step) });
  const earlier = button('Earlier', -kColumnsAtOnce), later = button('Later', kColumnsAtOnce);
  turn(0);
  return el('div', { class: 'pages' }, earlier, where, later);
}

/** All places of some axes, in order, as lists of indices. */
function placesOf(axes) {
  return axes.reduce((places, axis) => places.flatMap((place) => axis.labels.map((_, i) => [...place, i])), [[]]);
}

const kPanelsAtOnce = 24;

function gridPart(part) {
  const about = readout('Point at a cell, or use the arrow keys.');
  const axes = part.axes.length > 1 ? part.axes : [{ name: '', labels: [''] }, ...part.axes];
  const values = part.axes.length > 1 ? part.values : [part.values];
  const blanks = part.blank && (part.axes.length > 1 ? part.blank : [part.blank]);
  const outer = axes.slice(0, -2), [rowAxis, columnAxis] = axes.slice(-2);
  const inside = (nested, place) => place.reduce((list, i) => list[i], nested);
  const isBlankAt = (place, r, c) => Boolean(blanks && inside(blanks, place)[r][c]);
  const places = placesOf(outer);
  const all = [];
  for (const place of places) {
    inside(values, place).forEach((row, r) => row.forEach((x, c) => { if (!isBlankAt(place, r, c)) all.push(real(x)); }));
  }
  const scale = scaleFor(all, { centre: part.centre }), numbers = all.filter((x) => !Number.isNaN(x));
  const bar = colourBar(part.unit);
  drawn(() => bar.show(scale));
  const wordsOf = (axis, i) => (axis.labels[i] ? `${axis.name} ${axis.labels[i]}`.trim() : '');
  const panelName = (place) => place.map((i, axis) => wordsOf(outer[axis], i)).join(', ');

  function panel(place) {
    const cells = inside(values, place);
    const map = heatMap({
      rows: rowAxis.labels, columns: columnAxis.labels, rowName: rowAxis.name, columnName: columnAxis.name,
      label: [part.title || 'Heat map', panelName(place)].filter(Boolean).join(', '), scale: () => scale,
      value: (r, c) => real(cells[r][c]), isBlank: (r, c) => isBlankAt(place, r, c), numbers,
      onLeave: about.rest,
      onPoint: (r, c) => about.say([panelName(place), wordsOf(rowAxis, r), wordsOf(columnAxis, c)].filter(Boolean).join(', '),
        ': ', el('b', { text: isBlankAt(place, r, c) ? 'left out' : number(real(cells[r][c])) }), ` ${part.unit || ''}`),
    });
    return el('div', { class: 'panel' }, outer.length ? subheading(part, panelName(place)) : null, map.node);
  }
  const box = el('div', { class: places.length > 1 ? 'panels' : '' }, ...places.slice(0, kPanelsAtOnce).map(panel));
  const more = showAll(places.length - kPanelsAtOnce, `Show all ${places.length}`,
    () => box.append(...places.slice(kPanelsAtOnce).map(panel)));
  return el('div', {}, box, more, about.node, bar.node);
}

/** A button that adds what is not shown yet. */
function showAll(missing, text, add) {
  if (missing <= 0) return null;
  const button = el('button', { type: 'button', class: 'quiet', text, click: () => { add(); button.remove(); } });
  return button;
}

function svgPart(part) {
  const box = pageScroll();
  box.innerHTML = part.svg;  // the program made it
  const nodes = [...box.querySelectorAll('[data-node]')];
  if (!nodes.length) return el('div', {}, box);
  return el('div', {}, box, linkNodes(box, nodes));
}

/** Pointing at a node of a node-link picture shows its links; the arrow keys follow them. */
function linkNodes(box, nodes) {
  const about = readout('Point at a node. The arrow keys follow the links.');
  box.firstElementChild.setAttribute('role', 'group');
  const byName = new Map(nodes.map((node) => [node.dataset.node, node]));
  const links = [...box.querySelectorAll('[data-source]')];
  const titleOf = (node) => node.querySelector('title')?.textContent ?? node.dataset.node;
  const linksFrom = (name) => links.filter((link) => link.dataset.source === name || link.dataset.target === name);
  const show = (node) => {
    const near = new Set([node.dataset.node]);
    const its = new Set(linksFrom(node.dataset.node));
    for (const link of its) near.add(link.dataset.source).add(link.dataset.target);
    for (const link of links) link.classList.toggle('dim', !its.has(link));
    for (const each of nodes) each.classList.toggle('dim', !near.has(each.dataset.node));
    about.say(el('b', { text: titleOf(node) }), ` ${its.size} ${its.size === 1 ? 'link' : 'links'}`);
  };
  const clear = () => {
    for (const each of [...nodes, ...links]) each.classList.remove('dim');
    about.rest();
  };
  /** Up: to what the node feeds; down: to what feeds it. Left and right: the other ends of the same node's links. */
  const neighbours = (name, up) => links.filter((link) => (up ? link.dataset.source : link.dataset.target) === name)
    .map((link) => byName.get(up ? link.dataset.target : link.dataset.source)).filter(Boolean);
  let last = { list: nodes, at: 0 };
  for (const node of nodes) {
    node.setAttribute('role', 'button');
    node.setAttribute('aria-label', titleOf(node));
    node.addEventListener('pointerenter', () => show(node));
    node.addEventListener('pointerleave', clear);
    node.addEventListener('focus', () => show(node));
    node.addEventListener('blur', clear);
    node.addEventListener('keydown', (event) => {
      if (!kArrows[event.key]) return;
      event.preventDefault();
      const [down, right] = kArrows[event.key];
      if (down) last = { list: neighbours(node.dataset.node, down < 0), at: 0 };
      else {
        if (last.list[last.at] !== node) last = { list: nodes, at: nodes.indexOf(node) };
        last.at = clamp(last.at + right, 0, last.list.length - 1);
      }
      last.list[last.at]?.focus();
    });
  }
  return about.node;
}

const kFeaturesAtOnce = 10;

function featuresPart(part) {
  const most = (feature) => Math.max(...feature.values.map((x) => real(x) || 0));
  const features = [...part.features].sort((a, b) => most(b) - most(a));
  const coloured = (ids, list, about, label, scaled = list.map(real)) => {
    const values = list.map(real);
    const scale = scaleFor(scaled, scaled.some((x) => x < 0) ? {} : { low: 0 });
    const strip = tokenStrip({ ids, label, onLeave: about.rest,
      onPoint: (i) => about.say(el('b', { text: quoted(ids[i]) }), ` token ${i}, id ${ids[i]}`,
        Number.isNaN(values[i]) ? '' : `: ${number(values[i])}`) });
    drawn(() => strip.paint(values, scale));
    return strip.node;
  };
  const one = (feature) => {
    const about = readout('');
    const chips = [['raises', feature.raises], ['lowers', feature.lowers]].filter(([, list]) => list && list.length)
      .map(([word, list]) => el('p', { class: 'effect' }, el('span', { class: 'effect-name', text: word }), tokenChips(list)));
    const largest = feature.examples && feature.examples.map((each) => real(each.value));
    const examples = feature.examples ? el('details', { class: 'examples' },
      el('summary', { text: `Fires at ${feature.fired.toLocaleString('en')} of the harvest's ${part.rows.toLocaleString('en')} tokens`
        + (largest.length ? '; where it is largest' : '') }),
      ...feature.examples.map((each, i) => el('div', { class: 'example' },
        el('span', { class: 'chip-number', text: number(largest[i]) }),
        coloured(each.ids, each.ids.map((_, place) => (place === each.at ? each.value : null)), about,
          `Example ${i + 1} of feature ${feature.name}`, largest)))) : null;
    return el('article', { class: 'feature' },
      el('div', { class: 'feature-head' }, subheading(part, feature.name, ' ',
        el('span', { class: 'point', text: `at most ${number(most(feature))}` })), about.node),
      coloured(data.tokens, feature.values, about, `Tokens, coloured by feature ${feature.name}`), ...chips, examples);
  };
  const box = el('div', {}, ...features.slice(0, kFeaturesAtOnce).map(one));
  return el('div', {}, box, showAll(features.length - kFeaturesAtOnce, `Show all ${features.length}`,
    () => box.append(...features.slice(kFeaturesAtOnce).map(one))));
}

function tablePart(part) {
  const isNumber = (x) => typeof x === 'number';
  const numeric = part.columns.map((_, c) => part.rows.some((row) => isNumber(row[c])));
  const cell = (x, c) => el('td', { class: numeric[c] ? 'number' : null, text: isNumber(x) ? number(x) : x ?? '' });
  return pageScroll(el('table', { class: 'data-table' },
    el('thead', {}, el('tr', {}, ...part.columns.map((name, c) =>
      el('th', { scope: 'col', class: numeric[c] ? 'number' : null, text: name })))),
    el('tbody', {}, ...part.rows.map((row) => el('tr', {}, ...row.map(cell))))));
}

const kParts = {
  tokens: tokensPart, next: nextPart, lens: lensPart, attention: attentionPart, grid: gridPart, svg: svgPart,
  features: featuresPart, table: tablePart, text: (part) => el('p', { class: 'prose', text: part.text }),
};
