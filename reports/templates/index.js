/* What the page of many runs does beyond being read: filters its tables, and draws histories of what
   they leave. The tables hold every number and every text that is drawn. Uses report.js. */
"use strict";

const MOST_PICTURES = 12;
const FRAME = { width: 420, height: 170, left: 62, right: 12, top: 18, bottom: 24 };

function drawing(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function columnOf(table, title) {
  return [...table.tHead.rows[0].cells].findIndex((head) => headText(head) === title);
}

function headText(head) {
  return (head.querySelector("a") ?? head.firstChild).textContent.trim();
}

/* Filters: a row stays where each choice is empty, or is the text of the row's cell. */

function filterTable(table, choices) {
  const columns = choices.map(([title, value]) => [columnOf(table, title), value]);
  const wanted = columns.filter(([, value]) => value !== "");
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    row.hidden = !wanted.every(([column, value]) => `=${row.cells[column].textContent}` === value);
    shown += !row.hidden;
  }
  return shown;
}

/* Histories: each is a figure that report.js makes tell its values. */

function picture(line, title, rows, table) {
  const column = columnOf(table, line.metric);
  const [run, started] = [0, columnOf(table, "Started (UTC)")];
  const points = line.stretches.flatMap((stretch) => stretch.rows.map((row) => rows[row].cells));
  const values = points.map((cells) => exactOf(cells[column]));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const x = (place) =>
    FRAME.left + ((FRAME.width - FRAME.left - FRAME.right) * (place + 0.5)) / points.length;
  const y = (value) =>
    most === least
      ? FRAME.height / 2
      : FRAME.height - FRAME.bottom - ((value - least) / (most - least)) * (FRAME.height - FRAME.bottom - FRAME.top);
  const round = (number) => Number(number.toFixed(1));

  const svg = drawing("svg", { viewBox: `0 0 ${FRAME.width} ${FRAME.height}`, role: "img", "aria-label": `${title}, ${line.metric}: ${line.said}` });
  for (const value of new Set([least, most])) {
    const said = points[values.indexOf(value)][column].textContent;
    svg.append(
      drawing("line", { class: "axis", x1: FRAME.left, x2: FRAME.width - FRAME.right, y1: y(value), y2: y(value) }),
      drawing("text", { x: FRAME.left - 6, y: y(value) + 3, "text-anchor": "end" }, said),
    );
  }
  const [first, last] = [points[0], points.at(-1)].map((cells) => cells[started].textContent.slice(0, 10));
  svg.append(
    drawing("text", { x: FRAME.left, y: FRAME.height - 6 }, first),
    drawing("text", { x: FRAME.width - FRAME.right, y: FRAME.height - 6, "text-anchor": "end" }, last),
  );
  const dots = drawing("g", { "data-series": line.metric });
  points.forEach((_, place) => dots.append(drawing("circle", { class: "dot", r: 2.2, cx: round(x(place)), cy: round(y(values[place])) })));
  svg.append(dots);
  let place = 0;
  for (const stretch of line.stretches) {
    const [from, to] = [place, place + stretch.rows.length - 1];
    if (stretch.moved) {
      const edge = (x(from - 1) + x(from)) / 2;
      svg.append(
        drawing("line", { class: "change", x1: edge, x2: edge, y1: FRAME.top - 4, y2: FRAME.height - FRAME.bottom }),
        drawing("text", { class: "said", x: edge + 3, y: FRAME.top - 6 }, stretch.moved),
      );
    }
    svg.append(drawing("line", { class: "level", x1: x(from), x2: x(to), y1: y(stretch.level), y2: y(stretch.level) }));
    place = to + 1;
  }

  const figure = element("figure");
  const box = element("div", { className: "scroll", tabIndex: 0 }, { role: "group", "aria-label": title });
  box.append(svg);
  const read = points.map((cells, at) => [
    round(x(at)), round(y(values[at])),
    `${cells[column].textContent}, ${cells[run].textContent}, ${cells[started].textContent}`,
  ]);
  figure.append(
    element("h3", { textContent: title }), box,
    element("figcaption", { textContent: `${line.metric}: ${line.said}.` }),
    element("script", { className: "points", type: "application/json", textContent: JSON.stringify([{ series: line.metric, points: read }]) }),
  );
  return figure;
}

function drawPictures(data, rows, table, metric) {
  const shown = data.trends.flatMap((trend) => {
    const line = trend.series.find((one) => one.metric === metric);
    return line === undefined || rows[trend.row].hidden ? [] : [[trend, line]];
  });
  const figures = shown.slice(0, MOST_PICTURES).map(([trend, line]) => {
    const cells = rows[trend.row].cells;
    const title = data.subject.map((name) => cells[columnOf(table, name)].textContent).join(", ");
    return picture(line, title, rows, table);
  });
  document.getElementById("pictures").replaceChildren(...figures);
  figures.forEach(offerValues);
  const words = document.getElementById("undrawn");
  words.hidden = shown.length > 0 && shown.length <= MOST_PICTURES;
  words.textContent =
    shown.length === 0
      ? "Nothing is drawn: too few of the runs chosen count, or have this metric."
      : `${MOST_PICTURES} of ${shown.length} histories are drawn, those of most runs; choose above to see others.`;
}

addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("#runs table");
  if (table === null) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = [...table.tBodies[0].rows];
  const selects = [...document.querySelectorAll("#filters select")];
  const metric = document.getElementById("metric");
  const words = document.getElementById("shown");
  const draw = () => drawPictures(data, rows, table, metric.value);
  const filter = () => {
    const choices = selects.map((select) => [select.dataset.head, select.value]);
    const shown = filterTable(table, choices);
    document.querySelectorAll("#changes table").forEach((other) => filterTable(other, choices));
    words.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} runs`;
    if (data.trends.length > 0) draw();
  };
  for (const select of selects) select.onchange = filter;
  metric.onchange = draw;
  document.getElementById("filters").hidden = false;
  document.getElementById("drawn").hidden = data.trends.length === 0;
  filter();
});
