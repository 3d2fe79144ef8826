// The leaderboard of intermediates: a row each, with its rank and how sure that is, as words and as a line.

const BOARD_HEAD = ["rank", "95 % interval", "intermediate", "rank and interval", "advantage", "mean gain", "targets", "gains", "harms"];

function showIntermediates() {
  const box = place("leaderboards");
  if (!shown.leaderboards.length) return void removePart("intermediates");
  for (const board of shown.leaderboards) {
    const words = board.setting === "full" ? "Intermediates by rank" : `Intermediates by rank, training data: ${board.setting}`;
    box.append(
      board.setting === "full" ? "" : make("h3", {}, `Training data: ${board.setting}`),
      board.tested ? make("p", {}, "Gains and harms are those that are significant.") : "",
      make("p", {}, board.resampled
        ? `The interval holds 95 % of the ranks when ${board.resampled} are drawn anew. It shows how far a rank depends on the choice of targets. How far it depends on chance in the training of the intermediates, it does not show.`
        : "There are too few targets for intervals: no rank is to be trusted."),
      table(board.tested ? BOARD_HEAD : BOARD_HEAD.slice(0, -2), board.rows.map((row) => boardRow(row, board.rows.length)), words, [0, 1, 4, 5, 6, 7, 8]));
  }
}

function boardRow(row, size) {
  const [rank, interval, ...others] = row.texts;
  const page = pages.get(shown.pages.find((one) => one.role === "baseline" && one.target === row.intermediate)?.id);
  const name = page ? make("a", { href: cellAddress(page.id) }, row.title) : row.title;
  return [rank, interval, name, rankLine(row, size), ...others];
}

function rankLine({ rank, low, high }, size) {
  const at = (value) => 4 + (112 * (value - 1)) / Math.max(1, size - 1);
  const node = shape("svg", { viewBox: "0 0 120 12", class: "ranks", "aria-hidden": "true" });
  node.append(shape("line", { x1: 4, x2: 116, y1: 6, y2: 6, class: "all" }));
  if (low !== null) node.append(shape("line", { x1: at(low), x2: at(high), y1: 6, y2: 6 }));
  node.append(shape("circle", { cx: at(rank), cy: 6, r: 3.5 }));
  return node;
}
