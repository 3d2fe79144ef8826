// The section of heatmaps: what is shown, in which order, as a picture or as a table for the keyboard.

const NARROW = 700; // px, below which the table is the better start
const chosen = { map: 0, measure: "gain", order: "study", view: window.innerWidth < NARROW ? "table" : "picture" };

function showMaps() {
  if (!shown.maps.length) return void place("map").append(make("p", {}, "The study plans no target."));
  const change = (name) => (value) => {
    chosen[name] = name === "map" ? Number(value) : value;
    showMap();
  };
  const maps = shown.maps.map((map, i) => [String(i), `${map.metric_name}, ${map.setting}`]);
  place("map-controls").append(
    picker("Targets scored by, and data", maps, "0", change("map")),
    picker("Sort tasks by", orderOptions(), chosen.order, change("order")),
    choice("Which number", [["gain", "Gains"], ["score", "Scores"]], chosen.measure, change("measure")),
    choice("How it is shown", [["picture", "Picture"], ["table", "Table"]], chosen.view, change("view")),
  );
  showMap();
  const missing = Object.entries(shown.missing);
  if (missing.length) {
    place("not-here").append(
      make("p", {}, "Not in this study, because their data are missing:"),
      make("ul", {}, missing.map(([task, why]) => make("li", {}, make("b", {}, task), `: ${why}`))));
  }
}

// On paper, where nobody can choose another one, all maps stand below each other.
function showMap() {
  const maps = isPaper() ? shown.maps : [shown.maps[chosen.map]];
  place("map").replaceChildren();
  maps.forEach((map) => mapInto(make("div", { class: "one" }), map));
}

function mapInto(box, map) {
  place("map").append(box);
  const words = map.title.replace("\n", ", ").replace("Gains in", chosen.measure === "gain" ? "Gains in" : "Scores in");
  const title = make("p", { class: "caption" }, words);
  if (chosen.view === "table") {
    const detail = make("div", { class: "detail", "aria-live": "polite" });
    tell(detail, ["Point at a square, or move among them with the arrow keys."]);
    return void box.append(title, detail, scrolling("Table of squares", squareTable(map, detail)), legend(map));
  }
  const node = described(`Heatmap. ${words}. The button Table shows the same numbers as a table.`);
  node.style.minWidth = `${Math.max(320, 190 + 36 * map.columns.length)}px`;
  box.append(title, scrolling("Heatmap", node), legend(map));
  picture(node, map, chosen.measure, chosen.order);
}

// The squares as links in a table of which one at a time is in the order of the Tab key; arrows move among them.
function squareTable(map, detail) {
  const [rows, columns] = [rowsOf(map, chosen.order), columnsOf(map, chosen.order)];
  const at = squareAt(map);
  const nodes = rows.map((row) => columns.map((column) => squareNode(at.get(`${row.id}\n${column.id}`), map, detail)));
  const body = rows.map((row, r) => make("tr", { class: rowClass(rows, r) },
    make("th", { scope: "row" }, row.title), nodes[r].map((node) => make("td", {}, node))));
  const grid = make("table", { class: "grid" },
    make("caption", { class: "caption" }, chosen.measure === "gain" ? "Gains in points" : `Scores (${map.metric_name})`),
    make("thead", {}, make("tr", {}, make("td", {}),
      columns.map((column) => make("th", { scope: "col" }, make("span", {}, column.title))))),
    make("tbody", {}, body));
  walkable(grid, nodes.flat(), (key, at) => stepped(key, at, rows.length, columns.length));
  return grid;
}

function rowClass(rows, r) {
  if (["control", "merged"].includes(rows[r].kind) && rows[r - 1].kind !== rows[r].kind) return "first-control";
  return r > 0 && rows[r - 1].kind === "alone" ? "after-alone" : null;
}

function squareNode(square, map, detail) {
  if (!square) return make("span", { tabindex: "-1" }, "");
  const { text, share } = look(square, chosen.measure, map);
  const node = make(square.page ? "a" : "span", {
    href: square.page ? cellAddress(square.page) : null, tabindex: "-1", class: STATES[square.status],
    "aria-label": [text, ...square.hover].filter(Boolean).join(". "), role: square.page ? null : "img",
    focus: () => tell(detail, square.hover), mouseenter: () => tell(detail, square.hover),
  }, text);
  if (share !== null) {
    const colour = colourAt(scaleOf(chosen.measure, palette()), share);
    node.style.backgroundColor = `rgb(${colour.join()})`;
    node.style.color = inkOn(colour);
  }
  return node;
}

const STATES = { missing: "missing", undefined: "undefined", baseline: "alone", done: null, control: null, not_planned: null };
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };

// Where a key leads from a place of a table with so many rows and columns, which it does not leave.
function stepped(key, at, rows, columns) {
  if (!(key in STEPS)) return undefined;
  const within = (value, size) => Math.min(Math.max(value, 0), size - 1);
  const [down, across] = STEPS[key];
  return within(Math.floor(at / columns) + down, rows) * columns + within((at % columns) + across, columns);
}

const tell = (node, texts) => node.replaceChildren(...texts.map((text) => make("p", {}, text)));

// What marks and fills mean, those that occur.
function legend(map) {
  const has = (test) => map.squares.some(test);
  const swatch = (kind, text) => make("span", { class: `swatch ${kind}`, "aria-hidden": "true" }, text || "");
  const level = String(shown.level).replace("0.", ".");
  const entries = [
    [has((one) => one.marks.includes("*")), swatch("", "*"), `p (BH) at most ${level}`],
    [has((one) => one.marks.includes("\u2020")), swatch("", "\u2020"), "collapsed training (this cell or its baseline)"],
    [has((one) => one.marks.includes("\u2021")), swatch("", "\u2021"), "contaminated: test items are training material"],
    [chosen.measure === "gain" && has((one) => one.status === "baseline"), swatch("alone"), "score of the target alone"],
    [has((one) => one.status === "missing"), swatch("missing"), "planned, not in the store: not trained yet, or failed"],
    [has((one) => one.status === "undefined"), swatch("undefined"), "score not defined (predictions do not vary)"],
    [has((one) => one.status === "not_planned"), swatch(""), "same task"],
    [has((one) => one.status === "control"), null, map.rows.some((row) => row.kind === "merged")
      ? "The lowest rows: controls and merged intermediates, apart from the transfers; their p is not corrected"
      : "The lowest rows: controls, apart from the transfers; their p is not corrected"],
  ];
  return make("ul", { class: "legend" },
    entries.filter(([occurs]) => occurs).map(([, mark, text]) => make("li", {}, mark, text)));
}
