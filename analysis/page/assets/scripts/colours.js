// Colours of both schemes. Blue is for gain and red for harm, which all common kinds of colour vision tell apart, and
// for nothing else; what is neither is green and purple.

const LIGHT = {
  ink: "#1d2126", soft: "#565d66", line: "#dddad2", card: "#ffffff", plain: "#e4e2de", blank: "#ffffff",
  gain: "#2166ac", harm: "#b2182b", even: "#8d949c", first: "#1b7837", second: "#762a83",
  diverging: ["#b2182b", "#ef8a62", "#fddbc7", "#f6f4f1", "#d1e5f0", "#67a9cf", "#2166ac"],
  counts: ["#f4f6f8", "#c6dbef", "#6baed6", "#2171b5", "#08306b"],
};
const DARK = {
  ink: "#e8e6e1", soft: "#a9afb8", line: "#353b43", card: "#1e2227", plain: "#3a4048", blank: "#16191d",
  gain: "#7db8ff", harm: "#ff8f73", even: "#8d949c", first: "#7fbf7b", second: "#c2a5cf",
  diverging: ["#ff9a7f", "#cf5f45", "#6d3a30", "#2a2e35", "#2f4a68", "#4a80bd", "#8fc4ff"],
  counts: ["#22272d", "#23415f", "#2f6ba3", "#64a4e0", "#d3e8ff"],
};
const SCORES = ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"]; // cividis

let printing = false; // between the browser's two events around a print
const prints = window.matchMedia("print");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const scheme = () => document.documentElement.dataset.scheme || (prefersDark.matches ? "dark" : "light");
const isPaper = () => printing || prints.matches;
const palette = () => (scheme() === "dark" && !isPaper() ? DARK : LIGHT);
const stops = (colours) => colours.map((colour, i) => [i / (colours.length - 1), colour]);

const channels = (colour) => [1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16));

// The colour at a share from 0 to 1 of a row of colours, as [red, green, blue].
function colourAt(colours, share) {
  const at = Math.min(1, Math.max(0, share)) * (colours.length - 1);
  const below = Math.min(Math.floor(at), colours.length - 2);
  const [a, b] = [channels(colours[below]), channels(colours[below + 1])];
  return a.map((value, i) => Math.round(value + (b[i] - value) * (at - below)));
}

// Black or white, whichever is easier to read on a colour (relative luminance of WCAG).
function inkOn(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
