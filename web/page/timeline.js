/** The last two minutes: sound to lip as a band from median to 95th percentile, and the kinds of frames below it. */

import { HISTORY_S, KINDS } from "./history.js";
import { Surface } from "./surface.js";

const STRIP_PX = 22;
const GAP_PX = 12;
const TOP_PX = 8;
const LEFT_PX = 34;

/** @typedef {import("./history.js").Entry} Entry */

export class Timeline {
  /** @type {Entry[]} */
  #entries = [];
  #surface;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#surface = new Surface(canvas, (surface) => this.#draw(surface));
  }

  /** @param {Entry[]} entries one a second, the newest last */
  show(entries) {
    this.#entries = entries;
    this.#surface.redraw();
  }

  /** @param {Surface} surface */
  #draw(surface) {
    const { width, height } = surface;
    const bottom = height - STRIP_PX - GAP_PX;
    const highest = Math.max(80, ...this.#entries.map(({ p95, p50 }) => p95 ?? p50 ?? 0));
    const step = [20, 40, 80, 100, 200, 400, 1000, 2000, 5000].find((size) => highest / size <= 3.2) ?? 10_000;
    const top = Math.ceil(highest / step) * step;
    const y = (/** @type {number} */ ms) => bottom - (ms / top) * (bottom - TOP_PX);
    const columnPx = (width - LEFT_PX) / HISTORY_S;
    const x = (/** @type {number} */ i) => width - (this.#entries.length - i - 0.5) * columnPx;
    this.#drawGrid(surface, step, top, y);
    this.#drawBand(surface, x, y);
    this.#drawKinds(surface, x, columnPx);
  }

  /**
   * @param {Surface} surface
   * @param {number} step
   * @param {number} top
   * @param {(ms: number) => number} y
   */
  #drawGrid(surface, step, top, y) {
    const { context, width } = surface;
    context.strokeStyle = surface.colour("line");
    context.lineWidth = 1;
    for (let ms = 0; ms <= top; ms += step) {
      const line = Math.round(y(ms)) + 0.5;
      context.beginPath();
      context.moveTo(LEFT_PX, line);
      context.lineTo(width, line);
      context.stroke();
      surface.write(ms === 0 ? "ms" : String(ms), LEFT_PX - 8, line + 4, { align: "right" });
    }
  }

  /**
   * @param {Surface} surface
   * @param {(i: number) => number} x
   * @param {(ms: number) => number} y
   */
  #drawBand(surface, x, y) {
    const { context } = surface;
    const colour = surface.colour("voiced");
    for (const run of runs(this.#entries)) {
      context.beginPath();
      run.forEach((i, n) => context[n === 0 ? "moveTo" : "lineTo"](x(i), y(this.#entries[i].p95 ?? 0)));
      for (const i of [...run].reverse()) context.lineTo(x(i), y(this.#entries[i].p50 ?? 0));
      context.closePath();
      context.globalAlpha = 0.22;
      context.fillStyle = colour;
      context.fill();
      context.globalAlpha = 1;
      context.beginPath();
      run.forEach((i, n) => context[n === 0 ? "moveTo" : "lineTo"](x(i), y(this.#entries[i].p50 ?? 0)));
      context.strokeStyle = colour;
      context.lineWidth = 2;
      context.lineJoin = "round";
      context.stroke();
    }
  }

  /**
   * @param {Surface} surface
   * @param {(i: number) => number} x
   * @param {number} columnPx
   */
  #drawKinds(surface, x, columnPx) {
    const { context, height, width } = surface;
    context.fillStyle = surface.colour("line");
    context.globalAlpha = 0.5;
    context.fillRect(LEFT_PX, height - STRIP_PX, width - LEFT_PX, STRIP_PX);
    context.globalAlpha = 1;
    this.#entries.forEach(({ counts, marks }, i) => {
      const all = KINDS.reduce((sum, kind) => sum + counts[kind], 0);
      const left = x(i) - columnPx / 2;
      let base = height;
      for (const kind of KINDS) {
        const length = all > 0 ? (counts[kind] / all) * STRIP_PX : 0;
        // A single late frame in a second must stay visible.
        const shown = kind === "late" || kind === "held" ? Math.max(length, counts[kind] > 0 ? 3 : 0) : length;
        context.fillStyle = surface.colour(kind);
        context.fillRect(left, Math.max(height - STRIP_PX, base - shown), Math.ceil(columnPx), Math.min(shown, STRIP_PX));
        base -= shown;
      }
      if (!marks.includes("interrupted")) return;
      context.fillStyle = surface.colour("ink");
      context.fillRect(left, height - STRIP_PX - 5, 2, STRIP_PX + 5);
    });
  }
}

/**
 * Stretches of entries that have figures.
 * @param {Entry[]} entries
 * @returns {number[][]} indices
 */
function runs(entries) {
  /** @type {number[][]} */
  const found = [];
  let open = false;
  entries.forEach(({ p50 }, i) => {
    if (p50 !== null && !open) found.push([]);
    open = p50 !== null;
    if (open) found[found.length - 1].push(i);
  });
  return found;
}
