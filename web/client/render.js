/** How long decoded pictures take to be shown, as the browser tells of each one. Knows a video element, no link. */

/** @typedef {{expectedDisplayTime: number}} Shown */

export class RenderWatch {
  #sumMs = 0;
  #count = 0;

  /**
   * Older browsers tell of no picture: then there is nothing to take.
   * @param {HTMLVideoElement} video
   */
  constructor(video) {
    const told = /** @type {HTMLVideoElement & {requestVideoFrameCallback?: (shown: (now: number, how: Shown) => void) => void}} */ (video);
    const shown = (/** @type {number} */ now, /** @type {Shown} */ how) => {
      this.#sumMs += Math.max(0, how.expectedDisplayTime - now);
      this.#count += 1;
      told.requestVideoFrameCallback?.(shown);
    };
    told.requestVideoFrameCallback?.(shown);
  }

  /** @returns {number | null} the mean since the last time; null where no picture was shown */
  take() {
    const mean = this.#count > 0 ? this.#sumMs / this.#count : null;
    this.#sumMs = this.#count = 0;
    return mean;
  }
}
