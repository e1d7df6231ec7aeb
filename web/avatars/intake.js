/** The way in for a new anchor: choose a file, name it, watch it go up and be made. Does no request itself. */

import { element, made } from "../page/element.js";
import { nameProblem, suggestedName } from "./naming.js";
import { adviceList } from "./report.js";
import { fileTrouble, megabytes } from "./trouble.js";

const NAME_HINT = "Small letters, digits, - and _. It becomes the anchor’s address.";

/**
 * @typedef {"empty" | "chosen" | "asking" | "working"} State
 * @typedef {import("./trouble.js").Trouble} Trouble
 */

/** Fires `make` (detail {file, name}) when everything is in order, and `cancel`. */
export class Intake extends EventTarget {
  #section = element("intake", HTMLElement);
  #drop = element("drop", HTMLLabelElement);
  #input = element("picture", HTMLInputElement);
  #name = element("name", HTMLInputElement);
  #bar = element("course-bar", HTMLProgressElement);
  #isTaken;
  /** @type {File | null} */
  #file = null;
  /** @type {string | null} address of the picture on show */
  #shown = null;

  /** @param {(name: string) => boolean} isTaken whether an anchor has this name already */
  constructor(isTaken) {
    super();
    this.#isTaken = isTaken;
    this.#input.addEventListener("change", () => this.#take(this.#input.files?.[0]));
    this.#joinDrop();
    this.#name.addEventListener("input", () => this.#sayName(null));
    element("naming", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    element("other", HTMLButtonElement).addEventListener("click", () => this.#input.click());
    element("replace", HTMLButtonElement).addEventListener("click", () => this.#emitMake());
    element("rename", HTMLButtonElement).addEventListener("click", () => {
      this.#show("chosen");
      this.#name.select();
    });
    element("cancel", HTMLButtonElement).addEventListener("click", () => this.dispatchEvent(new Event("cancel")));
  }

  /** Back to the beginning, for the next one. */
  clear() {
    this.#file = null;
    this.#input.value = "";
    this.#showPicture(null);
    this.#tell(null);
    this.#show("empty");
  }

  /**
   * How far it is.
   * @param {string} words
   * @param {number | null} share 0..1, or null while nobody knows
   * @param {boolean} stoppable
   */
  progress(words, share, stoppable) {
    this.#show("working");
    element("course-words", HTMLSpanElement).textContent = words;
    element("course-figure", HTMLSpanElement).textContent = share === null ? "" : `${Math.round(share * 100)} %`;
    if (share === null) this.#bar.removeAttribute("value");
    else this.#bar.value = share;
    element("cancel", HTMLButtonElement).hidden = !stoppable;
  }

  /** @param {Trouble | null} trouble shown beside the file, which stays chosen */
  fail(trouble) {
    this.#show("chosen");
    this.#tell(trouble);
    element("make", HTMLButtonElement).focus();
  }

  #joinDrop() {
    // Anywhere on the page: a file that misses the box would otherwise replace the page.
    addEventListener("dragover", (event) => {
      event.preventDefault();
      this.#section.classList.toggle("over", this.#section.dataset.state !== "working");
    });
    addEventListener("dragleave", (event) => event.relatedTarget === null && this.#section.classList.remove("over"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.#section.classList.remove("over");
      if (this.#section.dataset.state !== "working") this.#take(event.dataTransfer?.files[0]);
    });
  }

  /** @param {File | undefined} file */
  #take(file) {
    if (!file) return;
    const trouble = fileTrouble(file);
    if (trouble) {
      this.clear();
      this.#tell(trouble);
      return;
    }
    this.#file = file;
    this.#tell(null);
    this.#showPicture(file);
    element("chosen-file", HTMLParagraphElement).textContent = file.name;
    element("chosen-size", HTMLParagraphElement).textContent = megabytes(file.size);
    this.#name.value = suggestedName(file.name);
    this.#sayName(null);
    this.#show("chosen");
    this.#name.select();
  }

  #submit() {
    const name = this.#name.value.trim();
    this.#name.value = name;
    const problem = nameProblem(name);
    this.#sayName(problem);
    if (problem) {
      this.#name.focus();
    } else if (this.#isTaken(name)) {
      const words = `There is already an anchor named “${name}”. Replace it with this one?`;
      element("question-words", HTMLParagraphElement).textContent = words;
      this.#show("asking");
      element("rename", HTMLButtonElement).focus();
    } else {
      this.#emitMake();
    }
  }

  #emitMake() {
    this.#tell(null);
    this.dispatchEvent(new CustomEvent("make", { detail: { file: this.#file, name: this.#name.value } }));
  }

  /** @param {State} state */
  #show(state) {
    this.#section.dataset.state = state;
    this.#drop.hidden = state !== "empty";
    element("chosen", HTMLDivElement).hidden = state === "empty";
    element("naming", HTMLFormElement).hidden = state !== "chosen";
    element("question", HTMLDivElement).hidden = state !== "asking";
    element("course", HTMLDivElement).hidden = state !== "working";
  }

  /** @param {string | null} problem with the name */
  #sayName(problem) {
    const note = element("name-note", HTMLParagraphElement);
    note.textContent = problem ?? NAME_HINT;
    note.classList.toggle("wrong", problem !== null);
    this.#name.setAttribute("aria-invalid", String(problem !== null));
  }

  /** @param {Trouble | null} trouble */
  #tell(trouble) {
    element("trouble", HTMLDivElement).hidden = !trouble;
    element("trouble-title", HTMLParagraphElement).textContent = trouble?.title ?? "";
    element("trouble-detail", HTMLParagraphElement).textContent = trouble?.detail ?? "";
    const advice = element("trouble-advice", HTMLUListElement);
    advice.hidden = !trouble?.advice.length;
    advice.replaceChildren(...adviceList(trouble?.advice ?? []).children);
    if (trouble) this.dispatchEvent(new CustomEvent("trouble", { detail: trouble }));
  }

  /** @param {File | null} file */
  #showPicture(file) {
    if (this.#shown) URL.revokeObjectURL(this.#shown);
    this.#shown = file && URL.createObjectURL(file);
    const frame = element("chosen-picture", HTMLDivElement);
    frame.replaceChildren();
    if (!file || !this.#shown) return;
    const picture = /** @type {HTMLImageElement | HTMLVideoElement} */ (made(file.type.startsWith("video/") ? "video" : "img", ""));
    picture.addEventListener("error", () => frame.replaceChildren()); // the server may know what this browser does not
    if (picture instanceof HTMLVideoElement) picture.muted = true;
    else picture.alt = "";
    picture.src = this.#shown;
    frame.append(picture);
  }
}
