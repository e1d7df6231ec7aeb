/** The regular business of a live link: pings, figures, the browser's report to the server, the frame watchdog. */

import { FrameWatchdog } from "./watchdog.js";

const POLL_MS = 500;
const PING_POLLS = 2;
const REPORT_POLLS = 4;
const FRAME_LIMIT_MS = 2000;

export class Pulse {
  #link;
  #onFigures;
  #onStall;
  #watchdog = new FrameWatchdog(FRAME_LIMIT_MS);
  #polls = 0;
  #stopped = false;
  #timer;

  /**
   * Starts at once.
   * @param {import("./link.js").Link} link
   * @param {(figures: import("./stats.js").Figures) => void} onFigures twice a second
   * @param {() => void} onStall when no frame came for two seconds
   */
  constructor(link, onFigures, onStall) {
    this.#link = link;
    this.#onFigures = onFigures;
    this.#onStall = onStall;
    this.#watchdog.reset(performance.now());
    this.#timer = setInterval(() => this.#poll(), POLL_MS);
  }

  stop() {
    this.#stopped = true;
    clearInterval(this.#timer);
  }

  async #poll() {
    this.#polls += 1;
    if (this.#polls % PING_POLLS === 0) this.#link.ping();
    const figures = await this.#link.figures();
    if (this.#stopped) return;
    this.#onFigures(figures);
    if (this.#polls % REPORT_POLLS === 0) this.#link.send(report(figures));
    if (this.#watchdog.stalled(figures.framesReceived, performance.now())) this.#onStall();
  }
}

/** @param {import("./stats.js").Figures} figures */
function report(figures) {
  return {
    type: "stats",
    jitter_buffer_ms: figures.jitterBufferMs,
    decode_ms: figures.decodeMs,
    render_ms: figures.renderMs,
    rtt_ms: figures.rttMs,
    frames_decoded: figures.framesDecoded,
    frames_dropped: figures.framesDropped,
    freeze_count: figures.freezeCount,
  };
}
