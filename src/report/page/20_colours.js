// Colours of numbers: ColorBrewer's Blues and RdBu, and counterparts of them for dark pages.
const kPalettes = {
  light: {
    sequential: ['#f7fbff', '#deebf7', '#c6dbef', '#9ecae1', '#6baed6', '#4292c6', '#2171b5', '#08519c', '#08306b'],
    diverging: ['#67001f', '#b2182b', '#d6604d', '#f4a582', '#fddbc7', '#f7f7f7', '#d1e5f0', '#92c5de', '#4393c3',
      '#2166ac', '#053061'],
  },
  dark: {
    sequential: ['#1c232b', '#1d3148', '#1e456b', '#255f95', '#3a7fbd', '#5f9fd6', '#8dbfe9', '#bddcf5', '#eaf5ff'],
    diverging: ['#ffe1d6', '#fbb79d', '#ee8566', '#c4553f', '#7b3a33', '#2a2f36', '#2a4a68', '#3470a3', '#5f9fd6',
      '#9fcbf0', '#e0f0fd'],
  },
};
const kLevels = 256;
const kInks = { dark: '#000000', light: '#ffffff' };  // one of them has a contrast of 4.5 on any colour
const levelTables = new Map();

const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function luminance(rgb) {
  const [r, g, b] = rgb.map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The colours of all levels: as CSS, the ink that is readable on it, and as a pixel of an ImageData. */
function levelTable(kind) {
  const key = `${theme.name} ${kind}`;
  if (levelTables.has(key)) return levelTables.get(key);
  const stops = kPalettes[theme.name][kind].map(rgbOf);
  const dark = luminance(rgbOf(kInks.dark));
  const table = { css: [], ink: [], pixel: new Uint32Array(kLevels) };
  for (let level = 0; level < kLevels; ++level) {
    const at = (level / (kLevels - 1)) * (stops.length - 1);
    const stop = Math.min(Math.floor(at), stops.length - 2);
    const rgb = stops[stop].map((x, i) => Math.round(x + (stops[stop + 1][i] - x) * (at - stop)));
    const light = luminance(rgb);
    table.css.push(`rgb(${rgb.join(', ')})`);
    table.ink.push((light + 0.05) / (dark + 0.05) > 1.05 / (light + 0.05) ? kInks.dark : kInks.light);
    table.pixel[level] = (255 << 24) | (rgb[2] << 16) | (rgb[1] << 8) | rgb[0];
  }
  levelTables.set(key, table);
  return table;
}

/** How numbers become colours. Diverging if there is a centre or a number below 0; `low`, `high` widen the range. With `root`
    small numbers differ more, by their square roots. */
function scaleFor(values, { centre, low = Infinity, high = -Infinity, root = false } = {}) {
  for (const x of values) {
    if (!Number.isFinite(x)) continue;
    if (x < low) low = x;
    if (x > high) high = x;
  }
  if (low > high) [low, high] = [0, 1];
  const diverging = typeof centre === 'number' || low < 0;
  if (diverging) {
    const middle = typeof centre === 'number' ? centre : 0;
    const reach = Math.max(high - middle, middle - low) || 1;
    [low, high] = [middle - reach, middle + reach];
  } else {
    if (low < high / 8 || low === high) low = 0;  // a round end where it costs no colours
    if (low === high) high = 1;
  }
  const level = (x) => Math.round(clamp((x - low) / (high - low), 0, 1) ** (root ? 0.5 : 1) * (kLevels - 1));
  const table = () => levelTable(diverging ? 'diverging' : 'sequential');
  return { low, high, middle: root ? low + (high - low) / 4 : (low + high) / 2, level, table };
}

/** Fills an element with the colour of a number; no number, no colour. */
function fill(node, x, scale) {
  const none = !scale || Number.isNaN(x);
  node.style.backgroundColor = none ? '' : scale.table().css[scale.level(x)];
  node.style.color = none ? '' : scale.table().ink[scale.level(x)];
}

function colourBar(unit) {
  const bar = el('div', { class: 'bar' });
  const ticks = [0, 1, 2].map(() => el('span'));
  const node = el('div', { class: 'colour-bar', role: 'img' }, bar, el('div', { class: 'ticks' }, ...ticks),
    unit ? el('span', { class: 'unit', text: unit }) : null);
  const show = (scale) => {
    const { css } = scale.table();
    const stops = [];
    for (let i = 0; i < kLevels; i += 15) stops.push(css[i]);
    bar.style.backgroundImage = `linear-gradient(to right, ${stops.join(', ')})`;
    const words = [scale.low, scale.middle, scale.high].map((x) => number(x, 3));
    ticks.forEach((tick, i) => { tick.textContent = words[i]; });
    node.setAttribute('aria-label', `Colours from ${words[0]} to ${words[2]}${unit ? ` ${unit}` : ''}`);
  };
  return { node, show };
}
