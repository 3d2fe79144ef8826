// The page of one cell: what it is, its numbers, flags, curves, predictions and how it was made.

const RUN_HEAD = [
  "seed", "score", "validation", "floor", "best epoch", "train rows", "validation rows", "test rows", "history cut", "text cut",
];

function cellPage(page) {
  const box = place("cell");
  const finished = page.runs.filter((run) => run.texts);
  box.replaceChildren(
    wayBack(),
    make("h1", { tabindex: "-1" }, page.title),
    ...(page.texts.verdict ? [make("p", { class: "verdict" }, `Verdict: ${page.texts.verdict}`)] : []),
    make("p", { class: "lead" }, sentence(page)),
    ...linksOf(page),
    ...(page.facts.length ? [make("h2", {}, "Numbers"), factList(page.facts)] : []),
    ...(page.corrections.length ? [table(["correction", "p"], page.corrections, "p by correction", [1])] : []),
    ...changesPart(page),
    make("h2", {}, "Flags"), flagList(page),
    make("h2", {}, "Training runs"), runTable(page),
  );
  if (finished.length) box.append(...curves(page), ...predictionPart(page), ...provenance(finished));
  curvePlots(page);
  const predictions = box.querySelector("[data-counts]");
  if (predictions) (page.counts.kind === "bins" ? binPlot : confusionPlot)(predictions, page.counts);
}

function sentence(page) {
  const { texts } = page;
  if (!("score" in texts)) {
    const isDone = page.runs.some((run) => run.status === "done");
    return isDone ? "There is no number to compare: a cell that it is compared with is missing, or others stand on this one."
      : "There is no result: this cell is planned, but not in the store.";
  }
  if (page.numbers.score === null) return "The score is not defined: the predictions do not vary.";
  if (!("points" in texts)) return `Scores ${texts.score} ${page.metric_name}, 95 % interval ${texts.interval}.`;
  const corrected = texts.p_bh ? `p (BH) = ${texts.p_bh}` : `p = ${texts.p}, not corrected`;
  return `Scores ${texts.score} ${page.metric_name}, against ${texts.alone} of the target alone:`
    + ` a gain of ${texts.points} points, 95 % interval ${texts.interval}, ${corrected}.`;
}

function linksOf(page) {
  const escaped = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const at = (role, intermediate, target) => pages.get([role, intermediate, target, page.setting].map(escaped).join("/"));
  const others = page.role === "baseline" ? [] : [at("baseline", "-", page.target)];
  if (page.role === "transfer") others.push(at("baseline", "-", page.intermediate), at("transfer", page.target, page.intermediate));
  const links = others.filter(Boolean).map((one) => make("li", {}, make("a", { href: cellAddress(one.id) }, one.title)));
  if (targetOf(targetAddress(page.target))) {
    links.push(make("li", {}, make("a", { href: targetAddress(page.target) }, `all intermediates of ${titleOf(page.target)}`)));
  }
  return links.length ? [make("ul", { class: "also", "aria-label": "See also" }, links)] : [];
}

function flagList(page) {
  if (!page.flags.length) return make("p", {}, "None.");
  return make("ul", {}, page.flags.map(([flag, meaning]) =>
    make("li", {}, make("span", { class: "flag" }, flag), meaning ? `: ${meaning}` : "")));
}

function runTable(page) {
  const blank = (run) => [String(run.seed), run.why, ...Array(RUN_HEAD.length - 2).fill("")];
  const rows = page.runs.map((run) => (run.texts ? [String(run.seed), ...run.texts] : blank(run)));
  return table(RUN_HEAD, rows, "Training runs", RUN_HEAD.map((_, i) => i));
}

function curves(page) {
  const found = curvesOf(page);
  if (!found.length) return [make("h2", {}, "Curves"), make("p", {}, "No history of epochs is stored.")];
  const rows = found.flatMap((one) => one.history.map((row) =>
    [one.name, String(row[0]), ...row.slice(1).map((value) => (value === null ? "not defined" : fixed(value, 3)))]));
  return [
    make("h2", {}, "Curves"),
    make("p", {}, "Epoch by epoch; the large dot is the epoch that was kept. Grey: the target alone."),
    make("div", { class: "pair" },
      make("div", {}, make("h3", {}, "Validation score"), marked("validation", "Validation score by epoch; the numbers are in the table below.")),
      make("div", {}, make("h3", {}, "Training loss"), marked("loss", "Training loss by epoch; the numbers are in the table below."))),
    make("details", {}, make("summary", {}, "Curves as a table"),
      table(["run", "epoch", "training loss", "validation score"], rows, "Curves", [1, 2, 3])),
  ];
}

function marked(name, label) {
  const node = described(label);
  node.dataset.curve = name;
  return node;
}

function curvePlots(page) {
  const found = curvesOf(page);
  const alone = page.role === "baseline" ? null
    : shown.pages.find((one) => one.role === "baseline" && one.target === page.target && one.setting === page.setting);
  for (const [name, value, label] of [["validation", 2, page.metric_name], ["loss", 1, "training loss"]]) {
    const node = place("cell").querySelector(`[data-curve=${name}]`);
    if (node) curvePlot(node, found, alone ? curvesOf(alone) : [], value, label);
  }
}

function predictionPart(page) {
  const { counts } = page;
  if (page.private) return [make("h2", {}, "Predictions"), make("p", {}, "The data of this target are private, so that its predictions are not counted here.")];
  if (!counts) return [];
  const several = page.runs.filter((run) => run.texts).length > 1 ? ", all finished seeds together" : "";
  if (counts.kind === "multilabel") return [make("h2", {}, "Predictions"), multilabelTable(counts, several)];
  const node = described(counts.kind === "bins" ? "Labels and predicted values, counted in squares." : "Confusion of classes, counted.");
  node.dataset.counts = counts.kind;
  const words = counts.kind === "bins"
    ? "Test rows by label and predicted value, counted in squares. On the dotted line a prediction is right; a flat band says that nearly the same was predicted for all."
    : "Test rows by label (down) and prediction (across). The deeper the colour, the larger the share of the label's rows; on the diagonal a prediction is right.";
  const left = counts.left_out ? make("p", {}, `${counts.left_out} rows without a finite value are not drawn.`) : null;
  return [make("h2", {}, `Predictions${several}`), make("p", {}, words), scrolling("Predictions", node), left, asTable(counts)].filter(Boolean);
}

function asTable(counts) {
  if (counts.kind === "bins") return null;
  const rows = cellsOf(counts.counts, counts.classes.length);
  return make("details", {}, make("summary", {}, "Predictions as a table"),
    table(["label", ...counts.classes], rows.map((row, r) => [counts.classes[r], ...row.map(String)]), "Predictions as a table",
      counts.classes.map((_, i) => i + 1)));
}

function multilabelTable(counts, several) {
  const head = ["class", "label and prediction", "label only", "prediction only", "neither"];
  const rows = counts.counts.map(([neither, wrong, missed, right], i) =>
    [counts.classes[i] ?? `class ${i}`, ...[right, missed, wrong, neither].map(String)]);
  return make("div", {}, make("p", {}, `Test rows that have a class${several}.`), table(head, rows, "Predictions", [1, 2, 3, 4]));
}

function provenance(runs) {
  return [
    make("h2", {}, "Provenance"),
    ...runs.map((run) => make("details", { open: runs.length === 1 },
      make("summary", {}, `Seed ${run.seed}: `, make("code", {}, run.key)), factList(run.made.map((i) => shown.made[i]), "facts made"))),
  ];
}
