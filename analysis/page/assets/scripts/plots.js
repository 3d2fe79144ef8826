// Every plot is drawn when it first comes near what is seen, by a function that is called again when the width, the
// colours or the medium change; until then the page keeps its height free.

const PRINT_WIDTH = 660; // px, of a page of A4 between its margins
const drawn = new Map();
const near = new WeakSet(); // plots that have come near what is seen

const nearing = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    nearing.unobserve(target);
    near.add(target);
    if (drawn.has(target)) draw(target);
  }
}, { rootMargin: "400px" });

function plot(node, build, clicked) {
  node.classList.add("plot");
  drawn.set(node, { build, clicked });
  draw(node);
  nearing.observe(node);
  return node;
}

function draw(node) {
  const width = isPaper() ? PRINT_WIDTH : node.clientWidth;
  if (!node.isConnected) return forget(node);
  if (!width) return; // in a part that is not seen now
  const { build, clicked } = drawn.get(node);
  const { data, layout } = build(width, palette());
  node.style.minHeight = `${layout.height}px`;
  if (!near.has(node) && !isPaper()) return;
  Plotly.react(node, data, layout, { displayModeBar: false, responsive: false, doubleClick: false });
  node.removeAllListeners("plotly_click");
  if (clicked) node.on("plotly_click", clicked);
}

function forget(node) {
  drawn.delete(node);
  nearing.unobserve(node);
  Plotly.purge(node);
}

const redraw = () => [...drawn.keys()].forEach(draw);

// A layout in the page's own colours and letters, which nobody can drag or zoom by accident.
function layoutOf(width, height, colours, more) {
  const axis = {
    fixedrange: true, zeroline: false, gridcolor: colours.line, linecolor: colours.soft, ticks: "", automargin: true,
  };
  const font = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: colours.ink };
  return {
    width, height, font, dragmode: false, showlegend: false, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { align: "left", bgcolor: colours.card, bordercolor: colours.soft, font: { ...font, size: 13 }, namelength: 0 },
    ...more,
    xaxis: { ...axis, ...more.xaxis },
    yaxis: { ...axis, ...more.yaxis },
    ...(more.xaxis2 ? { xaxis2: { ...axis, ...more.xaxis2 }, yaxis2: { ...axis, ...more.yaxis2 } } : {}),
  };
}

// The texts of squares, each in the ink that is readable on its fill; colours are [red, green, blue].
function squareTexts(texts, fills, size) {
  const found = texts.flatMap((row, y) => row.map((text, x) => ({ x, y, text: plain(text), ink: inkOn(fills[y][x]) })));
  const kept = found.filter((one) => one.text);
  return {
    type: "scatter", mode: "text", hoverinfo: "skip", cliponaxis: false, x: kept.map((one) => one.x), y: kept.map((one) => one.y),
    text: kept.map((one) => one.text), textfont: { size, color: kept.map((one) => one.ink) },
  };
}

const described = (label) => make("div", { role: "img", "aria-label": label });

let waiting = 0;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(redraw, 150);
});
