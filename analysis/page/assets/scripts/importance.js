// What explains a gain: the report's own words, and the bars of the paper's procedure behind a fold.

function showImportance() {
  const { headline, paper } = shown.importance;
  const box = place("importance");
  const part = shown.report.find((one) => one.title === "What explains a gain");
  if (!part && headline) box.append(make("p", {}, headline));
  if (part) box.append(...part.blocks.map(blockNode));
  if (paper) box.append(paperFold(paper));
}

function figure(title, note, node, drawInto) {
  const nodes = [make("h3", {}, title), ...(note ? [make("p", {}, note)] : []), scrolling(title, node)];
  requestAnimationFrame(() => drawInto(node));
  return nodes;
}

function barLayout(width, colours, rows, words, label) {
  const ticktext = rows.map((row) => {
    const [title, said] = words(row);
    return `${plain(shortened(title, width < 500 ? 18 : 34))}${said ? `  <b>${plain(said)}</b>` : ""}`;
  });
  return layoutOf(width, 90 + 30 * rows.length, colours, {
    margin: { l: 10, r: 20, t: 10, b: 50 },
    xaxis: { title: { text: label }, zeroline: true, zerolinecolor: colours.soft, zerolinewidth: 1.5 },
    yaxis: { tickvals: rows.map((_, i) => i), ticktext, range: [rows.length - 0.5, -0.5], autorange: false, showgrid: false },
  });
}

function paperFold(paper) {
  const fold = make("details", {}, make("summary", {}, paper.fold), paperFigure(paper));
  fold.addEventListener("toggle", redraw); // a plot has no width before
  return fold;
}

function paperFigure(paper) {
  const rows = paper.rows.map((values) => Object.fromEntries(paper.columns.map((name, i) => [name, values[i]])))
    .sort((a, b) => b.importance - a.importance);
  const hover = (row) => [row.title, `importance ${fixed(row.importance, 4)}, standard deviation ${fixed(row.sd, 4)}`,
    ...(row.is_stand_in ? ["not measured (random placeholder)"] : []),
    ...(row.by_chance === null ? [] : [`with facts permuted over tasks 95 % of ${row.arrangements} stay below ${fixed(row.by_chance, 4)}`])];
  return figure("Importances by the paper's procedure", paper.title, described(paper.title),
    (node) => plot(node, (width, colours) => ({
      data: [{
        type: "bar", orientation: "h", y: rows.map((_, i) => i), x: rows.map((row) => row.importance), hoverinfo: "text", width: 0.62,
        hovertext: rows.map((row) => lines(hover(row))), error_x: { type: "data", array: rows.map((row) => row.sd), color: colours.ink, thickness: 1.2, width: 4 },
        marker: { color: colours.even, pattern: { shape: rows.map((row) => (row.is_stand_in ? "/" : "")) } },
      }, {
        type: "scatter", mode: "markers", y: rows.map((_, i) => i), x: rows.map((row) => row.by_chance), hoverinfo: "skip",
        marker: { symbol: "line-ns", size: 14, line: { width: 2, color: colours.ink } },
      }],
      layout: barLayout(width, colours, rows, (row) => [row.title, row.is_stand_in ? "(not measured: random placeholder)" : ""], "decrease in R2 when permuted"),
    })));
}
