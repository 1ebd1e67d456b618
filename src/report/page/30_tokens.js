// Tokens as text, and strips of them that are walked through with the arrow keys.

/** A token's text with all that cannot be seen made visible. */
function pieceText(id) {
  const text = data.pieces[id] ?? String(id);
  if (/^ +$/.test(text)) return '␣'.repeat(text.length);
  const shown = text.replace(/\r\n|\r|\n/g, '⏎').replaceAll('\t', '⇥').replace(/\p{Cc}/gu, '');
  return /[^\p{C}\p{M}\p{Z}]/u.test(shown) ? shown : `#${id}`;
}

const quoted = (id) => `“${pieceText(id)}”`;
const named = (index) => `${firstColumn + index} ${quoted(data.tokens[index])}`;
const axisLabels = () => data.tokens.map((id, i) => `${firstColumn + i} ${pieceText(id)}`);

/** A token in running text or a table, its leading blank as a mark. */
function piece(id) {
  const text = pieceText(id);
  const blank = text.startsWith(' ');
  return el('span', { class: 'piece' }, blank ? el('span', { class: 'blank', text: '·' }) : null,
    blank ? text.slice(1) : text);
}

/** The item on the next line (or the one before) that is nearest to item `from`. */
function acrossLines(items, from, step) {
  const start = items[from].getBoundingClientRect();
  let best = -1, distance = Infinity, line = null;
  for (let i = from + step; i >= 0 && i < items.length; i += step) {
    const box = items[i].getBoundingClientRect();
    if (Math.abs(box.top - start.top) < 4) continue;
    if (line === null) line = box.top;
    if (Math.abs(box.top - line) >= 4) break;
    if (Math.abs(box.left - start.left) < distance) [best, distance] = [i, Math.abs(box.left - start.left)];
  }
  return best;
}

const kArrows = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

/** Makes items one tab stop, which the arrow keys move. */
function roving(container, items, vertical = (i, step) => acrossLines(items, i, step)) {
  let current = 0;
  const setCurrent = (i) => {
    items[current].tabIndex = -1;
    items[i].tabIndex = 0;
    current = i;
  };
  items.forEach((item, i) => { item.tabIndex = i === 0 ? 0 : -1; });
  container.addEventListener('keydown', (event) => {
    const i = items.indexOf(event.target);
    if (i < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    let next = i;
    if (kArrows[event.key]) {
      const [down, right] = kArrows[event.key];
      next = right ? i + right : vertical(i, down);
    } else if (event.key === 'Home') next = 0;
    else if (event.key === 'End') next = items.length - 1;
    else if (event.key === ' ' || event.key === 'Enter') {
      if (items[i].tagName === 'BUTTON') return;  // a button clicks itself
      items[i].click();
    } else return;
    event.preventDefault();
    if (next === i || next < 0 || next >= items.length) return;
    items[next].focus();
  });
  container.addEventListener('focusin', (event) => {
    const i = items.indexOf(event.target);
    if (i >= 0) setCurrent(i);
  });
  return setCurrent;
}

/**
 * Tokens as words. `onPoint(i)` when one is pointed at or focused, `onLeave()` after that, `onPick(i)` when it is
 * clicked; with `pickOnFocus` the arrow keys pick too.
 */
function tokenStrip({ ids, label, onPoint, onLeave, onPick, pickOnFocus }) {
  const items = ids.map((id, i) => el('span', {
    class: 'token', role: 'option', 'data-i': i, 'aria-selected': 'false', text: pieceText(id),
  }));
  const node = el('div', { class: 'strip', role: 'listbox', 'aria-label': label, 'aria-orientation': 'horizontal' });
  items.forEach((item, i) => {
    node.append(item);
    if (/\n$/.test(data.pieces[ids[i]] ?? '')) node.append(el('br'));
  });
  const indexOf = (event) => {
    const item = event.target.closest('.token');
    return item ? Number(item.dataset.i) : -1;
  };
  const on = (type, act) => act && node.addEventListener(type, (event) => {
    const i = indexOf(event);
    if (i >= 0) act(i);
  });
  const setCurrent = items.length ? roving(node, items) : () => {};
  let selected = -1;
  const select = (i) => {
    if (selected >= 0) items[selected].setAttribute('aria-selected', 'false');
    selected = i;
    items[i].setAttribute('aria-selected', 'true');
    setCurrent(i);
  };
  const pick = onPick && ((i) => { select(i); onPick(i); });
  on('pointerover', onPoint);
  on('focusin', pickOnFocus ? pick : onPoint);
  on('click', pick);
  if (onLeave) {
    node.addEventListener('pointerleave', onLeave);
    node.addEventListener('focusout', onLeave);
  }
  const paint = (values, scale) => items.forEach((item, i) => fill(item, values[i], scale));
  return { node, items, select, paint };
}

/** Tokens with a number each, as a table with bars. */
function tokenTable(pairs, name) {
  const most = Math.max(...pairs.map(([, x]) => Math.abs(real(x))), 1e-9);
  const rows = pairs.map(([id, x]) => el('tr', {}, el('td', {}, piece(id)), el('td', { class: 'number', text: id }),
    el('td', { class: 'number', text: number(real(x)) }),
    el('td', { class: 'bar-cell' }, el('div', { class: 'share', style: `width:${(100 * Math.abs(real(x))) / most}%` }))));
  return el('table', { class: 'token-table' },
    el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: 'token' }),
      el('th', { scope: 'col', class: 'number', text: 'id' }), el('th', { scope: 'col', class: 'number', text: name }),
      el('td', { 'aria-hidden': 'true' }))),
    el('tbody', {}, ...rows));
}

/** Tokens with a number each, in a line. */
function tokenChips(pairs) {
  return el('span', { class: 'chips' }, ...pairs.map(([id, x]) => el('span', { class: 'chip' }, piece(id), ' ',
    el('span', { class: 'chip-number', text: number(real(x)) }))));
}
