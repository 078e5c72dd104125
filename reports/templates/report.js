/* What a page does beyond being read: colours, tables that sort, figures that tell their values.
   Everything is readable without it. Text is only ever set as text, never as markup. */
"use strict";

const THEMES = ["auto", "light", "dark"];
const THEME_KEY = "batchmark-colours";
const REACH = 60; // Of the drawing's own units: a pointer further from all points means none.

function element(name, properties = {}, attributes = {}) {
  const made = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/* Colours: as the reader's system has them, or as chosen here. A page from a file, or one read
   without leave to store, forgets the choice and works all the same. */

function storedTheme() {
  try {
    return THEMES.includes(localStorage[THEME_KEY]) ? localStorage[THEME_KEY] : "auto";
  } catch {
    return "auto";
  }
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage[THEME_KEY] = theme;
  } catch {
    /* Not kept. */
  }
}

function offerThemes() {
  const choice = element("select");
  for (const theme of THEMES) choice.append(element("option", { value: theme, textContent: theme }));
  choice.value = storedTheme();
  choice.onchange = () => useTheme(choice.value);
  const label = element("label", { textContent: "Colours " });
  label.append(choice);
  document.getElementById("tools").append(label);
}

/* Tables: a head with data-sort sorts its rows up, then down, then as they were. */

function offerSorting(head) {
  const button = element("button", { type: "button", className: "sort" });
  button.setAttribute("aria-label", `Sort by ${head.textContent.trim()}`);
  button.onclick = () => sortBy(head);
  head.append(button);
}

function sortBy(head) {
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, place) => (row.dataset.place ??= place));
  const order = { ascending: "descending", descending: "none" }[head.ariaSort] ?? "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  if (order !== "none") head.setAttribute("aria-sort", order);
  const sign = order === "descending" ? -1 : 1;
  const column = head.cellIndex;
  rows.sort((a, b) =>
    order === "none"
      ? a.dataset.place - b.dataset.place
      : compareCells(a.cells[column], b.cells[column], sign) || a.dataset.place - b.dataset.place,
  );
  body.append(...rows);
}

function compareCells(a, b, sign) {
  const [x, y] = [exactOf(a), exactOf(b)];
  if (x !== null && y !== null) return sign * (x < y ? -1 : x > y ? 1 : 0);
  if (x !== null || y !== null) return x === null ? 1 : -1; // What has no value comes last.
  return sign * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

function exactOf(cell) {
  const text = cell.dataset.exact;
  return text === undefined ? null : text === "inf" ? Infinity : Number(text);
}

/* Notes on cells stand in a list below their table; a pointer reads them on the cells too. */

function offerNote(cell) {
  cell.title = document.getElementById(`note-${cell.dataset.note}`).textContent;
}

/* Figures: series are switched on and off, and a pointer, a finger or the arrow keys read values. */

function groupsOf(figure, series) {
  const groups = [...figure.querySelectorAll("g[data-series]")];
  return series === undefined ? groups : groups.filter((g) => g.dataset.series === series);
}

function offerSeries(figure) {
  const names = [...new Set(groupsOf(figure).map((group) => group.dataset.series))];
  if (names.length < 2) return;
  const bar = element("div", { className: "series" }, { role: "group", "aria-label": "Series shown" });
  for (const name of names) {
    const button = element("button", { type: "button", textContent: name }, { "aria-pressed": "true" });
    button.onclick = () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const group of groupsOf(figure, name)) group.style.display = shown ? "" : "none";
    };
    bar.append(button);
  }
  figure.querySelector(".scroll").before(bar);
}

function offerValues(figure) {
  const data = figure.querySelector("script.points");
  if (data === null) return;
  const all = JSON.parse(data.textContent).filter((series) => series.points.length > 0);
  const box = figure.querySelector(".scroll");
  const svg = box.querySelector("svg");
  const tip = element("output", { className: "tip", hidden: true });
  const mark = document.createElementNS(svg.namespaceURI, "circle");
  for (const [key, value] of Object.entries({ r: 4, class: "mark", visibility: "hidden" }))
    mark.setAttribute(key, value);
  svg.append(mark);
  figure.append(tip);
  const isShown = (series) => groupsOf(figure, series.series).every((g) => g.style.display !== "none");
  let place = { series: 0, point: -1 };

  const hide = () => {
    tip.hidden = true;
    mark.setAttribute("visibility", "hidden");
  };
  const show = (series, point) => {
    place = { series, point };
    const [x, y, said] = all[series].points[point];
    mark.setAttribute("cx", x);
    mark.setAttribute("cy", y);
    mark.setAttribute("visibility", "visible");
    tip.textContent = `${all[series].series}: ${said}`;
    tip.hidden = false;
    const [dot, frame] = [mark.getBoundingClientRect(), figure.getBoundingClientRect()];
    const left = Math.min(dot.right + 6 - frame.left, frame.width - tip.offsetWidth);
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${dot.top - frame.top - tip.offsetHeight - 4}px`;
  };
  const point = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let best = null;
    all.forEach((series, s) => {
      if (!isShown(series)) return;
      series.points.forEach(([x, y], p) => {
        const far = Math.hypot(x - at.x, y - at.y);
        if (best === null || far <= best.far) best = { far, s, p };
      });
    });
    if (best !== null && best.far <= REACH) show(best.s, best.p);
    else hide();
  };
  const step = (series, by) => {
    const shown = all.flatMap((one, index) => (isShown(one) ? [index] : []));
    if (shown.length === 0) return;
    const at = Math.max(shown.indexOf(place.series), 0);
    const next = shown[(at + series + shown.length) % shown.length];
    const last = all[next].points.length - 1;
    show(next, Math.min(Math.max(place.point + by, 0), last));
  };
  const keys = {
    ArrowRight: () => step(0, 1),
    ArrowLeft: () => step(0, -1),
    ArrowDown: () => step(1, 0),
    ArrowUp: () => step(-1, 0),
    Home: () => step(0, -Infinity),
    End: () => step(0, Infinity),
    Escape: hide,
  };
  svg.onpointermove = svg.onpointerdown = point;
  svg.onpointerleave = (event) => {
    if (event.pointerType !== "touch") hide(); // What a finger has found stays when it is lifted.
  };
  box.onblur = hide;
  box.onkeydown = (event) => {
    if (event.key in keys) {
      keys[event.key]();
      event.preventDefault();
    }
  };
  box.setAttribute("aria-label", `${box.getAttribute("aria-label")}: arrow keys read its values`);
}

/* Paper shows what is folded away on a screen. */

function unfold() {
  for (const folded of document.querySelectorAll("details:not([open])")) folded.open = true;
}

useTheme(storedTheme());
addEventListener("beforeprint", unfold);
addEventListener("DOMContentLoaded", () => {
  offerThemes();
  document.querySelectorAll("th[data-sort]").forEach(offerSorting);
  document.querySelectorAll("[data-note]").forEach(offerNote);
  for (const figure of document.querySelectorAll("figure")) {
    offerSeries(figure);
    offerValues(figure);
  }
});
