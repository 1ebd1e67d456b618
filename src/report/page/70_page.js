// The page: its head, contents and sections, and printing.

function copyButton(textOf) {
  const button = el('button', { type: 'button', class: 'quiet copy', text: 'Copy', click: async () => {
    const done = await copied(textOf());
    button.textContent = done ? 'Copied' : 'Not copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  } });
  return button;
}

/** The clipboard is only there for pages that the browser trusts, which local files are not everywhere. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el('textarea', { class: 'off-screen', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

const kLanguages = { shell: 'Shell', cpp: 'C++', python: 'Python' };

function codeOf(section) {
  const there = Object.keys(kLanguages).filter((key) => section.code && section.code[key]);
  if (!there.length) return null;
  const panel = freshId('code');
  const code = el('pre', { id: panel, role: 'tabpanel', tabindex: 0 }, el('code'));
  const tabs = there.map((key) => el('button', { type: 'button', role: 'tab', id: freshId('tab'), 'aria-controls': panel,
    text: kLanguages[key] }));
  const show = (i) => {
    tabs.forEach((tab, j) => tab.setAttribute('aria-selected', String(i === j)));
    code.setAttribute('aria-labelledby', tabs[i].id);
    code.firstChild.textContent = section.code[there[i]];
  };
  const list = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Language' }, ...tabs);
  roving(list, tabs, (i) => i);
  tabs.forEach((tab, i) => tab.addEventListener('focus', () => show(i)));
  tabs.forEach((tab, i) => tab.addEventListener('click', () => show(i)));
  show(0);
  return el('details', { class: 'again' }, el('summary', { text: 'Make this again' }),
    el('div', { class: 'code-head' }, list, copyButton(() => code.textContent)), code);
}

const pending = new Map();  // the boxes of sections that are not drawn yet

function drawSection(box) {
  const section = pending.get(box);
  if (!section) return;
  pending.delete(box);
  box.classList.remove('waiting');
  for (const part of section.parts) {
    const make = kParts[part.kind];
    const title = part.title ? el('h3', { text: part.title }) : null;
    const figure = el('div', { class: `part part-${part.kind}` }, title,
      make ? make(part) : el('p', { class: 'prose', text: `This page cannot show a part of kind “${part.kind}”.` }));
    box.append(figure);
  }
  if (section.parts.some((part) => part.kind === 'svg')) applyThemeToSheets();
}

function sectionOf(section) {
  const box = el('div', { class: 'parts waiting' });
  pending.set(box, section);
  const title = `${section.id}-title`;
  return el('section', { id: section.id, 'aria-labelledby': title }, el('h2', { id: title, text: section.title }),
    section.about ? el('p', { class: 'about', text: section.about }) : null, box, codeOf(section));
}

function themeButton() {
  const button = el('button', { type: 'button', class: 'quiet theme', click: () => {
    theme.chosen = true;
    setTheme(theme.name === 'dark' ? 'light' : 'dark');
  } });
  theme.redraws.push(() => { button.textContent = theme.name === 'dark' ? 'Light colours' : 'Dark colours'; });
  return button;
}

function headOf() {
  const { name, fingerprint, words = [] } = data.model;
  const facts = [name, ...words].filter((word) => word && word !== data.title);
  return el('header', { class: 'page-head' },
    el('div', { class: 'title-row' }, el('h1', { text: data.title }), themeButton()),
    el('p', { class: 'facts' }, ...facts.map((word) => el('span', { text: word })),
      fingerprint ? el('span', {}, 'fingerprint ', el('code', { text: fingerprint.slice(0, 16), title: fingerprint })) : null),
    data.notes && data.notes.length ? el('ul', { class: 'notes' }, ...data.notes.map((text) => el('li', { text }))) : null);
}

function contents() {
  const links = data.sections.map(({ id, title }) => el('a', { href: `#${id}`, text: title }));
  const list = el('details', {}, el('summary', { text: 'Contents' }), el('ol', {}, ...links.map((a) => el('li', {}, a))));
  const wide = matchMedia('(min-width: 1000px)');
  const fit = () => { list.open = wide.matches; };
  wide.addEventListener('change', fit);
  fit();
  list.addEventListener('click', (event) => {
    if (event.target.tagName === 'A' && !wide.matches) list.open = false;
  });
  return { node: el('nav', { class: 'contents', 'aria-label': 'Contents' }, list), links };
}

/** Marks the section that is read in the contents. */
function follow(sections, links) {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link, i) => {
        if (sections[i] === entry.target) link.setAttribute('aria-current', 'true');
        else link.removeAttribute('aria-current');
      });
    }
  }, { rootMargin: '-15% 0px -75% 0px' });
  for (const section of sections) observer.observe(section);
}

/** On paper everything is drawn, in light colours, and figures that are too wide are made smaller. */
function printable() {
  const kPaper = 680;
  let before = '';
  const shrunk = [];
  addEventListener('beforeprint', () => {
    before = theme.name;
    [...pending.keys()].forEach(drawSection);
    setTheme('light');
    for (const box of document.querySelectorAll('.scroll')) {
      const figure = box.closest('.heat') ?? box;
      const width = box.scrollWidth + (figure === box ? 0 : box.offsetLeft);
      if (width <= kPaper) continue;
      figure.style.zoom = kPaper / width;
      shrunk.push(figure);
    }
  });
  addEventListener('afterprint', () => {
    for (const figure of shrunk.splice(0)) figure.style.zoom = '';
    if (before) setTheme(before);
  });
}

function start() {
  setTheme(systemDark.matches ? 'dark' : 'light');
  systemDark.addEventListener('change', () => { if (!theme.chosen) setTheme(systemDark.matches ? 'dark' : 'light'); });
  const { node: nav, links } = contents();
  const sections = data.sections.map(sectionOf);
  document.getElementById('page').append(headOf(), el('div', { class: 'columns' }, nav, el('div', { class: 'sections' },
    ...sections)));
  setTheme(theme.name);
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      drawSection(target);
    }
  }, { rootMargin: '500px 0px' });
  for (const box of pending.keys()) near.observe(box);
  follow(sections, links);
  printable();
}

start();
