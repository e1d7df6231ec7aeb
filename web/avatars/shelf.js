/** The anchors that are there, a card each: picture, report, what can be done with it. Asks for pictures, not for lists. */

import { element, icon, made } from "../page/element.js";
import { reportSheet } from "./report.js";
import { sentence } from "./trouble.js";

const PICTURE_PX = 512;

/**
 * @typedef {import("../client/api.js").Avatar} Avatar
 * @typedef {import("./works.js").Report} Report
 */

/** Fires `preview` and `remove` (detail Avatar). */
export class Shelf extends EventTarget {
  #cards = element("cards", HTMLUListElement);
  #api;
  /** @type {Map<string, Partial<Report>>} what was found when they were made, by id */
  #reports = new Map();
  /** @type {Map<string, string>} addresses of pictures fetched with the token, by id */
  #pictures = new Map();
  /** @type {Map<string, string>} cards as last drawn, so that unchanged ones keep focus and picture */
  #drawn = new Map();
  /** @type {Avatar[]} */
  avatars = [];

  /** @param {import("../client/api.js").Api} api */
  constructor(api) {
    super();
    this.#api = api;
  }

  /** Whether some anchor is still being made, so that the list will change. */
  get unfinished() {
    return this.avatars.some(({ state }) => state === "preparing");
  }

  /** @param {string} id */
  has(id) {
    return this.avatars.some((avatar) => avatar.id === id && avatar.state !== "failed");
  }

  /** @param {Avatar[]} avatars */
  show(avatars) {
    this.avatars = avatars;
    const old = new Map([...this.#cards.children].map((card) => [/** @type {HTMLElement} */ (card).dataset.avatar, card]));
    const cards = avatars.map((avatar) => {
      const look = JSON.stringify([avatar, this.#reports.get(avatar.id)]);
      const known = old.get(avatar.id);
      if (known && this.#drawn.get(avatar.id) === look) return known;
      this.#drawn.set(avatar.id, look);
      return this.#card(avatar);
    });
    if (cards.length !== old.size || cards.some((card, i) => card !== this.#cards.children[i])) {
      this.#cards.replaceChildren(...cards);
    }
    element("shelf-count", HTMLSpanElement).textContent = avatars.length > 0 ? String(avatars.length) : "";
    element("shelf-note", HTMLParagraphElement).hidden = avatars.length > 0;
  }

  /**
   * An anchor was made: its card is drawn anew, with what was found.
   * @param {string} id
   * @param {Partial<Report> | null} report null to forget it
   */
  note(id, report) {
    if (report) this.#reports.set(id, report);
    else this.#reports.delete(id);
    this.#drawn.delete(id);
    const picture = this.#pictures.get(id);
    if (picture) URL.revokeObjectURL(picture);
    this.#pictures.delete(id);
  }

  /**
   * Brings a card into view and the keyboard to it.
   * @param {string} id
   */
  lead(id) {
    const card = /** @type {HTMLElement | null} */ (this.#cards.querySelector(`[data-avatar="${CSS.escape(id)}"]`));
    card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }

  /** @param {Avatar} avatar */
  #card(avatar) {
    const card = made("li", "card");
    card.dataset.avatar = avatar.id;
    card.dataset.state = avatar.state;
    card.tabIndex = -1;
    const picture = made("div", "card-picture");
    const words = made("div", "card-words");
    words.append(made("h3", "card-title", avatar.title), made("p", "note", this.#about(avatar)));
    const report = avatar.state === "ready" ? reportSheet(this.#reports.get(avatar.id) ?? {}) : null;
    if (report) words.append(report);
    words.append(avatar.state === "preparing" ? this.#course(avatar) : this.#actions(avatar));
    card.append(picture, words);
    if (avatar.state === "ready") this.#hang(avatar, picture);
    return card;
  }

  /** @param {Avatar} avatar */
  #about({ id, state, width, height, error }) {
    if (state === "failed") return sentence(error) || "It could not be made.";
    if (state === "preparing") return "Being made";
    return `${id}, ${width} × ${height} px`;
  }

  /** @param {Avatar} avatar */
  #course({ title, progress }) {
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", `Making ${title}`);
    if (progress) bar.value = progress;
    return bar;
  }

  /** @param {Avatar} avatar */
  #actions(avatar) {
    const row = made("div", "row");
    if (avatar.state === "ready") {
      const stage = /** @type {HTMLAnchorElement} */ (made("a", "go", "Try it"));
      stage.href = this.#api.url(`?${new URLSearchParams({ avatar: avatar.id })}`).href;
      stage.setAttribute("aria-label", `Try ${avatar.title}`);
      row.append(stage, this.#button("preview", "play", "Preview", avatar));
    }
    const remove = this.#button("remove", "bin", "", avatar);
    remove.classList.add("round");
    remove.title = "Delete";
    row.append(remove);
    return row;
  }

  /**
   * @param {"preview" | "remove"} event
   * @param {string} symbol
   * @param {string} words
   * @param {Avatar} avatar
   */
  #button(event, symbol, words, avatar) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(icon(symbol), words);
    button.setAttribute("aria-label", `${event === "remove" ? "Delete" : "Preview"} ${avatar.title}`);
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent(event, { detail: avatar })));
    return button;
  }

  /**
   * @param {Avatar} avatar
   * @param {HTMLElement} frame
   */
  async #hang(avatar, frame) {
    await near(frame);
    const address = await this.#picture(avatar);
    if (!address) return;
    const image = document.createElement("img");
    image.alt = `Portrait of ${avatar.title}`;
    image.src = address;
    frame.replaceChildren(image);
  }

  /**
   * With a token the picture is fetched first, because an image cannot send one.
   * @param {Avatar} avatar
   */
  async #picture({ id, thumbnail }) {
    const path = `${thumbnail}?size=${PICTURE_PX}`;
    let address = this.#pictures.get(id);
    try {
      address ??= URL.createObjectURL(await this.#api.blob(path));
    } catch {
      return null; // a missing picture must not keep the anchor from being deleted
    }
    this.#pictures.set(id, address);
    return address;
  }
}

/**
 * Waits until something is nearly in view: pictures are fetched as one scrolls to them.
 * @param {HTMLElement} frame
 * @returns {Promise<void>}
 */
function near(frame) {
  return new Promise((resolve) => {
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      watch.disconnect();
      resolve();
    }, { rootMargin: "600px" });
    watch.observe(frame);
  });
}
