/** What is known of one show from start to stop: who, and how quickly. Read by tests through `window.liveanchor`. */

export class SessionFacts {
  /** @type {string | null} */
  id = null;
  /** From start to the first picture. @type {number | null} */
  firstFrameMs = null;
  /** From start to the first spoken word (source "agent"). @type {number | null} */
  firstSpeechMs = null;
  reconnects = 0;

  /**
   * @param {string} avatar
   * @param {"agent" | "mirror"} source
   * @param {number} startedMs by performance.now()
   */
  constructor(avatar, source, startedMs) {
    this.avatar = avatar;
    this.source = source;
    this.startedMs = startedMs;
  }

  /** @param {number} nowMs */
  noteFrame(nowMs) {
    this.firstFrameMs ??= nowMs - this.startedMs;
  }

  /** @param {number} nowMs */
  noteSpeech(nowMs) {
    this.firstSpeechMs ??= nowMs - this.startedMs;
  }

  /**
   * @param {import("../client.js").State} state
   * @param {string | null} id
   */
  noteState(state, id) {
    if (state === "reconnecting" && this.id) {
      this.reconnects += 1;
      this.id = null;
    }
    if (state === "live") this.id = id;
  }
}
