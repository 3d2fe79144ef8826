// Which answers an intermediate changed: counts by class, how the table of answers moved, and the command that shows texts.

function changesPart(page) {
  const { changes } = page;
  if (!changes) return [];
  const [better, worse] = changes.words;
  const sum = (place) => changes.rows.reduce((total, row) => total + row[place], 0);
  const seeds = changes.seeds.length > 1 ? `, seeds ${changes.seeds.join(", ")} together` : "";
  const p = changes.p < 0.0001 ? "p below .0001" : `p = ${fixed(changes.p, 4)}`;
  return [
    make("h2", {}, "Changed answers"),
    make("p", {}, `Of ${sum(1)} answers${seeds}, the intermediate made ${sum(2)} better and ${sum(3)} worse`
      + ` (exact sign test, rows as if independent: ${p}). Whether the gain is significant stands above, where whole groups are resampled.`),
    make("div", { class: "pair" },
      table(["class", "answers", better, worse], changes.rows.map((row) => row.map(String)), "Changed answers by class", [1, 2, 3]),
      ...(changes.moved ? [movedTable(changes.moved, page.counts.classes)] : [])),
    make("p", {}, "Texts are not in this file. This command shows some, from the raw files:"),
    make("pre", { tabindex: "0", "aria-label": "Command" }, make("code", {}, changes.command)),
  ];
}

// More rows of a label with their own class, or fewer with another, are to the better.
function movedTable(moved, classes) {
  const name = (i) => classes[i] ?? `class ${i}`;
  const cell = (value, r, c) => {
    const kind = value === 0 ? "number" : (value > 0) === (r === c) ? "number better" : "number worse";
    return make("td", { class: kind }, value > 0 ? `+${value}` : String(value).replace("-", "\u2212"));
  };
  return scrolling("Change of the table of answers", make("table", {},
    make("caption", {}, "Rows by label (down) and answer (across): with the intermediate less without it"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "label"), moved.map((_, i) => make("th", { scope: "col", class: "number" }, name(i))))),
    make("tbody", {}, moved.map((row, r) => make("tr", {}, make("th", { scope: "row" }, name(r)), row.map((value, c) => cell(value, r, c)))))));
}
