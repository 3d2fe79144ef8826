// The table of all cells: filtered by a text and by choices, sorted by any column.

const COLUMNS = [
  ["Intermediate", "name"], ["Target", "target"], ["Kind", "role"], ["Data", "setting"], ["Seed", "seed"],
  ["Score", "score"], ["Gain", "points"], ["95 % interval", "low"], ["p (BH)", "p_bh"], ["Status", "status"],
  ["Flags", "flags"],
];
const NUMERIC = ["seed", "score", "points", "low", "p_bh"];
const sorting = { by: null, falling: false };
const filters = { text: "", role: "", setting: "", target: "", theme: "", status: "" };
let cellRows = [];

function cellObjects() {
  const { columns, rows, pages: addresses } = shown.cells;
  return rows.map((values, i) => {
    const cell = Object.fromEntries(columns.map((name, c) => [name, values[c]]));
    const page = pages.get(addresses[i]);
    const run = page.runs.find((one) => one.key === cell.key);
    const isGain = "points" in page.texts;
    return {
      ...cell, page, name: cell.intermediate ? titleOf(cell.intermediate) : null, flag: page.flags.length > 0,
      points: page.numbers.points ?? null, p_bh: page.numbers.p_bh ?? null, low: isGain ? page.numbers.low ?? null : null,
      texts: {
        name: cell.intermediate ? titleOf(cell.intermediate) : "none", target: titleOf(cell.target), role: cell.role,
        setting: cell.setting, seed: String(cell.seed), score: run.texts ? run.texts[0] : "",
        points: isGain ? page.texts.points : "", low: isGain ? page.texts.interval : "", p_bh: page.texts.p_bh || "",
        status: cell.status === "missing" ? run.why : "finished", flags: page.flags.map(([flag]) => flag).join(", "),
      },
    };
  });
}

function showCells() {
  if (!shown.cells.rows.length) return void removePart("cells");
  cellRows = cellObjects();
  const distinct = (name) => [...new Set(cellRows.map((cell) => cell[name]))];
  const any = (options) => [["", "any"], ...options.map((one) => (Array.isArray(one) ? one : [one, one]))];
  const themes = [...new Set(shown.tasks.map((task) => task.theme))].filter(Boolean);
  const filter = (label, name, options) => picker(label, any(options), "", (value) => {
    filters[name] = value;
    fillCells();
  });
  const search = make("input", {
    type: "search", placeholder: "part of a name or flag",
    input: () => {
      filters.text = search.value;
      fillCells();
    },
  });
  place("cell-controls").append(
    make("label", {}, "Find", search),
    filter("Target", "target", distinct("target").map((id) => [id, titleOf(id)])),
    filter("Theme of the target", "theme", themes),
    filter("Kind", "role", distinct("role")),
    filter("Data", "setting", distinct("setting")),
    filter("Show", "status", [
      ["done", "finished"], ["missing", "missing"], ["gain", "significant gains"], ["harm", "significant harms"], ["flagged", "flagged"],
    ]),
  );
  fillCells();
}

const SHOWS = {
  "": () => true,
  done: (cell) => cell.status === "done",
  missing: (cell) => cell.status === "missing",
  gain: (cell) => cell.p_bh !== null && cell.p_bh <= shown.level && cell.points > 0,
  harm: (cell) => cell.p_bh !== null && cell.p_bh <= shown.level && cell.points < 0,
  flagged: (cell) => cell.flag,
};

function isShown(cell) {
  const words = Object.values(cell.texts).join(" ").toLowerCase();
  const same = (name, value) => !filters[name] || filters[name] === value;
  return words.includes(filters.text.trim().toLowerCase()) && same("role", cell.role) && same("setting", cell.setting)
    && same("target", cell.target) && same("theme", tasks.get(cell.target).theme) && SHOWS[filters.status](cell);
}

function sorted(rows) {
  if (!sorting.by) return rows;
  const value = (cell) => {
    const found = NUMERIC.includes(sorting.by) ? cell[sorting.by] : cell.texts[sorting.by] || null;
    return sorting.falling && typeof found === "number" ? -found : found;
  };
  const turn = sorting.falling && !NUMERIC.includes(sorting.by) ? -1 : 1;
  return [...rows].sort((a, b) => turn * compare(value(a), value(b)));
}

function fillCells() {
  const rows = sorted(cellRows.filter(isShown));
  place("cell-count").textContent = `${rows.length} of ${cellRows.length} cells`;
  const kind = (name) => (NUMERIC.includes(name) ? "number" : null);
  const head = COLUMNS.map(([label, name]) => make("th", {
    scope: "col", class: kind(name), "aria-sort": sorting.by === name ? (sorting.falling ? "descending" : "ascending") : null,
  }, make("button", { type: "button", click: () => sortBy(name) }, label, arrow(name))));
  const body = rows.map((cell) => make("tr", {}, COLUMNS.map(([, name]) => (name === "target"
    ? make("th", { scope: "row" }, make("a", { href: cellAddress(cell.page.id), "aria-label": `${cell.page.title}, seed ${cell.seed}` }, cell.texts.target))
    : make("td", { class: kind(name) }, cell.texts[name])))));
  const box = make("div", { class: "stick list", role: "region", "aria-label": "Table of cells", tabindex: "0" },
    make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)));
  place("cell-table").replaceChildren(box);
  walkableLinks(box);
}

const arrow = (name) => (sorting.by === name ? (sorting.falling ? " \u2193" : " \u2191") : "");

// Numbers begin with the largest, but for p and seeds; a second press turns the order.
function sortBy(name) {
  const first = ["score", "points", "low"].includes(name);
  sorting.falling = sorting.by === name ? !sorting.falling : first;
  sorting.by = name;
  fillCells();
  const column = COLUMNS.findIndex(([, one]) => one === name);
  place("cell-table").querySelectorAll("th button")[column].focus();
}
