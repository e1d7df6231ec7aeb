/** A screen that shows a feed and mends itself: a lost connection is made anew with growing pauses. */

import { StatsReader } from "../client/stats.js";
import { Wire } from "./wire.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;

export class Screen {
  /** @type {Wire | null} */
  wire = null;
  #video;
  #url;
  #options;
  #onState;
  #stats = new StatsReader();
  #pauseMs = FIRST_PAUSE_MS;
  #wanted = false;
  /** @type {number | undefined} */
  #timer;

  /**
   * @param {HTMLVideoElement} video
   * @param {URL} url WHEP endpoint or seat
   * @param {{token?: string | null, microphone?: MediaStreamTrack | null, codec?: string | null}} options
   * @param {(state: "connecting" | "live" | "waiting" | "refused", words: string) => void} onState
   */
  constructor(video, url, options, onState) {
    this.#video = video;
    this.#url = url;
    this.#options = options;
    this.#onState = onState;
    video.addEventListener("playing", () => this.#wanted && onState("live", "On air"));
  }

  open() {
    this.#wanted = true;
    this.#connect();
  }

  close() {
    this.#wanted = false;
    clearTimeout(this.#timer);
    this.wire?.close();
    this.wire = null;
  }

  /** @returns {Promise<import("../client/stats.js").Figures | null>} */
  async figures() {
    return this.wire ? this.#stats.read(await this.wire.stats()) : null;
  }

  async #connect() {
    this.#onState("connecting", "Connecting");
    const wire = new Wire(this.#url, this.#options);
    this.wire = wire;
    wire.addEventListener("stream", () => {
      if (this.#video.srcObject !== wire.stream) this.#video.srcObject = wire.stream;
      this.#video.play().catch((error) => {
        if (error.name !== "NotAllowedError") return; // interrupted by the second track's own call
        this.#video.muted = true; // the browser wants a click before sound
        this.#video.play().catch(() => {});
      });
    });
    wire.addEventListener("lost", (event) => this.#again(/** @type {CustomEvent} */ (event).detail));
    try {
      await wire.open();
      this.#pauseMs = FIRST_PAUSE_MS;
    } catch (error) {
      wire.close();
      const { status = 0, message = "" } = /** @type {any} */ (error);
      if ([401, 403, 406].includes(status)) {
        this.#wanted = false;
        this.#onState("refused", message);
        return;
      }
      this.#again(message || "The server does not answer.");
    }
  }

  /** @param {string} words */
  #again(words) {
    if (!this.#wanted) return;
    this.#onState("waiting", words);
    this.#timer = setTimeout(() => this.#connect(), this.#pauseMs);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
  }
}

