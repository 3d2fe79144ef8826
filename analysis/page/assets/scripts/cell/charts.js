// The plots of a cell's page: curves over epochs, confusion of classes, values in bins.

const DASHES = ["solid", "dot", "dash", "longdash", "dashdot"];

function curvesOf(page) {
  return page.runs.flatMap((run) => (run.histories || []).map((history, fold, all) => ({
    name: `seed ${run.seed}${all.length > 1 ? `, fold ${fold + 1}` : ""}`, history, best: run.best_epoch,
  })));
}

// value: 1 for the training loss, 2 for the validation score; alone: curves of the target alone, for comparison.
function curvePlot(node, curves, alone, value, label) {
  plot(node, (width, colours) => {
    const trace = (one, i, colour, name) => ({
      type: "scatter", mode: "lines+markers", x: one.history.map((row) => row[0]), y: one.history.map((row) => row[value]),
      line: { color: colour, dash: DASHES[i % DASHES.length], width: 2 },
      marker: { color: colour, size: one.history.map((row) => (value === 2 && row[0] === one.best ? 11 : 6)) },
      hoverinfo: "text", name: plain(name),
      hovertext: one.history.map((row) => lines([name, `epoch ${row[0]}`, `${label} ${row[value] === null ? "not defined" : fixed(row[value], 3)}`])),
    });
    return {
      data: [
        ...alone.map((one, i) => trace(one, i, colours.even, `target alone, ${one.name}`)),
        ...curves.map((one, i) => trace(one, i, colours.first, one.name)),
      ],
      layout: layoutOf(width, 280, colours, {
        margin: { l: 56, r: 16, t: 34, b: 46 }, showlegend: curves.length + alone.length > 1,
        legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 12 } },
        xaxis: { title: { text: "epoch" }, dtick: curves[0].history.length > 12 ? null : 1 },
        yaxis: { title: { text: plain(label) } },
      }),
    };
  });
}

const cellsOf = (flat, size) => {
  const rows = Array.from({ length: size }, () => Array(size).fill(0));
  for (let i = 0; i < flat.length; i += 2) rows[Math.floor(flat[i] / size)][flat[i] % size] = flat[i + 1];
  return rows;
};

// Rows are labels, columns what was predicted; the colour is the share of the label's rows, the number the count.
function confusionPlot(node, counts) {
  const { classes } = counts;
  const rows = cellsOf(counts.counts, classes.length);
  const totals = rows.map((row) => row.reduce((sum, one) => sum + one, 0));
  const share = rows.map((row, r) => row.map((one) => (totals[r] ? one / totals[r] : null)));
  const short = classes.map((name) => plain(shortened(name, 18)));
  const last = classes.length - 0.5;
  const slanted = classes.length > 4;
  const ticks = { showgrid: false, tickvals: short.map((_, i) => i), ticktext: short, tickfont: { size: 11 } };
  const hovertext = rows.map((row, r) => row.map((one, c) =>
    lines([`label: ${classes[r]}`, `predicted: ${classes[c]}`, `${one} of ${totals[r]} rows`])));
  plot(node, (width, colours) => ({
    data: [{
      type: "heatmap", z: share, zmin: 0, zmax: 1, colorscale: stops(colours.counts), showscale: false, xgap: 1, ygap: 1,
      hoverinfo: "text", hovertext,
    }, squareTexts(
      rows.map((row) => row.map((one) => (classes.length > 20 && !one ? "" : String(one)))),
      share.map((row) => row.map((one) => colourAt(colours.counts, one || 0))), classes.length > 20 ? 8 : 12)],
    layout: layoutOf(width, Math.max(260, 150 + (classes.length > 20 ? 17 : 30) * classes.length), colours, {
      margin: { l: 10, r: slanted ? 50 : 10, t: 30, b: 10 },
      xaxis: {
        ...ticks, title: { text: "predicted", standoff: 14 }, side: "top", range: [-0.5, last], tickangle: slanted ? -60 : 0, ticklabeloverflow: "allow",
      },
      yaxis: { ...ticks, title: { text: "label", standoff: 14 }, range: [last, -0.5] },
    }),
  }));
}

function binPlot(node, counts) {
  const { low, high, bins } = counts;
  const size = (high - low) / bins;
  const rows = cellsOf(counts.counts, bins);
  const middle = (i) => low + size * (i + 0.5);
  const range = (i) => `${(low + size * i).toPrecision(3)} to ${(low + size * (i + 1)).toPrecision(3)}`;
  const z = rows.map((_, p) => rows.map((row) => row[p] || null)); // rows of the plot are predictions
  const hovertext = z.map((row, p) => row.map((one, l) =>
    lines([`label ${range(l)}`, `predicted ${range(p)}`, `${one} ${one === 1 ? "row" : "rows"}`])));
  plot(node, (width, colours) => {
    const side = Math.min(width, 520);
    return {
      data: [
        { type: "scatter", mode: "lines", x: [low, high], y: [low, high], hoverinfo: "skip", line: { color: colours.even, dash: "dot", width: 1.5 } },
        {
          type: "heatmap", x: rows.map((_, i) => middle(i)), y: rows.map((_, i) => middle(i)), z, hovertext, hoverinfo: "text",
          colorscale: stops(colours.counts.slice(1)), hoverongaps: false, xgap: 1, ygap: 1,
          colorbar: { thickness: 12, outlinewidth: 0, title: { text: "rows", side: "top" }, len: 0.8 },
        },
      ],
      layout: layoutOf(side, side * 0.86, colours, {
        margin: { l: 56, r: 10, t: 10, b: 50 },
        xaxis: { title: { text: "label" }, range: [low, high] }, yaxis: { title: { text: "predicted" }, range: [low, high] },
      }),
    };
  });
}
