// The report's paragraphs, as they stand in report.md.

const APART = [ // shown elsewhere on the page
  "", "In short", "At a glance", "Targets one by one", "Settings", "Appendix", "What explains a gain", "Caveats",
];
const isNumber = (text) => /^[+-]?[\d.]+( to [+-]?[\d.]+)?( %)?$|^$|^not defined$/.test(text);

function blockNode(block) {
  if (block.kind === "heading") return make(`h${block.level}`, {}, block.text);
  if (block.kind === "table") return tableNode(block);
  if (block.kind === "list") return make("ul", {}, block.items.map((runs) => make("li", {}, runNodes(runs))));
  if (block.kind === "quote") return make("blockquote", {}, runNodes(block.runs));
  if (block.kind === "figure") return figureNode(block);
  if (block.kind === "fold") return make("details", {}, make("summary", {}, block.title), block.blocks.map(blockNode));
  return make("p", {}, runNodes(block.runs));
}

// A figure that the page carries is shown as the picture that it is; of others it is said where they lie.
function figureNode({ title, file }) {
  const caption = [`${title}: drawn in `, make("code", {}, file)];
  if (!shown.figures[file]) return make("p", { class: "caption" }, caption);
  const image = make("img", { alt: `${title}. Its numbers are in ${file.replace(/png$/, "csv")}.` });
  unpacked(shown.figures[file]).then((svg) => { image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`; });
  return make("figure", {}, image, make("figcaption", { class: "caption" }, caption));
}

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const runNodes = (runs) => runs.map(([text, isStrong]) => (isStrong ? make("b", {}, text) : text));

let tables = 0; // told apart by number, for two may have one head

function tableNode({ head, rows }) {
  tables += 1;
  const numeric = head.map((_, i) => i).filter((i) => rows.length && rows.every((row) => isNumber(row[i])));
  return table(head, rows, `Table ${tables}: ${head.join(", ")}`, numeric);
}

function showReport() {
  const blocksOf = (title) => shown.report.find((part) => part.title === title)?.blocks ?? [];
  place("opening").append(...blocksOf("").map(blockNode), make("h2", {}, "In short"), ...blocksOf("In short").map(blockNode));
  place("study-facts").append(...blocksOf("Settings").map(blockNode));
  place("opening").querySelector("h1")?.setAttribute("tabindex", "-1");
  place("caveat-text").append(...blocksOf("Caveats").map(blockNode));
  place("report-text").append(...shown.report.filter((part) => !APART.includes(part.title)).map((part) =>
    make("details", {}, make("summary", {}, part.title), part.blocks.map(blockNode))));
}
