/** The line from sound to lip as one bar on a ruler of frames: each stage as long as it takes. */

import { Surface } from "./surface.js";

const FRAME_MS = 40;
const BAR_TOP = 22;
const BAR_PX = 26;
const RULER_TOP = BAR_TOP + BAR_PX + 8;

/** @typedef {{name: string, p50: number | null, p95: number | null}} Stage */

export class Lane {
  /** @type {Stage[]} */
  #stages = [];
  /** @type {{p50: number | null, p95: number | null}} */
  #whole = { p50: null, p95: null };
  #surface;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#surface = new Surface(canvas, (surface) => this.#draw(surface));
  }

  /**
   * @param {Stage[]} stages in the order sound passes them
   * @param {{p50: number | null, p95: number | null}} whole from the first to the last
   */
  show(stages, whole) {
    this.#stages = stages;
    this.#whole = whole;
    this.#surface.redraw();
  }

  /** @param {Surface} surface */
  #draw(surface) {
    const { context, width } = surface;
    const sum = this.#stages.reduce((total, { p50 }) => total + (p50 ?? 0), 0);
    const longest = Math.max(sum, this.#whole.p95 ?? 0, 4 * FRAME_MS);
    const frames = Math.ceil((longest * 1.25) / FRAME_MS);
    const scale = (width - 2) / (frames * FRAME_MS);
    this.#drawRuler(surface, frames, scale);
    if (sum === 0) {
      surface.write("Begins with the first spoken second", 0, BAR_TOP + 18);
      return;
    }
    let x = 1;
    this.#stages.forEach(({ p50 }, i) => {
      const length = (p50 ?? 0) * scale;
      context.fillStyle = surface.colour(`stage-${i + 1}`);
      context.fillRect(x, BAR_TOP, Math.max(0, length - (length > 3 ? 1 : 0)), BAR_PX);
      x += length;
    });
    this.#drawWhole(surface, scale, x);
  }

  /**
   * @param {Surface} surface
   * @param {number} scale
   * @param {number} end where the bar ends
   */
  #drawWhole(surface, scale, end) {
    const { context } = surface;
    const { p50, p95 } = this.#whole;
    const ink = surface.colour("ink");
    if (p50 !== null) surface.write(`${Math.round(p50)} ms`, Math.max(end, 48), 14, { align: "right", colour: ink });
    if (p95 === null) return;
    const x = 1 + p95 * scale;
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, BAR_TOP - 3);
    context.lineTo(x, BAR_TOP + BAR_PX + 3);
    context.stroke();
    surface.write(`95 %: ${Math.round(p95)} ms`, x + 8, BAR_TOP + 17);
  }

  /**
   * @param {Surface} surface
   * @param {number} frames
   * @param {number} scale
   */
  #drawRuler(surface, frames, scale) {
    const { context } = surface;
    const every = Math.max(1, Math.ceil(56 / (FRAME_MS * scale)));
    context.strokeStyle = surface.colour("line-strong");
    context.lineWidth = 1;
    context.beginPath();
    for (let frame = 0; frame <= frames; frame += 1) {
      const x = Math.round(1 + frame * FRAME_MS * scale) - 0.5;
      context.moveTo(x, RULER_TOP - 3);
      context.lineTo(x, RULER_TOP + (frame % every === 0 ? 4 : 1));
    }
    context.stroke();
    for (let frame = 0; frame <= frames; frame += every) {
      const x = 1 + frame * FRAME_MS * scale;
      const align = frame === 0 ? "left" : x > surface.width - 20 ? "right" : "center";
      surface.write(frame === 0 ? "0" : `${frame * FRAME_MS}`, x, RULER_TOP + 18, { align });
    }
  }
}
