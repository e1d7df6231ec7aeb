/** The line about the server: its engine, and how many seats are free now. Counts again and again; knows no session. */

import { element, made } from "./element.js";

const EVERY_MS = 5000;
/** After something has changed: as long as a server needs to seat somebody or to clear a seat. */
const SOON_MS = 400;

export class Seats {
  #api;
  #line = element("server-line", HTMLParagraphElement);
  #open = false;
  /** @type {number | undefined} */
  #timer;

  /** @param {import("../client/api.js").Api} api */
  constructor(api) {
    this.#api = api;
    document.addEventListener("visibilitychange", () => this.recount(0));
  }

  /** @param {import("../client/api.js").Capabilities} capabilities */
  show({ engine, sessions }) {
    const name = engine.ready ? `Engine ${engine.name} ready` : `Engine ${engine.name} is warming up`;
    const free = `${Math.max(0, sessions.limit - sessions.active)} of ${sessions.limit} seats free`;
    this.#line.replaceChildren(made("span", "server-engine", `${name}, `), free);
    this.#open = true;
    this.recount(EVERY_MS);
  }

  /**
   * Counts once more; not before the server has answered at all, and not while nobody looks.
   * @param {number} [inMs]
   */
  recount(inMs = SOON_MS) {
    clearTimeout(this.#timer);
    if (this.#open && !document.hidden) this.#timer = setTimeout(() => this.#count(), inMs);
  }

  async #count() {
    try {
      this.show(await this.#api.capabilities());
    } catch {
      this.#line.replaceChildren(); // no count is better than an old one; the stage says what is wrong
      this.recount(EVERY_MS);
    }
  }
}
