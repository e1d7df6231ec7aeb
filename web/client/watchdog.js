/** Notices that frames stopped arriving. Takes counts and times, returns a verdict; reads no clock. */

export class FrameWatchdog {
  #frames = -1;
  #movedMs = 0;
  #checkedMs = 0;

  /** @param {number} limitMs silence after which the line counts as stalled */
  constructor(limitMs) {
    this.limitMs = limitMs;
  }

  /**
   * Start counting anew, for example when a hidden page becomes visible.
   * @param {number} nowMs
   */
  reset(nowMs) {
    this.#frames = -1;
    this.#movedMs = nowMs;
    this.#checkedMs = nowMs;
  }

  /**
   * @param {number} frames frames decoded since the beginning
   * @param {number} nowMs
   * @returns {boolean} true when no new frame came for `limitMs`
   */
  stalled(frames, nowMs) {
    // A gap between two looks means that this page slept, not that the server did.
    const slept = nowMs - this.#checkedMs > this.limitMs;
    this.#checkedMs = nowMs;
    if (slept || frames !== this.#frames) {
      this.#frames = frames;
      this.#movedMs = nowMs;
    }
    return nowMs - this.#movedMs >= this.limitMs;
  }
}
