// In which order the tasks of a heatmap stand.

const COLLATOR = new Intl.Collator("en", { numeric: true });

function orderOptions() {
  const rated = [...shown.constructs.map((one) => [one.id, one.title]), ["overall", "all constructs"]]
    .filter(([id]) => shown.tasks.some((task) => typeof task.ratings[id] === "number"));
  return [
    ["study", "as in the study"], ["theme", "theme"], ["dataset", "dataset"], ["name", "name"],
    ["score", "score alone"], ["gain", "mean gain"],
    ...rated.map(([id, title]) => [`rating:${id}`, `rating: ${title}`]),
  ];
}

// Ids of tasks in the chosen order; numbers fall, and tasks without one come last. isRow: as intermediates.
function ordered(ids, order, map, isRow) {
  const study = new Map(shown.tasks.map((task, i) => [task.id, i]));
  const key = keyOf(order, map, isRow);
  const keys = new Map(ids.map((id) => [id, key(id)]));
  return [...ids].sort((a, b) => compare(keys.get(a), keys.get(b)) || study.get(a) - study.get(b));
}

function keyOf(order, map, isRow) {
  const falling = (value) => (typeof value === "number" ? -value : null);
  if (order === "theme") return (id) => (tasks.get(id).theme ? themePlace(tasks.get(id).theme) : null);
  if (order === "dataset") return (id) => tasks.get(id).dataset;
  if (order === "name") return (id) => tasks.get(id).title;
  if (order === "score") return (id) => falling(scoreAlone(id, map.setting));
  if (order === "gain") return (id) => falling(meanGain(id, map, isRow));
  if (order.startsWith("rating:")) return (id) => falling(tasks.get(id).ratings[order.slice(7)]);
  return () => 0;
}

const themePlace = (theme) => (shown.themes.includes(theme) ? shown.themes.indexOf(theme) : shown.themes.length);

function scoreAlone(id, setting) {
  const same = shown.maps.filter((map) => map.setting === setting).flatMap((map) => map.squares);
  return same.find((square) => square.row === "" && square.column === id)?.score;
}

function meanGain(id, map, isRow) {
  const own = map.squares.filter((square) => square.status === "done" && (isRow ? square.row : square.column) === id);
  const points = own.map((square) => square.points).filter((value) => value !== null);
  return points.length ? points.reduce((sum, value) => sum + value, 0) / points.length : null;
}

// What is missing comes last, numbers by size, texts as a dictionary has them.
function compare(a, b) {
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return noA - noB;
  return typeof a === "number" && typeof b === "number" ? a - b : COLLATOR.compare(a, b);
}

// Rows of a map in order: targets alone, intermediates, controls, merged intermediates.
function rowsOf(map, order) {
  const of = (kind) => map.rows.filter((row) => row.kind === kind);
  const titles = new Map(map.rows.map((row) => [row.id, row]));
  const sorted = ordered(of("transfer").map((row) => row.id), order, map, true).map((id) => titles.get(id));
  return [...of("alone"), ...sorted, ...of("control"), ...of("merged")];
}

function columnsOf(map, order) {
  const titles = new Map(map.columns.map((column) => [column.id, column]));
  return ordered(map.columns.map((column) => column.id), order, map, false).map((id) => titles.get(id));
}
