/** The row of faces to choose from. Knows pictures and states of avatars, not what a session is. */

import { element, made } from "./element.js";

/** @typedef {import("../client/api.js").Avatar} Avatar */

/** Fires `choose` (detail Avatar) when the visitor picks another face. */
export class Picker extends EventTarget {
  #faces = element("faces", HTMLDivElement);
  #note = element("faces-note", HTMLParagraphElement);
  #api;
  /** @type {Map<string, string>} pictures already fetched with the token, by path */
  #pictures = new Map();
  /** @type {Avatar[]} */
  avatars = [];
  /** @type {Avatar | null} */
  chosen = null;
  /** @type {string | undefined} the face last scrolled to, by id */
  #revealed;

  /** @param {import("../client/api.js").Api} api */
  constructor(api) {
    super();
    this.#api = api;
    this.#faces.addEventListener("change", (event) => {
      const id = /** @type {HTMLInputElement} */ (event.target).value;
      this.chosen = this.avatars.find((avatar) => avatar.id === id) ?? null;
      this.dispatchEvent(new CustomEvent("choose", { detail: this.chosen }));
    });
  }

  /**
   * Shows these avatars. Chooses `wanted` if it is among them, else keeps the choice, else the first ready one.
   * @param {Avatar[]} avatars
   * @param {string | null} wanted
   */
  async show(avatars, wanted) {
    this.avatars = avatars;
    const ready = avatars.filter(({ state }) => state === "ready");
    const byId = (/** @type {string | null | undefined} */ id) => ready.find((avatar) => avatar.id === id);
    this.chosen = byId(wanted) ?? byId(this.chosen?.id) ?? ready[0] ?? null;
    const moved = this.chosen?.id !== this.#revealed;
    const focused = this.#faces.contains(document.activeElement);
    this.#faces.replaceChildren(...avatars.map((avatar) => this.#face(avatar)));
    if (focused) this.#faces.querySelector(/** @type {"input"} */ ("input:checked"))?.focus();
    if (moved) this.#reveal();
    this.#note.hidden = avatars.length > 0;
    this.#note.textContent = "This server has no anchors yet.";
    await Promise.all(avatars.map((avatar) => this.#hang(avatar)));
  }

  /** Whether some face is still being prepared, so that the list will change. */
  get unfinished() {
    return this.avatars.some(({ state }) => state === "preparing");
  }

  /**
   * Address of an avatar's picture; with a token it is fetched first, because an image cannot send one.
   * @param {Avatar} avatar
   * @param {number} [sizePx]
   * @returns {Promise<string | null>}
   */
  async picture(avatar, sizePx = 256) {
    if (!avatar.thumbnail || avatar.state !== "ready") return null;
    const path = `${avatar.thumbnail}?size=${sizePx}`;
    if (!this.#api.token) return this.#api.url(path).href;
    if (!this.#pictures.has(path)) {
      try {
        this.#pictures.set(path, URL.createObjectURL(await this.#api.blob(path)));
      } catch {
        return null; // a missing picture must not keep the face from being chosen
      }
    }
    return this.#pictures.get(path) ?? null;
  }

  /** Scrolls the row, never the page, to the chosen face. */
  #reveal() {
    this.#revealed = this.chosen?.id;
    const face = this.#faces.querySelector("input:checked")?.closest(".face")?.getBoundingClientRect();
    const row = this.#faces.getBoundingClientRect();
    if (!face) return;
    const left = face.left < row.left || face.right > row.right ? face.left - row.left : 0;
    const top = face.top < row.top || face.bottom > row.bottom ? face.top - row.top : 0;
    this.#faces.scrollBy({ left, top });
  }

  /** @param {Avatar} avatar */
  #face(avatar) {
    const label = made("label", "face");
    label.dataset.avatar = avatar.id;
    const input = document.createElement("input");
    input.type = "radio";
    input.name = "avatar";
    input.value = avatar.id;
    input.disabled = avatar.state !== "ready";
    input.checked = avatar.id === this.chosen?.id;
    const picture = made("span", "face-picture");
    label.append(input, picture, made("span", "face-name", avatar.title));
    label.title = avatar.error ?? avatar.title;
    if (avatar.state === "preparing") {
      const progress = document.createElement("progress");
      progress.setAttribute("aria-label", `Preparing ${avatar.title}`);
      if (avatar.progress !== null) progress.value = avatar.progress;
      label.append(progress);
    }
    if (avatar.state === "failed") label.append(made("span", "face-state", "Not usable"));
    return label;
  }

  /** @param {Avatar} avatar */
  async #hang(avatar) {
    const address = await this.picture(avatar);
    const frame = this.#faces.querySelector(`[data-avatar="${CSS.escape(avatar.id)}"] .face-picture`);
    if (!address || !frame) return;
    const image = document.createElement("img");
    image.alt = "";
    image.decoding = "async";
    image.loading = "lazy";
    image.src = address;
    frame.replaceChildren(image);
  }
}
