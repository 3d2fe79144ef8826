// Figures that come as a drawing plan: this draws its marks, layer by layer, and decides nothing.

const SVG = place("drawing").namespaceURI;
const glance = { setting: 0, order: "family" };

function shape(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// A function per kind of mark; paint makes a colour's attribute of its place among the plan's colours.
const MARKS = {
  b: ([x, y, width, height, fill, edge, line], paint) =>
    shape("rect", { x, y, width, height, fill: paint(fill), stroke: paint(edge), "stroke-width": line }),
  d: ([cx, cy, r, fill, edge, line], paint) =>
    shape("circle", { cx, cy, r, fill: paint(fill), stroke: paint(edge), "stroke-width": line }),
  l: ([x1, y1, x2, y2, colour, line], paint) => shape("line", { x1, y1, x2, y2, stroke: paint(colour), "stroke-width": line }),
  t: ([corners, fill, edge, line], paint) =>
    shape("polygon", { points: corners.join(" "), fill: paint(fill), stroke: paint(edge), "stroke-width": line }),
  s: ([x, y, text, size, anchor, turn, colour, isBold, width], paint) => shape("text", {
    x, y, fill: paint(colour), "font-size": size, "text-anchor": anchor === "start" ? null : anchor,
    "font-weight": isBold ? 700 : null, transform: turn ? `rotate(${-turn} ${x} ${y})` : null,
    textLength: width, lengthAdjust: "spacingAndGlyphs", // letters as wide as they were planned, in any font
  }, text),
};

function planNode(plan) {
  const paint = (place) => plan.colours[place] || "none";
  const layers = Object.entries(plan.layers).map(([name, marks]) => {
    const layer = shape("g", { class: `layer-${name}` });
    layer.append(...marks.map(([kind, ...fields]) => MARKS[kind](fields, paint)));
    return layer;
  });
  const node = shape("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img", "aria-label": plan.alt, class: "plan" });
  node.append(...layers);
  node.style.setProperty("--points", plan.width);
  return node;
}

// What its marks mean, in lines as long as the page has room for; the figure itself may be wider than a phone.
function planLegend(plan) {
  const paint = (place) => plan.colours[place] || "none";
  const key = ([width, marks]) => {
    const node = shape("svg", { viewBox: `-1 0 ${width + 2} 11`, class: "key", "aria-hidden": "true" });
    node.style.setProperty("--points", width + 2);
    node.append(...marks.map(([kind, ...fields]) => MARKS[kind](fields, paint)));
    return node;
  };
  return make("ul", { class: "legend" }, plan.legend.map(([width, marks, text]) =>
    make("li", {}, width ? key([width, marks]) : null, make("span", {}, text))));
}

const glanceSettings = () => [...new Set(shown.plans.map((one) => one.setting))];

function showGlance() {
  document.querySelectorAll(`[data-map="${shown.plans.length ? "none" : "some"}"]`).forEach((one) => one.remove());
  if (!shown.plans.length) {
    if (shown.targets.length) place("map").after(targetLinks());
    return void place("glance").remove();
  }
  const settings = glanceSettings();
  const isOrdered = shown.plans.some((one) => one.order === "median");
  if (settings.length > 1) {
    place("glance-controls").append(picker("Training data", settings.map((name, i) => [String(i), name]), "0", (value) => {
      glance.setting = Number(value);
      drawGlance();
    }));
  }
  if (isOrdered) {
    place("glance-controls").append(choice("Order", [["family", "By family"], ["median", "By median gain"]], glance.order, (value) => {
      glance.order = value;
      drawGlance();
    }));
  }
  const section = shown.report.find((part) => part.title === "At a glance");
  place("glance-words").append(...(section ? section.blocks : []).filter((block) => block.kind === "text").map(blockNode));
  place("glance-words").append(targetLinks());
  drawGlance();
}

// All intermediates of one target, as a figure and as a table.
const targetAddress = (id) => `#/target/${encodeURIComponent(id)}`;
const targetOf = (address) => shown.targets.find((one) => targetAddress(one.target) === address)?.target;

function targetPage(id) {
  const parts = shown.targets.filter((one) => one.target === id).flatMap(({ setting, words, head, rows, plan }, i) => {
    const lines = rows.map(({ intermediate, page, texts }) =>
      [page ? make("a", { href: cellAddress(page) }, titleOf(intermediate)) : titleOf(intermediate), ...texts]);
    const numeric = head.map((name, at) => (["verdict", "flags"].includes(name) ? 0 : at)).filter(Boolean);
    return [
      setting === "full" ? null : make("h2", {}, `Training data: ${setting}`),
      i ? null : make("p", {}, words),
      ...(plan ? [scrolling(`Figure of the gains, ${setting}`, planNode(plan)), planLegend(plan)] : []),
      table(head, lines, `Table of the gains, ${setting}`, numeric),
    ].filter(Boolean);
  });
  place("cell").replaceChildren(wayBack(), make("h1", { tabindex: "-1" }, `${titleOf(id)}: all intermediates`), ...parts);
}

// The links to these pages stand below the map at a glance or, where there is none, below the heatmap.
function targetLinks() {
  const targets = [...new Set(shown.targets.map((one) => one.target))];
  return make("div", { id: "target-links" }, make("p", {}, "All intermediates of one target:"),
    make("ul", { class: "also", "aria-label": "Targets" },
      targets.map((id) => make("li", {}, make("a", { href: targetAddress(id) }, titleOf(id))))));
}

function drawGlance() {
  const setting = glanceSettings()[glance.setting];
  const own = shown.plans.filter((one) => one.setting === setting);
  const map = own.find((one) => one.order === glance.order) || own[0];
  const node = planNode(map.plan);
  const detail = make("div", { class: "detail", "aria-live": "polite" });
  tell(detail, ["Point at a square for its numbers; click for details."]);
  const squares = new Map(shown.maps.filter((one) => one.setting === setting).flatMap((one) =>
    one.squares.map((square) => [`${square.row}\n${square.column}`, square])));
  const places = [...node.querySelector(".layer-ground").children].slice(0, map.rows.length * map.columns.length);
  const at = new Map(places.map((one, i) =>
    [one, squares.get(`${map.rows[Math.floor(i / map.columns.length)]}\n${map.columns[i % map.columns.length]}`)]));
  node.addEventListener("mouseover", (event) => at.get(event.target) && tell(detail, at.get(event.target).hover));
  node.addEventListener("click", (event) => {
    if (at.get(event.target)?.page) location.hash = cellAddress(at.get(event.target).page);
  });
  places.forEach((one) => one.classList.toggle("opens", Boolean(at.get(one)?.page)));
  makeLinks(node, places, at, map.columns.length, detail);
  place("glance-map").replaceChildren(scrolling("Map of gains", node), planLegend(map.plan), detail);
}

// The squares that open a page are links, of which one stands in the order of the Tab key; arrows move among them.
function makeLinks(node, places, at, across, detail) {
  node.setAttribute("role", "group");
  const opens = places.filter((one) => at.get(one)?.page);
  for (const one of opens) {
    const { hover } = at.get(one);
    for (const [name, value] of [["role", "link"], ["aria-label", hover.join(". ")]]) one.setAttribute(name, value);
    one.addEventListener("focus", () => tell(detail, hover));
  }
  walkable(node, opens, (key, at) => {
    const step = { ArrowUp: -across, ArrowDown: across, ArrowLeft: -1, ArrowRight: 1 }[key];
    let next = places.indexOf(opens[at]) + step;
    if (places[next] && !opens.includes(places[next])) next += step; // the square of a task with itself
    return opens.indexOf(places[next]);
  });
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  });
}
