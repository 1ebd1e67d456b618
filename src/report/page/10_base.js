// What every figure shares: the data, elements, numbers as text, and the theme.
const data = JSON.parse(document.getElementById('data').textContent);
const firstColumn = data.first_column || 0;

/** An element. Functions among the attributes are listeners; null and false leave an attribute out. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** A heading in a figure, below the figure's title if it has one. */
const subheading = (part, ...content) => el(part.title ? 'h4' : 'h3', { class: 'sub' }, ...content);

let lastId = 0;
const freshId = (name) => `${name}-${++lastId}`;

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

/** JSON has no NaN or infinity: null and "inf" stand for them. */
function real(x) {
  if (typeof x === 'number') return x;
  return x === 'inf' ? Infinity : x === '-inf' ? -Infinity : NaN;
}

function number(x, digits = 4) {
  if (Number.isNaN(x) || x === null || x === undefined) return 'NaN';
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
  return String(Number(x.toPrecision(digits))).replaceAll('-', '−');
}

/** A line that says what is pointed at; read aloud when it changes. */
function readout(hint) {
  const node = el('p', { class: 'readout', 'aria-live': 'polite' });
  const say = (...content) => node.replaceChildren(...content);
  const rest = () => say(el('span', { class: 'hint', text: hint }));
  rest();
  return { node, say, rest };
}

/** One choice of several, as radio buttons. */
function choice(label, names, onChange) {
  const group = freshId('choice');
  const buttons = names.map((name, i) => el('label', { class: 'option' },
    el('input', { type: 'radio', name: group, checked: i === 0, change: () => onChange(i) }),
    el('span', { text: name })));
  return el('fieldset', { class: 'choice' }, el('legend', { text: label }), ...buttons);
}

const theme = { name: 'light', chosen: false, redraws: [], darkRules: [] };
const systemDark = matchMedia('(prefers-color-scheme: dark)');

/** Draws now, and again whenever the theme changes. */
function drawn(draw) {
  theme.redraws.push(draw);
  draw();
}

/** The style sheets, those of pictures too, ask the system for its theme. This makes them ask the page instead. */
function applyThemeToSheets() {
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule.media && rule.media.mediaText.includes('prefers-color-scheme')) theme.darkRules.push(rule);
    }
  }
  for (const rule of theme.darkRules) rule.media.mediaText = theme.name === 'dark' ? 'screen' : 'not all';
}

function setTheme(name) {
  theme.name = name;
  document.documentElement.dataset.theme = name;
  applyThemeToSheets();
  for (const draw of theme.redraws) draw();
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
