/** The level meter: a row of segments that light up with the microphone. */

import { Surface } from "./surface.js";

const FLOOR_DB = -60;
const WARM_DB = -9;
const SEGMENT_PX = 8;
const SPOKEN_EVERY_MS = 500;
const FALL_DB_PER_FRAME = 1.2;

export class Meter {
  #canvas;
  #surface;
  #read;
  #levelDb = FLOOR_DB;
  #spokenMs = 0;
  /** @type {number | null} */
  #frame = null;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => number} read level now in dB, -60 to 0
   */
  constructor(canvas, read) {
    this.#canvas = canvas;
    this.#read = read;
    this.#surface = new Surface(canvas, (surface) => this.#draw(surface));
  }

  start() {
    if (this.#frame === null) this.#frame = requestAnimationFrame((now) => this.#tick(now));
  }

  stop() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#levelDb = FLOOR_DB;
    this.#surface.redraw();
  }

  /** @param {number} nowMs */
  #tick(nowMs) {
    this.#levelDb = Math.max(this.#read(), this.#levelDb - FALL_DB_PER_FRAME, FLOOR_DB);
    this.#surface.redraw();
    if (nowMs - this.#spokenMs > SPOKEN_EVERY_MS) {
      this.#spokenMs = nowMs;
      this.#canvas.setAttribute("aria-valuenow", String(Math.round(this.#levelDb)));
    }
    this.#frame = requestAnimationFrame((now) => this.#tick(now));
  }

  /** @param {Surface} surface */
  #draw(surface) {
    const { context, width, height } = surface;
    const segments = Math.floor(width / SEGMENT_PX);
    const lit = ((this.#levelDb - FLOOR_DB) / -FLOOR_DB) * segments;
    const warm = ((WARM_DB - FLOOR_DB) / -FLOOR_DB) * segments;
    const [off, on, hot] = [surface.colour("line"), surface.colour("voiced"), surface.colour("held")];
    for (let i = 0; i < segments; i += 1) {
      context.fillStyle = i >= lit ? off : i >= warm ? hot : on;
      context.fillRect(i * SEGMENT_PX, 0, SEGMENT_PX - 2, height);
    }
  }
}
