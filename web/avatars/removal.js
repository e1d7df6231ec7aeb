/** Asks before an anchor is deleted, and says when that did not work. */

import { Failure } from "../client/failure.js";
import { element } from "../page/element.js";
import { sentence } from "./trouble.js";

/** @typedef {import("../client/api.js").Avatar} Avatar */

/** Fires `removed` (detail Avatar). */
export class Removal extends EventTarget {
  #dialog = element("removal", HTMLDialogElement);
  #go = element("removal-go", HTMLButtonElement);
  #trouble = element("removal-trouble", HTMLParagraphElement);
  #works;
  /** @type {Avatar | null} */
  #avatar = null;

  /** @param {import("./works.js").Works} works */
  constructor(works) {
    super();
    this.#works = works;
    this.#go.addEventListener("click", () => this.#remove());
    element("removal-stay", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
  }

  /** @param {Avatar} avatar */
  ask(avatar) {
    this.#avatar = avatar;
    this.#trouble.textContent = "";
    element("removal-heading", HTMLHeadingElement).textContent = `Delete ${avatar.title}?`;
    element("removal-words", HTMLParagraphElement).hidden = avatar.state !== "ready";
    this.#dialog.showModal();
    element("removal-stay", HTMLButtonElement).focus();
  }

  async #remove() {
    const avatar = this.#avatar;
    if (!avatar) return;
    this.#go.disabled = true;
    try {
      await this.#works.remove(avatar.id);
      this.#leave(avatar);
    } catch (error) {
      const failure = Failure.from(error);
      // Somebody else was faster: it is gone, as wanted.
      if (failure.status === 404) this.#leave(avatar);
      else this.#trouble.textContent = sentence(failure.reason) || failure.message;
    } finally {
      this.#go.disabled = false;
    }
  }

  /** @param {Avatar} avatar */
  #leave(avatar) {
    this.#dialog.close();
    this.dispatchEvent(new CustomEvent("removed", { detail: avatar }));
  }
}
