// What explains a gain: the report's own words, with the features' figure and the specification curve drawn beside.

function showImportance() {
  const { headline, features, curve, paper } = shown.importance;
  const box = place("importance");
  const tested = features.filter((one) => one.added !== null);
  const part = shown.report.find((one) => one.title === "What explains a gain");
  if (!part && headline) box.append(make("p", {}, headline));
  const told = part ? part.blocks : [];
  const firstTable = told.findIndex((block) => block.kind === "table");
  const before = firstTable < 0 ? told : told.slice(0, firstTable);
  box.append(...before.map(blockNode));
  if (tested.length) box.append(...featureFigure(tested));
  const after = told.slice(before.length);
  box.append(...after.slice(0, 1).map(blockNode));
  if (curve.length) box.append(...curveFigure(curve));
  if (paper) box.append(paperFold(paper));
  const rest = after.slice(1);
  if (rest.length) box.append(make("details", {}, make("summary", {}, "Models, every specification, and notes"), rest.map(blockNode)));
}

function figure(title, note, node, drawInto) {
  const nodes = [make("h3", {}, title), ...(note ? [make("p", {}, note)] : []), scrolling(title, node)];
  requestAnimationFrame(() => drawInto(node));
  return nodes;
}

const SUPPORTED = "supported";

function featureFigure(features) {
  const rows = [...features].sort((a, b) => b.added - a.added);
  const note = "A bar to the right: without this feature, gains of families that were not seen are predicted worse. Lines are"
    + " 95 % intervals; a cross is the mean under permutation. Blue bars are supported, grey ones are not.";
  return figure("What each feature adds", note, described(`What each feature adds to Q2. ${rows.map((row) => `${row.title}: ${row.verdict}`).join(". ")}.`),
    (node) => plot(node, (width, colours) => {
      const places = rows.map((_, i) => i);
      const bars = {
        type: "bar", orientation: "h", y: places, x: rows.map((row) => row.added), hoverinfo: "text", width: 0.62,
        hovertext: rows.map((row) => lines(row.hover)),
        marker: { color: rows.map((row) => (row.verdict === SUPPORTED ? colours.gain : colours.even)) },
        error_x: {
          type: "data", symmetric: false, color: colours.ink, thickness: 1.2, width: 4,
          array: rows.map((row) => (row.high === null ? 0 : row.high - row.added)),
          arrayminus: rows.map((row) => (row.low === null ? 0 : row.added - row.low)),
        },
      };
      const chance = {
        type: "scatter", mode: "markers", y: places, x: rows.map((row) => row.null_mean), hoverinfo: "skip",
        marker: { symbol: "x-thin", size: 9, line: { width: 2, color: colours.ink } },
      };
      return { data: [bars, chance], layout: barLayout(width, colours, rows, (row) => [row.title, row.verdict], "adds to Q2") };
    }));
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

function curveFigure(curve) {
  const note = "Every line is one way in which the analysis could have been made; the first is the one that counts. Both points have to"
    + " lie right of the dotted line (p = .05).";
  return figure("Specification curve", note, described("Specification curve; its numbers are in the table of specifications below."),
    (node) => plot(node, (width, colours) => {
      const places = curve.map((_, i) => i);
      const points = (name, symbol, colour, label) => ({
        type: "scatter", mode: "markers", name: label, x: curve.map((row) => row[name]), y: places, hoverinfo: "text",
        hovertext: curve.map((row) => lines(row.hover)), marker: { symbol, size: 9, color: colour },
      });
      const smallest = Math.min(shown.level, ...curve.flatMap((row) => [row.p_tasks, row.p_families]).filter((p) => p > 0));
      const layout = barLayout(width, colours, curve, (row) => [row.title, row.passes ? "passes" : ""], "p, smaller to the right");
      return {
        data: [points("p_tasks", "circle", colours.first, "among tasks"), points("p_families", "square", colours.second, "among families")],
        layout: {
          ...layout, height: layout.height + 40, showlegend: true, legend: { orientation: "h", y: -0.25 }, margin: { ...layout.margin, b: 90 },
          xaxis: { ...layout.xaxis, type: "log", range: [Math.log10(1.15), Math.log10(smallest / 1.6)], zeroline: false, tickvals: [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001] },
          yaxis: { ...layout.yaxis, showgrid: true },
          shapes: [{ type: "line", xref: "x", yref: "paper", x0: shown.level, x1: shown.level, y0: 0, y1: 1, line: { dash: "dot", color: colours.soft } }],
        },
      };
    }));
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
