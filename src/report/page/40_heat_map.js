// A heat map on a canvas with row labels beside it: grids, lenses and attention patterns are drawn with it.
const kCanvasFont = '11px system-ui, "DejaVu Sans", sans-serif';
const kLongestLabel = 92;  // pixels

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) --end;
  return end > 1 ? `${text.slice(0, end)}…` : '';
}

/** Sizes of cells in a box of this width. */
function cellSizes({ rows, columns, cell = {} }, width) {
  const least = cell.least ?? 5, most = cell.most ?? 56;
  let across = clamp(width / columns.length, least, most);
  if (across >= 3) across = Math.floor(across);
  if (cell.square) return [across, across];
  const down = cell.height ?? clamp(Math.floor(480 / rows.length), 4, 24);
  return [across, down];
}

/**
 * options: rows, columns (labels), rowName, columnName, label, value(r, c), isBlank(r, c), text(r, c) or numbers (of all panels
 * that share the scale), scale(),
 * cell {least, most, height, square}, onPoint(r, c), onLeave(), onPick(r, c).
 */
function heatMap(options) {
  const canvas = el('canvas', { tabindex: 0, role: 'application', 'aria-roledescription': 'heat map' });
  const setLabel = (label) => canvas.setAttribute('aria-label', `${label}. The arrow keys move over the cells.`);
  setLabel(options.label);
  const cursor = el('div', { class: 'cursor', hidden: true });
  const scroller = el('div', { class: 'scroll' }, el('div', { class: 'surface' }, canvas, cursor));
  const rowLabels = el('div', { class: 'row-labels', 'aria-hidden': 'true' });
  const axes = [options.rowName && `rows: ${options.rowName}`, options.columnName && `columns: ${options.columnName}`];
  const node = el('div', { class: 'heat' }, el('div', { class: 'heat-row' }, rowLabels, scroller),
    el('p', { class: 'axes', text: axes.filter(Boolean).join(' · ') }));
  const bitmap = el('canvas');
  const measure = bitmap.getContext('2d');
  measure.font = kCanvasFont;
  const widest = options.rows.reduce((most, text) => Math.max(most, measure.measureText(text).width), 0);
  rowLabels.hidden = widest === 0;
  rowLabels.style.width = `${Math.min(Math.ceil(widest) + 2, kLongestLabel)}px`;
  let across = 0, down = 0, at = null, width = 0;

  function paintBitmap(scale) {
    const context = bitmap.getContext('2d');
    [bitmap.width, bitmap.height] = [options.columns.length, options.rows.length];
    const image = context.createImageData(bitmap.width, bitmap.height);
    const pixels = new Uint32Array(image.data.buffer);
    const { pixel } = scale.table();
    for (let r = 0, i = 0; r < bitmap.height; ++r) {
      for (let c = 0; c < bitmap.width; ++c, ++i) {
        if (options.isBlank && options.isBlank(r, c)) continue;
        const x = options.value(r, c);
        pixels[i] = Number.isNaN(x) ? 0x40808080 : pixel[scale.level(x)];
      }
    }
    context.putImageData(image, 0, 0);
  }

  /** Numbers with as many decimals as fit into every cell of every panel; null if none do. */
  function numbersThatFit(context, scale) {
    const size = Math.max(Math.abs(scale.low), Math.abs(scale.high));
    scale.widest ??= {};  // of the panels that share it
    for (const digits of [2, 1]) {
      const decimals = digits - Math.floor(Math.log10(size));
      const words = (x) => (Number.isFinite(x) && decimals >= 0 && decimals < 5
        ? x.toFixed(decimals).replace(/^-(?=[0.]*$)/, '').replace('-', '−') : number(x, digits + 1));
      scale.widest[digits] ??= options.numbers.reduce(
        (most, x) => Math.max(most, context.measureText(words(x)).width), 0);
      if (scale.widest[digits] <= across - 4) return (r, c) => words(options.value(r, c));
    }
    return null;
  }

  const hasNumber = (r, c) => !(options.isBlank && options.isBlank(r, c)) && !Number.isNaN(options.value(r, c));

  function drawTexts(context, scale) {
    if (across < 20 || down < 14) return;
    const text = options.text ?? numbersThatFit(context, scale);
    if (!text) return;
    const { ink } = scale.table();
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let r = 0; r < options.rows.length; ++r) {
      for (let c = 0; c < options.columns.length; ++c) {
        if (!hasNumber(r, c)) continue;
        context.fillStyle = ink[scale.level(options.value(r, c))];
        context.fillText(shortened(context, text(r, c), across - 4), (c + 0.5) * across, (r + 0.5) * down + 0.5);
      }
    }
  }

  /** Where the labels of the columns go: flat where they fit, else upright; not all if there are many. */
  function columnLabelPlan(context) {
    const widest = Math.min(Math.max(...options.columns.map((x) => context.measureText(x).width)), kLongestLabel);
    const flat = across >= 60 || widest + 6 <= across || widest < 26;
    const room = flat ? Math.min(widest, Math.max(across - 6, 26)) : kLongestLabel;
    return { flat, room, step: Math.ceil((flat ? room + 6 : 13) / across), height: flat ? 18 : widest + 8 };
  }

  function drawColumnLabels(context, plan, top) {
    context.fillStyle = styleOf('--muted');
    context.textBaseline = 'middle';
    context.textAlign = plan.flat ? 'center' : 'right';
    for (let c = 0; c < options.columns.length; c += plan.step) {
      context.save();
      context.translate(Math.max((c + 0.5) * across, 6), top + (plan.flat ? 10 : 5));
      if (!plan.flat) context.rotate(-Math.PI / 2);
      context.fillText(shortened(context, options.columns[c], plan.room), 0, 0);
      context.restore();
    }
  }

  function placeRowLabels() {
    const step = Math.ceil(14 / down);
    const labels = [];
    for (let r = 0; r < options.rows.length; r += step)
      labels.push(el('span', { style: `top:${r * down + down / 2}px`, text: options.rows[r], title: options.rows[r] }));
    rowLabels.replaceChildren(...labels);
  }

  function draw() {
    width = scroller.clientWidth;
    if (!width) return;  // not on the page yet; the observer below draws it then
    const scale = options.scale();
    const context = canvas.getContext('2d');
    context.font = kCanvasFont;
    [across, down] = cellSizes(options, width - 10);
    const plan = columnLabelPlan(context);
    const size = [options.columns.length * across + 6, options.rows.length * down + plan.height].map(Math.ceil);
    const ratio = Math.min(Math.max(devicePixelRatio || 1, 1), 2);
    [canvas.width, canvas.height] = size.map((x) => Math.round(x * ratio));
    [canvas.style.width, canvas.style.height] = size.map((x) => `${x}px`);
    [canvas.dataset.across, canvas.dataset.down] = [across, down];
    context.scale(ratio, ratio);
    context.font = kCanvasFont;
    context.imageSmoothingEnabled = false;
    paintBitmap(scale);
    context.drawImage(bitmap, 0, 0, options.columns.length * across, options.rows.length * down);
    drawTexts(context, scale);
    drawColumnLabels(context, plan, options.rows.length * down);
    placeRowLabels();
    if (at) showCursor();
  }

  function showCursor() {
    const [r, c] = at;
    cursor.hidden = false;
    cursor.style.cssText = `left:${c * across}px;top:${r * down}px;width:${across}px;height:${down}px`;
  }

  function point(r, c) {
    if (at && at[0] === r && at[1] === c) return;
    at = [r, c];
    showCursor();
    options.onPoint(r, c);
  }

  function leave() {
    at = null;
    cursor.hidden = true;
    if (options.onLeave) options.onLeave();
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const c = Math.floor((event.clientX - box.left) / across), r = Math.floor((event.clientY - box.top) / down);
    return r >= 0 && c >= 0 && r < options.rows.length && c < options.columns.length ? [r, c] : null;
  }

  const pointAt = (event) => {
    const cell = cellAt(event);
    if (cell) point(...cell);
    return cell;
  };
  canvas.addEventListener('pointermove', pointAt);
  canvas.addEventListener('click', (event) => {
    const cell = pointAt(event);
    if (cell && options.onPick) options.onPick(...cell);
  });
  canvas.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && leave());
  canvas.addEventListener('blur', leave);
  canvas.addEventListener('focus', () => canvas.matches(':focus-visible') && !at && point(0, 0));
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    let [r, c] = at ?? [0, 0];
    if (kArrows[event.key]) [r, c] = [r + kArrows[event.key][0], c + kArrows[event.key][1]];
    else if (event.key === 'Home') c = 0;
    else if (event.key === 'End') c = options.columns.length - 1;
    else if (event.key === 'Enter' && options.onPick) options.onPick(r, c);
    else return;
    event.preventDefault();
    point(clamp(r, 0, options.rows.length - 1), clamp(c, 0, options.columns.length - 1));
    const left = at[1] * across;
    scroller.scrollLeft = clamp(scroller.scrollLeft, left + across - scroller.clientWidth, left);
  });
  new ResizeObserver(() => {
    if (scroller.clientWidth !== width) draw();
  }).observe(scroller);
  theme.redraws.push(draw);
  return { node, draw, setLabel };
}
