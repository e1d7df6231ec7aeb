/** The preview: a film of an anchor saying a bundled sample, made by the server and played with sound. */

import { Failure } from "../client/failure.js";
import { element } from "../page/element.js";
import { sentence } from "./trouble.js";

/** @typedef {import("../client/api.js").Avatar} Avatar */

export class Screening {
  #dialog = element("screening", HTMLDialogElement);
  #film = element("film", HTMLVideoElement);
  #words = element("film-words", HTMLParagraphElement);
  #works;
  #giveUp = new AbortController();

  /** @param {import("./works.js").Works} works */
  constructor(works) {
    this.#works = works;
    element("screening-close", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (event) => event.target === this.#dialog && this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#clear());
  }

  /**
   * @param {Avatar} avatar
   * @param {import("../client/api.js").Sample | undefined} sample
   */
  async show(avatar, sample) {
    element("screening-heading", HTMLHeadingElement).textContent = avatar.title;
    element("film-note", HTMLParagraphElement).textContent = sample ? `Says the sample “${sample.title}”.` : "";
    this.#words.textContent = sample ? "Making a short film…" : "This server has no sample to say.";
    this.#dialog.showModal();
    if (!sample) return;
    this.#giveUp = new AbortController();
    const { signal } = this.#giveUp;
    try {
      const film = await this.#works.film(avatar.id, sample, signal);
      if (!signal.aborted) this.#play(film);
    } catch (error) {
      if (!signal.aborted) this.#words.textContent = troubleWords(Failure.from(error));
    }
  }

  /** @param {Blob} film */
  #play(film) {
    this.#words.textContent = "";
    this.#film.src = URL.createObjectURL(film);
    this.#film.hidden = false;
    this.#film.play().catch(() => {}); // where the browser holds it back, its controls are there
  }

  #clear() {
    this.#giveUp.abort();
    this.#film.pause();
    if (this.#film.src) URL.revokeObjectURL(this.#film.src);
    this.#film.removeAttribute("src");
    this.#film.load();
    this.#film.hidden = true;
  }
}

/** @param {Failure} failure */
function troubleWords({ status, reason, message, code }) {
  if (status === 503) return "The server is making other films. Try again in a moment.";
  if (status === 404) return "This anchor is gone. Reload the page.";
  if (code === "server-gone") return "The server does not answer. Try again in a moment.";
  return sentence(reason) || message;
}
