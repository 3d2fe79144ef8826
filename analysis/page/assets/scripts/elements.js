// Texts of a study reach the page as text nodes or attributes, never as HTML; what a plot shows is escaped by plain().

const shown = JSON.parse(document.getElementById("document").textContent);
const tasks = new Map(shown.tasks.map((task) => [task.id, task]));
const pages = new Map(shown.pages.map((page) => [page.id, page]));

const place = (id) => document.getElementById(id);

// A part of the page that there is nothing for, with the link that leads to it.
function removePart(name) {
  place(name).remove();
  [...document.querySelectorAll("nav a")].find((link) => link.hash === `#/${name}`)?.remove();
}

// An element with attributes (a function is a listener) and children, which are nodes or texts.
function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// A number with so many decimals; nothing is shown as -0.
function fixed(value, digits) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

// Plotly reads some tags and entities in its texts: make them harmless.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const lines = (texts) => texts.map(plain).join("<br>");
const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}\u2026` : text);

const cellAddress = (id) => `#/cell/${id}`;
const titleOf = (task) => (tasks.has(task) ? tasks.get(task).title : task);

const LONG = 32; // letters from which on a text gets lines of its own

// A table inside a box that scrolls by itself, so that the page never does sideways.
function table(head, rows, label, numeric = []) {
  const kind = (column) => (numeric.includes(column) ? { class: "number" } : {});
  const cell = (text, column) => (text.length > LONG ? { class: "long" } : kind(column));
  return scrolling(
    label,
    make("table", {},
      make("thead", {}, make("tr", {}, head.map((text, i) => make("th", { scope: "col", ...kind(i) }, text)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map((text, i) => make("td", cell(text, i), text)))))),
  );
}

function scrolling(label, ...children) {
  return make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, ...children);
}

function picker(label, options, chosen, changed) {
  const select = make("select", { change: () => changed(select.value) },
    options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
  return make("label", {}, label, select);
}

// Two or more buttons of which one is pressed.
function choice(label, options, chosen, changed) {
  const buttons = options.map(([value, text]) =>
    make("button", { type: "button", "aria-pressed": String(value === chosen), click: () => press(value) }, text));
  const press = (value) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i][0] === value)));
    changed(value);
  };
  return make("div", { class: "group", role: "group", "aria-label": label }, buttons);
}

function factList(facts, kind = "facts") {
  return make("dl", { class: kind },
    facts.map(([what, text]) => make("div", {}, make("dt", {}, what), make("dd", {}, text))));
}

// Of many stops in a box one stands in the order of the Tab key. Keys move among them: next says where to, as a place.
function walkable(box, stops, next) {
  stops.forEach((stop, i) => stop.setAttribute("tabindex", i ? "-1" : "0"));
  box.onkeydown = (event) => {
    const at = stops.indexOf(event.target);
    const to = at < 0 ? undefined : stops[next(event.key, at)];
    if (!to) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  };
}

// The links of a list, one after the other.
function walkableLinks(box) {
  const links = [...box.querySelectorAll("a")];
  walkable(box, links, (key, at) =>
    ({ ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: links.length - 1 })[key]);
}
