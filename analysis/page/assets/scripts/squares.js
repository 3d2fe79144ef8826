// A heatmap, drawn as a picture or built as a table of links; both show the same squares in the same colours.

const WIDEST = 92; // px of a square
const LETTER = 8; // px that a letter of a label takes at most
const LABELS = 230; // px that the labels of rows may take
const WORDS = { missing: "\u2026", undefined: "n/d", not_planned: "", done: "", baseline: "", control: "" };
const isGain = (square) => square.points !== null && (square.status === "done" || square.status === "control");

// How a square looks under a measure: its text, and the share of the colour scale, null for none.
function look(square, measure, map) {
  const score = square.score_text + square.marks;
  if (measure === "score") {
    return { text: square.score === null ? WORDS[square.status] : score, share: shareOfScore(square.score, map) };
  }
  if (!isGain(square)) return { text: square.score === null ? WORDS[square.status] : score, share: null };
  return { text: square.points_text + square.marks, share: (square.points / map.limit + 1) / 2 };
}

function scoreRange(map) {
  const scores = map.squares.map((square) => square.score).filter((score) => score !== null);
  return scores.length ? [Math.min(...scores), Math.max(...scores)] : [0, 1];
}

function shareOfScore(score, map) {
  const [low, high] = scoreRange(map);
  return score === null ? null : high > low ? (score - low) / (high - low) : 0.5;
}

const scaleOf = (measure, colours) => (measure === "score" ? SCORES : colours.diverging);
const squareAt = (map) => new Map(map.squares.map((one) => [`${one.row}\n${one.column}`, one]));

function picture(node, map, measure, order) {
  const [rows, columns] = [rowsOf(map, order), columnsOf(map, order)];
  const at = squareAt(map);
  const grid = rows.map((row) => columns.map((column) => at.get(`${row.id}\n${column.id}`)));
  const clicked = (event) => {
    const [row, column] = event.points[0].pointIndex;
    if (grid[row][column]?.page) location.hash = cellAddress(grid[row][column].page);
  };
  return plot(node, (width, colours) => ({
    data: traces(grid, map, measure, colours, Math.min(12, Math.max(7, (width - LABELS) / columns.length / 3.6))),
    layout: mapLayout(Math.min(width, 330 + WIDEST * columns.length), rows, columns, measure, map, colours),
  }), clicked);
}

function traces(grid, map, measure, colours, letterSize) {
  const looks = grid.map((row) => row.map((square) => (square ? look(square, measure, map) : { text: "", share: null })));
  const hovertext = grid.map((row) => row.map((square) => (square ? lines(square.hover) : "")));
  const common = {
    type: "heatmap", hoverinfo: "text", hovertext, xgap: 1.5, ygap: 1.5,
    hoverongaps: false, showscale: false, zmin: 0, zmax: 1,
  };
  const fill = (one, square) => {
    if (one.share !== null) return colourAt(scaleOf(measure, colours), one.share);
    return channels(square && square.score !== null ? colours.plain : colours.blank);
  };
  const fills = looks.map((row, r) => row.map((one, c) => fill(one, grid[r][c])));
  const grey = (square, share) => (share === null && square ? (square.score === null ? 0 : 1) : null);
  return [
    {
      ...common, z: looks.map((row, r) => row.map((one, c) => grey(grid[r][c], one.share))),
      colorscale: [[0, colours.blank], [1, colours.plain]],
    },
    {
      ...common, z: looks.map((row) => row.map((one) => one.share)), showscale: true,
      colorscale: stops(scaleOf(measure, colours)), colorbar: colourBar(map, measure, colours),
    },
    hatch(grid, colours),
    squareTexts(looks.map((row) => row.map((one) => one.text)), fills, letterSize),
  ];
}

function colourBar(map, measure, colours) {
  const [low, high] = measure === "score" ? scoreRange(map) : [-map.limit, map.limit];
  const shares = measure === "score" ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const words = (value) => (measure === "score" ? fixed(value, 2) : `${value > 0 ? "+" : ""}${fixed(value, 1)}`);
  const label = measure === "score" ? `score (${map.metric_name})` : "harm   \u2190   points   \u2192   gain";
  return {
    orientation: "h", thickness: 12, len: 0.62, outlinewidth: 0, y: 0, yanchor: "top", ypad: 16,
    tickvals: shares, ticktext: shares.map((share) => words(low + share * (high - low))),
    title: { text: label, side: "bottom", font: { size: 12, color: colours.soft } }, tickfont: { size: 11 },
  };
}

// Squares without a number are hatched, as on paper.
function hatch(grid, colours) {
  const [x, y] = [[], []];
  grid.forEach((row, r) => row.forEach((square, c) => {
    if (!square || !["missing", "undefined"].includes(square.status)) return;
    x.push(c - 0.47, c + 0.47, c + 0.47, c - 0.47, c - 0.47, null);
    y.push(r - 0.46, r - 0.46, r + 0.46, r + 0.46, r - 0.46, null);
  }));
  return {
    type: "scatter", mode: "lines", x, y, fill: "toself", hoverinfo: "skip", line: { color: colours.line, width: 1 },
    fillpattern: { shape: "/", size: 7, solidity: 0.16, fgcolor: colours.soft, bgcolor: colours.blank },
  };
}

function mapLayout(width, rows, columns, measure, map, colours) {
  const [across, down] = width < 560 || isPaper() ? [18, 24] : [26, 40]; // letters of a title that there is room for
  const ticks = (items, length) => ({
    tickvals: items.map((_, i) => i), ticktext: items.map((one) => plain(shortened(one.title, length))),
    range: [-0.5, items.length - 0.5], showgrid: false,
  });
  const line = (y) => ({
    type: "line", xref: "x", yref: "y", x0: -0.5, x1: columns.length - 0.5, y0: y, y1: y, line: { color: colours.ink, width: 2 },
  });
  const longest = Math.max(...columns.map((column) => Math.min(column.title.length, across)));
  const slanted = LETTER * longest > (width - LABELS) / columns.length;
  const firstControl = rows.findIndex((row) => row.kind === "control");
  return layoutOf(width, 190 + (isPaper() ? 24 : 29) * rows.length, colours, {
    margin: { l: 10, r: slanted ? (isPaper() ? 55 : 90) : 10, t: 20, b: 80 },
    xaxis: { ...ticks(columns, across), side: "top", ticklabeloverflow: "allow", tickangle: slanted ? -45 : 0 },
    yaxis: { ...ticks(rows, down), autorange: false, range: [rows.length - 0.5, -0.5] },
    shapes: [line(0.5), ...(firstControl > 0 ? [line(firstControl - 0.5)] : [])],
  });
}
