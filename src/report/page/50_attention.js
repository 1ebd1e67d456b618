// Attention patterns: thumbnails of all heads, one head large, and where each token looks.
const kNoKey = 65535;
const kLargest = 512;  // rows of the large view; longer patterns show the strongest of several cells in one
const kThumbnail = 64;

function numbersOf(base64) {
  let bytes;
  if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(base64);
  else {
    const text = atob(base64);
    bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  }
  return new Uint16Array(bytes.buffer, 0, bytes.length >> 1);
}

/** Reads the patterns of a part: all numbers are there ("whole"), or the strongest keys of each query. */
function patternsOf(part) {
  const { queries, keys, causal, kept, block } = part;
  const whole = part.form === 'whole';
  const values = numbersOf(part.values);
  const at = whole ? null : numbersOf(part.at);
  const means = part.means ? numbersOf(part.means) : null;
  const perHead = !whole ? queries * kept : causal ? (queries * (queries + 1)) / 2 : queries * keys;
  const startOf = (head, q) => head * perHead + (!whole ? q * kept : causal ? (q * (q + 1)) / 2 : q * keys);
  const seen = (q) => (causal ? Math.min(q + 1, keys) : keys);

  /** Calls visit(key, share) for all keys of a query that the page knows. */
  function each(head, q, visit) {
    const start = startOf(head, q);
    for (let i = 0, end = whole ? seen(q) : kept; i < end; ++i) {
      const key = whole ? i : at[start + i];
      if (key === kNoKey) return;
      visit(key, values[start + i] / 65535);
    }
  }
  function row(head, q) {
    const list = new Float32Array(keys).fill(NaN);
    each(head, q, (key, x) => { list[key] = x; });
    return list;
  }
  function column(head, key) {
    const list = new Float32Array(queries).fill(NaN);
    for (let q = causal ? key : 0; q < queries; ++q) each(head, q, (k, x) => { if (k === key) list[q] = x; });
    return list;
  }
  /** The pattern in at most `size` rows and columns: the strongest cell of each block, and where it is. */
  function pooled(head, size) {
    const bin = Math.ceil(Math.max(queries, keys) / size);
    const rows = Math.ceil(queries / bin), columns = Math.ceil(keys / bin);
    const best = new Float32Array(rows * columns).fill(NaN), where = new Uint32Array(rows * columns);
    for (let q = 0; q < queries; ++q) {
      const line = Math.floor(q / bin) * columns;
      each(head, q, (key, x) => {
        const i = line + Math.floor(key / bin);
        if (!(x <= best[i])) [best[i], where[i]] = [x, q * keys + key];
      });
    }
    return { bin, rows, columns, best, where };
  }
  /** A small picture: means of blocks. */
  function small(head) {
    if (means) {
      const [rows, columns] = [queries, keys].map((n) => Math.ceil(n / block));
      return { rows, columns, list: means.subarray(head * rows * columns, (head + 1) * rows * columns) };
    }
    const bin = Math.ceil(Math.max(queries, keys) / kThumbnail);
    const rows = Math.ceil(queries / bin), columns = Math.ceil(keys / bin);
    const list = new Float32Array(rows * columns);
    for (let q = 0; q < queries; ++q) {
      const line = Math.floor(q / bin) * columns, start = startOf(head, q), end = seen(q);
      for (let key = 0; key < end; ++key) list[line + Math.floor(key / bin)] += values[start + key];
    }
    return { rows, columns, list };
  }
  return { row, column, pooled, small, seen };
}

function drawThumbnail(canvas, { rows, columns, list }) {
  let most = 0;
  for (const x of list) if (x > most) most = x;
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext('2d');
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const { pixel } = levelTable('sequential');
  for (let i = 0; i < list.length; ++i)
    pixels[i] = pixel[most ? Math.round(Math.sqrt(list[i] / most) * (kLevels - 1)) : 0];
  context.putImageData(image, 0, 0);
}

/** Thumbnails, a row for each layer. `onPick(head)` when one is chosen, `onPoint(head)` and `onLeave()` before that. */
function thumbnails(part, heads, patterns, { onPick, onPoint, onLeave }) {
  const widest = Math.max(...part.layers.map((each) => each.heads));
  const node = el('div', { class: 'thumbs', role: 'group', 'aria-label': 'Heads of all layers',
    style: `--heads:${widest}` });
  const buttons = heads.map(({ layer, head }, i) => el('button', {
    type: 'button', class: 'thumb', 'data-head': i, 'aria-pressed': 'false', 'aria-label': `Layer ${layer}, head ${head}`,
    title: `Layer ${layer}, head ${head}`, click: () => onPick(i),
    pointerenter: () => onPoint(i), focus: () => onPoint(i), pointerleave: onLeave, blur: onLeave,
  }, el('canvas')));
  let next = 0;
  for (const { layer, heads: count } of part.layers) {
    node.append(el('span', { class: 'layer-name', text: `${layer}`, title: `Layer ${layer}` }),
      ...buttons.slice(next, next + count));
    for (let i = count; i < widest; ++i) node.append(el('span'));
    next += count;
  }
  roving(node, buttons, (i, step) => {
    const line = heads[i].row + step;
    return line < 0 || line >= part.layers.length ? i
      : heads.findIndex((each) => each.row === line && each.head === Math.min(heads[i].head, part.layers[line].heads - 1));
  });
  const pictures = buttons.map((_, i) => patterns.small(i));  // kept for a change of the theme
  drawn(() => buttons.forEach((button, i) => drawThumbnail(button.firstChild, pictures[i])));
  const select = (i) => buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(i === j)));
  return { node, select };
}

