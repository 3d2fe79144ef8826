// A wall of all training curves, small, of which the doubtful are shown first; each leads to its cell.

const SPARK = { width: 150, height: 48, edge: 4 };
let wall = [];

function showCurves() {
  if (!shown.pages.length) return void removePart("curves");
  wall = shown.pages.flatMap((page) => page.runs.filter((run) => run.histories?.length).map((run) => ({ page, run })));
  const of = (name) => wall.filter(({ run }) => run.doubts.includes(name)).length;
  const doubtful = wall.filter(({ run }) => run.doubts.length).length;
  place("curve-link").textContent = `Curves (${doubtful} doubtful)`;
  if (!wall.length) return void place("curve-count").append("No history of epochs is stored.");
  const options = [
    ["doubtful", `all doubtful ones (${doubtful})`],
    ...Object.entries(shown.doubts).map(([name, meaning]) => [name, `${meaning} (${of(name)})`]),
    ["all", `all curves (${wall.length})`],
  ];
  place("curve-controls").append(picker("Which curves", options, "doubtful", fillWall));
  fillWall("doubtful");
}

function fillWall(which) {
  const own = wall.filter(({ run }) => which === "all" || (which === "doubtful" ? run.doubts.length : run.doubts.includes(which)));
  place("curve-count").textContent = `${own.length} of ${wall.length} training runs`;
  place("curve-wall").replaceChildren(...own.map(({ page, run }) => make("li", {}, sparkLink(page, run))));
  walkableLinks(place("curve-wall"));
}

function sparkLink(page, run) {
  const setting = page.setting === "full" ? "" : `, ${page.setting}`;
  const name = `${page.title}${setting}, seed ${run.seed}`;
  const doubts = run.doubts.map((one) => shown.doubts[one]);
  return make("a", { href: cellAddress(page.id) },
    sparks(run), make("span", {}, name), ...doubts.map((text) => make("small", {}, text)));
}

// Each line over its own range: the validation score solid with a dot at the epoch that was kept, the training loss dashed.
function sparks(run) {
  const { width, height } = SPARK;
  const node = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", class: "sparks" });
  for (const history of run.histories) {
    node.append(line(history, 1, "loss"), line(history, 2, "validation"));
    const kept = history.findIndex((row) => row[0] === run.best_epoch);
    const [x, y] = pointsOf(history, 2)[kept] || [];
    if (y !== undefined && run.histories.length === 1) node.append(shape("circle", { cx: x, cy: y, r: 3 }));
  }
  return node;
}

const line = (history, value, kind) => shape("polyline", {
  class: kind, points: pointsOf(history, value).filter(([, y]) => y !== undefined).map((point) => point.join()).join(" "),
});

function pointsOf(history, value) {
  const { width, height, edge } = SPARK;
  const values = history.map((row) => row[value]).filter((one) => one !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (i) => edge + (history.length > 1 ? (i / (history.length - 1)) * (width - 2 * edge) : (width - 2 * edge) / 2);
  const y = (one) => height - edge - (high > low ? (one - low) / (high - low) : 0.5) * (height - 2 * edge);
  return history.map((row, i) => [Number(x(i).toFixed(1)), row[value] === null ? undefined : Number(y(row[value]).toFixed(1))]);
}
