// Which part of the page is seen follows the address behind #, so that links and the back button work.

const overview = { scroll: 0, focus: null, address: "" };

function route() {
  const address = location.hash.startsWith("#/cell/") ? location.hash.slice("#/cell/".length) : null;
  const page = address === null ? null : pages.get(address);
  const target = targetOf(location.hash);
  const isCell = address !== null || target !== undefined;
  const wasCell = !place("cell").hidden;
  if (isCell && !wasCell) overview.focus = document.activeElement;
  place("overview").hidden = isCell;
  place("cell").hidden = !isCell;
  const title = page ? page.title : target === undefined ? null : titleOf(target);
  document.title = title === null ? shown.title : `${title} \u2013 ${shown.title}`;
  if (!isCell) return void showOverview(wasCell);
  if (page) cellPage(page);
  else if (target !== undefined) targetPage(target);
  else place("cell").replaceChildren(wayBack(), make("h1", { tabindex: "-1" }, "There is no such cell"));
  window.scrollTo(0, 0);
  place("cell").querySelector("h1").focus({ preventScroll: true });
}

// To where the reader came from, so that scrolling and focus are as they were.
const wayBack = () => make("a", { class: "away", href: overview.address || "#/maps" }, "\u2190 All results");

function showOverview(wasCell) {
  redraw();
  const isReturn = wasCell && location.hash === overview.address;
  overview.address = location.hash;
  if (isReturn) {
    window.scrollTo(0, overview.scroll);
    if (overview.focus?.isConnected) overview.focus.focus({ preventScroll: true });
    return;
  }
  const part = ["maps", "intermediates", "why", "curves", "cells", "caveats", "report"].find((name) => location.hash === `#/${name}` && place(name));
  if (!part) return;
  place(part).scrollIntoView();
  place(`${part}-heading`).focus({ preventScroll: true });
}

function nameScheme() {
  place("scheme").textContent = scheme() === "dark" ? "Light colours" : "Dark colours";
}

function repaint() {
  nameScheme();
  redraw();
  if (chosen.view === "table" && shown.maps.length) showMap();
}

place("scheme").addEventListener("click", () => {
  document.documentElement.dataset.scheme = scheme() === "dark" ? "light" : "dark";
  repaint();
});
document.querySelector("nav").addEventListener("click", (event) => {
  if (event.target.hash === location.hash) showOverview(false); // no change of the address tells of it
});
prefersDark.addEventListener("change", repaint);

// Headings that an address leads to stop below the bar, whose menu takes more lines on narrow screens and in large type.
function measureBar() {
  document.documentElement.style.setProperty("--bar", `${document.querySelector(".top").offsetHeight}px`);
}

new ResizeObserver(measureBar).observe(document.querySelector(".top"));

function toPaper(isPrinted) {
  printing = isPrinted;
  if (isPrinted) document.querySelectorAll("details").forEach((one) => { one.open = true; });
  repaint();
  if (shown.maps.length && !place("overview").hidden) showMap();
}

window.addEventListener("beforeprint", () => toPaper(true));
window.addEventListener("afterprint", () => toPaper(false));
prints.addEventListener("change", () => toPaper(prints.matches));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address behind # says which part is shown
  place("content").focus();
});
window.addEventListener("scroll", () => {
  if (!place("overview").hidden) overview.scroll = window.scrollY;
}, { passive: true });
window.addEventListener("hashchange", route);
history.scrollRestoration = "manual";

place("study").textContent = shown.name;
place("footer").textContent = `${shown.title}. Made from ${shown.source}; report.md has the same content.`;
nameScheme();
showReport();
showGlance();
showMaps();
showIntermediates();
showImportance();
showCurves();
showCells();
measureBar(); // now that its links have their words
route();