/** "a “x” 0.5, b “y” 0.3": the strongest of a list. */
function strongestOf(list, count = 5) {
  const order = [...list.keys()].filter((i) => list[i] > 0).sort((a, b) => list[b] - list[a]).slice(0, count);
  return order.map((i) => el('span', { class: 'chip' }, named(i), ' ', el('span', { class: 'chip-number', text: number(list[i]) })));
}

function largeView(part, patterns, say, rest, onPick) {
  let view = null, scale = null, map = null;
  const bar = colourBar('share of the attention');
  const node = el('div', { class: 'large' });
  const labels = (n, bin) => Array.from({ length: n }, (_, i) =>
    (data.tokens.length <= 24 && bin === 1 ? axisLabels()[i] : `${firstColumn + i * bin}`));
  const cellOf = (r, c) => {
    const i = r * view.columns + c;
    if (!Number.isNaN(view.best[i])) return [Math.floor(view.where[i] / part.keys), view.where[i] % part.keys, view.best[i]];
    return [Math.min(r * view.bin, part.queries - 1), Math.min(c * view.bin, part.keys - 1), NaN];
  };
  const show = (head, name) => {
    view = patterns.pooled(head, kLargest);
    // One strong cell among a million would leave the others without a colour.
    scale = scaleFor(view.best, { low: 0, root: part.keys > 128 });
    map ??= heatMap({
      rows: labels(view.rows, view.bin), columns: labels(view.columns, view.bin), rowName: 'query', columnName: 'key',
      label: 'Attention pattern', cell: { least: 0.5, most: 28, square: true },
      value: (r, c) => view.best[r * view.columns + c],
      isBlank: (r, c) => Number.isNaN(view.best[r * view.columns + c]),
      text: () => '', scale: () => scale,
      onPoint: (r, c) => {
        const [q, k, x] = cellOf(r, c);
        const value = !Number.isNaN(x) ? number(x) : k >= patterns.seen(q) ? 'later than the query' : `not among the ${part.kept} kept`;
        say(`${named(q)} → ${named(k)}: `, el('b', { text: value }));
      },
      onLeave: rest, onPick: (r, c) => onPick(cellOf(r, c)[0]),
    });
    if (!map.node.parentNode) {
      node.append(map.node, bar.node);
      theme.redraws.push(() => bar.show(scale));
    }
    map.setLabel(`Attention pattern of ${name}`);
    map.draw();
    bar.show(scale);
  };
  return { node, show };
}

function attentionPart(part) {
  const patterns = patternsOf(part);
  const heads = part.layers.flatMap(({ layer, heads: count, label }, row) =>
    Array.from({ length: count }, (_, head) => ({ layer, head, label, row })));
  const about = readout('Point at a cell or at a token.');
  const title = subheading(part);
  title.classList.add('head-name');
  let head = 0, token = data.tokens.length - 1, lookedAt = false, pointed = -1;

  const strip = tokenStrip({
    ids: data.tokens, label: 'Tokens: where the selected one looks', onPoint: (i) => { pointed = i; colour(); },
    onLeave: () => { pointed = -1; colour(); }, onPick: (i) => { token = i; colour(); },
  });
  function colour() {
    const i = pointed >= 0 ? pointed : token;
    const list = listOf(head, i);
    strip.paint(list, scaleFor(list, { low: 0 }));
    strip.items.forEach((item, j) => item.classList.toggle('source', i === j));
    about.say(...sentence(i, list));
  }
  const listOf = (which, i) => (lookedAt ? patterns.column(which, i) : patterns.row(which, i));
  const sentence = (i, list) =>
    [el('b', { text: named(i) }), lookedAt ? ' is looked at by ' : ' looks at ', ...strongestOf(list)];
  const nameOf = (i) => `Layer ${heads[i].layer}, head ${heads[i].head}`;
  const large = largeView(part, patterns, about.say, colour, (q) => { token = q; strip.select(q); colour(); });
  const thumbs = thumbnails(part, heads, patterns, { onPick: pickHead, onLeave: colour,
    onPoint: (i) => about.say(`${nameOf(i)}: `, ...sentence(token, listOf(i, token))) });
  function pickHead(i) {
    head = i;
    title.replaceChildren(nameOf(i), ' ', el('span', { class: 'point', text: heads[i].label }));
    thumbs.select(i);
    large.show(i, nameOf(i));
    colour();
  }
  strip.select(token);
  pickHead(0);
  const limits = part.form === 'strongest'
    ? el('p', { class: 'small', text: `This file keeps the ${part.kept} strongest keys of each query. The small pictures show `
      + `means over blocks of ${part.block} tokens.` }) : null;
  return el('div', { class: 'attention' },
    el('div', { class: 'attention-views' },
      el('div', {}, subheading(part, 'All heads'), el('div', { class: 'scroll' }, thumbs.node),
        el('p', { class: 'small', text: 'rows: layers · columns: heads · each picture has its own scale' })),
      el('div', {}, title, large.node)),
    choice('A token’s colours show', ['what it looks at', 'what looks at it'], (i) => { lookedAt = i === 1; colour(); }),
    strip.node, about.node, limits);
}
